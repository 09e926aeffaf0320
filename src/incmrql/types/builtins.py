"""The built-in functions and aggregates with their signatures, and overload resolution.

`T`, `U` in a signature stand for any type; `{T}` for a bag or list of T.  A call uses the first
signature whose parameters the arguments widen to.

A built-in stands in four tables under one key, its name and signature (`round(decimal, long)`):
here with its types, in `reference.builtins` with its meaning, in `lower.builtins` with its SQL, and
in `engine.columns.pinned` with a version for whole columns.  The last two are optional: a built-in
without them runs as the meaning, row by row, on every engine.

`types.spark_functions` has the functions of Spark that mean something else.  No query can name
them: only plans of Spark become calls of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from incmrql.errors import InternalError
from incmrql.types.lattice import join, widens
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    XML,
    Collection,
    Decimal,
    Function,
    Tuple,
    Type,
    bag,
    is_float,
    is_integer,
    list_of,
)
from incmrql.types.signatures import D, Open, Shape, Signature, Some, T, TypeParameter, U
from incmrql.types.spark_functions import SPARK_FUNCTIONS

Bindings: TypeAlias = dict[str, Type]


_ANY = Some(T)
_TO_DOUBLE = (Signature((DOUBLE,), DOUBLE),)
_TO_STRING = (Signature((STRING,), STRING),)
_TEST = (Signature((STRING, STRING), BOOL),)
_EDIT = (Signature((STRING, STRING, STRING), STRING),)
_DATE_PART = (Signature((DATE,), INT), Signature((TIMESTAMP,), INT))
_TIME_PART = (Signature((TIMESTAMP,), INT),)
_CHOICE = (Signature((T, T), T),)


def _pairs(left: Type, right: Type) -> Type:
    return list_of(Tuple((left, right)))


FUNCTIONS: dict[str, tuple[Signature, ...]] = {
    # numbers
    "abs": tuple(Signature((t,), t) for t in (INT, LONG, D, DOUBLE)),
    **dict.fromkeys(
        (
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sqrt",
            "log",
            "exp",
            "ceil",
            "floor",
            "rint",
        ),
        _TO_DOUBLE,
    ),
    "pow": (Signature((DOUBLE, DOUBLE), DOUBLE),),
    "round": (
        Signature((LONG,), LONG),
        Signature((D,), LONG),
        Signature((DOUBLE,), LONG),
        Signature((D, LONG), D),
        Signature((DOUBLE, LONG), DOUBLE),
    ),
    "random": (Signature((LONG,), LONG),),
    "min": _CHOICE,
    "max": _CHOICE,
    # strings
    "string": (Signature((T,), STRING),),
    "contains": _TEST,
    "startsWith": _TEST,
    "endsWith": _TEST,
    "matches": _TEST,
    "length": (Signature((STRING,), INT),),
    "substring": (Signature((STRING, LONG), STRING), Signature((STRING, LONG, LONG), STRING)),
    "replace": _EDIT,
    "replaceAll": _EDIT,
    "replaceFirst": _EDIT,
    "toLowerCase": _TO_STRING,
    "toUpperCase": _TO_STRING,
    "trim": _TO_STRING,
    "split": (Signature((STRING, STRING), list_of(STRING)),),
    "concat": tuple(Signature((STRING,) * n, STRING) for n in range(2, 9)),
    # dates
    "date": (
        Signature((STRING,), DATE),
        Signature((TIMESTAMP,), DATE),
        Signature((INT, INT, INT), DATE),
    ),
    "timestamp": (Signature((STRING,), TIMESTAMP), Signature((DATE,), TIMESTAMP)),
    "year": _DATE_PART,
    "month": _DATE_PART,
    "day": _DATE_PART,
    "hour": _TIME_PART,
    "minute": _TIME_PART,
    "second": _TIME_PART,
    "date_add": (Signature((DATE, LONG), DATE), Signature((TIMESTAMP, LONG), TIMESTAMP)),
    "date_diff": (Signature((DATE, DATE), INT), Signature((TIMESTAMP, TIMESTAMP), INT)),
    "date_trunc": (Signature((STRING, DATE), DATE), Signature((STRING, TIMESTAMP), TIMESTAMP)),
    # collections
    "member": (Signature((T, _ANY), BOOL),),
    "elem": (Signature((_ANY,), T),),
    "distinct": (Signature((_ANY,), Open(bag, (T,))),),
    "sort": (Signature((_ANY,), Open(list_of, (T,))),),
    "reverse": (Signature((_ANY,), Open(list_of, (T,))),),
    "flatten": (Signature((Some(_ANY),), Open(bag, (T,))),),
    "zip": (Signature((_ANY, Some(U)), Open(_pairs, (T, U))),),
    "index": (Signature((_ANY,), Open(_pairs, (T, LONG))),),
    "range": (Signature((LONG, LONG), list_of(LONG)),),
    "inv": (Signature((T,), T),),
}
"""Built-ins that take values one row at a time."""

TREE_FUNCTIONS: Final[dict[str, tuple[Signature, ...]]] = {
    "text": (Signature((XML,), STRING),),
    "tag": (Signature((XML,), STRING),),
}
"""Built-ins of trees, which over a collection apply to each element."""

CONVERSIONS: dict[str, str] = {
    "toBool": "bool", "toShort": "short", "toInt": "int", "toLong": "long",
    "toFloat": "float", "toDouble": "double",
}  # fmt: skip
"""Functions that are casts: `toInt(e)` is `e as int`."""

AGGREGATES = (
    "count", "sum", "avg", "min", "max", "some", "all", "variance", "stddev", "median",
    "percentile", "first", "collect",
)  # fmt: skip
"""Functions of a whole collection."""

SPECIAL = ("exists", "fold", "mod", "decimal", "text", "tag", "source", "stream")
"""Names with typing rules of their own."""

NAMES = frozenset((*FUNCTIONS, *CONVERSIONS, *AGGREGATES, *SPECIAL))
"""Every built-in name."""

_ALL: Final = {**FUNCTIONS, **TREE_FUNCTIONS, **SPARK_FUNCTIONS}
KEYS: Final = tuple(s.key(name) for name, signatures in _ALL.items() for s in signatures)
"""The keys of the tables of built-ins."""


def _only_keys() -> dict[tuple[str, int], str]:
    """The keys of signatures that a name and the number of parameters determine."""
    keys: dict[tuple[str, int], list[str]] = {}
    for name, signatures in _ALL.items():
        for signature in signatures:
            keys.setdefault((name, len(signature.parameters)), []).append(signature.key(name))
    return {call: matching[0] for call, matching in keys.items() if len(matching) == 1}


_ONLY: Final = _only_keys()


def key_of(name: str, arguments: tuple[Type, ...]) -> str:
    """The key of a built-in for arguments of these types, `round(decimal, long)`."""
    # Called for every row by the reference evaluator: hashing types would dominate most functions.
    return _ONLY.get((name, len(arguments))) or _key_by_types(name, arguments)


@lru_cache(maxsize=4_096)
def _key_by_types(name: str, arguments: tuple[Type, ...]) -> str:
    match = _first_fitting(name, arguments)
    if match is None:
        types = ", ".join(map(str, arguments))
        raise InternalError(f"no signature of {name} takes ({types})")
    return match[0].key(name)


def resolve(name: str, arguments: tuple[Type, ...]) -> tuple[tuple[Type, ...], Type] | None:
    """The parameter types and the result type of the first signature that fits."""
    match = _first_fitting(name, arguments)
    if match is None:
        return None
    signature, bindings = match
    parameters = tuple(
        _instantiate(shape, bindings, actual)
        for shape, actual in zip(signature.parameters, arguments, strict=True)
    )
    return parameters, _result(name, signature, bindings, arguments)


def _first_fitting(name: str, arguments: tuple[Type, ...]) -> tuple[Signature, Bindings] | None:
    """The first signature that the arguments widen to, with the bindings of its type variables."""
    for signature in _ALL[name]:
        if len(signature.parameters) != len(arguments):
            continue
        bindings: Bindings = {}
        if all(map(lambda s, a: _fits(s, a, bindings), signature.parameters, arguments)):
            return signature, bindings
    return None


def _result(
    name: str, signature: Signature, bindings: Bindings, arguments: tuple[Type, ...]
) -> Type:
    if name == "flatten":  # a list of lists keeps its order
        outer = arguments[0]
        inner = outer.element if isinstance(outer, Collection) else NOTHING
        kinds = {t.kind for t in (outer, inner) if isinstance(t, Collection)}
        return Collection("list" if kinds == {"list"} else "bag", bindings.get("T", NOTHING))
    return _instantiate(signature.result, bindings, NOTHING)


def _fits(shape: Shape, actual: Type, bindings: Bindings) -> bool:
    """Whether `actual` matches `shape`; binds the type variables."""
    match shape:
        case TypeParameter("decimal"):
            bindings["decimal"] = actual
            return isinstance(actual, Decimal)
        case TypeParameter(name):
            if isinstance(actual, Function):
                return False
            joined = join(bindings.get(name, NOTHING), actual)
            if joined is not None:
                bindings[name] = joined
            return joined is not None
        case Some(element):
            if actual == NOTHING:
                return _fits(element, NOTHING, bindings)
            return isinstance(actual, Collection) and _fits(element, actual.element, bindings)
        case Open():
            return False
        case _:
            return widens(actual, shape)


def _instantiate(shape: Shape, bindings: Bindings, actual: Type) -> Type:
    """`shape` with its type variables replaced; a collection stays a bag or a list."""
    match shape:
        case TypeParameter(name):
            return bindings[name]
        case Some(element):
            inner = actual.element if isinstance(actual, Collection) else NOTHING
            kind = actual.kind if isinstance(actual, Collection) else "bag"
            return Collection(kind, _instantiate(element, bindings, inner))
        case Open(build, parts):
            return build(*(_instantiate(part, bindings, NOTHING) for part in parts))
        case _:
            return shape


def aggregate_type(name: str, element: Type) -> tuple[Type, Type] | None:
    """The element type that an aggregate works on and the type of its result."""
    match name:
        case "count":
            return element, LONG
        case "collect":
            return element, bag(element)
        case "first":
            return element, element
        case "min" | "max":
            return element, element
        case "some" | "all":
            return (BOOL, BOOL) if widens(element, BOOL) else None
        case "sum":
            return _sum_type(element)
        case "avg" if isinstance(element, Decimal):
            return element, Decimal(min(38, element.precision + 4), min(element.scale + 4, 38))
        case _:
            numeric = widens(element, DOUBLE)
            exact = is_integer(element) or isinstance(element, Decimal)
            return (element if exact else DOUBLE, DOUBLE) if numeric else None


def _sum_type(element: Type) -> tuple[Type, Type] | None:
    if is_integer(element) or element == NOTHING:
        return LONG, LONG
    if is_float(element):
        return DOUBLE, DOUBLE
    if isinstance(element, Decimal):
        return element, Decimal(min(38, element.precision + 10), element.scale)
    return None
