"""Every shape over every other, with and without deletions, nulls and inputs that stay empty.

Each pair of shapes is stepped through histories that have these in all combinations of two, and
compared with the evaluator after every batch.  What was reached is the table `coverage.golden`:
a shape of a plan, the shape below it, and what was seen to go from this one to that one: rows
that are taken away, rows with nulls, nothing at all.  `+`: it was seen, `-`: in some histories
it was not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.plan.changes import Weighted
from incmrql.plan.explain.nodes import shapes
from incmrql.plan.nodes import (
    Constant,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Ordered,
    Plan,
    inputs,
    is_unit,
)
from incmrql.syntax.depth import deep_recursion
from incmrql.values import Record, Value, identical
from tests import golden
from tests.effort import fewer
from tests.generators.stacked import (
    BILINEAR,
    CHOICES,
    FOLDS,
    LINEAR,
    LOOPS,
    NAMES,
    ORDERED,
    PARTNERS,
    PER_KEY,
    SHAPES,
    TABLES_BELOW,
    TOPS,
    over,
    stacked_shapes,
)
from tests.oracle.stepper import Stepper
from tests.plan.seeded import EVERY, PAIRWISE, Traits, history, some_tables
from tests.plan.stepping import ALL, Run, one_by_one
from tests.plan.test_stepper import holds

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "table": tuple(TABLES_BELOW),
    "linear": tuple(LINEAR),
    "bilinear": tuple(BILINEAR),
    "fold": tuple(FOLDS),
    "per key": tuple(PER_KEY),
    "partners": tuple(PARTNERS),
    "ordered": tuple(ORDERED),
    "loop": tuple(LOOPS),
    "choice": tuple(CHOICES),
}
"""The shapes that stand below, by kind."""

STREAMS: Final = (ALL, ALL, frozenset("RN"), frozenset("S"))
FEWEST_CASES: Final = 2_000
Pair = tuple[str, str]


def pairs() -> Iterator[Pair]:
    """Each shape over one of each family; which one goes round."""
    for at, top in enumerate([*SHAPES, *TOPS]):
        for family in FAMILIES.values():
            yield top, family[at % len(family)]


SELDOM: Final[Mapping[str, tuple[str, ...]]] = {
    "nested": ("self-join", "having", "R and S", "distinct", "average as a row"),
    "join from the right": ("union", "theta join", "limit", "loop", "having", "S", "median"),
    "self-join": ("totals as a row", "average as a row", "S", "cross product"),
    "cross product": ("union", "average as a row", "join from the right", "distinct", "loop"),
    "union": ("self-join", "average", "limit", "average as a row", "theta join", "loop", "median"),
    "count and sum": ("average as a row", "union", "self-join", "theta join", "S"),
    "totals": ("limit", "union", "average as a row", "totals as a row", "self-join",
               "theta join", "average", "S", "loop", "greatest of all"),
    "collect": ("self-join", "R and S", "average as a row", "theta join", "average", "limit", "S"),
    "median": ("average as a row", "union", "totals as a row", "theta join", "loop"),
    "greatest of all": ("union", "average as a row", "S", "self-join", "average"),
    "average of all below": ("union", "average as a row", "S"),
    "order by, limit": ("union", "self-join", "average as a row", "loop", "S", "theta join",
                        "greatest of all", "average", "limit"),
    "loop": ("R and S", "self-join", "average as a row", "limit", "average", "theta join", "S",
             "greatest of all", "median"),
}  # fmt: skip
"""Shapes that seldom meet, with any traits."""


def every_pair() -> Iterator[Pair]:
    for top in [*SHAPES, *TOPS]:
        for below in [*TABLES_BELOW, *NAMES]:
            yield top, below


def step_through(run: Run, streams: frozenset[str], traits: Traits, chance: Random) -> None:
    """One case: the promise at every batch, and the same answer row by row."""
    fresh = run.fresh(some_tables(chance, traits, ALL - streams))
    batches = history(chance, traits, streams)
    for batch in batches:
        fresh.step(batch)
    again = fresh.again(one_by_one(batches))
    assert identical(again.answer(), fresh.stepper.answer()), run.text


def label(plan: Plan, place: int, kind: str) -> str:
    """The shape of a node in a word or two."""
    match plan.nodes[place]:
        case Input(source=source):
            return "stream" if source.streaming else "static source"
        case Constant():
            return "constant"
        case Merge():
            return "union"
        case Ordered():
            return "ordered"
        case Join(key=key) | Groups(key=key) if is_unit(key):
            return f"{kind}, one key"
        case _:
            return kind


def adjacent_shapes(plan: Plan) -> Iterator[tuple[Pair, int]]:
    """Pairs of adjacent shapes of a plan, each with the place whose rows connect them.

    Maps that only make keys are seen through.
    """
    labels = [label(plan, place, shape.kind) for place, shape in enumerate(shapes(plan))]
    for place, node in enumerate(plan.nodes):
        for below in inputs(node):
            if isinstance(plan.nodes[below], Linear):
                yield (labels[place], "linear"), below
            seen = below
            while isinstance(plan.nodes[seen], Linear):
                (seen,) = inputs(plan.nodes[seen])
            yield (labels[place], labels[seen]), below


@dataclass(slots=True)
class Seen:
    """What went from one shape to another: whether there were such histories, and others."""

    deletions: set[bool] = field(default_factory=set)
    nulls: set[bool] = field(default_factory=set)
    empty: set[bool] = field(default_factory=set)

    def add(self, changes: list[Weighted]) -> None:
        """The changes of one history."""
        rows = [row for change in changes for row in change]
        self.deletions.add(any(weight < 0 for _, weight in rows))
        self.nulls.add(any(has_null(value) for value, _ in rows))
        self.empty.add(not rows)

    @property
    def columns(self) -> list[str]:
        return [_SIGNS[frozenset(signs)] for signs in (self.deletions, self.nulls, self.empty)]


_SIGNS = {frozenset((True, False)): "+ -", frozenset((True,)): "+", frozenset((False,)): "-"}


def has_null(value: Value) -> bool:
    if isinstance(value, Record):
        return any(map(has_null, value.values_))
    return value is None or (isinstance(value, tuple | list) and any(map(has_null, value)))


@contextmanager
def recorded_changes() -> Iterator[list[list[Weighted]]]:
    """The changes of all nodes, for each batch of any stepper."""
    changes: list[list[Weighted]] = []
    advance = Stepper._advance

    def advance_and_record(self: Stepper, given: Mapping[int, Weighted]) -> list[Weighted]:
        changes.append(advance(self, given))
        return changes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "_advance", advance_and_record)
        yield changes


@lru_cache
def reached_pairs() -> tuple[int, dict[Pair, Seen]]:
    """Run every pair of families: the number of cases, and what each pair of shapes exchanged."""
    coverage: dict[Pair, Seen] = defaultdict(Seen)
    cases = 0
    with deep_recursion(), recorded_changes() as batches:
        for number, (top, below) in enumerate(pairs()):
            streams = STREAMS[number % len(STREAMS)]
            cases += step_over(top, below, streams, PAIRWISE, batches, coverage)
        for top, others in SELDOM.items():
            for below in others:
                streams = frozenset("RN") if below == "S" else ALL
                cases += step_over(top, below, streams, EVERY, batches, coverage)
    return cases, coverage


def step_over(
    top: str,
    below: str,
    streams: frozenset[str],
    traits: Sequence[Traits],
    batches: list[list[Weighted]],
    coverage: dict[Pair, Seen],
) -> int:
    """A pair of shapes through histories; notes what went between which shapes of its plan."""
    chance = Random(f"{top} over {below}")
    run = Run(over(top, below, chance.choice(("S", "S", "N", "R"))), streams)
    between = list(adjacent_shapes(run.plan))
    for combination in traits:
        batches.clear()
        step_through(run, streams, combination, chance)
        for pair, place in between:
            coverage[pair].add([changes[place] for changes in batches])
    return len(traits)


def table(coverage: dict[Pair, Seen]) -> str:
    """What was reached, a line for each pair."""
    lines = [f"{'shape':<20} {'over':<20} deletions  nulls  empty"]
    for (shape, below), seen in sorted(coverage.items()):
        deletions, nulls, empty = seen.columns
        lines.append(f"{shape:<20} {below:<20} {deletions:<10} {nulls:<6} {empty}".rstrip())
    return "\n".join(lines)


@pytest.mark.slow
def test_every_shape_is_right_over_every_kind_of_shape(update_golden: bool) -> None:
    cases, coverage = reached_pairs()
    assert cases >= FEWEST_CASES
    path = Path(__file__).parent / "coverage.golden"
    golden.check(path, {"pairs": lambda *_: table(coverage)}, update=update_golden)


@fewer
@given(text=stacked_shapes(), data=st.data())
def test_answers_follow_shapes_over_shapes_over_shapes(text: str, data: st.DataObject) -> None:
    with deep_recursion():
        holds(text, data)


KINDS: Final = ("linear", "union", "bilinear", "bilinear, one key", "fold", "fold, one key",
                "per key", "per key, one key", "ordered", "loop")  # fmt: skip

UNREACHABLE: Final[Mapping[Pair, str]] = {
    ("linear", "linear"): "maps are fused",
    ("union", "union"): "a union has as many parts as it needs",
    ("loop", "loop"): "a loop inside a loop is part of it",
}
"""Pairs that the planner never makes, and why."""

NEVER: Final[Mapping[tuple[str, str], str]] = {
    ("deletions", "static source"): "what does not change does not go",
}
"""What a shape below does not send, and why."""


@pytest.mark.slow
def test_shapes_meet_each_other() -> None:
    """Each kind of node stands over each; and each, above and below, with each trait or without."""
    _, coverage = reached_pairs()
    wanted = {(above, below) for above in KINDS for below in (*KINDS, "stream", "static source")}
    assert wanted - set(coverage) == set(UNREACHABLE)
    for place in (0, 1):
        for kind in {pair[place] for pair in wanted}:
            seen = [coverage[pair] for pair in wanted & set(coverage) if pair[place] == kind]
            for trait in ("deletions", "nulls", "empty"):
                both = set().union(*(getattr(shape, trait) for shape in seen))
                never = place == 1 and (trait, kind) in NEVER
                assert both == ({False} if never else {True, False}), (kind, place, trait)


def test_any_two_traits_are_combined() -> None:
    for one, other in (("deletions", "nulls"), ("deletions", "empty"), ("nulls", "empty")):
        seen = {(getattr(traits, one), getattr(traits, other)) for traits in PAIRWISE}
        assert seen == {(getattr(traits, one), getattr(traits, other)) for traits in EVERY}
        assert len(seen) == 4


@pytest.mark.parametrize("traits", EVERY, ids=str)
def test_histories_have_what_they_say(traits: Traits) -> None:
    deletions = nulls = empty_stream = empty_batch = 0
    for seed in range(60):
        batches = history(Random(seed), traits, ALL)
        rows = [row for batch in batches for rows in batch.values() for row in rows]
        deletions += any(weight < 0 for _, weight in rows)
        values = [value for row, _ in rows for name, value in zip(row.names_, row.values_,
                  strict=True) if name not in ("day", "at", "price")]  # fmt: skip
        nulls += any(value is None for value in values)
        empty_stream += len({name for batch in batches for name in batch}) < len(ALL)
        empty_batch += any(not batch for batch in batches)
    assert (deletions > 30) is traits.deletions
    assert (nulls > 30) is traits.nulls
    assert (empty_stream > 50, empty_batch > 50) == (traits.empty, traits.empty)
    assert traits.deletions or not deletions
    assert traits.nulls or not nulls
