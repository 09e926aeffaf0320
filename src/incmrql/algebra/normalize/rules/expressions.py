"""Rules for expressions inside a row, and for cMap and union."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from incmrql.algebra import rows
from incmrql.algebra.comprehensions import comprehension, is_plain
from incmrql.algebra.normalize.rewrite import ExprRule, expr_rule, term_rule
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, Sort, Term, Union, Values
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import Basic
from incmrql.types.walk import (
    children,
    conjuncts,
    is_random,
    rename_binders,
    substitute,
    used_variables,
    uses_of,
    with_copies,
)


def is_cheap(expr: typed.Expr) -> bool:
    """Whether computing an expression twice costs nothing worth naming."""
    match expr:
        case typed.Var() | typed.Const():
            return True
        case typed.Field(subject, _) | typed.Item(subject, _):
            return is_cheap(subject)
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return all(map(is_cheap, items))
        case _:
            return False


@expr_rule("field-of-record", law="< A: a, … >.A  =  a")
def field_of_record(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """No record is built to take one field of it."""
    return rows.projected_part(expr) if isinstance(expr, typed.Field) else None


@expr_rule("item-of-tuple", law="(a, b)#0  =  a")
def item_of_tuple(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """No tuple is built to take one component of it."""
    return rows.projected_part(expr) if isinstance(expr, typed.Item) else None


# --- Bindings of a select ---


def _bindings(
    expr: typed.Expr,
) -> Iterator[tuple[typed.Select, int, typed.Variable, typed.Expr]]:
    """The bindings `x = e` of a select: the select, the index, x and e.

    A grouped select has none: its group names the variables of its rows.
    """
    if isinstance(expr, typed.Select) and expr.group is None:
        for index, qualifier in enumerate(expr.qualifiers):
            match qualifier:
                case typed.Binding(typed.Bind(variable), value):
                    yield expr, index, variable, value
                case _:
                    pass


def _with_qualifiers(select: typed.Select, index: int, *new: typed.Qualifier) -> typed.Select:
    """The select with other qualifiers in the place of the one at an index."""
    before, after = select.qualifiers[:index], select.qualifiers[index + 1 :]
    return replace(select, qualifiers=(*before, *new, *after))


@expr_rule("inline-binding", law="select h from x = e, qs  =  select h[x := e] from qs[x := e]")
def inline_binding(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A name for a part of the row, or for nothing that is used, is not needed."""
    for select, index, variable, value in _bindings(expr):
        if is_cheap(value):
            return substitute(_with_qualifiers(select, index), {variable: value})
    return None


