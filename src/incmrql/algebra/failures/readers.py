"""Which columns of the rows of a query are read, so that the others need not be watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from incmrql.algebra import rows as build
from incmrql.algebra.failures.conditions import uses_part
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope
from incmrql.types import typed
from incmrql.types.model import Record
from incmrql.types.walk import rename_binders

Reader: TypeAlias = tuple[typed.Pattern, Sequence[typed.Expr]]
"""A pattern that rows are matched with, and the expressions that use what it binds."""


@dataclass(slots=True)
class ViewReaders:
    """Who reads the rows of views, by the key of each: all of a row, or what a reader uses."""

    whole: set[str] = field(default_factory=set)
    some: dict[str, list[Reader]] = field(default_factory=dict)


def used_columns(
    domain: typed.Expr,
    readers: Sequence[Reader],
    scope: SourceScope,
    views: ViewReaders,
    names: Names,
) -> typed.Expr:
    """A domain reduced to the columns of its head that its readers use.

    Of a view nothing is left: what is read of it is noted.
    """

    def reduced(inner: typed.Expr) -> typed.Expr:
        return used_columns(inner, readers, scope, views, names)

    parts: Sequence[int | str]
    match domain:
        case typed.Global(key) if key in scope.views:
            views.some.setdefault(key, []).extend(readers)
            return typed.MakeCollection((), type=domain.type)
        case typed.Global(key):
            inner = rename_binders(scope.script.queries[key], names.like)
            return reduced(inner)
        case typed.Combine("union", left, right):
            sides = [reduced(side) for side in (left, right)]
            return replace(domain, left=sides[0], right=sides[1])
        case typed.Widen(operand):
            return replace(domain, operand=reduced(operand))
        case typed.Select(distinct=False, head=typed.MakeTuple(items) as head):
            parts = range(len(items))
        case typed.Select(distinct=False, head=typed.MakeRecord(items) as head):
            assert isinstance(head.type, Record)
            parts = head.type.names
        case _:
            return domain
    wanted = [any(uses_part(p, part, uses) for p, uses in readers) for part in parts]
    kept = [item for item, keep in zip(items, wanted, strict=True) if keep]
    return domain if all(wanted) else replace(domain, head=build.tuple_of(*kept))
