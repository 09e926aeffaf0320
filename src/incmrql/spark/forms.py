"""What a script became on its way to Spark, kept for when it is run again.

A normal form depends on the script alone.  The text of a term depends on a few settings too,
and on the sizes of its sources, which are asked again each time: it is kept by all of them.  A
text for which anything else was evaluated, a stored value or a Python function say, is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from incmrql.algebra.optimize import normal_form
from incmrql.algebra.term import Query, Scan, Term
from incmrql.algebra.translate import translate
from incmrql.sql.context import Context, Window
from incmrql.sql.statements import Statement, statement
from incmrql.types import typed

if TYPE_CHECKING:
    from incmrql.compiler.compiled import CompiledItem

MOST_TEXTS: Final = 32
"""Texts of one script that are kept: more than it has terms, unless its sources often grow."""

_Setting: TypeAlias = tuple[int, bool, Window, int]
_Sizes: TypeAlias = tuple[tuple[Scan, int | None], ...]


@dataclass(slots=True)
class Forms:
    """The SQL texts of one script, run with the same arguments each time.

    Expressions and terms are known by their identity; they are kept, so that it stays theirs.
    """

    items: Sequence[CompiledItem] = ()
    """The items of the script: their normal forms are made only once."""
    _queries: dict[int, Query] = field(default_factory=dict)
    """Normal forms of items, by the identity of their expressions."""
    _texts: dict[_Setting, tuple[Query, Statement, _Sizes]] = field(default_factory=dict)

    def query(self, expr: typed.Expr, script: typed.Script) -> Query:
        """The normal form of an expression; that of an item is kept."""
        for each in self.items:
            if each.item.expr is expr:
                return self._queries.setdefault(id(expr), each.normalized[0])
        return normal_form(translate(expr, script))[0]

    def statement(self, term: Term, query: Query, ctx: Context) -> Statement:
        """The text of a term of a query."""
        shared = {variable.number: part for variable, part in query.parts}
        setting = id(term), ctx.fast_sums, ctx.window, ctx.broadcast
        known = self._texts.get(setting)
        if known is not None and not ctx.stored and _are_as_before(known[2], ctx.size_of):
            return known[1]
        sizes: list[tuple[Scan, int | None]] = []
        size_of = ctx.size_of

        def noted(scan: Scan) -> int | None:
            size = size_of(scan)
            sizes.append((scan, size))
            return size

        ctx.size_of = noted
        made = statement(term, ctx, shared)
        if self._keeps(query) and not ctx.stored and not ctx.has_evaluated:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            self._texts[setting] = query, made, tuple(sizes)
        return made

    def _keeps(self, query: Query) -> bool:
        return any(query is known for known in self._queries.values())


def _are_as_before(sizes: _Sizes, size_of: Callable[[Scan], int | None]) -> bool:
    return all(size_of(scan) == size for scan, size in sizes)
