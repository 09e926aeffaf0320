"""Queries in the paper's form, and data for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hypothesis import settings

from incmrql.algebra.term import CMap, Query, Term
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import terms
from incmrql.paper.construct import Whole, construct
from incmrql.paper.form import paper_form
from incmrql.reference import Environment, evaluate, new_world
from incmrql.types import typed
from incmrql.values import Bag, Value
from tests.plan.stepping import ALL, EMPTY, typed_script

Tables = Mapping[str, Bag]


def _for_each() -> settings:
    profile = settings.default
    assert profile is not None
    return settings(max_examples=max(3, profile.max_examples // 12))


for_each = _for_each()
"""For a property that is tried for each of many shapes."""


@dataclass(frozen=True)
class Case:
    """A query as text, typed and in the paper's form."""

    script: typed.Script
    query: Query

    def env(self, tables: Tables) -> Environment:
        return Environment(new_world(self.script, registered={**EMPTY, **tables}))

    def evaluator_answer(self, tables: Tables) -> Value:
        return evaluate(self.script.items[-1].expr, self.env(tables))

    @cached_property
    def whole(self) -> Whole:
        """h, ⊗ and a; may raise why there are none."""
        return construct(self.query)

    def terms(self) -> Iterator[Term]:
        """All terms of the query."""
        for _, term in self.query.parts:
            yield from terms(term)

    def maps(self) -> Iterator[CMap]:
        return (term for term in self.terms() if isinstance(term, CMap))


def case(text: str, streams: Collection[str] = ALL) -> Case:
    return _case(text, frozenset(streams))


@lru_cache(maxsize=64)
def _case(text: str, streams: frozenset[str]) -> Case:
    script = typed_script(f"{text};", streams)
    return Case(script, paper_form(translate(script.items[-1].expr, script)))


def both(one: Tables, other: Tables, streams: Collection[str] = ALL) -> Tables:
    """⊎ of the streams; other tables stay as they are in the first."""
    return {
        name: Bag([*rows, *other[name]]) if name in streams else rows for name, rows in one.items()
    }


def change_of(one: Tables, other: Tables, streams: Collection[str]) -> Tables:
    """The second as a change of the first: what does not change is there in full."""
    return {name: other[name] if name in streams else rows for name, rows in one.items()}
