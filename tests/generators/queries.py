"""Random well-typed queries and scripts: THE generator, for every layer that has queries to try.

    queries()   the text of one expression over the tables R, S, N and W
    scripts()   the text of a script that declares things and then uses them
    tables()    contents for the tables

Queries are made by type (an expression of type T in scope Γ), so that they are well typed by
construction; `CATALOG` is what they are typed with.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from incmrql.syntax import ast
from incmrql.syntax.printer.expressions import format_expr
from incmrql.syntax.printer.scripts import format_script
from incmrql.types.model import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    STRING,
    Collection,
    Data,
    Record,
    Tuple,
    Type,
    bag,
)
from tests.generators.collections import any_ways, bag_ways, construction, list_ways
from tests.generators.maker import SHAPE, Callee, Maker, Scope, Way, integer, tree_of
from tests.generators.scalars import SCALAR_WAYS, least, min_or_max
from tests.generators.selects import free_select, quantifier, select_ways
from tests.generators.tables import CATALOG, TABLES, tables, values

__all__ = ["CATALOG", "TABLES", "queries", "query_trees", "script_trees", "scripts", "tables",
           "values"]  # fmt: skip

DEPTH = 5
RESULTS: tuple[Type, ...] = (INT, DOUBLE, STRING, BOOL, bag(INT))


def queries() -> st.SearchStrategy[str]:
    """The text of a query."""
    return query_trees().map(format_expr)


def scripts() -> st.SearchStrategy[str]:
    """The text of a script, whose last item is a query."""
    return script_trees().map(format_script)


@st.composite
def query_trees(draw: st.DrawFn) -> ast.Expr:
    """A query as a tree."""
    return _query(Maker(draw, ways), Scope())


def _query(maker: Maker, scope: Scope) -> ast.Expr:
    """Mostly a select; else a value of any type."""
    if maker.chance(5):
        return maker.expr(maker.some_type(2), scope, DEPTH)
    return free_select(maker, scope, DEPTH - 1)[0]


def ways(wanted: Type, scope: Scope) -> Sequence[Way]:
    """All ways to make a value of a type in a scope."""
    known_ways = any_ways(wanted, scope)
    match wanted:
        case Collection("bag", _):
            known_ways += [*bag_ways(wanted), *select_ways(wanted, scope)]
        case Collection():
            known_ways += [*list_ways(wanted), *select_ways(wanted, scope)]
        case Record() | Tuple() | Data():
            known_ways += [construction, construction, construction, least]
        case _:
            known_ways += [*SCALAR_WAYS[wanted] * 2, least, min_or_max]
    if wanted == BOOL and select_ways(bag(BOOL), scope):
        known_ways += [quantifier, quantifier]
    return known_ways


# --- scripts -----------------------------------------------------------------------------


@st.composite
def script_trees(draw: st.DrawFn) -> ast.Script:
    """Declarations, and then a query that may use them."""
    maker = Maker(draw, ways, fuel=90)
    items: list[ast.Item] = []
    scope = Scope()
    for declare in (_shapes, _function, _macro, _aggregation, _named_query, _stored_value):
        if maker.chance(2):
            item, scope = declare(maker, scope)
            items.append(item)
    items.append(ast.Evaluate(_query(maker, scope)))
    return ast.Script(tuple(items))


def _shapes(_maker: Maker, scope: Scope) -> tuple[ast.Item, Scope]:
    pair = tree_of(Tuple((DOUBLE, DOUBLE)))
    constructors = (("Circle", tree_of(DOUBLE)), ("Box", pair), ("Dot", ast.TupleType(())))
    after = Scope(scope.names, scope.keys, scope.callees, shapes=True)
    return ast.DeclareData(SHAPE.name, constructors), after


def _with_callee(scope: Scope, callee: Callee) -> Scope:
    return Scope(scope.names, scope.keys, (*scope.callees, callee), scope.shapes)


def _function(maker: Maker, scope: Scope) -> tuple[ast.Item, Scope]:
    types = tuple(maker.some_type(1) for _ in range(maker.pick((1, 2))))
    result = maker.pick(RESULTS)
    names = ("x", "y")[: len(types)]
    body = maker.expr(result, scope.bind(dict(zip(names, types, strict=True))), 2)
    parameters = tuple(
        ast.Parameter(name, tree_of(t)) for name, t in zip(names, types, strict=True)
    )
    item = ast.DeclareFunction("f", parameters, tree_of(result), body)
    return item, _with_callee(scope, Callee("f", types, result))


def _macro(maker: Maker, scope: Scope) -> tuple[ast.Item, Scope]:
    types = tuple(maker.pick((INT, STRING, DOUBLE)) for _ in range(maker.pick((1, 2))))
    result = maker.pick(RESULTS)
    names = ("x", "e")[: len(types)]
    body = maker.expr(result, scope.bind(dict(zip(names, types, strict=True))), 3)
    return ast.DeclareMacro("m", names, body), _with_callee(scope, Callee("m", types, result))


def _aggregation(_maker: Maker, scope: Scope) -> tuple[ast.Item, Scope]:
    """`either`: whether some number is above one."""
    bool_ = tree_of(BOOL)
    x, y = ast.Name("x"), ast.Name("y")
    both = (ast.Parameter("x", bool_), ast.Parameter("y", bool_))
    merge = ast.Lambda(both, bool_, ast.Binary("or", x, y))
    above = ast.Binary(">", x, integer(1))
    unit = ast.Lambda((ast.Parameter("x", tree_of(INT)),), bool_, above)
    zero = ast.Literal(False, "bool")
    item = ast.DeclareAggregation("either", merge, zero, unit, None, bool_)
    return item, _with_callee(scope, Callee("either", (bag(INT),), BOOL))


def _named_query(maker: Maker, scope: Scope) -> tuple[ast.Item, Scope]:
    type_ = maker.type_of(bag(maker.some_type(1)), INT, STRING, LONG)
    item = ast.Define("named", maker.expr(type_, scope, 3))
    return item, scope.bind({"named": type_})


def _stored_value(maker: Maker, scope: Scope) -> tuple[ast.Item, Scope]:
    type_ = maker.type_of(bag(maker.some_type(1)), INT, STRING, LONG)
    item = ast.StoreValue("stored", maker.expr(type_, scope, 3))
    return item, scope.bind({"stored": type_})
