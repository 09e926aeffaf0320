"""Rules for a collection so small that every row may hold all of it.

They are used where that is known, as for the few values of a loop's variable (`in_row`): the
collection becomes an expression in the bodies of maps and is no longer a term.
"""

from __future__ import annotations

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import comprehension, is_plain
from incmrql.algebra.normalize.rewrite import Rule, normalize, term_rule
from incmrql.algebra.normalize.rules import expressions, groups
from incmrql.algebra.normalize.rules.joins import (
    Pairs,
    align,
    at,
    leaves,
    pairs_of,
    with_key,
)
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Loop, Query, Term, Values, element, pair
from incmrql.algebra.walk import map_children as map_terms
from incmrql.algebra.walk import terms, variables_of
from incmrql.types import typed
from incmrql.types.model import UNIT, Record, Tuple, bag
from incmrql.types.walk import free_variables, is_random, nodes, substitute


def in_row(term: Term, variable: typed.Variable) -> Term | None:
    """A term with a loop's variable in the bodies of its maps; None if it must stay a term."""
    names = Names(max(v.number for v in (variable, *variables_of(term))))

    def visit(part: Term) -> Term:
        if part == Loop(variable):
            return Values(typed.Var(variable, type=variable.type))
        return map_terms(visit, part)

    answer = typed.Variable("answer", names.variable("answer", UNIT).number, bag(element(term)))
    whole = Query(((answer, visit(term)),), build.var(answer))
    normal = normalize(whole, _ALL, names)[0].parts[0][1]
    return None if any(map(_is_open, terms(normal))) else normal


def _is_open(term: Term) -> bool:
    """Whether a term is values that depend on a variable."""
    return isinstance(term, Values) and bool(free_variables(term.expr))


@term_rule(
    "meet-in-row",
    law="cMap(f, coGroup(cMap({((), x)}, X), cMap({((), v)}, V)))  =  cMap(f((), ({x}, V)), X)",
)
def meet_in_row(term: Term, names: Names) -> Term | None:
    """Rows that are all joined with one small collection get it as an expression of their own."""
    match term:
        case CMap(group, body, CoGroup(left, CMap(one, inner, Values(small)))):
            if not free_variables(small) or not _is_unit(pair(left)[0]) or is_random(inner):
                return None
            qualifiers, head = comprehension(inner, names)
            if not isinstance(head, typed.MakeTuple):
                return None
            start = typed.Generator(typed.Bind(one), small)
            values = build.select(head.items[1], (start, *qualifiers))
            row = names.variable("row", element(left))
            own = _for_one_row(group, body, (at(row, (0,)), at(row, (1,))), values)
            return None if own is None else CMap(row, own, left)
        case _:
            return None


@term_rule(
    "answer-in-row",
    law="cMap(f, coGroup(cMap({(k, x)}, X), cMap(d -> F(d), distinct(cMap({k}, X)))))"
    "  =  cMap(f(k, ({x}, F(k))), X)",
)
def answer_in_row(term: Term, names: Names) -> Term | None:
    """What depends only on a row's own key is computed beside the row."""
    match term:
        case CMap(group, body, CoGroup(left, CMap(one, inner, GroupBy(below)))):
            rows, keys = pairs_of(left, names), pairs_of(below, names)
            if rows is None or keys is None or is_random(inner):
                return None
            both = align(rows, keys, names)
            qualifiers, head = comprehension(inner, names)
            if both is None or any(isinstance(q, typed.Generator) for q in both.inner.qualifiers):
                return None
            if not isinstance(head, typed.MakeTuple):
                return None
            if not _is_determined(at(one, (0,)), both.inner.key, leaves(head.items[0])):
                return None
            own_key = build.reduce_projections(with_key(one, head.items[0], both.inner.key))
            whole = build.select(head.items[1], (*both.inner.qualifiers, *qualifiers))
            answer = with_key(one, whole, both.inner.key)
            if own_key != both.outer.key or one in free_variables(answer):
                return None
            own = _for_one_row(group, body, (both.outer.key, both.outer.value), answer)
            return None if own is None else _map_over(both.outer, both.common, own, names)
        case _:
            return None


def _is_determined(wanted: typed.Expr, origin: typed.Expr, known: list[typed.Expr]) -> bool:
    """Whether some expressions determine a value, which `origin` has made."""
    if wanted in known:
        return True
    match origin:
        case typed.MakeTuple(items):
            parts = [build.item(wanted, index) for index in range(len(items))]
        case typed.MakeRecord(items):
            assert isinstance(wanted.type, Record)
            parts = [build.field(wanted, name) for name in wanted.type.names]
        case _:
            return False
    return all(_is_determined(part, item, known) for part, item in zip(parts, items, strict=True))


def _map_over(
    rows: Pairs, common: tuple[typed.Qualifier, ...], body: typed.Expr, names: Names
) -> Term:
    more, head = comprehension(body, names)
    return CMap(rows.row, build.select(head, (*common, *rows.qualifiers, *more)), rows.source)


def _is_unit(key: object) -> bool:
    return isinstance(key, Tuple) and all(map(_is_unit, key.items))


def _for_one_row(
    group: typed.Variable,
    body: typed.Expr,
    row: tuple[typed.Expr, typed.Expr],
    values: typed.Expr,
) -> typed.Expr | None:
    """A body over a coGroup for one row of its left side and the values of its right side.

    None if the body does not go through the left side row by row, and only once.
    """
    if not isinstance(body, typed.Select) or not is_plain(body):
        return None
    domains = [q.domain for q in body.qualifiers if isinstance(q, typed.Generator)]
    if domains.count(at(group, (1, 0))) != 1:
        return None
    left = at(group, (1, 0))
    if sum(node == left for node in nodes(body)) != 1:
        return None
    key, value = row
    new = {(0,): key, (1, 0): build.bag_of(value), (1, 1): values}
    alone = build.replace_parts(body, [(at(group, path), part) for path, part in new.items()])
    return None if group in free_variables(alone) else alone


RULES = (meet_in_row, answer_in_row)
_ALL: tuple[Rule, ...] = (*RULES, *groups.RULES, *expressions.CMAP_RULES, *expressions.RULES)


def with_values(term: Term, variable: typed.Variable, values: typed.Expr) -> Term:
    """A term with a variable of its bodies replaced by an expression."""
    if isinstance(term, CMap):
        body = substitute(term.body, {variable: values})
        return CMap(term.variable, body, with_values(term.source, variable, values))
    return map_terms(lambda part: with_values(part, variable, values), term)
