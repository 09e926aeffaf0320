"""Whether calls of built-ins and aggregates have the types that the language says.

The table is written out again here, so that the one of the inference has something to
disagree with.
"""

from __future__ import annotations

from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    XML,
    Collection,
    Decimal,
    Function,
    Tuple,
    Type,
    bag,
    list_of,
)

_STRINGS = (STRING, STRING, STRING)
_SIMPLE: dict[str, list[tuple[tuple[Type, ...], Type]]] = {
    **{name: [((DOUBLE,), DOUBLE)] for name in (
        "sin", "cos", "tan", "asin", "acos", "atan", "sqrt", "log", "exp", "ceil", "floor",
        "rint")},
    "pow": [((DOUBLE, DOUBLE), DOUBLE)],
    "random": [((LONG,), LONG)],
    "abs": [((t,), t) for t in (INT, LONG, DOUBLE)],
    "round": [((LONG,), LONG), ((DOUBLE,), LONG), ((DOUBLE, LONG), DOUBLE)],
    **{name: [((STRING, STRING), BOOL)] for name in (
        "contains", "startsWith", "endsWith", "matches")},
    "length": [((STRING,), INT)],
    "substring": [((STRING, LONG), STRING), ((STRING, LONG, LONG), STRING)],
    **{name: [(_STRINGS, STRING)] for name in ("replace", "replaceAll", "replaceFirst")},
    **{name: [((STRING,), STRING)] for name in ("toLowerCase", "toUpperCase", "trim")},
    "split": [((STRING, STRING), list_of(STRING))],
    "concat": [((STRING,) * count, STRING) for count in range(2, 9)],
    "date": [((STRING,), DATE), ((TIMESTAMP,), DATE), ((INT, INT, INT), DATE)],
    "timestamp": [((STRING,), TIMESTAMP), ((DATE,), TIMESTAMP)],
    **{name: [((DATE,), INT), ((TIMESTAMP,), INT)] for name in ("year", "month", "day")},
    **{name: [((TIMESTAMP,), INT)] for name in ("hour", "minute", "second")},
    "date_add": [((DATE, LONG), DATE), ((TIMESTAMP, LONG), TIMESTAMP)],
    "date_diff": [((DATE, DATE), INT), ((TIMESTAMP, TIMESTAMP), INT)],
    "date_trunc": [((STRING, DATE), DATE), ((STRING, TIMESTAMP), TIMESTAMP)],
    "range": [((LONG, LONG), list_of(LONG))],
    "text": [((XML,), STRING)],
    "tag": [((XML,), STRING)],
}  # fmt: skip


def check_builtin(expr: typed.Builtin) -> str | None:
    """Why the call cannot have its type, if it cannot."""
    takes = tuple(argument.type for argument in expr.arguments)
    if (takes, expr.type) in _SIMPLE.get(expr.function, []):
        return None
    shown = ", ".join(map(str, takes))
    return None if _is_open(expr.function, takes, expr.type) else f"({shown}) -> {expr.type}"


def _is_open(name: str, takes: tuple[Type, ...], gives: Type) -> bool:
    """The built-ins whose types depend on those of their arguments."""
    match name, takes:
        case "string", (one,):
            return gives == STRING and not isinstance(one, Function)
        case "inv", (one,):
            return gives == one
        case (("min" | "max"), (one, two)):
            return one == two == gives
        case (("abs" | "round"), (Decimal() as one, *rest)):
            return gives == (LONG if name == "round" and not rest else one)
        case "member", (one, Collection(_, element)):
            return one == element and gives == BOOL
        case "zip", (Collection(_, one), Collection(_, two)):
            return gives == list_of(Tuple((one, two)))
        case _, (Collection() as whole,):
            return gives == _of_collection(name, whole)
        case _:
            return False


def _of_collection(name: str, whole: Collection) -> Type | None:
    match name, whole.element:
        case "elem", element:
            return element
        case "distinct", element:
            return bag(element)
        case (("sort" | "reverse"), element):
            return list_of(element)
        case "index", element:
            return list_of(Tuple((element, LONG)))
        case "flatten", Collection(inner, element):
            return Collection("list" if whole.kind == inner == "list" else "bag", element)
        case _:
            return None


def check_aggregate(expr: typed.Aggregate) -> str | None:
    """Why the aggregate cannot have its type, if it cannot."""
    if not isinstance(expr.operand.type, Collection):
        return f"an aggregate over {expr.operand.type}"
    element, gives = expr.operand.type.element, expr.type
    if (expr.extra is not None) != (expr.function == "percentile"):
        return "the number of arguments"
    if expr.extra is not None and expr.extra.type != DOUBLE:
        return f"the fraction is {expr.extra.type}"
    fits = _aggregates(expr.function, element, gives)
    return None if fits else f"{expr.function} of {element} is {gives}"


def _aggregates(name: str, element: Type, gives: Type) -> bool:
    numbers = element in (BYTE, SHORT, INT, LONG, DOUBLE) or isinstance(element, Decimal)
    match name:
        case "count":
            return gives == LONG
        case "collect":
            return gives == bag(element)
        case "first" | "min" | "max":
            return gives == element
        case "some" | "all":
            return element == gives == BOOL
        case "sum" if isinstance(element, Decimal):
            more = Decimal(min(38, element.precision + 10), element.scale)
            return gives == more
        case "sum":
            return element == gives and element in (LONG, DOUBLE)
        case "avg" if isinstance(element, Decimal):
            return isinstance(gives, Decimal) and gives.scale >= element.scale
        case "avg" | "variance" | "stddev" | "median" | "percentile":
            return numbers and gives == DOUBLE
        case _:
            return False
