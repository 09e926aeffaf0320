"""Layouts: in which columns the values of a type lie.

A tuple or record that is known never to be null is spread over the columns of its parts, and so
are these in turn; anything else is one column.  What nobody reads has no column and is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import pyarrow as pa

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.reference.aggregates import bytes_of, part_of_bytes
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
class Gone:
    """What is not kept, as nobody reads it."""

    type: Type


Layout: TypeAlias = Leaf | Struct | Gone
Scope: TypeAlias = Mapping[typed.Variable, Layout]


def leaves(layout: Layout) -> tuple[Type, ...]:
    """The types of the columns."""
    match layout:
        case Leaf(type_):
            return (type_,)
        case Struct(parts):
            return tuple(type_ for part in parts for type_ in leaves(part))
        case Gone():
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
    """The layout of pairs."""
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
        case Leaf(type_) | Gone(type_):
            inner = parts_of(type_)[index]
            return Leaf(inner) if isinstance(layout, Leaf) else Gone(inner)
        case _:
            assert_never(layout)


def index_of(type_: Type, name: str) -> int:
    """The place of a field."""
    assert isinstance(type_, Record)
    return type_.names.index(name)


def meet(one: Layout, other: Layout) -> Layout:
    """The layout that rows of both can be brought to."""
    if isinstance(one, Struct) and isinstance(other, Struct):
        return Struct(tuple(map(meet, one.parts, other.parts)), one.type)
    return Leaf(one.type)


def narrowed(layout: Layout, columns: tuple[int | str, ...] | None) -> Layout:
    """The layout without the parts that are not among the columns that are kept."""
    if columns is None or not isinstance(layout, Struct):
        return layout
    names = layout.type.names if isinstance(layout.type, Record) else range(len(layout.parts))
    parts = [
        each if name in columns else Gone(each.type)
        for name, each in zip(names, layout.parts, strict=True)
    ]
    return Struct(tuple(parts), layout.type)


def chosen(whole: Layout, kept: Layout) -> tuple[int, ...]:
    """The columns of a layout that a narrower one of the same type keeps."""
    found: list[int] = []

    def walk(one: Layout, other: Layout, start: int) -> int:
        stop = start + width(one)
        if isinstance(one, Struct) and isinstance(other, Struct):
            for a, b in zip(one.parts, other.parts, strict=True):
                start = walk(a, b, start)
        elif not isinstance(other, Gone):
            found.extend(range(start, stop))
        return stop

    walk(whole, kept, 0)
    return tuple(found)


def in_order(layout: Layout) -> Struct:
    """The layout of pairs of a key tuple and a value, with a part for each key of the order."""
    keys, value = part(layout, 0), part(layout, 1)
    assert isinstance(keys.type, Tuple)
    parts = tuple(part(keys, n) for n in range(len(keys.type.items)))
    return pair_of(Struct(parts, keys.type), value)


def falling(layout: Struct, descending: tuple[bool, ...]) -> tuple[bool, ...]:
    """For each column of pairs in order, whether it falls."""
    keys, value = layout.parts
    assert isinstance(keys, Struct)
    flags = [
        flag for each, flag in zip(keys.parts, descending, strict=True) for _ in range(width(each))
    ]
    return (*flags, *[False] * width(value))


# --- which layout an expression has ----------------------------------------------------------


def of_value(expr: typed.Expr, scope: Scope) -> Layout:
    """The layout of what an expression makes of variables whose layouts are known."""
    match expr:
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return Struct(tuple(of_value(item, scope) for item in items), expr.type)
        case typed.Var(variable) if variable in scope:
            return _whole(scope[variable])
        case typed.Item(subject, index):
            return _whole(part(of_value(subject, scope), index))
        case typed.Field(subject, name) if isinstance(subject.type, Record):
            return _whole(part(of_value(subject, scope), index_of(subject.type, name)))
        case typed.If(_, then, otherwise):
            return meet(of_value(then, scope), of_value(otherwise, scope))
        case _:
            return Leaf(expr.type)


def of_elements(body: typed.Expr, scope: Scope) -> Layout:
    """The layout of the elements of a bag that an expression makes."""
    assert isinstance(body.type, Collection)
    element = body.type.element
    match body:
        case typed.MakeCollection(items) if items:
            found = of_value(items[0], scope)
            for item in items[1:]:
                found = meet(found, of_value(item, scope))
            return found
        case typed.If(_, then, typed.MakeCollection(())):
            return of_elements(then, scope)
        case typed.If(_, then, otherwise):
            return meet(of_elements(then, scope), of_elements(otherwise, scope))
        case typed.Select(group=None, order=(), limit=None, distinct=False):
            inner = dict(scope)
            for each in body.qualifiers:
                match each:
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


def _whole(layout: Layout) -> Layout:
    """What is given on of parts that nobody reads: a column of nulls."""
    match layout:
        case Struct(parts, type_):
            return Struct(tuple(map(_whole, parts)), type_)
        case Gone(type_):
            return Leaf(type_)
        case _:
            return layout


# --- values ----------------------------------------------------------------------------------


def spread(value: Value, layout: Layout) -> Iterator[Value]:
    """The values of the columns of a value."""
    match layout:
        case Leaf():
            yield value
        case Struct(parts, type_):
            items = value.values_ if isinstance(type_, Record) else value
            for item, each in zip(items, parts, strict=True):
                yield from spread(item, each)
        case Gone():
            return
        case _:
            assert_never(layout)


def gathered(values: Iterator[Value], layout: Layout) -> Value:
    """The value whose columns hold these values."""
    match layout:
        case Leaf():
            return next(values)
        case Struct(parts, type_):
            items = [gathered(values, each) for each in parts]
            return RecordValue.of(type_.names, items) if isinstance(type_, Record) else tuple(items)
        case Gone():
            return None
        case _:
            assert_never(layout)


def column_type(type_: Type) -> Any:
    """The Arrow type of a column."""
    return pa.binary() if type_ == EXACT_SUM else arrow_type(type_)


def column_of(values: Sequence[Value], type_: Type) -> Any:
    """Values as a column."""
    if type_ == EXACT_SUM:
        return pa.array([None if v is None else bytes_of(v) for v in values], pa.binary())
    return pa.array([to_arrow(value, type_) for value in values], arrow_type(type_))


def values_of(column: Any, type_: Type) -> list[Value]:
    """The values of a column."""
    if type_ == EXACT_SUM:
        return [None if each is None else part_of_bytes(each) for each in column.to_pylist()]
    read = value_reader(column.type, type_)
    return [read(plain) for plain in column.cast(plain_type(column.type)).to_pylist()]


def rows_of(columns: Sequence[Any], layout: Layout, count: int) -> list[Value]:
    """The values that lie in columns, row by row."""
    found = [values_of(c, t) for c, t in zip(columns, leaves(layout), strict=True)]
    if not found:
        return [gathered(iter(()), layout) for _ in range(count)]
    return [gathered(iter(row), layout) for row in zip(*found, strict=True)]


def columns_of(values: Sequence[Value], layout: Layout) -> list[Any]:
    """Values as columns."""
    types = leaves(layout)
    lists: list[list[Value]] = [[] for _ in types]
    for value in values:
        for column, item in zip(lists, spread(value, layout), strict=True):
            column.append(item)
    return [column_of(column, type_) for column, type_ in zip(lists, types, strict=True)]
