"""Answers over all rows of a group, evaluated key by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from incmrql.incremental.nodes import Request
from incmrql.kernel.asked import Answers
from incmrql.kernel.desk import Desk
from incmrql.kernel.layouts import rows_of, values_of
from incmrql.kernel.rows import Rows, of_values
from incmrql.kernel.segment import ByRow
from incmrql.kernel.touched import Touched
from incmrql.kernel.walked import bags_of, group_value
from incmrql.reference import evaluate
from incmrql.values import Bag, Value

if TYPE_CHECKING:
    from incmrql.kernel.groups import GroupOp


def whole_changes(step: GroupOp, touched: Touched, answers: Answers, desk: Desk) -> Rows:
    """The answers of touched keys before, with weight -1, and after."""
    keys = rows_of(touched.keys.columns, step.key, len(touched))
    bags = {side: bags_of(step, side, touched, desk) for side in step.used}
    requests = [each.request for each in step.wanted]
    found: list[tuple[Value, int]] = []
    for when, sign, counts in ((0, -1, touched.before), (1, 1, touched.after)):
        columns = (answers.before, answers.after)[when]
        asked = [values_of(c, t) for c, t in zip(columns, answers.types, strict=True)]
        for place in np.flatnonzero(counts > 0).tolist():
            mine = {side: both[when][place] for side, both in bags.items()}
            values = [column[place] for column in asked]
            found += [(row, sign) for row in _rows(step, keys[place], mine, requests, values, desk)]
    return of_values(found, step.body.made)


def _rows(
    step: GroupOp,
    key: Value,
    bags: dict[int, Bag],
    requests: Sequence[Request],
    values: Sequence[Value],
    desk: Desk,
) -> list[Value]:
    assert isinstance(step.body.how, ByRow)
    known = {r.variable.number: value for r, value in zip(requests, values, strict=True)}
    env = group_value(step, key, bags, desk.env).extend(known)
    return list(evaluate(step.body.how.first, env) or ())
