"""Steps that keep nothing: maps, unions, and elements that are there from the first batch on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, assert_never

from incmrql.incremental.changes import Weighted
from incmrql.kernel.desk import Desk
from incmrql.kernel.physical import ConstOp, MapOp, UnionOp
from incmrql.kernel.rows import Rows, of_values
from incmrql.reference import evaluate

Stateless: TypeAlias = ConstOp | MapOp | UnionOp


def stateless(step: Stateless, inputs: Sequence[Iterable[Rows]], desk: Desk) -> Iterable[Rows]:
    """The change of a step that keeps nothing, in chunks."""
    match step:
        case MapOp(segment=segment):
            return (segment.apply(rows, desk.env) for rows in inputs[0] if len(rows))
        case UnionOp():
            return _united(step, inputs, desk)
        case ConstOp():
            return _fixed(step, desk)
        case _:
            assert_never(step)


def _fixed(step: ConstOp, desk: Desk) -> Iterator[Rows]:
    """All elements in the first batch, and none later."""
    if desk.is_first:
        found = Weighted((row, 1) for row in evaluate(step.expr, desk.env) or ())
        yield of_values(list(found), step.layout)


def _united(step: UnionOp, inputs: Sequence[Iterable[Rows]], desk: Desk) -> Iterator[Rows]:
    for segment, chunks in zip(step.segments, inputs, strict=True):
        for rows in chunks:
            yield rows if segment is None else segment.apply(rows, desk.env)
