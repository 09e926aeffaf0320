"""Cases of random plans: a plan over random rows that come and go in random batches, without a JVM.

    python -m tests.catalyst.random_cases PATH --cases 20000 [--processes 2]

After each batch the engine has the evaluator's answer, and its rows that fail in ANSI mode; and the
answer of a query that a condition cuts into three is the sum of the answers of its parts.  A case
may have several batches.  What is refused is counted by reason.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

from incmrql.algebra.translate.queries import views_of
from incmrql.catalyst.convert import Question, convert_script
from incmrql.catalyst.nodes import nodes_of
from incmrql.engine.compile.physical import Physical
from incmrql.engine.compile.program import compile_program
from incmrql.errors import QueryError
from incmrql.plan.assembly import Watches, program_of, watches_of
from incmrql.plan.changes import Weighted
from incmrql.plan.program import Program
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.values import Bag, Record, Value, identical, show
from tests.catalyst.judging import stream_leaves
from tests.catalyst.random_plans import PATH, RandomPlan, read_pool, texts_of
from tests.catalyst.texts import tables
from tests.engine.kernels import KernelRun

Batch = Mapping[str, Sequence[tuple[Value, int]]]

MOST_REFUSED: Final = 0.25
"""The share of queries that may be refused; a generator of refused queries shows nothing."""


# --- rows ---

_EASY: Final[dict[str, Sequence[Any]]] = {
    "int": (0, 1, 1, 2, 3, -1),
    "bigint": (0, 1, 2, 3),
    "string": ("x", "y", "xy", "", "z "),
    "decimal(10,2)": tuple(map(Decimal, ("0.00", "0.25", "1.50", "2.00", "-3.10"))),
    "double": (0.0, 0.5, -2.5, 1.0, 3.25),
    "date": tuple(date(2024, 1, 1) + timedelta(days) for days in (0, 0, 59, -1)),
    "boolean": (True, False),
}
_HARD: Final[dict[str, Sequence[Any]]] = {
    "int": (0, 1, 2, 7, -3, 100, 2**31 - 1, -(2**31)),
    "bigint": (0, 1, 2**62, -(2**63), 2**63 - 1, 12),
    "string": ("x", "7", " 12 ", "2024-03-31", "-0.5", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
    "decimal(10,2)": tuple(map(Decimal, ("0.05", "2.25", "-2.25", "99999999.99", "1.15"))),
    "double": (0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 2.5, -7.75, 1e300),
    "date": (date(2024, 2, 29), date(2023, 12, 31), date(1969, 12, 31), date(2024, 3, 31)),
    "boolean": (True, False),
}


@dataclass(slots=True)
class Rows:
    """Draws rows for the tables: half of all columns have nulls, the others have none."""

    chance: Random
    hard: float = 0.25
    """The share of types with values where engines differ."""
    nulls: dict[tuple[str, str], float] = field(default_factory=dict)
    values: dict[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {
            kind: (_HARD if self.chance.random() < self.hard else _EASY)[kind] for kind in _EASY
        }
        for name, columns in _COLUMNS.items():
            for column, _ in columns:
                is_null = self.chance.random() < 0.5
                self.nulls[name, column] = self.chance.choice((0.2, 0.5, 0.9)) if is_null else 0.0

    def row(self, name: str) -> tuple[Any, ...]:
        """A row of a table."""
        return tuple(self._value(name, column, kind) for column, kind in _COLUMNS[name])

    def _value(self, name: str, column: str, kind: str) -> Any:
        if self.chance.random() < self.nulls[name, column]:
            return None
        if kind == "array<int>":
            size = self.chance.randint(0, 3)
            return [self._item("int") for _ in range(size)]
        if kind.startswith("struct"):
            return Record.of(("x", "y"), (self._item("int"), self._item("string")))
        return self.chance.choice(self.values[kind])

    def _item(self, kind: str) -> Any:
        return None if self.chance.random() < 0.2 else self.chance.choice(self.values[kind])


_COLUMNS: Final[dict[str, list[tuple[str, str]]]] = {
    name: [(part.split(" ", 1)[0], part.split(" ", 1)[1]) for part in columns.split(", ")]
    for name, columns in tables("random").items()
}


def batches_of(chance: Random) -> list[dict[str, list[tuple[Value, int]]]]:
    """Random batches: rows come, and go again; a row may come and go in one batch, or come back."""
    rows = Rows(chance)
    count = chance.randint(2, 5)
    batches: list[dict[str, list[tuple[Value, int]]]] = [{} for _ in range(count)]
    for name in _COLUMNS:
        for _ in range(chance.choice((0, 2, 4, 6, 9))):
            row, at = rows.row(name), chance.randrange(count)
            batches[at].setdefault(name, []).append((row, 1))
            while chance.random() < 0.4:
                at = chance.randint(at, count)
                if at == count:
                    break
                batches[at].setdefault(name, []).append((row, -1))
                if chance.random() < 0.6:
                    break
                batches[at].setdefault(name, []).append((row, 1))
    return batches


# --- programs ---


@dataclass(frozen=True, slots=True)
class Follower:
    """A random query as a program, and what the evaluator says of it."""

    plan: RandomPlan
    script: typed.Script
    watches: Sequence[Watches]
    program: Program
    physical: Physical
    domains: dict[tuple[int, int], Any] = field(default_factory=dict)
    """What the evaluator has found out about joins: the same for all data."""

    @staticmethod
    def of(plan: RandomPlan) -> Follower:
        """The program of a query, all of whose inputs change; may raise `QueryError`."""
        questions = [Question(analyzed, stream_leaves()) for analyzed in plan.plans]
        with deep_recursion():
            script = convert_script(questions).script
            views = views_of([item.expr for item in script.items], script)
            watches = watches_of(script.items, script, views)
            program = program_of(script.items, script, watch=True)
            return Follower(plan, script, watches, program, compile_program(program))

    def reference_answers(self, rows: Mapping[str, Weighted]) -> list[Value]:
        """The evaluator's answers, and the bags of rows that fail."""
        bags = {name: weighted.bag() for name, weighted in rows.items()}
        world = new_world(self.script, registered=bags)
        world.domains = self.domains
        env = Environment(world)
        exprs = [item.expr for item in self.script.items]
        exprs += [bag for watches in self.watches for bag in watches.bags]
        with deep_recursion():
            return [evaluate(expr, env) for expr in exprs]

    def problem(self, chance: Random, directory: Path) -> str:
        """What is wrong in a random case; empty if nothing is."""
        with deep_recursion():
            return self._problem(batches_of(chance), directory)

    def _problem(self, batches: Sequence[Batch], directory: Path) -> str:
        kernel = KernelRun(self.program, directory, 2, self.physical)
        outputs = [Weighted() for _ in self.physical.answers]
        rows = {name: Weighted() for name in _COLUMNS}
        answers: list[Bag] = []
        for number, batch in enumerate(batches):
            for name, changes in batch.items():
                rows[name].merge(Weighted(changes))
            known = {name: changes for name, changes in batch.items() if name in kernel.streams}
            for output, change in zip(outputs, kernel.step(known), strict=True):
                output.merge(change)
            answers = [output.bag() for output in outputs]
            expected = self.reference_answers(rows)
            for place, (answer, value) in enumerate(zip(answers, expected, strict=True)):
                if not identical(answer, value):
                    return self._message(f"batch {number}, output {place}", answer, value, batches)
            if self.plan.is_cut:
                whole, *parts = map(list, answers[:4])
                if not identical(Bag(whole), Bag([row for part in parts for row in part])):
                    return self._message(f"batch {number}, parts", whole, parts, batches)
        for place, value in enumerate(answers):
            if not identical(kernel.answer(place), value):
                return self._message(f"state, output {place}", kernel.answer(place), value, batches)
        return ""

    def _message(self, where: str, answer: Any, value: Any, batches: Sequence[Batch]) -> str:
        text = "\n".join(texts_of(self.plan.kind, self.plan.seed))
        return f"{self.plan.name}: {where}\n{text}\n{show(answer)}\nnot {show(value)}\n{batches}"


