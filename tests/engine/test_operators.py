"""The operator protocol: what runs operators goes by what they state, not by which they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import ClassVar

import numpy as np
import pytest

from incmrql.engine.columns.layouts import leaves
from incmrql.engine.columns.rows import Rows
from incmrql.engine.compile.physical import Physical
from incmrql.engine.compile.program import compile_program
from incmrql.engine.context import BatchContext, rows_of
from incmrql.engine.operators.base import NamedSchema, Operator, StatefulOp, all_rows
from incmrql.engine.stages import Route
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.lookup import look_up
from incmrql.engine.store.sorting import TableInfo, TableSchema
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import inputs
from incmrql.plan.program import Program
from incmrql.reference import Environment
from incmrql.values import Bag, identical
from tests.engine.kernels import FileRun, StagedRun
from tests.engine.test_engine import SHAPES
from tests.plan.seeded import EVERY, history
from tests.plan.stepping import ALL, Run

LOOP = (
    "repeat v = (select x.A from x in R where x.B = 0) step "
    "select distinct z from z in v union (select x.B from x in R, w in v where x.A = w) limit 3"
)


@dataclass(frozen=True, slots=True)
class Twice(Operator):
    """Each row twice."""

    def advance(self, inputs: Sequence[Iterable[Rows]], _desk: BatchContext) -> Iterator[Rows]:
        return (rows.times(2) for rows in inputs[0])


@dataclass(frozen=True, slots=True)
class Different(StatefulOp):
    """Each row once, however often it is there."""

    schema: TableSchema

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        return (("different", self.schema),)

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        return (self.schema,)

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        return [all_rows(self.schema, inputs[0], None, env)]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        (delta,) = deltas
        before, _ = look_up(context.table("different", self.schema), context.reader, delta)
        signs = (before + delta.weights > 0).astype(np.int64) - (before > 0)
        yield rows_of(delta.with_weights(signs)).take(signs != 0)
        context.add("different", delta)


@dataclass(frozen=True, slots=True)
class DifferentInOnePlace(Different):
    """The same with all rows in one place."""

    is_single: ClassVar[bool] = True


def with_operator(text: str, kind: type[Different] | type[Twice]) -> tuple[Run, Program, Physical]:
    """A query over R, and the program that has one more operator below the answer."""
    run = Run(text, ALL)
    program = run.program()
    physical = compile_program(program)
    last = len(physical.steps) - 1
    schema = TableSchema(leaves(physical.layouts[last]))
    step: Operator
    step = kind(schema, inputs=(last,)) if issubclass(kind, Different) else kind(inputs=(last,))
    tables = [TableInfo(name, schema, "rows", last + 1) for name, schema in step.state_tables]
    (answer,) = physical.answers
    (part,) = answer.parts
    above = replace(
        physical,
        steps=(*physical.steps, step),
        layouts=(*physical.layouts, physical.layouts[last]),
        answers=(replace(answer, parts=(replace(part, place=last + 1),)),),
        tables=(*physical.tables, *tables),
    )
    return run, program, above


@pytest.mark.parametrize("kind", [Twice, Different, DifferentInOnePlace])
@pytest.mark.parametrize("run_kind", [FileRun, StagedRun])
def test_an_operator_that_no_engine_knows_is_run(
    kind: type[Different] | type[Twice], run_kind: type[FileRun], tmp_path: Path
) -> None:
    chance = Random(f"{kind} {run_kind}")
    run, program, physical = with_operator("select x.B from x in R", kind)
    tried = 0
    for number, traits in enumerate(EVERY):
        kernel = run_kind(program, tmp_path / str(number), 3, physical)
        rows = Weighted()
        for batch in history(chance, traits, ALL):
            kernel.step(batch)
            rows.merge(Weighted([(row["B"], weight) for row, weight in batch.get("R", [])]))
            times = [(row, 2 * weight if kind is Twice else 1) for row, weight in rows]
            wanted = Bag([row for row, count in times for _ in range(count)])
            assert identical(kernel.answer(), wanted), run.text
            tried += len(rows)
    assert tried > 20


@pytest.mark.parametrize("kind", [Different, DifferentInOnePlace])
def test_an_operator_says_whether_all_is_brought_to_one_place(kind: type[Different]) -> None:
    _, _, physical = with_operator("select x.B from x in R", kind)
    route, is_single = Route(physical), kind is DifferentInOnePlace
    name = ("step", len(physical.steps) - 1, 0)
    assert route.is_single(name) is is_single
    assert route.single_tables() == (["different"] if is_single else [])
    assert list(route.single_names()) == ([name] if is_single else [])
    assert route.schema(name) == TableSchema(leaves(physical.layouts[-1]))


@pytest.mark.parametrize("text", [*SHAPES, LOOP])
def test_operators_state_their_inputs_and_tables(text: str) -> None:
    """The inputs of an operator are those of its node, and every table of a node is stated."""
    run = Run(text, ALL)
    program = run.program()
    physical = compile_program(program)
    kept = [
        (table.node, table.name, table.schema) for table in physical.tables if table.answer is None
    ]
    stated = []
    for place, (node, step) in enumerate(zip(program.nodes, physical.steps, strict=True)):
        assert step.inputs == inputs(node)
        stated += [(place, name, schema) for name, schema in step.state_tables]
    assert sorted(stated, key=str) == sorted(kept, key=str)


BOTH = ((True, True), (True, False), (False, True))


def costs(text: str) -> tuple[bool, bool]:
    """Whether all rows of two inputs meet, and whether rows are gone through one by one."""
    run = Run(text, ALL)
    steps = compile_program(run.program()).steps
    return any(step.is_cross for step in steps), any(step.is_by_row for step in steps)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("select (x.B, y.T) from x in R, y in S where x.A = y.A", (False, False)),
        ("select (x.B, y.T) from x in R, y in S where x.A < y.A", (True, False)),
        ("select (k, median(x.C)) from x in R group by k: x.A", (False, True)),
        (LOOP, (False, False)),
        (LOOP.replace("where x.A = w", "where x.A < w"), (True, False)),
        (LOOP.replace("select distinct z", "select distinct median({ z })"), (False, True)),
    ],
)
def test_operators_state_what_they_cost(text: str, wanted: tuple[bool, bool]) -> None:
    assert costs(text) == wanted


def test_a_join_has_no_rows_where_one_side_has_none() -> None:
    run = Run("select (x.B, y.T) from x in R, y in S where x.A = y.A", ALL)
    steps = compile_program(run.program()).steps
    joins = [step for step in steps if isinstance(step, StatefulOp)]
    assert [join.has_rows(sides) for join in joins for sides in BOTH] == [True, False, False]
