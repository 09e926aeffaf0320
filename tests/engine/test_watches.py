"""Arithmetic that fails where it is used: kept batch by batch, equal to the same from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from incmrql.algebra.failures.watches import failure_watches
from incmrql.algebra.translate.queries import NO_VIEWS
from incmrql.engine.compile.physical import Physical
from incmrql.engine.compile.program import compile_program
from incmrql.engine.operators.joins import JoinOp
from incmrql.errors import DataError
from incmrql.plan.assembly import watches_of
from incmrql.plan.changes import Weighted
from incmrql.plan.program import Program
from incmrql.reference import evaluate
from incmrql.values import Bag, Record, Value, identical, show
from tests.engine.kernels import KernelRun
from tests.plan.stepping import ALL, Batch, Run, deletions, insertions, r, s

MOST, LEAST = 2**31 - 1, -(2**31)


@cache
def compiled_text(text: str) -> tuple[Run, Program, Physical]:
    """A query with its watches, compiled once."""
    run = Run(text, ALL)
    program = run.program(watch=True)
    return run, program, compile_program(program)


class WatchedRun:
    """A query in the kernel, its watches compared with the evaluator after every batch."""

    def __init__(self, text: str, folder: Path) -> None:
        run, self.program, physical = compiled_text(text)
        self.run = run.fresh()
        self.watched = failure_watches([self.run.item.expr], self.run.script)[0]
        self.kernel = KernelRun(self.program, folder, physical=physical)

    def step(self, batch: Batch) -> list[tuple[str, Value]]:
        """One batch; the operations that fail after it, with their rows."""
        self.kernel.step(batch)
        for name, rows in batch.items():
            self.run.data[name].merge(Weighted(rows))
        assert identical(self.kernel.answer(), self.run.evaluator_answer()), self.run.text
        kept = [self.kernel.answer(1 + n) for n in range(len(self.program.watches))]
        scratch = [evaluate(bag, self.run.env()) for bag in self.watched.bags]
        for one, other in zip(kept, scratch, strict=True):
            assert identical(one, other), f"{self.run.text}\n{show(other)}\n{show(one)}"
        return [(self.watched.sites[site].text, row) for pairs in kept for site, row in Bag(pairs)]

    def fails(self) -> bool:
        """Whether the evaluator, asked to stop at arithmetic without a result, stops."""
        env = self.run.env()
        env.world.fail_arithmetic = True
        try:
            evaluate(self.run.item.expr, env)
        except DataError:
            return True
        return False


def texts(failures: Sequence[tuple[str, Value]]) -> list[str]:
    return sorted(text for text, _ in failures)


def test_a_product_of_ints_in_a_sum(tmp_path: Path) -> None:
    """The ints 100000 * 100000: the sum is 6, and the row that is missing in it is told."""
    text = "select (k, sum(select z.A * z.B from z in x)) from x in R group by k: x.S"
    run = WatchedRun(text, tmp_path)
    bad = r(100_000, 100_000, 0.0, "a")
    failures = run.step(insertions(R=[bad, r(2, 3, 0.0, "a")]))
    assert failures == [("z.A * z.B", Record({"x": bad}))]
    assert run.kernel.answer() == [("a", 6)]
    assert run.step(deletions(R=[bad])) == []


QUERIES = [
    ("select x.A + x.B from x in R", ["x.A + x.B"]),
    ("select x.B from x in R where x.A + x.B > 0", ["x.A + x.B"]),
    ("select -x.A from x in R", []),
    ("select x.A / x.B from x in R", ["x.A / x.B"]),
    ("select x.A / x.C from x in R", ["x.A / x.C"]),
    ("select x.A % x.B from x in R", ["x.A % x.B"]),
    ("select x.A / 2 + x.B % 7 from x in R", []),
    ("select x.A from x in R where x.B <> 0 and x.A / x.B > 1", []),
    ("select x.A from x in R where x.B = 0 or x.A / x.B > 1", []),
    ("select if x.B = 0 then 0 else x.A / x.B from x in R", []),
    ("select if x.B <> 0 then 0 else x.A / x.B from x in R", ["x.A / x.B"]),
    ("select k from x in R group by k: x.A + x.B", ["x.A + x.B"]),
    ("select distinct x.A * x.B from x in R", ["x.A * x.B"]),
    ("select x.A from x in R order by x.A * x.B", ["x.A * x.B"]),
    ("sum(select x.A * x.B from x in R)", ["x.A * x.B"]),
    ("select x.A from x in (select < A: y.A, V: y.A * y.B > from y in R)", []),
    ("select x.V from x in (select < A: y.A, V: y.A * y.B > from y in R)", ["y.A * y.B"]),
    ("select x.V from x in (select < A: y.A, V: y.A * y.B > from y in R) where x.A = 0", []),
    ('select x.S as int from x in R', []),
    ("select x.A + y.A from x in R, y in S where x.B = y.A", ["x.A + y.A"]),
    ("select x.A * x.B from x in R, y in S where x.B = y.A", ["x.A * x.B"]),
    ("select x.A * x.B from x in R, y in S where x.A = y.A and y.T = \"none\"", []),
    ("select y.T from x in R, y in S where x.A * x.B > 3 and x.A = y.A", ["x.A * x.B"]),
    ("select y.T from x in R, y in S where x.A * x.B = y.A", ["x.A * x.B"]),
    ("select (x.A, (select y.A * x.A from y in S where y.A = x.B)) from x in R", ["y.A * x.A"]),
    ("select (k, sum(x.A) / (count(x) - 1)) from x in R group by k: x.S",
     ["sum(x.A) / (count(x) - 1)"]),
    ("select (k, sum(z)) from x in R, z = x.A * x.B group by k: x.S", ["x.A * x.B"]),
    ("select (k, count(x)) from x in R, z = x.A * x.B group by k: x.S", []),
    ("select let z = x.A * x.B in z from x in R", ["x.A * x.B"]),
    ("select case x.B { 0: x.A / x.B | b: x.A } from x in R", ["x.A / x.B"]),
    ("select abs(x.A) from x in R where x.A < 0", []),
]  # fmt: skip
"""Queries, and what fails in them over the rows below."""

ROWS_R = [r(MOST, MOST, 0.0, "a"), r(7, 0, 0.0, "b"), r(0, 7, 1.0, "b"), r(None, 0, None, "c")]
ROWS_S = [s(MOST, 1.0, "x"), s(7, 0.0, "y")]


@pytest.mark.parametrize(("text", "wanted"), QUERIES)
def test_what_fails_where_it_is_used(text: str, wanted: list[str], tmp_path: Path) -> None:
    run = WatchedRun(text, tmp_path)
    assert sorted(set(texts(run.step(insertions(R=ROWS_R, S=ROWS_S))))) == wanted
    assert run.step(deletions(R=ROWS_R)) == []


def test_a_sum_that_does_not_fit(tmp_path: Path) -> None:
    text = "select (k, sum(x.id)) from x in W group by k: x.flag"
    run = WatchedRun(text, tmp_path)
    big = Record(
        {"id": 2**63 - 1, "flag": True, "day": None, "at": None, "price": None, "pair": None,
         "marks": []}
    )  # fmt: skip
    assert run.step(insertions(W=[big])) == []
    assert run.step(insertions(W=[big])) == [("sum(x.id)", Record({"k": True}))]
    assert run.step(deletions(W=[big])) == []


DECLARED = """
function twice(n: int): int { n * 2 };
function power(n: long): long { if n <= 0 then 1 else n * power(n - 1) };
aggregation product(\\(x: long, y: long): long. x * y, 1): long;
aggregation least(\\(x: int, y: int): int. min(x, y), 2147483647): int;
aggregation size(\\(x: int, y: int): int. max(x, y), 0, \\(x: int): int. twice(x)): int;
Doubled = select twice(x.A) from x in R;
"""
PRODUCT = r"fold(\(t: int, y: int): int. t * y, 1, select z.A from z in x)"
TWICE = r"fold(\(t: int, y: int): int. twice(y), 1, R.A)"
TRIPLED = "repeat xs = R.A step select x * 3 from x in xs limit 2"
UNWATCHED = [
    (f"select {PRODUCT} from x in R group by k: x.S", [PRODUCT]),
    (TWICE, [TWICE]),
    (TWICE.replace("twice(y)", "y"), []),
    (TRIPLED, [TRIPLED]),
    ("repeat xs = R.A step Doubled limit 2", ["repeat xs = R.A step Doubled limit 2"]),
    ("repeat xs = R.A step select x from x in xs where x > 3 limit 2", []),
    ("select power(x.A) from x in R", ["power(n - 1)"]),
    ("product(R.A)", ["product(R.A)"]),
    ("select (k, size(x.A)) from x in R group by k: x.S", ["size(x.A)"]),
    ("select (k, least(x.A)) from x in R group by k: x.S", []),
]
"""Queries, and what has arithmetic that nobody watches."""


@pytest.mark.parametrize(("text", "wanted"), UNWATCHED)
def test_what_is_not_watched_is_named(text: str, wanted: list[str]) -> None:
    run = Run(f"{DECLARED}{text}", ALL)
    (watches,) = watches_of([run.item], run.script, NO_VIEWS)
    assert [span.text for span in watches.unwatched] == wanted
    said = watches.as_data()["unwatched"]
    assert all(line.startswith(part) for line, part in zip(said, wanted, strict=True))


FLAT = [
    "select x.A + x.B * 2 from x in R",
    "select (x.A, -x.B) from x in R where x.A <> 0 and x.B / x.A > 0",
    "select (k, sum(select z.A - z.B from z in x)) from x in R group by k: x.A * x.B",
    "select if x.A / x.B > 1 or x.A * 2 > 3 then x.A % x.B else abs(x.A) from x in R",
    "sum(select x.A * x.A from x in R) / count(R)",
    "select (x.A, sum(select y.A * y.A from y in S where y.A = x.A)) from x in R",
    "select (k, sum(x.A) % (count(x) - 2)) from x in R group by k: x.B having sum(x.A) / k > 0",
    "select x.A * y.A from x in R, y in S where x.B = y.A and x.A - y.A > 0",
    "select x.C / y.D from x in R, y in S where x.A = y.A",
    "select (x.K, sum(select i.v * i.v from i in x.items)) from x in N",
]
INTS = (None, 0, 1, -1, 2, 70_000, MOST, LEAST)


def rows(chance: Random) -> Iterator[tuple[str, Value]]:
    for _ in range(chance.randrange(4)):
        a, b = chance.choice(INTS), chance.choice(INTS)
        yield "R", r(a, b, chance.choice((0.0, 1.5, None)), "a")
    for _ in range(chance.randrange(3)):
        yield "S", s(chance.choice(INTS), chance.choice((0.0, 2.0)), "t")
    for _ in range(chance.randrange(2)):
        items = [Record({"v": chance.choice(INTS), "w": 0.0}) for _ in range(2)]
        yield "N", Record({"K": 1, "items": Bag(items)})


@pytest.mark.slow
@pytest.mark.parametrize("text", FLAT)
def test_random_batches_agree_with_the_evaluator(text: str) -> None:
    """There are failures exactly if the evaluator, asked to stop at one, stops."""
    stopped = 0
    for seed in range(12):
        chance = Random(f"{text} {seed}")
        there: list[tuple[str, Value]] = []
        with TemporaryDirectory() as folder:
            run = WatchedRun(text, Path(folder))
            for _ in range(4):
                gone = [row for row in there if chance.random() < 0.3]
                came = list(rows(chance))
                for deleted in gone:
                    there.remove(deleted)
                there += came
                batch: dict[str, list[tuple[Value, int]]] = {name: [] for name in ALL}
                for weight, changed in ((1, came), (-1, gone)):
                    for name, row in changed:
                        batch[name].append((row, weight))
                assert bool(run.step(batch)) == run.fails(), text
                stopped += run.fails()
    assert stopped


ONE_SIDE = [
    "select (x.A, y.D) from x in R, y in S where x.A / x.B = y.A",
    "select (x.A, y.D) from x in R, y in S where x.C > 0.0 and x.A / x.B = y.A / (y.A - 7)",
]
"""Join keys with an operation on the rows of one side."""


@pytest.mark.parametrize("text", ONE_SIDE)
def test_an_operation_in_a_join_key_fails_in_the_rows_of_its_side(
    text: str, tmp_path: Path
) -> None:
    """With a partner or without: and no batch pairs all rows of one side with all of the other."""
    run = WatchedRun(text, tmp_path)
    bad = r(7, 0, 1.0, "b")
    assert run.step(insertions(R=[bad, r(6, 2, 1.0, "c")])) == [("x.A / x.B", Record({"x": bad}))]
    assert texts(run.step(insertions(S=[s(3, 1.0, "x")]))) == ["x.A / x.B"]
    assert run.step(deletions(R=[bad])) == []
    assert "tables" not in compile_program(run.program).scopes


def test_a_constant_in_a_join_key_fails_only_where_there_are_rows(tmp_path: Path) -> None:
    both = WatchedRun("select x.A from x in R, y in S where x.A = y.A + 1 / 0", tmp_path / "both")
    assert both.step({name: [] for name in ALL}) == []
    assert both.step(insertions(R=[r(1, 0, 0.0, "a")])) == []
    assert both.fails() is False
    assert "1 / 0" in texts(both.step(insertions(S=[s(1, 0.0, "x")])))
    assert both.step(deletions(R=[r(1, 0, 0.0, "a")], S=[s(1, 0.0, "x")])) == []


def test_where_an_equality_relates_the_rows_an_operation_fails_in_pairs(tmp_path: Path) -> None:
    text = "select (x.A, y.D) from x in R, y in S where x.B = y.A and x.A / x.B > y.D"
    run = WatchedRun(text, tmp_path)
    assert run.step(insertions(R=[r(7, 0, 1.0, "b")])) == []
    assert texts(run.step(insertions(S=[s(0, 1.0, "x")]))) == ["x.A / x.B"]


def joined_tables(program: Program) -> list[str | None]:
    physical = compile_program(program)
    return [
        side.table for step in physical.steps if isinstance(step, JoinOp) for side in step.sides
    ]


def test_a_watch_uses_the_rows_that_the_join_of_the_answer_keeps() -> None:
    """What is joined twice over the same rows is kept once."""
    run = Run("select x.A + y.A from x in R, y in S where x.B = y.A", ALL)
    program = run.program(watch=True)
    tables = joined_tables(program)
    assert len(tables) == 4
    assert len(set(tables)) == 2
