"""The rows of a group as values, for answers that go through all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from incmrql.incremental.changes import Negative
from incmrql.kernel.content import Content
from incmrql.kernel.desk import Desk
from incmrql.kernel.keys import Places
from incmrql.kernel.layouts import rows_of
from incmrql.kernel.look import grouped_rows
from incmrql.kernel.touched import Touched
from incmrql.reference import Environment
from incmrql.values import Bag, Value, encode, show

if TYPE_CHECKING:
    from incmrql.kernel.groups import GroupOp


def bags_of(
    step: GroupOp, number: int, touched: Touched, desk: Desk
) -> tuple[list[Bag], list[Bag]]:
    """The rows that each touched key has on a side, before and after."""
    side = step.sides[number]
    table = desk.table(side.table, side.form)
    places, rows = grouped_rows(table, desk.reader, touched.hashes, touched.keys)
    before = _weighted(places, rows, step, number, len(touched))
    after = [dict(each) for each in before]
    change = touched.rows[number]
    if len(change[0]):
        changes = _weighted(change[1], change[0], step, number, len(touched))
        for known, new in zip(after, changes, strict=True):
            for identity, (value, weight) in new.items():
                total = weight + known.get(identity, (None, 0))[1]
                known[identity] = (value, total)
    return [_bag(each) for each in before], [_bag(each) for each in after]


def _weighted(
    places: Places, rows: Content, step: GroupOp, number: int, count: int
) -> list[dict[bytes, tuple[Value, int]]]:
    found: list[dict[bytes, tuple[Value, int]]] = [{} for _ in range(count)]
    values = rows_of(rows.rest.columns, step.sides[number].value, len(rows))
    for place, value, weight in zip(places.tolist(), values, rows.weights.tolist(), strict=True):
        found[place][encode(value)] = (value, weight)
    return found


def _bag(rows: Mapping[bytes, tuple[Value, int]]) -> Bag:
    bag = Bag()
    for value, weight in rows.values():
        if weight < 0:
            raise Negative(f"a group holds {weight} times {show(value)}")
        bag.extend([value] * weight)
    return bag


def group_value(
    step: GroupOp, key: Value, bags: Mapping[int, Bag], env: Environment
) -> Environment:
    """Where a group is known by its key and the rows of some sides; the others are empty."""
    sides = tuple(bags.get(side, Bag()) for side in range(len(step.sides)))
    return env.bind(step.group, (key, sides[0] if len(sides) == 1 else sides))
