"""One operation, told several times: as the reference means it, as SQL, as the pinned kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from incmrql.engine.columns import pinned
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.lower import builtins, conversions, operators
from incmrql.lower.tree import Dialect, column, print_tree
from incmrql.reference.casts import cast as reference_cast
from incmrql.reference.casts import widen as reference_widen
from incmrql.types import typed
from incmrql.types.builtins import FUNCTIONS, resolve
from incmrql.types.lattice import castable, join, widens
from incmrql.types.model import (
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
)
from incmrql.values import Value, identical, show
from incmrql.values.numbers import decimal_result
from tests.lower.edges import (
    DECIMALS,
    MOST_ROWS,
    NUMERIC_TEXTS,
    PATTERNS,
    REPLACEMENTS,
    TEXTS,
    TIME_TEXTS,
    UNITS,
    WORDS,
    combinations,
    edges,
)
from tests.reference.running import const, of

Trees: TypeAlias = Sequence[exp.Expression]
BASIC = (BOOL, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP)
SCALARS: tuple[Type, ...] = (*BASIC, *DECIMALS)


@dataclass(frozen=True, eq=False)
class Case:
    """An operation on arguments of certain types."""

    name: str
    parameters: tuple[Type, ...]
    result: Type
    meaning: Callable[..., Value]
    lower: Callable[[Trees, Dialect], exp.Expression | None]
    pin: Callable[[list[Any]], Any] | None = None
    arguments: tuple[tuple[Value, ...], ...] | None = None
    most: int = MOST_ROWS

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))}): {self.result}"

    def rows(self) -> list[tuple[Value, ...]]:
        """The arguments that it is tried with."""
        chosen = self.arguments or [edges(type_) for type_ in self.parameters]
        return combinations([list(values) for values in chosen], self.most)


# --- the cases ---------------------------------------------------------------------------


def arithmetic_cases() -> Iterator[Case]:
    for type_, op in product((INT, LONG, DOUBLE), "+-*/%"):
        yield _arithmetic(op, type_, (type_, type_))
    yield _arithmetic("+", STRING, (STRING, STRING))
    for (a, b), op in product(product(DECIMALS, DECIMALS), "+-*/%"):
        digits = decimal_result(op, (a.precision, a.scale), (b.precision, b.scale))
        yield _arithmetic(op, Decimal(*digits), (a, b))
    numeric: tuple[Type, ...] = (INT, LONG, DOUBLE, *DECIMALS)
    yield from map(_negate, numeric)


def _negate(type_: Type) -> Case:
    def meaning(x: Value) -> Value:
        return of(typed.Negate(const(x, type_), type=type_))

    def lower(trees: Trees, dialect: Dialect) -> exp.Expression | None:
        return operators.negate(type_, trees[0], dialect)

    return Case("-", (type_,), type_, meaning, lower)


def _arithmetic(op: Any, type_: Type, types: tuple[Type, Type]) -> Case:
    def meaning(a: Value, b: Value) -> Value:
        return of(typed.Arithmetic(op, const(a, types[0]), const(b, types[1]), type=type_))

    def lower(trees: Trees, dialect: Dialect) -> exp.Expression | None:
        return operators.arithmetic(op, type_, trees[0], trees[1], dialect, types)

    pin = partial(pinned.apply, op, parameter_types=types, result_type=type_)
    most = 250 if isinstance(type_, Decimal) else MOST_ROWS
    return Case(op, types, type_, meaning, lower, pin, most=most)


def comparison_cases() -> Iterator[Case]:
    for type_, op in product(SCALARS, ("=", "<>", "<", "<=", ">", ">=")):
        yield _comparison(op, type_)
    yield _logic("and", operators.conjunction)
    yield _logic("or", operators.disjunction)
    yield Case(
        "not",
        (BOOL,),
        BOOL,
        lambda a: of(typed.Not(const(a, BOOL), type=BOOL)),
        lambda trees, _: operators.negation(trees[0]),
    )


def _logic(op: Any, combine: Callable[..., exp.Expression]) -> Case:
    def meaning(a: Value, b: Value) -> Value:
        return of(typed.Logic(op, const(a, BOOL), const(b, BOOL), type=BOOL))

    def lower(trees: Trees, _: Dialect) -> exp.Expression:
        return combine(trees[0], trees[1])

    return Case(op, (BOOL, BOOL), BOOL, meaning, lower)


def _comparison(op: Any, type_: Type) -> Case:
    def meaning(a: Value, b: Value) -> Value:
        return of(typed.Compare(op, const(a, type_), const(b, type_), type=BOOL))

    def lower(trees: Trees, _: Dialect) -> exp.Expression:
        return operators.compare(op, trees[0], trees[1])

    return Case(op, (type_, type_), BOOL, meaning, lower, most=400)


def conversion_cases() -> Iterator[Case]:
    for source, target in product(SCALARS, SCALARS):
        if source != target and (widens(source, target) or join(source, target) == target):
            yield _widening_case(source, target)
        if castable(source, target):
            yield _cast(source, target)
    yield from (_cast(NOTHING, target) for target in SCALARS)


def _widening_case(source: Type, target: Type) -> Case:
    def lower(trees: Trees, dialect: Dialect) -> exp.Expression | None:
        return conversions.widen(trees[0], source, target, dialect)

    meaning = partial(reference_widen, target=target)
    return Case(f"widen to {target}", (source,), target, meaning, lower)


def _cast(source: Type, target: Type) -> Case:
    def lower(trees: Trees, dialect: Dialect) -> exp.Expression | None:
        return conversions.cast(trees[0], source, target, dialect)

    def pin(columns: list[Any]) -> Any:
        return pinned.apply_cast(columns[0], source, target)

    arguments = (tuple(TEXTS + NUMERIC_TEXTS + WORDS + TIME_TEXTS),) if source == STRING else None
    meaning = partial(reference_cast, target=target)
    return Case(f"as {target}", (source,), target, meaning, lower, pin, arguments)


def builtin_cases() -> Iterator[Case]:
    for name, signatures in FUNCTIONS.items():
        if name in COLLECTIONS or name == "random":
            continue
        for types in dict.fromkeys(t for s in signatures for t in _types(name, s.parameters)):
            overload = resolve(name, types)
            if overload is not None and overload[0] == types:
                yield _builtin(name, types, overload[1])


COLLECTIONS = ("member", "elem", "distinct", "sort", "reverse", "flatten", "zip", "index", "range")


def _types(name: str, parameters: Sequence[Any]) -> Iterator[tuple[Type, ...]]:
    if str(parameters[0]) == "T":
        yield from ((type_,) * len(parameters) for type_ in SCALARS)
    elif str(parameters[0]) == "decimal":
        yield from ((type_, *parameters[1:]) for type_ in DECIMALS)
    elif name != "concat" or len(parameters) in (2, 3, 8):
        yield tuple(parameters)


def _builtin(name: str, types: tuple[Type, ...], result: Type) -> Case:
    def meaning(*arguments: Value) -> Value:
        nodes = tuple(map(const, arguments, types))
        return of(typed.Builtin(name, nodes, type=result))

    def lower(trees: Trees, dialect: Dialect) -> exp.Expression | None:
        return builtins.builtin(name, list(trees), types, result, dialect)

    pin = partial(pinned.apply, name, parameter_types=types, result_type=result)
    return Case(name, types, result, meaning, lower, pin, _arguments(name, types))


def _arguments(name: str, types: tuple[Type, ...]) -> tuple[tuple[Value, ...], ...] | None:
    digits = tuple(range(-6, 12)), (None, -400, -40, -38, -20, 17, 18, 20, 38, 40, 400, 2**63 - 1)
    special: dict[str, tuple[Sequence[Value], ...]] = {
        "matches": (TEXTS, PATTERNS),
        "split": (TEXTS, PATTERNS),
        "replaceAll": (TEXTS, PATTERNS, REPLACEMENTS),
        "replaceFirst": (TEXTS, PATTERNS, REPLACEMENTS),
        "date": (TEXTS + TIME_TEXTS,) if types == (STRING,) else (),
        "timestamp": (TEXTS + TIME_TEXTS,) if types == (STRING,) else (),
        "date_trunc": (UNITS, edges(types[-1])),
        "round": (edges(types[0]), (*digits[0], *digits[1])) if len(types) > 1 else (),
        "substring": (TEXTS, *[(None, -1, 0, 1, 2, 3, 80, 81, 2**31, 2**63 - 1)] * 2),
    }
    if types == (INT, INT, INT):
        return ((None, 0, 1, 4, 1900, 2000, 2023, 2024, 9999, 10_000, -5, 2**31 - 1),
                (None, -1, 0, 1, 2, 4, 12, 13, 2**31 - 1),
                (None, 0, 1, 28, 29, 30, 31, 32, 131))  # fmt: skip
    rows = special.get(name, ())
    return tuple(map(tuple, rows[: len(types)])) if rows else None


# --- how an engine is asked ---------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """Several cases side by side in one table of arguments, and what the reference says."""

    cases: tuple[Case, ...]

    def names(self, case: Case) -> list[str]:
        """The columns of the arguments of a case; cases with the same arguments share them."""
        first = next(i for i, other in enumerate(self.cases) if _alike(case, other))
        return [f"a{first}_{i}" for i in range(len(case.parameters))]

    def table(self) -> Any:
        """The arguments as an Arrow table, and the number of each row as `row0`."""
        length = max(len(case.rows()) for case in self.cases)
        columns = {"row0": pa.array(range(length), pa.int64())}
        for case in self.cases:
            rows = case.rows()
            for i, (name, type_) in enumerate(zip(self.names(case), case.parameters, strict=True)):
                values = [to_arrow(row[i], type_) for row in rows] + [None] * (length - len(rows))
                columns[name] = pa.array(values, stored_type(type_))
        return pa.table(columns)

    def query(self, dialect: Dialect) -> tuple[str, list[Case]]:
        """The columns that compute those cases which the dialect can, and which these are."""
        lowered = [
            (case, case.lower([column(name) for name in self.names(case)], dialect))
            for case in self.cases
        ]
        able = [(case, tree) for case, tree in lowered if tree is not None]
        texts = [f"{print_tree(tree, dialect)} AS r{i}" for i, (_, tree) in enumerate(able)]
        return f"SELECT {', '.join(['row0', *texts])} FROM arguments", [case for case, _ in able]


def _alike(case: Case, other: Case) -> bool:
    return _key(case) == _key(other)


def _key(case: Case) -> tuple[Any, ...]:
    return case.parameters, repr(case.arguments), case.most


def questions(cases: Iterable[Case], most: int) -> list[Question]:
    """The cases in questions, each with a limited number of different argument tables."""
    groups_by_types: dict[Any, list[Case]] = {}
    for case in cases:
        groups_by_types.setdefault(_key(case), []).append(case)
    groups = list(groups_by_types.values())
    return [
        Question(tuple(case for group in groups[i : i + most] for case in group))
        for i in range(0, len(groups), most)
    ]


def stored_type(type_: Type) -> Any:
    return pa.bool_() if type_ == NOTHING else arrow_type(type_)


@cache
def reference_values(case: Case) -> list[Value]:
    """The results of the reference."""
    return [case.meaning(*row) for row in case.rows()]


def differences(case: Case, column: Any) -> list[str]:
    """Where a column of results is not what the reference says; its first rows count."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    read = value_reader(array.type, case.result)
    values = [read(plain) for plain in array.cast(plain_type(array.type)).to_pylist()]
    problems = [
        f"{case} of {show(row)} is {show(value)} and should be {show(wanted)}"
        for row, value, wanted in zip(case.rows(), values, reference_values(case), strict=False)
        if not identical(value, wanted)
    ]
    if pa.types.is_floating(array.type):
        numbers = array.drop_null().to_numpy(zero_copy_only=False)
        if (np.signbit(numbers) & (numbers == 0)).any():
            problems.append(f"{case} gives -0.0")
    if array.type != stored_type(case.result):
        problems.append(f"{case} gives {array.type}")
    return problems[:3]
