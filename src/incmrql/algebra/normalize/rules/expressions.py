"""Rules for expressions inside a row, and for cMap and union."""

from __future__ import annotations

from dataclasses import replace

from incmrql.algebra import rows
from incmrql.algebra.normalize.rewrite import expr_rule, term_rule
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, Sort, Term, Union, Values
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import Basic, Collection, Record
from incmrql.types.walk import children, is_random, nodes, rename_binders, substitute, with_copies


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


def is_plain(select: typed.Select) -> bool:
    """Whether a query has nothing but from, where and head."""
    return (
        not select.distinct and select.group is None and not select.order and (select.limit is None)
    )


@expr_rule("field-of-record", law="< A: a, … >.A  =  a")
def field_of_record(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """No record is built to take one field of it."""
    match expr:
        case typed.Field(typed.MakeRecord(items) as made, name) if isinstance(made.type, Record):
            return items[made.type.names.index(name)]
        case _:
            return None


@expr_rule("item-of-tuple", law="(a, b)#0  =  a")
def item_of_tuple(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """No tuple is built to take one component of it."""
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case _:
            return None


@expr_rule("inline-binding", law="select h from x = e, qs  =  select h[x := e] from qs[x := e]")
def inline_binding(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A name for a part of the row, or for nothing that is used, is not needed."""
    if not isinstance(expr, typed.Select) or expr.group is not None:
        return None  # a group names its rows' variables
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Binding(typed.Bind(variable), value) if is_cheap(value):
                rest = replace(
                    expr,
                    qualifiers=(*expr.qualifiers[:place], *expr.qualifiers[place + 1 :]),
                )
                return substitute(rest, {variable: value})
            case _:
                pass
    return None


@expr_rule("inline-single-use", law="select h from x = e  =  select h[x := e], x used once")
def inline_single_use(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A value that is used at one place, as often as it is computed, needs no name."""
    if not isinstance(expr, typed.Select) or expr.group is not None:
        return None  # a group names its rows' variables
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Binding(typed.Bind(variable), value):
                after = expr.qualifiers[place + 1 :]
                rest = replace(expr, qualifiers=after)
                loops = any(isinstance(q, typed.Generator) for q in after)
                uses = _uses(rest, variable)
                if uses == 0 or (uses == 1 and not loops and _straight_uses(rest, variable) == 1):
                    whole = replace(expr, qualifiers=(*expr.qualifiers[:place], *after))
                    return substitute(whole, {variable: value})
            case _:
                pass
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
    if not isinstance(expr, typed.Select) or expr.group is not None:
        return None  # a group names its rows' variables
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Binding(typed.Bind(variable), value) if _is_view(value):
                after = expr.qualifiers[place + 1 :]
                rest = replace(expr, qualifiers=after)
                loops = any(isinstance(q, typed.Generator) for q in after)
                if loops or _straight_uses(rest, variable) < _uses(rest, variable):
                    continue  # an inner loop would take the column once for each turn
                whole = replace(expr, qualifiers=(*expr.qualifiers[:place], *after))
                return with_copies(whole, variable, value, names.like)
            case _:
                pass
    return None


def _is_view(value: typed.Expr) -> bool:
    match value:
        case typed.Widen(operand):
            return _is_view(operand)
        case typed.MapOver(_, subject, body, False):
            return is_cheap(subject) and is_cheap(body)
        case _:
            return False


def _uses(expr: typed.Expr, variable: typed.Variable) -> int:
    return sum(isinstance(node, typed.Var) and node.variable == variable for node in nodes(expr))


def _straight_uses(select: typed.Select, variable: typed.Variable) -> int:
    """The uses that no inner loop repeats."""
    return sum(_straight(child, variable) for child in children(select))


def _straight(expr: typed.Expr, variable: typed.Variable) -> int:
    match expr:
        case typed.Var(used):
            return int(used == variable)
        case typed.MapOver(subject=subject):
            return _straight(subject, variable)
        case typed.Select() | typed.Fold() | typed.Repeat():
            return 0
        case _:
            return sum(_straight(child, variable) for child in children(expr))


@expr_rule("split-name", law="x = (a, b)  =  y = a, z = b, x = (y, z)")
def split_name(expr: typed.Expr, names: Names) -> typed.Expr | None:
    """The parts of a tuple or record get names of their own, and the whole is cheap then."""
    if not isinstance(expr, typed.Select) or expr.group is not None:
        return None  # a group names its rows' variables
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Binding(
                typed.Bind(variable), (typed.MakeTuple() | typed.MakeRecord()) as made
            ):
                parts = [names.variable(f"{variable.name}_{i}", e.type)
                         for i, e in enumerate(made.items)]  # fmt: skip
                bound = (typed.Binding(typed.Bind(v), e)
                         for v, e in zip(parts, made.items, strict=True))  # fmt: skip
                whole = replace(made, items=tuple(map(rows.var, parts)))
                before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
                named = replace(expr, qualifiers=(*before, *bound, *after))
                return substitute(named, {variable: whole})
            case _:
                pass
    return None


@expr_rule("split-binding", law="select h from (p, q) = (a, b)  =  select h from p = a, q = b")
def split_binding(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A tuple that is taken apart at once is not built."""
    if not isinstance(expr, typed.Select):
        return None
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Binding(typed.TupleOf(patterns), typed.MakeTuple(items)):
                parts = tuple(map(typed.Binding, patterns, items))
                before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
                return replace(expr, qualifiers=(*before, *parts, *after))
            case _:
                pass
    return None


@expr_rule("generator-over-one", law="select h from p in {e}, qs  =  select h from p = e, qs")
def generator_over_one(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """Ranging over one element is naming it."""
    if not isinstance(expr, typed.Select):
        return None
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Generator(pattern, typed.MakeCollection((only,))):
                before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
                named = typed.Binding(pattern, only)
                return replace(expr, qualifiers=(*before, named, *after))
            case _:
                pass
    return None


@expr_rule(
    "flatten-query",
    law="select h from p in (select g from qs where c), rs  =  select h from qs, c, p = g, rs",
)
def flatten_query(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """One loop instead of two; the order of an ordered query does not count in a bag."""
    if not isinstance(expr, typed.Select):
        return None
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Generator(pattern, typed.Select() as inner) if is_plain(inner):
                condition = () if inner.where is None else (typed.Condition(inner.where),)
                named = typed.Binding(pattern, inner.head)
                before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
                flat = (*before, *inner.qualifiers, *condition, named, *after)
                return replace(expr, qualifiers=flat)
            case _:
                pass
    return None


@expr_rule(
    "generator-over-map",
    law="select h from p in map(x -> e, X), qs  =  select h from x in X, p = e, qs",
)
def generator_over_map(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """One loop instead of two."""
    if not isinstance(expr, typed.Select):
        return None
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Generator(pattern, typed.MapOver(variable, subject, body, flatten)):
                inner = (typed.Generator if flatten else typed.Binding)(pattern, body)
                outer = typed.Generator(typed.Bind(variable), subject)
                before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
                return replace(expr, qualifiers=(*before, outer, inner, *after))
            case _:
                pass
    return None


@expr_rule(
    "generator-over-if",
    law="select h from p in (if c then X else {}), qs  =  select h from c, p in X, qs",
)
def generator_over_if(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """A condition on a whole collection is a condition of the query."""
    if not isinstance(expr, typed.Select):
        return None
    for place, qualifier in enumerate(expr.qualifiers):
        match qualifier:
            case typed.Generator(pattern, typed.If(condition, then, typed.MakeCollection(()))):
                before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
                kept = (typed.Condition(condition), typed.Generator(pattern, then))
                return replace(expr, qualifiers=(*before, *kept, *after))
            case _:
                pass
    return None


@expr_rule("repeated-condition", law="select h from c, qs, c  =  select h from c, qs")
def repeated_condition(expr: typed.Expr, _names: Names) -> typed.Expr | None:
    """What holds need not be asked again."""
    if not isinstance(expr, typed.Select):
        return None
    known: list[typed.Expr] = []
    for place, qualifier in enumerate(expr.qualifiers):
        if not isinstance(qualifier, typed.Condition) or is_random(qualifier.condition):
            continue
        asked = rows.conjuncts(qualifier.condition)
        new = [c for n, c in enumerate(asked) if c not in known and c not in asked[:n]]
        if len(new) < len(asked):
            whole = rows.conjunction(new)
            kept = () if whole is None else (typed.Condition(whole),)
            before, after = expr.qualifiers[:place], expr.qualifiers[place + 1 :]
            return replace(expr, qualifiers=(*before, *kept, *after))
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
    whole = rows.conjunction([*conditions, *rows.conjuncts(expr.where)])
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
            uses = sum(isinstance(n, typed.Var) and n.variable == outer for n in nodes(second))
            if uses > 1 and not is_cheap(first):
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


Comprehension = tuple[tuple[typed.Qualifier, ...], typed.Expr]


def comprehension(body: typed.Expr, names: Names) -> Comprehension:
    """A collection as qualifiers and a head."""
    match body:
        case typed.MakeCollection((only,)):
            return (), only
        case typed.If(condition, then, typed.MakeCollection(())):
            qualifiers, head = comprehension(then, names)
            return (typed.Condition(condition), *qualifiers), head
        case typed.Select() if is_plain(body):
            where = () if body.where is None else (typed.Condition(body.where),)
            return (*body.qualifiers, *where), body.head
        case _:
            assert isinstance(body.type, Collection)
            one = names.variable("x", body.type.element)
            return (typed.Generator(typed.Bind(one), body),), rows.var(one)


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
