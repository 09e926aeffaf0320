"""Operations in Spark's evaluation modes: as the reference means them, as SQL, as plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeAlias

from sqlglot import exp

from incmrql.engine.columns import pinned
from incmrql.lower.context import Context
from incmrql.lower.expressions.dispatch import lower as lower_expression
from incmrql.lower.shapes import Cell, Env
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    Decimal,
    Tuple,
    Type,
    is_numeric,
)
from incmrql.values import Value
from incmrql.values.numbers import decimal_result, to_float32
from tests.lower.agreement import Case, Trees
from tests.lower.edges import (
    DECIMALS,
    MOST_ROWS,
    NUMERIC_TEXTS,
    TEXTS,
    TIME_TEXTS,
    WORDS,
    edges,
)
from tests.reference.running import const, of

Build: TypeAlias = Callable[[Sequence[typed.Expr]], typed.Expr]
MODES: tuple[typed.Mode, ...] = ("ansi", "try", "legacy")
INTEGERS = (BYTE, SHORT, INT, LONG)
NUMBERS: tuple[Type, ...] = (*INTEGERS, FLOAT, DOUBLE)
SQL_TYPES: dict[Type, str] = {
    BOOL: "boolean", BYTE: "tinyint", SHORT: "smallint", INT: "int", LONG: "bigint",
    FLOAT: "float", DOUBLE: "double", STRING: "string", DATE: "date", TIMESTAMP: "timestamp",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SparkCase(Case):
    """An operation that plain Spark has too, under this text over its arguments."""

    text: str = ""
    mode: typed.Mode = "ansi"
    fails: bool = True
    """Whether Spark raises an error in ANSI mode where there is no result."""


def case(
    name: str,
    types: Sequence[Type],
    build: Build,
    text: str,
    mode: typed.Mode = "ansi",
    arguments: Sequence[Sequence[Value]] | None = None,
) -> SparkCase:
    """A case from a typed expression over its arguments; `text` has `{0}`, `{1}` for them."""
    variables = [typed.Variable("a", -n, type_) for n, type_ in enumerate(types, 1)]
    body = build([typed.Var(variable, type=variable.type) for variable in variables])

    def meaning(*values: Value) -> Value:
        return of(build([const(v, t) for v, t in zip(values, types, strict=True)]))

    def lower(trees: Trees, dialect: Dialect) -> exp.Expression | None:
        cells = {v: Cell(tree.copy(), v.type) for v, tree in zip(variables, trees, strict=True)}
        ctx = Context(lower_expression, dialect)
        lowered = ctx.tree(body, Env(cells))
        # The functions that a text calls are tried as `pin`.
        return None if ctx.python_calls else lowered

    return SparkCase(
        f"{mode} {name}",
        tuple(types),
        body.type,
        meaning,
        lower,
        partial(pinned.apply_expression, variables, body),
        None if arguments is None else tuple(map(tuple, arguments)),
        150 if any(isinstance(type_, Decimal) for type_ in types) else MOST_ROWS,
        text,
        mode,
    )


def sql_type(type_: Type) -> str:
    return str(type_) if isinstance(type_, Decimal) else SQL_TYPES[type_]


# --- Arithmetic ---

_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def arithmetic_cases() -> Iterator[SparkCase]:
    for mode, type_, op in product(MODES, NUMBERS, "+-*/%"):
        if op != "/" or type_ == DOUBLE:  # Spark divides other numbers as doubles
            yield _arithmetic(op, type_, (type_, type_), mode)
    for mode, (a, b), op in product(MODES, product(DECIMALS, DECIMALS), "+-*/%"):
        digits = decimal_result(op, (a.precision, a.scale), (b.precision, b.scale))
        # Where Java cannot divide, Spark fails in all modes.
        if mode == "ansi" or op != "%" or a.precision - a.scale + b.scale <= 38:
            yield _arithmetic(op, Decimal(*digits), (a, b), mode)
    for mode in ("ansi", "legacy"):
        yield _whole_quotient(mode)
        yield from (_negate(type_, mode) for type_ in (*NUMBERS, *DECIMALS))
        yield from (_absolute(type_, mode) for type_ in (*NUMBERS, *DECIMALS) if mode == "ansi")
        yield from (_pmod(type_, type_, mode) for type_ in NUMBERS)
    for a in DECIMALS:
        yield _pmod(
            a, Decimal(*decimal_result("%", (a.precision, a.scale), (a.precision, a.scale)))
        )
        yield case(
            "div",
            (a, a),
            lambda x: typed.Builtin("spark.div", (x[0], x[1]), "ansi", type=LONG),
            "{0} div {1}",
        )


def _arithmetic(op: str, type_: Type, types: tuple[Type, Type], mode: typed.Mode) -> SparkCase:
    def build(x: Sequence[typed.Expr]) -> typed.Expr:
        return typed.Arithmetic(op, x[0], x[1], mode, type=type_)  # type: ignore[arg-type]

    text = f"{_TRY[op]}({{0}}, {{1}})" if mode == "try" else f"{{0}} {op} {{1}}"
    return case(op, types, build, text, mode)


def _whole_quotient(mode: typed.Mode) -> SparkCase:
    def build(x: Sequence[typed.Expr]) -> typed.Expr:
        return typed.Arithmetic("/", x[0], x[1], mode, type=LONG)

    return case("div", (LONG, LONG), build, "{0} div {1}", mode)


def _negate(type_: Type, mode: typed.Mode) -> SparkCase:
    return case("-", (type_,), lambda x: typed.Negate(x[0], mode, type=type_), "-{0}", mode)


def _absolute(type_: Type, mode: typed.Mode) -> SparkCase:
    def build(x: Sequence[typed.Expr]) -> typed.Expr:
        return typed.Builtin("abs", (x[0],), mode, type=type_)

    return case("abs", (type_,), build, "abs({0})", mode)


def _pmod(type_: Type, result: Type, mode: typed.Mode = "ansi") -> SparkCase:
    def build(x: Sequence[typed.Expr]) -> typed.Expr:
        return typed.Builtin("spark.pmod", (x[0], x[1]), mode, type=result)

    return case("pmod", (type_, type_), build, "pmod({0}, {1})", mode)


# --- Casts ---

_SCALARS: tuple[Type, ...] = (
    BOOL, *INTEGERS, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP, *DECIMALS[:6]
)  # fmt: skip


def cast_cases() -> Iterator[SparkCase]:
    for mode, source, target in product(MODES, _SCALARS, _SCALARS):
        if source != target and _is_allowed(source, target, mode):
            yield _cast(source, target, mode)


def _is_allowed(source: Type, target: Type, mode: typed.Mode) -> bool:
    """Whether Spark has a cast, and the conversion of plans uses it as it is."""
    if STRING in (source, target):
        return True
    if DATE in (source, target):
        return TIMESTAMP in (source, target)
    if target == TIMESTAMP:
        return mode == "ansi" and source != BOOL
    if source == TIMESTAMP and mode != "legacy":
        return target != BOOL
    return True


def _cast(source: Type, target: Type, mode: typed.Mode) -> SparkCase:
    def build(x: Sequence[typed.Expr]) -> typed.Expr:
        return typed.Cast(x[0], mode, type=target)

    word = "try_cast" if mode == "try" else "cast"
    texts = TEXTS + NUMERIC_TEXTS + WORDS + [t for t in TIME_TEXTS if not _is_beyond(t, target)]
    texts = [text for text in texts if not _is_beyond(text, target)]
    arguments = (texts,) if source == STRING else (_printed_alike(source, target),)
    return case(
        f"as {target}", (source,), build, f"{word}({{0}} as {sql_type(target)})", mode, arguments
    )


def _printed_alike(source: Type, target: Type) -> list[Value]:
    """The edges of a type; for texts and decimals those doubles that any Java prints alike.

    Before version 19 Java writes more digits than it needs, of some numbers.
    """
    if source not in (FLOAT, DOUBLE) or not (target == STRING or isinstance(target, Decimal)):
        return edges(source)
    odd = _ODD_FLOATS if source == FLOAT else _ODD_DOUBLES
    return [x for x in edges(source) if x is None or abs(x) not in odd]


_ODD_DOUBLES = (2.0**63 - 1024, 1e23, 2e23, 8.41e21, 1e-323, 2.0**-44)
_ODD_FLOATS = (
    *map(to_float32, (2.0**31, 2.0**53, 1e15, 1e16, 1e17, 1.1754943508222875e-38, 2.0**-44)),
    123_456_792.0,
)  # fmt: skip


def _is_beyond(text: Value, target: Type) -> bool:
    if target not in (DATE, TIMESTAMP) or text is None:
        return False
    return bool(of(typed.Builtin(f"spark.is_beyond_{target}", (const(text, STRING),), type=BOOL)))


# --- Functions ---

_PATTERNS = (
    "", "a", "%", "_", "a%", "%a", "%b%", "a_c", "%\\%", "\\_", "\\\\", "__", "_%_", "a%c%",
    "%\u00e9", "\U0001f600", "x_y", "%\n%", "(a", "[a]%", ".",
)  # fmt: skip
_DIGITS = (-12, -3, -2, -1, 0, 1, 2, 3, 5, 17, 18)
_BLANK_TEXTS = [*TEXTS, "  a  ", " \t a \t ", "\u00a0 a", "xxaxx", "xyaxy", "  "]


def function_cases() -> Iterator[SparkCase]:
    for name in ("coalesce", "greatest", "least"):
        yield from (_choice(name, type_) for type_ in _SCALARS)
    for type_, digits in product((*INTEGERS, FLOAT, DOUBLE), _DIGITS):
        yield from (_round(name, type_, type_, digits) for name in ("round", "bround"))
    for decimal, digits in product(DECIMALS, _DIGITS):
        result = _rounded_type(decimal, digits)
        yield from (_round(name, decimal, result, digits) for name in ("round", "bround"))
    for name in ("ceil", "floor"):
        yield _function(name, (DOUBLE,), LONG)
        for a in DECIMALS:
            whole = a.precision - a.scale + (a.scale > 0)
            yield _function(name, (a,), Decimal(min(whole, 38), 0))
    for type_, (name, sign) in product(INTEGERS, _BITS.items()):
        yield _bits(name, sign, type_)
    for type_, name in product((INT, LONG), ("shiftleft", "shiftright", "shiftrightunsigned")):
        counts = (None, -1, 0, 1, 5, 31, 32, 33, 63, 64)
        yield _function(name, (type_, INT), type_, arguments=(edges(type_), counts))
    yield from (_shift(type_, count) for type_ in (INT, LONG) for count in (0, 1, 31))
    yield from map(_like, _PATTERNS)
    yield case(
        "like any",
        (STRING, STRING),
        lambda x: _call("spark.like", BOOL, *x, const("\\", STRING)),
        "{0} like {1}",
        arguments=(TEXTS, _PATTERNS),
    )
    numbers = (None, -(2**31), -81, -3, -1, 0, 1, 2, 3, 80, 81, 2**31 - 1)
    yield _function("substring", (STRING, INT, INT), STRING, arguments=(TEXTS, numbers, numbers))
    for position, length in product((-2, 0, 1, 2, 5), (-1, 0, 1, 3, 100)):
        yield _substring(position, length)
    for name, side in (("trim", "both"), ("ltrim", "leading"), ("rtrim", "trailing")):
        yield _trim(name, side)
    yield from (_function(name, (STRING,), STRING) for name in ("upper", "lower"))
    months = (None, -(2**31), -120_001, -25, -12, -1, 0, 1, 11, 12, 119_000, 2**31 - 1)
    yield _function("add_months", (DATE, INT), DATE, arguments=(edges(DATE), months))
    for name in ("quarter", "dayofweek", "weekday", "dayofyear", "weekofyear"):
        yield _function(name, (DATE,), INT)
    yield _function("last_day", (DATE,), DATE)


def _call(name: str, result: Type, *arguments: typed.Expr) -> typed.Expr:
    return typed.Builtin(name, arguments, "ansi", type=result)


def _function(
    name: str,
    types: Sequence[Type],
    result: Type,
    arguments: Sequence[Sequence[Value]] | None = None,
) -> SparkCase:
    text = f"{name}({', '.join(f'{{{n}}}' for n in range(len(types)))})"
    return case(
        name, types, lambda x: _call(f"spark.{name}", result, *x), text, arguments=arguments
    )


def _choice(name: str, type_: Type) -> SparkCase:
    return _function(name, (type_, type_), type_)


def _round(name: str, type_: Type, result: Type, digits: int) -> SparkCase:
    return case(
        f"{name} to {digits}",
        (type_,),
        lambda x: _call(f"spark.{name}", result, x[0], const(digits, INT)),
        f"{name}({{0}}, {digits})",
    )


def _rounded_type(type_: Decimal, digits: int) -> Decimal:
    """The type that Spark gives the decimal, as one more digit may be needed."""
    whole = type_.precision - type_.scale + 1
    if digits < 0:
        return Decimal(min(max(whole, 1 - digits), 38), 0)
    scale = min(type_.scale, digits)
    return Decimal(min(whole + scale, 38), scale)


_BITS = {"bitand": "&", "bitor": "|", "bitxor": "^"}


def _bits(name: str, sign: str, type_: Type) -> SparkCase:
    return case(
        name, (type_, type_), lambda x: _call(f"spark.{name}", type_, *x), f"{{0}} {sign} {{1}}"
    )


def _shift(type_: Type, count: int) -> SparkCase:
    return case(
        f"shift by {count}",
        (type_,),
        lambda x: _call("spark.shiftright", type_, x[0], const(count, INT)),
        f"shiftright({{0}}, {count})",
    )


def _like(pattern: str) -> SparkCase:
    quoted = pattern.replace("\\", "\\\\").replace("\n", "\\n")
    return case(
        f"like '{pattern}'",
        (STRING,),
        lambda x: _call("spark.like", BOOL, x[0], const(pattern, STRING), const("\\", STRING)),
        f"{{0}} like '{quoted}'",
    )


def _substring(position: int, length: int) -> SparkCase:
    bounds = const(position, INT), const(length, INT)
    return case(
        f"substring {position} {length}",
        (STRING,),
        lambda x: _call("spark.substring", STRING, x[0], *bounds),
        f"substring({{0}}, {position}, {length})",
    )


def _trim(name: str, side: str) -> SparkCase:
    sets = (None, "", " ", "x", "xy", "a", "\u00e9", "\U0001f600", " \t")
    return case(
        name,
        (STRING, STRING),
        lambda x: _call(f"spark.{name}", STRING, *x),
        f"trim({side} {{1}} from {{0}})",
        arguments=(_BLANK_TEXTS, sets),
    )


# --- Tests for null ---


def null_cases() -> Iterator[SparkCase]:
    for type_ in _SCALARS:
        yield case("is null", (type_,), lambda x: typed.IsNull(x[0], type=BOOL), "{0} is null")
        if is_numeric(type_):
            yield case("<=>", (type_, type_), _same, "{0} <=> {1}")


def _same(x: Sequence[typed.Expr]) -> typed.Expr:
    one, other = (typed.MakeTuple((e,), type=_tuple(e.type)) for e in x)
    return typed.Compare("=", one, other, type=BOOL)


def _tuple(type_: Type) -> Type:
    return Tuple((type_,))