@expr_rule("inline-single-use", law="select h from x = e  =  select h[x := e], x used once")
def inline_single_use(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A value that is used at one place, as often as it is computed, needs no name."""
    for select, index, variable, value in _bindings(expr):
        uses = sum(uses_of(variable, part, most=2) for part in _parts_after(select, index))
        if uses == 0 or (uses == 1 and not _may_repeat(select, index, variable)):
            return substitute(_with_qualifiers(select, index), {variable: value})
    return None


@expr_rule(
    "inline-view",
    law="select h from v = map(x -> p(x), X)  =  select h[v := map(x -> p(x), X)], p a path",
)
def inline_view(expr: typed.Expr, names: Names) -> typed.Expr | None:
    """One column of a collection needs no name: whoever reads it takes the column himself.

    So `from (k, a, b) in T group by k` becomes what `from t in T group by k: t.k` is, and each
    aggregate of a column is seen to be one of the rows.
    """
    for select, index, variable, value in _bindings(expr):
        # An inner loop would take the column once for each turn.
        if _is_view(value) and not _may_repeat(select, index, variable):
            return with_copies(_with_qualifiers(select, index), variable, value, names.like)
    return None


def _is_view(value: typed.Expr) -> bool:
    match value:
        case typed.Widen(operand):
            return _is_view(operand)
        case typed.MapOver(_, subject, body, False):
            return is_cheap(subject) and is_cheap(body)
        case _:
            return False


def _parts_after(select: typed.Select, index: int) -> list[typed.Expr]:
    """The expressions of a select that stand after a qualifier."""
    return list(children(replace(select, qualifiers=select.qualifiers[index + 1 :])))


def _may_repeat(select: typed.Select, index: int, variable: typed.Variable) -> bool:
    """Whether a loop may repeat a use of a variable that a qualifier binds."""
    after = select.qualifiers[index + 1 :]
    return any(isinstance(q, typed.Generator) for q in after) or any(
        _is_repeated(part, variable) for part in _parts_after(select, index)
    )


def _is_repeated(expr: typed.Expr, variable: typed.Variable) -> bool:
    """Whether a loop inside an expression repeats a use of a variable."""
    if variable not in used_variables(expr):
        return False
    match expr:
        case typed.MapOver(subject=subject, body=body):
            return variable in used_variables(body) or _is_repeated(subject, variable)
        case typed.Select() | typed.Fold() | typed.Repeat():
            return True
        case _:
            return any(_is_repeated(child, variable) for child in children(expr))


@expr_rule("split-name", law="x = (a, b)  =  y = a, z = b, x = (y, z)")
def split_name(expr: typed.Expr, names: Names) -> typed.Expr | None:
    """The parts of a tuple or record get names of their own, and the whole is cheap then."""
    for select, index, variable, value in _bindings(expr):
        if isinstance(value, typed.MakeTuple | typed.MakeRecord):
            parts = [
                names.variable(f"{variable.name}_{i}", item.type)
                for i, item in enumerate(value.items)
            ]
            bindings = map(typed.Binding, map(typed.Bind, parts), value.items)
            whole = replace(value, items=tuple(map(rows.var, parts)))
            return substitute(_with_qualifiers(select, index, *bindings), {variable: whole})
    return None


# --- Other qualifiers of a select ---


QualifierRewrite: TypeAlias = Callable[[typed.Qualifier], tuple[typed.Qualifier, ...] | None]


def qualifier_rule(name: str, *, law: str) -> Callable[[QualifierRewrite], ExprRule]:
    """Name a rule that replaces one qualifier of a select, and state the equation it rests on."""

    def rule(rewrite: QualifierRewrite) -> ExprRule:
        def rewrite_first(expr: typed.Expr, _names: Names) -> typed.Expr | None:
            if isinstance(expr, typed.Select):
                for index, qualifier in enumerate(expr.qualifiers):
                    new = rewrite(qualifier)
                    if new is not None:
                        return _with_qualifiers(expr, index, *new)
            return None

        return ExprRule(name, law, rewrite_first)

    return rule


@qualifier_rule("split-binding", law="select h from (p, q) = (a, b)  =  select h from p = a, q = b")
def split_binding(qualifier: typed.Qualifier) -> tuple[typed.Qualifier, ...] | None:
    """A tuple that is taken apart at once is not built."""
    match qualifier:
        case typed.Binding(typed.TupleOf(patterns), typed.MakeTuple(items)):
            return tuple(map(typed.Binding, patterns, items))
        case _:
            return None


@qualifier_rule("generator-over-one", law="select h from p in {e}, qs  =  select h from p = e, qs")
def generator_over_one(qualifier: typed.Qualifier) -> tuple[typed.Qualifier, ...] | None:
    """Ranging over one element is naming it."""
    match qualifier:
        case typed.Generator(pattern, typed.MakeCollection((only,))):
            return (typed.Binding(pattern, only),)
        case _:
            return None


@qualifier_rule(
    "flatten-query",
    law="select h from p in (select g from qs where c), rs  =  select h from qs, c, p = g, rs",
)
def flatten_query(qualifier: typed.Qualifier) -> tuple[typed.Qualifier, ...] | None:
    """One loop instead of two; the order of an ordered query does not count in a bag."""
    match qualifier:
        case typed.Generator(pattern, typed.Select() as inner) if is_plain(inner):
            where = () if inner.where is None else (typed.Condition(inner.where),)
            return (*inner.qualifiers, *where, typed.Binding(pattern, inner.head))
        case _:
            return None


@qualifier_rule(
    "generator-over-map",
    law="select h from p in map(x -> e, X), qs  =  select h from x in X, p = e, qs",
)
def generator_over_map(qualifier: typed.Qualifier) -> tuple[typed.Qualifier, ...] | None:
    """One loop instead of two."""
    match qualifier:
        case typed.Generator(pattern, typed.MapOver(variable, subject, body, flatten)):
            outer = typed.Generator(typed.Bind(variable), subject)
            return outer, (typed.Generator if flatten else typed.Binding)(pattern, body)
        case _:
            return None


@qualifier_rule(
    "generator-over-if",
    law="select h from p in (if c then X else {}), qs  =  select h from c, p in X, qs",
)
def generator_over_if(qualifier: typed.Qualifier) -> tuple[typed.Qualifier, ...] | None:
    """A condition on a whole collection is a condition of the query."""
    match qualifier:
        case typed.Generator(pattern, typed.If(condition, then, typed.MakeCollection(()))):
            return typed.Condition(condition), typed.Generator(pattern, then)
        case _:
            return None


@expr_rule("repeated-condition", law="select h from c, qs, c  =  select h from c, qs")
def repeated_condition(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """What holds need not be asked again."""
    if not isinstance(expr, typed.Select):
        return None
    known: list[typed.Expr] = []
    for index, qualifier in enumerate(expr.qualifiers):
        if not isinstance(qualifier, typed.Condition) or is_random(qualifier.condition):
            continue
        conditions = conjuncts(qualifier.condition)
        new = [c for n, c in enumerate(conditions) if c not in known and c not in conditions[:n]]
        if len(new) < len(conditions):
            whole = rows.conjunction(new)
            return _with_qualifiers(
                expr, index, *([] if whole is None else [typed.Condition(whole)])
            )
        known += new
    return None


@expr_rule("query-over-nothing", law="select h from nothing where c  =  if c then {h} else {}")
def query_over_nothing(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A query whose from clause was simplified away has one row, or none."""
    if not isinstance(expr, typed.Select) or not is_plain(expr):
        return None
    if not all(isinstance(q, typed.Condition) for q in expr.qualifiers):
        return None
    conditions = [q.condition for q in expr.qualifiers if isinstance(q, typed.Condition)]
    whole = rows.conjunction([*conditions, *conjuncts(expr.where)])
    one = rows.bag_of(expr.head)
    return one if whole is None else rows.when(whole, one)


@expr_rule("map-identity", law="map(x -> x, X)  =  X")
def map_identity(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """Nothing is done to the elements."""
    match expr:
        case typed.MapOver(variable, subject, typed.Var(used), False) if used == variable:
            return subject if subject.type == expr.type else None
        case _:
            return None


@expr_rule("fuse-maps", law="map(x -> f, map(y -> g, X))  =  map(y -> f[x := g], X)")
def fuse_maps(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """One walk over the collection instead of two."""
    match expr:
        case typed.MapOver(outer, typed.MapOver(inner, subject, first, False), second, flatten):
            if uses_of(outer, second, most=2) > 1 and not is_cheap(first):
                return None
            body = substitute(second, {outer: first})
            return typed.MapOver(inner, subject, body, flatten, type=expr.type, span=expr.span)
        case _:
            return None


_FOLDED = (typed.Arithmetic, typed.Negate, typed.Compare, typed.Logic, typed.Not, typed.Widen)


@expr_rule("fold-constants", law="f(c)  =  the value of f at the constant c")
def fold_constants(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """What is known before the data are there is computed once."""
    if not isinstance(expr, _FOLDED) or not isinstance(expr.type, Basic):
        return None
    if not all(isinstance(child, typed.Const) for child in children(expr)):
        return None
    value = evaluate(expr, Environment(new_world(EMPTY_SCRIPT)))
    return typed.Const(value, type=expr.type, span=expr.span)


@expr_rule("if-constant", law="if true then a else b  =  a;  if false then a else b  =  b")
def if_constant(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A branch that is never taken goes."""
    match expr:
        case typed.If(typed.Const(value), then, otherwise):
            return then if value is True else otherwise
        case _:
            return None


RULES = (
    field_of_record,
    item_of_tuple,
    inline_binding,
    inline_single_use,
    inline_view,
    split_name,
    split_binding,
    generator_over_one,
    flatten_query,
    generator_over_map,
    generator_over_if,
    repeated_condition,
    query_over_nothing,
    map_identity,
    fuse_maps,
    fold_constants,
    if_constant,
)


# --- cMap and union ---


@term_rule("fuse-cmaps", law="cMap(f, cMap(g, X))  =  cMap(x -> f(y) for all y in g(x), X)")
def fuse_cmaps(term: Term, names: Names) -> Term | None:
    """One pass over the elements instead of two."""
    match term:
        case CMap(outer, f, CMap(inner, g, source)):
            first, middle = comprehension(g, names)
            second, head = comprehension(rename_binders(f, names.like), names)
            named = typed.Binding(typed.Bind(outer), middle)
            return CMap(inner, rows.select(head, (*first, named, *second)), source)
        case _:
            return None


@term_rule("identity-cmap", law="cMap(x -> {x}, X)  =  X")
def identity_cmap(term: Term, _names: Names) -> Term | None:
    """Nothing is done to the elements; but of rows in order it makes rows without."""
    match term:
        case CMap(variable, typed.MakeCollection((typed.Var(only),)), source) if only == variable:
            return replace(source, ordered=False) if isinstance(source, Sort) else source
        case _:
            return None


@term_rule("cmap-below-union", law="cMap(f, X + Y)  =  cMap(f, X) + cMap(f, Y)")
def cmap_below_union(term: Term, names: Names) -> Term | None:
    """Each part is filtered and cut down on its own, where more rules may apply."""
    match term:
        case CMap(variable, body, Union(parts)):
            return Union(tuple(CMap(variable, rename_binders(body, names.like), p) for p in parts))
        case _:
            return None


@term_rule("flatten-union", law="(X + Y) + Z  =  X + Y + Z")
def flatten_union(term: Term, _names: Names) -> Term | None:
    """A union of unions is a union."""
    match term:
        case Union(parts) if any(isinstance(part, Union) for part in parts):
            return Union(tuple(inner for part in parts for inner in _members(part)))
        case _:
            return None


def _members(term: Term) -> tuple[Term, ...]:
    return term.parts if isinstance(term, Union) else (term,)


@term_rule("drop-empty", law="X + {}  =  X")
def drop_empty(term: Term, _names: Names) -> Term | None:
    """An empty part adds nothing."""
    match term:
        case Union(parts) if len(parts) > 1:
            kept = tuple(part for part in parts if not _is_empty(part))
            if len(kept) == len(parts):
                return None
            return Union(kept) if len(kept) > 1 else (kept or parts)[0]
        case _:
            return None


def _is_empty(term: Term) -> bool:
    match term:
        case Values(typed.MakeCollection(())) | Values(typed.Widen(typed.MakeCollection(()))):
            return True
        case _:
            return False


CMAP_RULES = (fuse_cmaps, identity_cmap, cmap_below_union, flatten_union, drop_empty)
