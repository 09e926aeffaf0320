"""User aggregations that are seen to be commutative, so that rows may come in any order.

The language asks that a merge be associative, and tries it; by rounding and overflow even that
may fail, and nothing is said of the order.  To be sure that a merge gives the same bits in every
order it must be seen to: least and greatest, `and`, `or` and `union`, component by component.

    (a, b) -> (min(a#0, b#0), a#1 or b#1)
"""

from __future__ import annotations

from typing import Any, TypeAlias

from incmrql.diagnostics import InternalError
from incmrql.incremental.monoids import Monoid
from incmrql.types import typed
from incmrql.types.model import Record, is_scalar

Path: TypeAlias = tuple[int | str, ...]


def commutative_monoid(aggregation: typed.Aggregation) -> Monoid | None:
    """The monoid of an aggregation that is commutative, known by its name.

    It is seen to be, or declared so with an inverse.

    What it merges is known where there is a world to evaluate it in (`monoids.user`).
    """
    merge = aggregation.merge
    if aggregation.inverse is not None:
        return Monoid(aggregation.name, None, _no_world, inverse=_no_world)
    if not _is_pointwise(merge.body, merge.parameters, ()):
        return None
    idempotent = not _has_union(merge.body)
    return Monoid(aggregation.name, None, _no_world, idempotent=idempotent)


def _no_world(*_given: Any) -> Any:
    raise InternalError("an aggregation is merged without a world")


def _is_pointwise(body: typed.Expr, both: tuple[typed.Variable, ...], path: Path) -> bool:
    """Whether a body merges what both variables have at a path, each component on its own."""
    match body:
        case typed.Builtin("min" | "max", (left, right)) if is_scalar(body.type):
            return _are_both(left, right, both, path)
        case typed.Logic(_, left, right) | typed.Combine("union", left, right):
            return _are_both(left, right, both, path)
        case typed.MakeTuple(items):
            return all(_is_pointwise(e, both, (*path, n)) for n, e in enumerate(items))
        case typed.MakeRecord(values):
            assert isinstance(body.type, Record)
            names = body.type.names
            fields = zip(names, values, strict=True)
            return all(_is_pointwise(value, both, (*path, name)) for name, value in fields)
        case _:
            return False


def _are_both(
    left: typed.Expr, right: typed.Expr, both: tuple[typed.Variable, ...], path: Path
) -> bool:
    """Whether two expressions are the components at a path of either variable."""
    return {_chain(left), _chain(right)} == {(variable, path) for variable in both}


def _chain(expr: typed.Expr) -> tuple[typed.Variable | None, Path]:
    match expr:
        case typed.Var(variable):
            return variable, ()
        case typed.Item(subject, index):
            root, path = _chain(subject)
            return root, (*path, index)
        case typed.Field(subject, name):
            root, path = _chain(subject)
            return root, (*path, name)
        case _:
            return None, ()


def _has_union(body: typed.Expr) -> bool:
    match body:
        case typed.Combine():
            return True
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return any(map(_has_union, items))
        case _:
            return False
