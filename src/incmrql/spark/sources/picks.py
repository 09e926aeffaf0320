"""Picks: the parts of a row that a query uses, as columns, computed where the row is parsed.

In a row of JSON, a path of members and indices is followed in the lists and dictionaries that the
parser gives, and only the value at its end is converted to a tree.  Every other expression is
evaluated over the tree of the whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any as Arrow
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from incmrql.algebra.term import Picks
from incmrql.io import FileSplit
from incmrql.io.arrow.values import to_arrow
from incmrql.io.files import open_text
from incmrql.io.json.files import read_raw
from incmrql.io.json.values import Number, Raw, tree_of
from incmrql.io.rows import Read
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.casts import cast
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.spark.sources.scan import ScanPlan
from incmrql.spark.values import element_reader, spark_schema, value_schema
from incmrql.types import typed
from incmrql.types.model import DOUBLE, INT, JSON, LONG, STRING, Record, Type
from incmrql.values import Value
from incmrql.values.numbers import normal

Picker: TypeAlias = Callable[[Value], tuple[Arrow, ...]]
_Step: TypeAlias = Callable[[Raw], Raw]
_SURELY_INT: Final = 9
"""A number of at most this many digits fits an int."""
_MISSING: Final = object()
"""The result of a path that leads nowhere; null would be a value of JSON."""


def picks_type(picks: Picks) -> Record:
    """The type of a row of picks."""
    return Record(tuple((name, expr.type) for name, expr in picks.fields))


def can_pick_raw(plan: ScanPlan) -> bool:
    """True if picks work on parsed JSON without building the tree of a row."""
    return plan.spec.source.format == "json" and plan.spec.source.row == JSON


def raw_rows(plan: ScanPlan, part: FileSplit) -> Iterator[Read]:
    """The rows of a part as parsed JSON, without trees."""
    longest = plan.spec.longest
    return read_raw(open_text(Path(part.path), longest), part.path, plan.spec.source.keys, longest)


def picks_batch(picks: Picks, rows: list[tuple[Arrow, ...]]) -> Arrow:
    """The picks of some rows as one record batch."""
    schema = value_schema(picks_type(picks))
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(column, field.type) for column, field in columns]
    return pa.record_batch(arrays, schema=schema)


def picks_frame(frame: DataFrame, element: Type, picks: Picks) -> DataFrame:
    """The picks of rows that are already parsed, in the single column of a data frame."""
    return frame.mapInArrow(partial(_pick_batches, element, picks), spark_schema(picks_type(picks)))


def _pick_batches(element: Type, picks: Picks, batches: Iterable[Arrow]) -> Iterator[Arrow]:
    pick = picker(picks)
    for batch in batches:
        values = element_reader(batch.schema, element, packed=True)
        if batch.num_rows:
            yield picks_batch(picks, list(map(pick, values(batch))))


def picker(picks: Picks) -> Picker:
    """The function from a row to its picks, as Arrow stores them."""
    outer = Environment(new_world(EMPTY_SCRIPT))
    fields = [(expr, expr.type) for _, expr in picks.fields]

    def pick(row: Value) -> tuple[Arrow, ...]:
        env = outer.bind(picks.variable, row)
        return tuple([to_arrow(evaluate(expr, env), type_) for expr, type_ in fields])

    return pick


def raw_picker(picks: Picks) -> Picker:
    """The function from a row of parsed JSON to its picks."""
    readers = {name: _path_reader(expr) for name, expr in picks.fields}
    tree_fields = tuple((name, expr) for name, expr in picks.fields if readers[name] is None)
    pick_from_tree = picker(Picks(picks.variable, tree_fields))

    def pick(raw: Raw) -> tuple[Arrow, ...]:
        results = {name: read(raw) for name, read in readers.items() if read is not None}
        if tree_fields:
            rest = pick_from_tree(tree_of(raw))
            results.update(zip([name for name, _ in tree_fields], rest, strict=True))
        return tuple([results[name] for name in readers])

    return pick


# --- paths in documents --------------------------------------------------------------------


def _path_reader(expr: typed.Expr) -> Callable[[Raw], Arrow] | None:
    """The function from a row to the value of a path, perhaps cast; None if it is no path."""
    type_ = expr.type
    if isinstance(expr, typed.Cast) and type_ != JSON:
        path = _path(expr.operand)
        return None if path is None else partial(_cast, path, type_)
    path = _path(expr)
    return None if path is None else partial(_tree, path)


def _cast(path: _Step, type_: Type, row: Raw) -> Arrow:
    raw = path(row)
    kind = type(raw)
    if kind is str and type_ == STRING:
        return raw
    if kind is Number and type_ == DOUBLE:
        return normal(float(raw))
    if kind is Number and type_ in (INT, LONG) and len(raw) <= _SURELY_INT and raw.isdigit():
        return int(raw)
    return None if raw is _MISSING else to_arrow(cast(tree_of(raw), type_), type_)


def _tree(path: _Step, row: Raw) -> Arrow:
    raw = path(row)
    return None if raw is _MISSING else to_arrow(tree_of(raw), JSON)


def _path(expr: typed.Expr) -> _Step | None:
    """The function from a row to what a path leads to; None if the expression is no path."""
    match expr:
        case typed.Var():
            return _identity
        case typed.Navigate("member", subject, name):
            return _compose(_path(subject), partial(_member, name))
        case typed.At(subject, typed.Const(int() as index)) if subject.type == JSON:
            return _compose(_path(subject), partial(_at, index))
        case typed.At(subject, typed.Const(str() as name)) if subject.type == JSON:
            return _compose(_path(subject), partial(_own_member, name))
        case _:
            return None


def _compose(first: _Step | None, second: _Step) -> _Step | None:
    if first is None or first is _identity:
        return None if first is None else second
    return lambda raw: second(first(raw))


def _identity(raw: Raw) -> Raw:
    return raw


def _member(name: str, raw: Raw) -> Raw:
    """The member of an object, or the members of all items of an array, like `navigate`."""
    if isinstance(raw, list):
        members = [_member(name, item) for item in raw]
        return [item for item in members if item is not _MISSING]
    return _own_member(name, raw)


def _own_member(name: str, raw: Raw) -> Raw:
    return raw.get(name, _MISSING) if isinstance(raw, dict) else _MISSING


def _at(index: int, raw: Raw) -> Raw:
    if not isinstance(raw, list) or not -len(raw) <= index < len(raw):
        return _MISSING
    return raw[index]
