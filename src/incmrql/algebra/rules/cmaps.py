"""Rules for cMap and union."""

from __future__ import annotations

from dataclasses import replace

from incmrql.algebra import build
from incmrql.algebra.rewrite import term_rule
from incmrql.algebra.rows import Names
from incmrql.algebra.rules.expressions import is_plain
from incmrql.algebra.term import CMap, Sort, Term, Union, Values
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import renamed

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
            return (typed.Generator(typed.Bind(one), body),), build.var(one)


@term_rule("fuse-cmaps", law="cMap(f, cMap(g, X))  =  cMap(x -> f(y) for all y in g(x), X)")
def fuse_cmaps(term: Term, names: Names) -> Term | None:
    """One pass over the elements instead of two."""
    match term:
        case CMap(outer, f, CMap(inner, g, source)):
            first, middle = comprehension(g, names)
            second, head = comprehension(renamed(f, names.like), names)
            named = typed.Binding(typed.Bind(outer), middle)
            return CMap(inner, build.select(head, (*first, named, *second)), source)
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
            return Union(tuple(CMap(variable, renamed(body, names.like), p) for p in parts))
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


RULES = (fuse_cmaps, identity_cmap, cmap_below_union, flatten_union, drop_empty)
