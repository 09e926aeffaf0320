"""Rules that bring conditions towards the sources, below joins, groups and sorting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from incmrql.algebra import rows
from incmrql.algebra.comprehensions import pattern_variables
from incmrql.algebra.normalize.rewrite import term_rule
from incmrql.algebra.normalize.rules.joins import Path, at, only_key, path_of, with_key
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Sort, Term, element
from incmrql.types import typed
from incmrql.types.walk import (
    children,
    free_variables,
    is_random,
    rename_binders,
    root_variable,
    substitute,
)


@dataclass(frozen=True, slots=True)
class _Filter:
    """A condition that a body puts on every row it makes, and the body without it.

    `binds` are the names that the condition uses besides those of the group and of `member`.
    """

    condition: typed.Expr
    binds: tuple[typed.Binding, ...]
    body: typed.Expr


def _filters(
    body: typed.Expr, depends: Callable[[typed.Expr, set[typed.Variable]], bool]
) -> _Filter | None:
    """The first condition of a body that depends on nothing else than it may."""
    match body:
        case typed.If(condition, then, typed.MakeCollection(())):
            return _Filter(condition, (), then) if depends(condition, set()) else None
        case typed.Select(qualifiers=qualifiers):
            known: set[typed.Variable] = set()
            binds: list[typed.Binding] = []
            for place, qualifier in enumerate(qualifiers):
                match qualifier:
                    case typed.Binding(pattern, value) if depends(value, known):
                        known |= set(pattern_variables(pattern))
                        binds.append(qualifier)
                    case typed.Condition(condition) if depends(condition, known):
                        rest = (*qualifiers[:place], *qualifiers[place + 1 :])
                        return _Filter(condition, tuple(binds), replace(body, qualifiers=rest))
                    case _:
                        pass
            return None
        case _:
            return None


def _filter_pairs(
    source: Term, filter_: _Filter, values: Callable[[typed.Expr, typed.Variable], typed.Expr],
    names: Names,
) -> Term:  # fmt: skip
    """The pairs of a term for which a condition holds."""
    pair = names.variable("pair", element(source))
    condition = rows.select(rows.var(pair), (*filter_.binds, typed.Condition(filter_.condition)))
    return CMap(pair, rename_binders(values(condition, pair), names.like), source)


@term_rule(
    "filter-groups-early",
    law="cMap(g -> if c(k) then f(g) else {}, groupBy(X))  =  cMap(f, groupBy({x | c(k)}))",
)
def filter_groups_early(term: Term, names: Names) -> Term | None:
    """A condition on the key alone need not wait for the groups; of a coGroup, on both sides."""
    match term:
        case CMap(group, body, (GroupBy() | CoGroup()) as source):
            filter_ = _filters(body, lambda expr, known: _of_key(group, expr, known))
            if filter_ is None:
                return None

            def below_filter(below: Term) -> Term:
                return _filter_pairs(
                    below, filter_, lambda e, p: with_key(group, e, at(p, (0,))), names
                )

            if isinstance(source, GroupBy):
                return CMap(group, filter_.body, GroupBy(below_filter(source.source)))
            return CMap(
                group, filter_.body, CoGroup(below_filter(source.left), below_filter(source.right))
            )
        case _:
            return None


def _of_key(group: typed.Variable, expr: typed.Expr, known: set[typed.Variable]) -> bool:
    return free_variables(expr) <= {group, *known} and only_key(group, expr) and not is_random(expr)


@term_rule(
    "filter-before-join",
    law="cMap(select h from a in X, c(a), …, coGroup(X, Y))"
    "  =  cMap(select h from a in X, …, coGroup({a | c(a)}, Y))",
)
def filter_before_join(term: Term, names: Names) -> Term | None:
    """A condition on one side's rows need not wait for the other side.

    The body must range over that side, and use it for nothing else: a side whose rows are
    aggregated, or whose emptiness counts, is left alone.
    """
    match term:
        case CMap(group, typed.Select(qualifiers=qualifiers) as body, CoGroup() as both):
            if not any(isinstance(qualifier, typed.Condition) for qualifier in qualifiers):
                return None
            ranged = _ranged_sides(group, body)
            rewrites = (_on_side(group, body, both, place, names) for place in ranged)
            return next((new for new in rewrites if new is not None), None)
        case _:
            return None


def _on_side(
    group: typed.Variable,
    body: typed.Expr,
    both: CoGroup,
    place: tuple[int, typed.Variable],
    names: Names,
) -> Term | None:
    side, member = place
    filter_ = _filters(body, lambda expr, known: _of_key(group, expr, {member, *known}))
    if filter_ is None:
        return None

    def values(expr: typed.Expr, pair: typed.Variable) -> typed.Expr:
        return with_key(group, substitute(expr, {member: at(pair, (1,))}), at(pair, (0,)))

    sides = [both.left, both.right]
    sides[side] = _filter_pairs(sides[side], filter_, values, names)
    return CMap(group, filter_.body, CoGroup(sides[0], sides[1]))


def _ranged_sides(group: typed.Variable, body: typed.Select) -> list[tuple[int, typed.Variable]]:
    """The sides that a body ranges over and uses for nothing else."""
    paths: list[Path] = []

    def visit(node: typed.Expr) -> None:
        if root_variable(node) != group:
            for child in children(node):
                visit(child)
        else:
            paths.append(path_of(node))

    visit(body)
    ranged: list[tuple[int, typed.Variable]] = []
    for qualifier in body.qualifiers:
        match qualifier:
            case typed.Generator(typed.Bind(variable), domain) if root_variable(domain) == group:
                path = path_of(domain)
                if len(path) == 2 and path[0] == 1 and _only(path, paths):
                    ranged.append((path[1], variable))
            case _:
                pass
    return ranged


def _only(path: Path, paths: list[Path]) -> bool:
    """Whether a part of a group is used once, and no whole that it is in."""
    return sum(other == path[: len(other)] for other in paths) == 1


@term_rule("forget-order", law="cMap(f, sort(X))  =  cMap(f, X), without a limit")
def forget_order(term: Term, names: Names) -> Term | None:
    """The order of the elements is lost in what is made of them.

    With a limit the order says which elements there are, and ties are broken by whole values,
    so that nothing can go below.
    """
    match term:
        case CMap(variable, body, Sort(source=source, limit=None)):
            pair = names.variable("pair", element(source))
            return CMap(pair, substitute(body, {variable: at(pair, (1,))}), source)
        case _:
            return None


RULES = (filter_groups_early, filter_before_join, forget_order)
