"""Ways to make any type: conditionals, calls, parts of other values; and collections."""

from __future__ import annotations

from incmrql.syntax import ast
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
    list_of,
)
from tests.generators.maker import (
    SCALARS,
    SHAPE,
    Callee,
    Maker,
    Scope,
    Way,
    call,
    cast,
    integer,
    number,
    tree_of,
)

# --- any type ----------------------------------------------------------------------------


def conditional(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`if c then a else b`."""
    condition = maker.expr(BOOL, scope, depth)
    return ast.If(condition, maker.fitting(wanted, scope, depth), maker.expr(wanted, scope, depth))


def let(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`let x = e in b`."""
    type_ = maker.some_type(1)
    value = maker.expr(type_, scope, depth)
    if isinstance(type_, Tuple) and maker.chance(2):
        first = maker.fresh({})
        second = maker.fresh({first: type_})
        pattern: ast.Pattern = ast.TuplePattern((ast.NamePattern(first), ast.NamePattern(second)))
        inner = scope.bind({first: type_.items[0], second: type_.items[1]})
    else:
        name = maker.fresh({})
        pattern, inner = ast.NamePattern(name), scope.bind({name: type_})
    return ast.Let(pattern, value, maker.expr(wanted, inner, depth))


def case(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`case e { … }` over a scalar, a tuple, a list or a shape."""
    if scope.shapes and maker.chance(2):
        return _shape_case(maker, wanted, scope, depth)
    name = maker.fresh({})
    bound = ast.NamePattern(name)
    match maker.pick(("int", "tuple", "list", "string")):
        case "int":
            subject, pattern = maker.expr(INT, scope, depth), _literal(1, "int")
            inner: Type = INT
        case "tuple":
            subject = maker.expr(Tuple((INT, STRING)), scope, depth)
            pattern, inner = ast.TuplePattern((_literal(1, "int"), bound)), STRING
        case "list":
            subject = maker.expr(list_of(INT), scope, depth)
            pattern, inner = ast.ListPattern((bound,)), INT
        case _:
            subject = maker.expr(STRING, scope, depth)
            pattern = ast.TypedPattern(bound, tree_of(INT))
            inner = INT
    matched = scope.bind({name: inner}) if not isinstance(pattern, ast.LiteralPattern) else scope
    first = ast.Branch(pattern, maker.expr(wanted, matched, depth))
    if maker.chance(4):
        return ast.Case(subject, (first,))
    return ast.Case(subject, (first, ast.Branch(ast.AnyPattern(), maker.leaf(wanted, scope))))


def _literal(value: int, kind: ast.LiteralKind) -> ast.Pattern:
    return ast.LiteralPattern(ast.Literal(value, kind))


def _shape_case(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    x, y = ast.NamePattern("x"), ast.NamePattern("y")
    branches = [
        ast.Branch(ast.DataPattern("Dot", ()), maker.leaf(wanted, scope)),
        ast.Branch(
            ast.DataPattern("Circle", (x,)), maker.expr(wanted, scope.bind({"x": DOUBLE}), depth)
        ),
        ast.Branch(
            ast.DataPattern("Box", (x, y)),
            maker.expr(wanted, scope.bind({"x": DOUBLE, "y": DOUBLE}), depth),
        ),
    ]
    return ast.Case(maker.expr(SHAPE, scope, depth), tuple(branches))


def part(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """A component, a field, an element or a look-up."""
    other = maker.pick((INT, STRING))
    match maker.pick(("item", "field", "at", "look-up", "named")):
        case "item":
            return ast.Component(maker.expr(Tuple((other, wanted)), scope, depth), 1)
        case "field":
            record = Record((("A", wanted), ("q", other)))
            return ast.Project(maker.expr(record, scope, depth), "A")
        case "at":
            index = maker.pick((integer(0), ast.Unary("-", integer(1)), integer(1)))
            return ast.Index(maker.expr(list_of(wanted), scope, depth), index)
        case "look-up":
            pairs = maker.expr(bag(Tuple((other, wanted))), scope, depth)
            return ast.Index(pairs, maker.expr(other, scope, depth))
        case _:
            return ast.Project(maker.expr(bag(Tuple((STRING, wanted))), scope, depth), "a")


def call_of_script(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """A call of a function, macro or aggregation of the script that returns the wanted type."""
    callees: list[Callee] = [callee for callee in scope.callees if callee.result == wanted]
    if not callees:
        return maker.expr(wanted, scope, depth)
    callee = maker.pick(callees)
    if callee.name == "m":  # a macro's arguments have the types they have
        return call(callee.name, *(maker.expr(t, scope, depth) for t in callee.parameters))
    return call(callee.name, *(maker.fitting(t, scope, depth) for t in callee.parameters))


def fold(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    r"""`fold(\(s: T, e: U): T. …, z, xs)`."""
    element = maker.pick((INT, STRING))
    parameters = (
        ast.Parameter("s", tree_of(wanted)),
        ast.Parameter("e", tree_of(element)),
    )
    inner = scope.bind({"s": wanted, "e": element})
    body = maker.expr(wanted, inner, min(depth, 1))
    function = ast.Lambda(parameters, tree_of(wanted), body)
    return call(
        "fold", function, maker.fitting(wanted, scope, 1), maker.fitting(bag(element), scope, depth)
    )


def repeat_loop(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`repeat x = e step s limit 2`."""
    name = maker.fresh({})
    inner = scope.bind({name: wanted})
    start, step = maker.expr(wanted, scope, depth), maker.expr(wanted, inner, min(depth, 2))
    return ast.Repeat((name,), start, step, integer(maker.pick((1, 2))))


def through_any(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`(e as any) as T`."""
    widened = ast.Cast(maker.expr(wanted, scope, depth), ast.NamedType("any"))
    return cast(widened, wanted)


def trace(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`trace(e)`."""
    return ast.Trace(maker.expr(wanted, scope, depth))


# --- structures --------------------------------------------------------------------------


def construction(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """A record, a tuple or a shape from its parts."""
    match wanted:
        case Record(fields):
            parts = tuple((name, maker.expr(type_, scope, depth)) for name, type_ in fields)
            return ast.RecordExpr(parts)
        case Tuple(items):
            return ast.TupleExpr(tuple(maker.expr(item, scope, depth) for item in items))
        case Data():
            if maker.chance(2):
                return call("Circle", maker.fitting(DOUBLE, scope, depth))
            return call("Box", maker.expr(DOUBLE, scope, depth), number(2.5))
        case _:
            raise AssertionError(wanted)


# --- collections -------------------------------------------------------------------------


def _element(wanted: Type) -> Type:
    assert isinstance(wanted, Collection)
    return wanted.element


def collection_of_items(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`{a, b}` or `[a, b]`."""
    count = maker.pick((1, 2))
    items = (
        *(maker.fitting(_element(wanted), scope, depth) for _ in range(count - 1)),
        maker.expr(_element(wanted), scope, depth),
    )
    return ast.BagExpr(items) if wanted == bag(_element(wanted)) else ast.ListExpr(items)


def set_operation(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`union`, `intersect`, `except`, `+`."""
    op: ast.BinaryOp = maker.pick(("union", "intersect", "except", "+"))
    return ast.Binary(op, maker.fitting(wanted, scope, depth), maker.expr(wanted, scope, depth))


def distinct(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`distinct(e)`, `collect(e)`, or a list as a bag."""
    kind = maker.pick((bag, list_of))
    inner = maker.expr(kind(_element(wanted)), scope, depth)
    name = maker.pick(("distinct", "collect", "as"))
    return cast(inner, wanted) if name == "as" else call(name, inner)


def flatten_call(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`flatten(e)`; of a list also `a + b`."""
    if wanted == list_of(_element(wanted)) and maker.chance(3):
        left, right = maker.expr(wanted, scope, depth), maker.expr(wanted, scope, depth)
        return ast.Binary("+", left, right)
    outer = list_of if wanted == list_of(_element(wanted)) else bag
    return call("flatten", maker.expr(outer(wanted), scope, depth))


def sorted_list(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`sort(e)`, `reverse(e)`, or a bag as a list."""
    element = _element(wanted)
    match maker.pick(("sort", "reverse", "as")):
        case "sort":
            return call("sort", maker.expr(bag(element), scope, depth))
        case "reverse":
            return call("reverse", maker.expr(list_of(element), scope, depth))
        case _:
            return cast(maker.expr(bag(element), scope, depth), wanted)


def slice_of_list(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`e[i:j]`."""
    first, last = integer(maker.pick((0, 1))), integer(maker.pick((0, 1, 2)))
    return ast.Slice(maker.expr(wanted, scope, depth), first, last)


def range_of_numbers(maker: Maker, wanted: Type, scope: Scope, _depth: int) -> ast.Expr:
    """`a..b` or `a...b`, always short."""
    first = integer(maker.pick((0, 1)))
    last: ast.Expr = integer(maker.pick((1, 2, 3)))
    if maker.chance(3):
        last = ast.Binary("%", maker.leaf(INT, scope), integer(4))
    return ast.Range(first, last, distributed=wanted == bag(LONG))


def split(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`split(s, "a")`."""
    return call("split", maker.expr(STRING, scope, depth), ast.Literal("a", "string"))


def zip_or_index(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`zip(a, b)`, `index(a)`."""
    element = _element(wanted)
    assert isinstance(element, Tuple)
    first, second = element.items
    one = maker.expr(list_of(first), scope, depth)
    if second == LONG and maker.chance(2):
        return call("index", one)
    return call("zip", one, maker.expr(bag(second), scope, depth))


def list_ways(wanted: Collection) -> list[Way]:
    """The ways to make a list, other than queries."""
    ways: list[Way] = [collection_of_items, sorted_list, sorted_list, slice_of_list]
    if wanted.element == LONG:
        ways.append(range_of_numbers)
    if wanted.element == STRING:
        ways.append(split)
    if isinstance(wanted.element, Tuple) and len(wanted.element.items) == 2:
        ways.append(zip_or_index)
    return ways


def bag_ways(wanted: Collection) -> list[Way]:
    """The ways to make a bag, other than queries."""
    ways: list[Way] = [collection_of_items, set_operation, distinct, flatten_call]
    if wanted.element == LONG:
        ways.append(range_of_numbers)
    return ways


def rare(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """A way that should not be taken often."""
    ways: list[Way] = [let, case, part, fold, repeat_loop, trace]
    if wanted in SCALARS:
        ways.append(through_any)
    return maker.pick(ways)(maker, wanted, scope, depth)


def any_ways(wanted: Type, scope: Scope) -> list[Way]:
    """The ways to make a value of any type at all."""
    ways: list[Way] = [conditional, rare, rare]
    if any(callee.result == wanted for callee in scope.callees):
        ways += [call_of_script, call_of_script]
    return ways
