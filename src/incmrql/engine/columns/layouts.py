"""Layouts: the columns that hold the values of a type.

A tuple or record that is never null is spread over the columns of its parts, recursively; any
other value is one column.  A part that nobody reads has no column: it reads as null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import pyarrow as pa

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.reference.aggregates import pack_part, unpack_part
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, Collection, Record, Tuple, Type
from incmrql.values import Record as RecordValue
from incmrql.values import Value


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column."""

    type: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """A tuple or record that is never null, part by part."""

    parts: tuple[Layout, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Unused:
    """A part without a column, because nobody reads it."""

    type: Type


Layout: TypeAlias = Leaf | Struct | Unused
Scope: TypeAlias = Mapping[typed.Variable, Layout]


def leaves(layout: Layout) -> tuple[Type, ...]:
    """The types of the columns."""
    match layout:
        case Leaf(type_):
            return (type_,)
        case Struct(parts):
            return tuple(type_ for part in parts for type_ in leaves(part))
        case Unused():
            return ()
        case _:
            assert_never(layout)


def width(layout: Layout) -> int:
    """The number of columns."""
    return len(leaves(layout))


def of_rows(element: Type, *, packed: bool) -> Layout:
    """The layout of the rows of a source: spread over their fields, unless a row may be null."""
    parts = parts_of(element)
    if packed or not parts:
        return Leaf(element)
    return Struct(tuple(map(Leaf, parts)), element)


def pair_of(key: Layout, value: Layout) -> Struct:
    """The layout of pairs of a key and a value."""
    return Struct((key, value), Tuple((key.type, value.type)))


def parts_of(type_: Type) -> tuple[Type, ...]:
    """The types of the parts of a tuple or record."""
    match type_:
        case Tuple(items):
            return items
        case Record(fields):
            return tuple(field for _, field in fields)
        case _:
            return ()


def part(layout: Layout, index: int) -> Layout:
    """The layout of a part."""
    match layout:
        case Struct(parts):
            return parts[index]
        case Leaf(type_) | Unused(type_):
            inner = parts_of(type_)[index]
            return Leaf(inner) if isinstance(layout, Leaf) else Unused(inner)
        case _:
            assert_never(layout)


def index_of(type_: Type, name: str) -> int:
    """The index of a field in a record."""
    assert isinstance(type_, Record)
    return type_.names.index(name)


def common_layout(left: Layout, right: Layout) -> Layout:
    """A layout to which rows of both layouts can be converted."""
    if isinstance(left, Struct) and isinstance(right, Struct):
        return Struct(tuple(map(common_layout, left.parts, right.parts)), left.type)
    return Leaf(left.type)


def prune_layout(layout: Layout, used: tuple[int | str, ...] | None) -> Layout:
    """The layout with the unused parts dropped; `used` are names or numbers, or None for all."""
    if used is None or not isinstance(layout, Struct):
        return layout
    names = layout.type.names if isinstance(layout.type, Record) else range(len(layout.parts))
    parts = [
        part if name in used else Unused(part.type)
        for name, part in zip(names, layout.parts, strict=True)
    ]
    return Struct(tuple(parts), layout.type)


def kept_columns(whole: Layout, pruned_layout: Layout) -> tuple[int, ...]:
    """The numbers of the columns of a layout that a pruned layout of the same type keeps."""
    columns: list[int] = []

    def visit(full: Layout, prune_columns: Layout, start: int) -> int:
        stop = start + width(full)
        if isinstance(full, Struct) and isinstance(prune_columns, Struct):
            for a, b in zip(full.parts, prune_columns.parts, strict=True):
                start = visit(a, b, start)
        elif not isinstance(prune_columns, Unused):
            columns.extend(range(start, stop))
        return stop

    visit(whole, pruned_layout, 0)
    return tuple(columns)


def sort_layout(layout: Layout) -> Struct:
    """The layout of pairs of a key tuple and a value, with a part for each key of the order."""
    keys, value = part(layout, 0), part(layout, 1)
    assert isinstance(keys.type, Tuple)
    parts = tuple(part(keys, n) for n in range(len(keys.type.items)))
    return pair_of(Struct(parts, keys.type), value)


def descending_columns(layout: Struct, descending: tuple[bool, ...]) -> tuple[bool, ...]:
    """For each column of ordered pairs, whether it sorts descending."""
    keys, value = layout.parts
    assert isinstance(keys, Struct)
    flags = [
        flag for key, flag in zip(keys.parts, descending, strict=True) for _ in range(width(key))
    ]
    return (*flags, *[False] * width(value))


# --- which layout an expression has ----------------------------------------------------------


def of_value(expr: typed.Expr, scope: Scope) -> Layout:
    """The layout of an expression's value, from the layouts of its variables."""
    match expr:
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return Struct(tuple(of_value(item, scope) for item in items), expr.type)
        case typed.Var(variable) if variable in scope:
            return _unused_as_null(scope[variable])
        case typed.Item(subject, index):
            return _unused_as_null(part(of_value(subject, scope), index))
        case typed.Field(subject, name) if isinstance(subject.type, Record):
            return _unused_as_null(part(of_value(subject, scope), index_of(subject.type, name)))
        case typed.If(_, then, otherwise):
            return common_layout(of_value(then, scope), of_value(otherwise, scope))
        case _:
            return Leaf(expr.type)


def of_elements(body: typed.Expr, scope: Scope) -> Layout:
    """The layout of the elements of an expression's bag."""
    assert isinstance(body.type, Collection)
    element = body.type.element
    match body:
        case typed.MakeCollection(items) if items:
            layout = of_value(items[0], scope)
            for item in items[1:]:
                layout = common_layout(layout, of_value(item, scope))
            return layout
        case typed.If(_, then, typed.MakeCollection(())):
            return of_elements(then, scope)
        case typed.If(_, then, otherwise):
            return common_layout(of_elements(then, scope), of_elements(otherwise, scope))
        case typed.Select(group=None, order=(), limit=None, distinct=False):
            inner = dict(scope)
            for qualifier in body.qualifiers:
                match qualifier:
                    case typed.Generator(typed.Bind(variable), domain):
                        inner[variable] = _domain(domain, inner)
                    case typed.Binding(typed.Bind(variable), value):
                        inner[variable] = of_value(value, inner)
                    case _:
                        pass
            return of_value(body.head, inner)
        case _:
            return Leaf(element)


def _domain(domain: typed.Expr, scope: Scope) -> Layout:
    if isinstance(domain.type, Collection):
        return of_elements(domain, scope)
    return Leaf(domain.type)


def _unused_as_null(layout: Layout) -> Layout:
    """The layout with a column, which holds nulls, for each part that nobody reads."""
    match layout:
        case Struct(parts, type_):
            return Struct(tuple(map(_unused_as_null, parts)), type_)
        case Unused(type_):
            return Leaf(type_)
        case _:
            return layout


# --- values ----------------------------------------------------------------------------------


def spread(value: Value, layout: Layout) -> Iterator[Value]:
    """The value of each column of the layout, for one value."""
    match layout:
        case Leaf():
            yield value
        case Struct(parts, type_):
            items = value.values_ if isinstance(type_, Record) else value
            for item, inner in zip(items, parts, strict=True):
                yield from spread(item, inner)
        case Unused():
            return
        case _:
            assert_never(layout)


def assemble(values: Iterator[Value], layout: Layout) -> Value:
    """The value from the values of its columns: the inverse of `spread`."""
    match layout:
        case Leaf():
            return next(values)
        case Struct(parts, type_):
            items = [assemble(values, part) for part in parts]
            return RecordValue.of(type_.names, items) if isinstance(type_, Record) else tuple(items)
        case Unused():
            return None
        case _:
            assert_never(layout)


def column_type(type_: Type) -> Any:
    """The Arrow type of a column."""
    return pa.binary() if type_ == EXACT_SUM else arrow_type(type_)


def column_of(values: Sequence[Value], type_: Type) -> Any:
    """Values as a column."""
    if type_ == EXACT_SUM:
        return pa.array([None if v is None else pack_part(v) for v in values], pa.binary())
    return pa.array([to_arrow(value, type_) for value in values], arrow_type(type_))


def values_of(column: Any, type_: Type) -> list[Value]:
    """The values of a column."""
    if type_ == EXACT_SUM:
        return [None if data is None else unpack_part(data) for data in column.to_pylist()]
    read = value_reader(column.type, type_)
    return [read(plain) for plain in column.cast(plain_type(column.type)).to_pylist()]


def rows_of(columns: Sequence[Any], layout: Layout, count: int) -> list[Value]:
    """The values of columns, row by row."""
    lists = [values_of(c, t) for c, t in zip(columns, leaves(layout), strict=True)]
    if not lists:
        return [assemble(iter(()), layout) for _ in range(count)]
    return [assemble(iter(row), layout) for row in zip(*lists, strict=True)]


def columns_of(values: Sequence[Value], layout: Layout) -> list[Any]:
    """Values as columns."""
    types = leaves(layout)
    lists: list[list[Value]] = [[] for _ in types]
    for value in values:
        for column, item in zip(lists, spread(value, layout), strict=True):
            column.append(item)
    return [column_of(column, type_) for column, type_ in zip(lists, types, strict=True)]
