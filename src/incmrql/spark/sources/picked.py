"""What a query picks of each row, made into columns where the row is parsed.

The row of a JSON source is picked from as it is parsed: lists and dictionaries of Python.  A path
of members and places is followed there, and a tree is made only of what stands at its end.  What
is no such path is evaluated over the tree of the whole row.
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
from incmrql.io import Part
from incmrql.io.arrow.values import to_arrow
from incmrql.io.files import open_text
from incmrql.io.json.files import read_raw
from incmrql.io.json.values import Number, Raw, tree_of
from incmrql.io.rows import Read
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.casts import cast
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.spark.sources.plan import Plan
from incmrql.spark.values import maker, spark_schema, value_schema
from incmrql.types import typed
from incmrql.types.model import DOUBLE, INT, JSON, LONG, STRING, Record, Type
from incmrql.values import Value
from incmrql.values.numbers import normal

Picker: TypeAlias = Callable[[Value], tuple[Arrow, ...]]
_Step: TypeAlias = Callable[[Raw], Raw]
_SURELY_INT: Final = 9
"""A number of so many digits fits an int."""
_MISSING: Final = object()
"""What is not there; null is a value of JSON."""


def row_of(picks: Picks) -> Record:
    """The type of what is picked."""
    return Record(tuple((name, expr.type) for name, expr in picks.fields))


def is_raw(plan: Plan) -> bool:
    """Whether rows are picked from before there are trees."""
    return plan.spec.source.format == "json" and plan.spec.source.row == JSON


def raw_rows(plan: Plan, part: Part) -> Iterator[Read]:
    """The rows of a part before there are trees."""
    longest = plan.spec.longest
    return read_raw(open_text(Path(part.path), longest), part.path, plan.spec.source.keys, longest)


def columns(picks: Picks, rows: list[tuple[Arrow, ...]]) -> Arrow:
    """What was picked of some rows, as one record batch."""
    schema = value_schema(row_of(picks))
    made = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.record_batch([pa.array(each, field.type) for each, field in made], schema=schema)


def picked_frame(frame: DataFrame, element: Type, picks: Picks) -> DataFrame:
    """What is picked of rows that are parsed already, in the one column of a data frame."""
    return frame.mapInArrow(partial(_picked, element, picks), spark_schema(row_of(picks)))


def _picked(element: Type, picks: Picks, parts: Iterable[Arrow]) -> Iterator[Arrow]:
    pick = picker(picks)
    for part in parts:
        make = maker(part.schema, element, packed=True)
        if part.num_rows:
            yield columns(picks, list(map(pick, make(part))))


def picker(picks: Picks) -> Picker:
    """How what is picked of a row is made, as Arrow stores it."""
    outer = Environment(new_world(EMPTY_SCRIPT))
    fields = [(expr, expr.type) for _, expr in picks.fields]

    def picked(row: Value) -> tuple[Arrow, ...]:
        env = outer.bind(picks.variable, row)
        return tuple([to_arrow(evaluate(expr, env), type_) for expr, type_ in fields])

    return picked


def raw_picker(picks: Picks) -> Picker:
    """The same for a row of JSON before there is a tree."""
    known = [(name, expr, _followed(expr)) for name, expr in picks.fields]
    followed = {name: follow for name, _, follow in known if follow is not None}
    others = tuple((name, expr) for name, expr, follow in known if follow is None)
    rest = picker(Picks(picks.variable, others))
    order = [name for name, _, _ in known]

    def picked(raw: Raw) -> tuple[Arrow, ...]:
        made = {name: follow(raw) for name, follow in followed.items()}
        if others:
            made.update(zip([name for name, _ in others], rest(tree_of(raw)), strict=True))
        return tuple([made[name] for name in order])

    return picked


# --- paths in documents --------------------------------------------------------------------


def _followed(expr: typed.Expr) -> Callable[[Raw], Arrow] | None:
    """How Arrow stores what stands at the end of a path, maybe in another type."""
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
    """The step that leads from a row to what a path names; None for what is no path."""
    match expr:
        case typed.Var():
            return _itself
        case typed.Navigate("member", subject, name):
            return _then(_path(subject), partial(_member, name))
        case typed.At(subject, typed.Const(int() as place)) if subject.type == JSON:
            return _then(_path(subject), partial(_at, place))
        case typed.At(subject, typed.Const(str() as name)) if subject.type == JSON:
            return _then(_path(subject), partial(_own_member, name))
        case _:
            return None


def _then(first: _Step | None, second: _Step) -> _Step | None:
    if first is None or first is _itself:
        return None if first is None else second
    return lambda raw: second(first(raw))


def _itself(raw: Raw) -> Raw:
    return raw


def _member(name: str, raw: Raw) -> Raw:
    """As `navigate` does: of an array, those of its items."""
    if isinstance(raw, list):
        found = [_member(name, item) for item in raw]
        return [item for item in found if item is not _MISSING]
    return _own_member(name, raw)


def _own_member(name: str, raw: Raw) -> Raw:
    return raw.get(name, _MISSING) if isinstance(raw, dict) else _MISSING


def _at(place: int, raw: Raw) -> Raw:
    if not isinstance(raw, list) or not -len(raw) <= place < len(raw):
        return _MISSING
    return raw[place]
