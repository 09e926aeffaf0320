"""Two views of the same rows: terms of pairs that read one source, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint, places, same_term
from incmrql.algebra.rows import Names
from incmrql.algebra.rules.cmaps import comprehension
from incmrql.algebra.rules.joins import Path, at, in_order, leaf_paths
from incmrql.algebra.term import CMap, Term
from incmrql.algebra.walk import with_variables
from incmrql.types import typed
from incmrql.types.model import UNIT, Collection
from incmrql.types.walk import free, is_random, map_children, renamed

Qualifiers = tuple[typed.Qualifier, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """`cMap(row -> select (key, value) from qualifiers, source)`."""

    row: typed.Variable
    qualifiers: Qualifiers
    key: typed.Expr
    value: typed.Expr
    source: Term


def pairs_of(term: Term, names: Names) -> Pairs | None:
    """The pairs that a term is, if it is a map to pairs."""
    if not isinstance(term, CMap) or is_random(term.body):
        return None
    qualifiers, pair = comprehension(term.body, names)
    if not isinstance(pair, typed.MakeTuple):
        return None
    key, value = pair.items
    return Pairs(term.variable, qualifiers, key, value, term.source)


class Both:
    """Two terms of pairs over the same rows, written with the same variables.

    `common` are the qualifiers that both start with; those of `outer` and `inner` follow.
    """

    def __init__(self, common: Qualifiers, outer: Pairs, inner: Pairs, names: Names) -> None:
        self.common = common
        self.outer = outer
        self.inner = inner
        self.names = names
        self.bound = set(places(outer.row, common))
        self.key: list[tuple[typed.Expr, Path]] = []
        self.carried: list[typed.Expr] = []

    def rows(self, key: typed.Expr) -> Term:
        """The rows with what both need of them, and their key."""
        self.key = [(leaf, path) for leaf, path in leaf_paths(key) if free(leaf) & self.bound]
        for pairs in (self.outer, self.inner):
            self._rewritten(build.select(pairs.value, pairs.qualifiers), None, None)
        member = build.key_of(self.carried)
        head = build.tuple_of(key, member)
        return CMap(self.outer.row, build.select(head, self.common), self.outer.source)

    def bag(self, pairs: Pairs, group: typed.Variable, path: Path = (1,)) -> typed.Expr:
        """The values of the outer or the inner pairs in a group, whose rows stand at a path."""
        members = at(group, path)
        assert isinstance(members.type, Collection)
        each = self.names.variable("each", members.type.element)
        found = self._rewritten(build.select(pairs.value, pairs.qualifiers), group, each)
        assert isinstance(found, typed.Select)
        if not found.qualifiers:
            return typed.MapOver(each, members, found.head, False, type=found.type)
        return renamed(build.for_each(each, members, found.head, *found.qualifiers),
                       self.names.like)  # fmt: skip

    def _rewritten(
        self, expr: typed.Expr, group: typed.Variable | None, each: typed.Variable | None
    ) -> typed.Expr:
        """An expression over the rows as one over a group and one of its members.

        Parts of the key are read off the group, and the rest off the member; without them,
        what the member has to carry is noted.
        """

        def visit(node: typed.Expr) -> typed.Expr:
            path = next((path for leaf, path in self.key if leaf == node), None)
            if path is not None:
                return node if group is None else at(group, (0, *path))
            needed = free(node)
            if not needed & self.bound:
                return node
            if isinstance(node, _TRANSPARENT) or not needed <= self.bound:
                return map_children(visit, node)
            if node not in self.carried:
                self.carried.append(node)
            if each is None or len(self.carried) == 1:
                return node if each is None else build.var(each)
            return build.item(build.var(each), self.carried.index(node))

        return map_children(visit, expr)


_TRANSPARENT = (typed.MakeTuple, typed.MakeRecord, typed.Compare, typed.Logic, typed.Not)
"""What is made of parts that may be of use elsewhere."""


def aligned(outer: Pairs, inner: Pairs, names: Names) -> Both | None:
    """Two terms of pairs over the same rows, if they are; nothing is gained by the key `()`."""
    if outer.key.type == UNIT or not same_term(outer.source, inner.source):
        return None
    ours, our_tests = in_order(outer.row, outer.qualifiers)
    theirs, their_tests = in_order(inner.row, inner.qualifiers)
    count = max(
        n
        for n in range(1 + min(len(ours), len(theirs)))
        if fingerprint(outer.row, ours[:n]) == fingerprint(inner.row, theirs[:n])
    )
    common = ours[:count]
    bound = places(outer.row, common)
    same = dict(zip(places(inner.row, theirs[:count]), bound, strict=True))
    theirs, their_tests, key, value = with_variables(
        (theirs, their_tests, inner.key, inner.value), lambda v: same.get(v, v)
    )
    shared = [test for test in our_tests if test in their_tests]
    inner_rest = (*theirs[count:], *(test for test in their_tests if test not in shared))
    outer_rest = (*ours[count:], *(test for test in our_tests if test not in shared))
    inner = Pairs(outer.row, inner_rest, key, value, outer.source)
    outer = Pairs(outer.row, outer_rest, outer.key, outer.value, outer.source)
    return Both((*common, *shared), outer, inner, names)
