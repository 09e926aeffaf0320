"""Which named queries are views: those that are translated once, for all of their uses.

A named query that is used once is written out where it is used, so that it is fused with what is
around it. So is one that is light: its rows are those of sources, mapped and filtered one by one.
Nothing is kept for it, and each use of it can narrow it down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from incmrql.algebra.comprehensions import is_plain
from incmrql.algebra.scope import SourceScope
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import children, nodes

LARGEST_COPY = 150
"""The most nodes of a light query, with the light queries that it uses, which is written out."""


def view_keys(exprs: Iterable[typed.Expr], scope: SourceScope) -> Sequence[str]:
    """The keys of the named queries that are views for some expressions, used ones first."""
    uses = _Uses(scope)
    for expr in exprs:
        uses.visit(expr)
    return [key for key in uses.order if uses.queries[key] > 1 and uses.may_be_shared(key)]


class _Uses:
    """Counts how often named queries would be written out; two counts for many."""

    def __init__(self, scope: SourceScope) -> None:
        self.scope = scope
        self.queries: Counter[str] = Counter()
        self.order: list[str] = []
        """The keys of queries, each after those that it uses."""
        self._calls: Counter[str] = Counter()
        self._light_sizes: dict[str, int | None] = {}

    def visit(self, expr: typed.Expr) -> None:
        """Count the uses in an expression, in what it names and in what it calls."""
        for node in nodes(expr):
            match node:
                case typed.Global(key) if self.scope.reads(node):
                    self._visit_query(key)
                case typed.Call(name) if self._calls[name] < 2 and self.scope.function_reads(name):
                    self._calls[name] += 1
                    self.visit(self.scope.script.functions[name].body)
                case _:
                    pass

    def _visit_query(self, key: str) -> None:
        self.queries[key] += 1
        is_second_copy = self.queries[key] == 2 and not self.may_be_shared(key)
        if self.queries[key] == 1 or is_second_copy:
            self.visit(self.scope.script.queries[key])
        if self.queries[key] == 1:
            self.order.append(key)

    def may_be_shared(self, key: str) -> bool:
        """Whether the rows of a query can be shared, and are worth it."""
        query = self.scope.script.queries[key]
        is_bag = isinstance(query.type, Collection) and query.type.kind == "bag"
        return (
            is_bag
            and self.scope.is_never_null(query)
            and self._light_size(key) is None
            and not any(map(_is_by_chance_or_seen, self.scope.reachable(query)))
        )

    def _light_size(self, key: str) -> int | None:
        """The number of nodes of a light query; None if it is not light."""
        if key not in self._light_sizes:
            size = self._size(self.scope.script.queries[key])
            self._light_sizes[key] = None if size is None or size > LARGEST_COPY else size
        return self._light_sizes[key]

    def _size(self, expr: typed.Expr) -> int | None:
        """The number of nodes of an expression that maps and filters rows of sources."""
        if not self.scope.reads(expr):
            return sum(1 for _ in nodes(expr))
        match expr:
            case typed.Read():
                return 1
            case typed.Global(key):
                return self._light_size(key) or 1  # rows of a heavy one are there already
            case typed.Select(qualifiers=(typed.Generator(_, domain), *_)) if is_plain(expr):
                below = [domain]
            case typed.MapOver(_, subject):
                below = [subject]
            case typed.Widen(operand):
                below = [operand]
            case typed.Combine("union", left, right):
                below = [left, right]
            case _:
                return None
        others = [child for child in children(expr) if not any(child is part for part in below)]
        sizes = [self._size(part) for part in below]
        if None in sizes or any(map(self.scope.reads, others)):
            return None
        own = sum(1 for child in others for _ in nodes(child))
        return 1 + own + sum(size for size in sizes if size is not None)


def _is_by_chance_or_seen(node: typed.Expr) -> bool:
    """Whether it counts how often a node is evaluated: it is random, or shows its value."""
    return isinstance(node, typed.Trace) or (
        isinstance(node, typed.Builtin) and node.function == "random"
    )