# --- many ---


@dataclass(slots=True)
class Tally:
    """What was tried and what came of it."""

    queries: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    with_rows: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what another one has counted."""
        self.queries += other.queries
        self.refused += other.refused
        self.cases += other.cases
        self.wrong += other.wrong

    @property
    def share_refused(self) -> float:
        """The share of the queries that are refused."""
        return self.refused.total() / max(1, self.queries.total())

    def lines(self) -> Iterator[str]:
        """The counts for a reader."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.queries.items()))
        queries = f"{self.queries.total()} queries ({kinds})"
        yield f"{self.cases} cases of {queries}: {len(self.wrong)} differ"
        yield f"  refused: {self.refused.total()} queries, {self.share_refused:.0%}"
        for reason, count in self.refused.most_common():
            yield f"    {count}: {reason}"
        yield from (f"  WRONG {why}" for why in self.wrong)


def try_plan(plan: RandomPlan, cases: int, first: int = 0) -> Tally:
    """Random cases of a plan."""
    tally = Tally(Counter({plan.kind: 1}))
    try:
        if not any(
            node.name == "LogicalRelation"
            for analyzed in plan.plans
            for node in nodes_of(analyzed.plan)
        ):
            tally.refused["it reads no table"] += 1
            return tally
        follower = Follower.of(plan)
    except QueryError as refusal:
        tally.refused[reason(refusal)] += 1
        return tally
    except Exception as raised:
        tally.wrong.append(f"{plan.name}: {type(raised).__name__}: {str(raised)[:500]}")
        return tally
    for case in range(first, first + cases):
        with tempfile.TemporaryDirectory(dir=_fast_directory()) as directory:
            try:
                problem = follower.problem(Random(f"{plan.name} {case}"), Path(directory))
            except Exception as raised:
                problem = f"{plan.name} case {case}: {type(raised).__name__}: {str(raised)[:500]}"
        tally.cases += 1
        if problem:
            sys.stderr.write(f"WRONG {problem}\n")
            tally.wrong.append(problem)
            break
    return tally


def reason(refusal: QueryError) -> str:
    """Why a query is refused, without what differs from query to query."""
    problem = refusal.problems[0]
    return f"{problem.code} {problem.message}"


def _fast_directory() -> str | None:
    """Where files need no disk, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@lru_cache(1)
def _pool(path: Path) -> list[RandomPlan]:
    return read_pool(path)


def _try_share(path: Path, share: int, shares: int, cases: int, first: int) -> Tally:
    tally = Tally()
    for plan in _pool(path)[share::shares]:
        tally.add(try_plan(plan, cases, first))
    return tally


def try_pool(path: Path, cases: int, processes: int = 2, first: int = 0) -> Tally:
    """About this many cases over all plans of a pool."""
    cases_of_share = -(-cases // max(1, len(_pool(path))))
    tally, shares = Tally(), 8 * processes
    with ProcessPoolExecutor(processes) as executor:
        jobs = [
            executor.submit(_try_share, path, share, shares, cases_of_share, first)
            for share in range(shares)
        ]
        for job in jobs:
            tally.add(job.result())
    return tally


def main() -> int:
    """Try and say; the exit code is 1 if an answer differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path, nargs="?", default=PATH)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    tally = try_pool(chosen.path, chosen.cases, chosen.processes, chosen.first)
    sys.stdout.write("\n".join(tally.lines()) + "\n")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
