"""Scalar functions on Arrow columns with exactly the reference's results, shared by all engines.

A call runs here if an engine has no form of it with the same bits.  By default the reference's
own function is called once for each distinct row of arguments, and whole expressions likewise;
`COLUMNS` has versions of common functions for whole columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any as Arrow
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.engine.columns.texts import cast_texts, common_form
from incmrql.errors import InternalError
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.io.by_row import note_by_row
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.builtins import function_of
from incmrql.reference.casts import cast
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.reference.operators import arithmetic, fit_to_type
from incmrql.types import typed
from incmrql.types.builtins import FUNCTIONS, TREE_FUNCTIONS, key_of
from incmrql.types.model import NOTHING, STRING, Decimal, Type, is_integer
from incmrql.types.spark_functions import SPARK_FUNCTIONS
from incmrql.types.walk import is_random, nodes
from incmrql.values import Value
from incmrql.values.elementary.functions import NAMES, elementary
from incmrql.values.exact import variance_of

_OPERATORS: Final = frozenset("+-*/%")
_WORD: Final = 1 << 64

Columns: TypeAlias = Callable[[Sequence[Arrow]], Arrow | None]
"""A function of whole columns; None if it does not support the values in these columns."""


def apply(
    function: str, arguments: Sequence[Arrow], parameter_types: Sequence[Type], result_type: Type
) -> Arrow:
    """A column of results of a scalar built-in, of an operator `+ - * / %`, or of exact sums."""
    columns = [_combined_chunks(array) for array in arguments]
    if function in OF_SUMS:
        return OF_SUMS[function](columns)
    if function in _OPERATORS:
        return _apply_operator(function, columns, parameter_types, result_type)
    if not is_pinned(function):
        raise InternalError(f"{function} is not a function of scalars")
    key = key_of(function, tuple(parameter_types))
    results = COLUMNS[key](columns) if key in COLUMNS else None
    if results is not None:
        return results
    return _by_row(_reference_function(key, result_type), columns, parameter_types, result_type)


def is_pinned(function: str) -> bool:
    """Whether a built-in, or an operator, can be called here by its name."""
    tables = (FUNCTIONS, TREE_FUNCTIONS, SPARK_FUNCTIONS)
    is_known = function in _OPERATORS or any(function in table for table in tables)
    return function != "random" and is_known


def has_columns(function: str | None, parameter_types: Sequence[Type], result: Type) -> bool:
    """Whether a function, or a conversion if it has no name, has a version for whole columns."""
    if function is None:
        return False
    if function in _OPERATORS:
        return all(isinstance(type_, Decimal) for type_ in (*parameter_types, result))
    return function in OF_SUMS or key_of(function, tuple(parameter_types)) in COLUMNS


def is_function_of_scalars(expr: typed.Expr) -> bool:
    """Whether the value of an expression depends on its free variables only."""
    outside = (
        typed.Global | typed.Stored | typed.ScriptArguments | typed.Read | typed.Call
        | typed.PythonCall | typed.UserAggregate | typed.Trace
    )  # fmt: skip
    return not is_random(expr) and not any(isinstance(node, outside) for node in nodes(expr))


def apply_expression(
    parameters: Sequence[typed.Variable], body: typed.Expr, arguments: Sequence[Arrow]
) -> Arrow:
    """A column of values of an expression: of whole columns if all of its parts have such versions.

    If not, the reference evaluates it for each distinct row of arguments.
    """
    known = dict(zip(parameters, map(_combined_chunks, arguments), strict=True))
    column = _expression_column(body, known) if known else None
    if column is not None:
        return column
    outermost = Environment(new_world(EMPTY_SCRIPT))
    numbers = [parameter.number for parameter in parameters]

    def value(*row: Value) -> Value:
        return evaluate(body, outermost.extend(dict(zip(numbers, row, strict=True))))

    columns = [_combined_chunks(array) for array in arguments]
    return _by_row(value, columns, [parameter.type for parameter in parameters], body.type)


def has_column(body: typed.Expr) -> bool:
    """Whether an expression has a version for whole columns; what they hold may still lack it."""
    match body:
        case typed.Var() | typed.Const():
            return True
        case typed.Widen(operand):
            return _is_widened_at_once(operand.type, body.type) and has_column(operand)
        case typed.Cast(operand, mode):
            is_of_text = mode != "total" and operand.type == STRING
            return is_of_text and common_form(body.type) is not None and has_column(operand)
        case typed.Arithmetic(op, left, right, "total"):
            both = left.type, right.type
            return has_columns(op, both, body.type) and has_column(left) and has_column(right)
        case typed.Builtin(name, operands):
            types = tuple(operand.type for operand in operands)
            return has_columns(name, types, body.type) and all(map(has_column, operands))
        case _:
            return False


def _expression_column(body: typed.Expr, known: Mapping[typed.Variable, Arrow]) -> Arrow | None:
    """An expression over whole columns; None if some part of it has no version for these."""
    if not has_column(body):
        return None
    match body:
        case typed.Var(variable):
            return known.get(variable)
        case typed.Const(value):
            count = len(next(iter(known.values())))
            scalar = pa.array([to_arrow(value, body.type)], stored_type(body.type))[0]
            return pa.repeat(scalar, count)
        case typed.Widen(operand):
            column = _expression_column(operand, known)
            return None if column is None else _widened(column, body.type)
        case typed.Cast(operand):
            column = _expression_column(operand, known)
            return None if column is None else _cast_of_texts(column, body)
        case typed.Arithmetic(op, left, right):
            columns = [_expression_column(part, known) for part in (left, right)]
            if any(column is None for column in columns):
                return None
            return _apply_operator(op, columns, (left.type, right.type), body.type)
        case typed.Builtin(name, operands):
            columns = [_expression_column(part, known) for part in operands]
            if any(column is None for column in columns):
                return None
            types = tuple(operand.type for operand in operands)
            return COLUMNS[key_of(name, types)](columns)
        case _:
            return None


def _is_widened_at_once(source: Type, target: Type) -> bool:
    return isinstance(target, Decimal) and (is_integer(source) or isinstance(source, Decimal))


def _widened(column: Arrow, target: Type) -> Arrow | None:
    """Integers or decimals as decimals with more digits."""
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    try:
        return column.cast(arrow_type(target))
    except pa.ArrowInvalid:
        return None


def _cast_of_texts(column: Arrow, cast_: typed.Cast) -> Arrow | None:
    """A column of texts as Spark casts it; the reference reads those of uncommon forms."""

    def by_row(texts: Arrow) -> Arrow:
        one = typed.Variable("text", 0, STRING)
        body = replace(cast_, operand=typed.Var(one, type=STRING))
        env = Environment(new_world(EMPTY_SCRIPT))

        def value(text: Value) -> Value:
            return evaluate(body, env.extend({0: text}))

        return _by_row(value, [texts], [STRING], cast_.type)

    return cast_texts(column, cast_.type, by_row)


def apply_cast(array: Arrow, source: Type, target: Type) -> Arrow:
    """A column cast to a different type, null where the cast fails."""
    return _by_row(lambda value: cast(value, target), [_combined_chunks(array)], [source], target)


def _apply_operator(op: str, columns: list[Arrow], types: Sequence[Type], result: Type) -> Arrow:
    left, right = types
    if isinstance(left, Decimal) and isinstance(right, Decimal) and isinstance(result, Decimal):
        return _decimals(op, columns, (left.scale, right.scale), result)
    return _by_row(_unless_null(partial(arithmetic, op, result)), columns, types, result)


# --- by the reference, row by row -----------------------------------------------------------


def _reference_function(key: str, type_: Type) -> Callable[..., Value]:
    """The reference's function for one row."""
    function, is_null_aware = function_of(key)
    if is_null_aware:
        return function

    def call(*arguments: Value) -> Value:
        result = function(*arguments)
        return None if result is None else fit_to_type(result, type_)

    return _unless_null(call)


def _unless_null(function: Callable[..., Value]) -> Callable[..., Value]:
    def call(*arguments: Value) -> Value:
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return call


def _by_row(
    function: Callable[..., Value],
    arguments: Sequence[Arrow],
    types: Sequence[Type],
    result_type: Type,
) -> Arrow:
    """The function, called for each distinct row of arguments."""
    codes, values = zip(*map(_distinct, arguments, types), strict=True)
    rows, row_of = _distinct_rows(codes, [len(distinct) for distinct in values])
    note_by_row(len(rows))
    results = [
        to_arrow(
            function(*[distinct[code] for distinct, code in zip(values, row, strict=True)]),
            result_type,
        )
        for row in rows
    ]
    return pa.array(results, stored_type(result_type)).take(pa.array(row_of))


def stored_type(type_: Type) -> Arrow:
    """The Arrow type of a column; a column of nulls only has the type that SQL gives it."""
    return pa.bool_() if type_ == NOTHING else arrow_type(type_)


def _combined_chunks(array: Arrow) -> Arrow:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _distinct(column: Arrow, type_: Type) -> tuple[Arrow, list[Value]]:
    """A code for each row, and the value of each code."""
    read = value_reader(column.type, type_)
    plain = column.cast(plain_type(column.type))
    if pa.types.is_nested(plain.type):  # Arrow cannot dictionary-encode nested types
        return np.arange(len(plain)), [read(value) for value in plain.to_pylist()]
    coded = plain.dictionary_encode(null_encoding="encode")
    values = [read(value) for value in coded.dictionary.to_pylist()]
    return coded.indices.to_numpy(zero_copy_only=False), values


def _distinct_rows(codes: Sequence[Arrow], sizes: Sequence[int]) -> tuple[Arrow, Arrow]:
    """The distinct combinations of codes, and the index of each row's combination."""
    keys = np.zeros(len(codes[0]), np.int64)
    for code, size in zip(codes, sizes, strict=True):
        _, keys = np.unique(keys * max(size, 1) + code, return_inverse=True)
    _, first, row_of = np.unique(keys, return_index=True, return_inverse=True)
    rows = np.stack([np.asarray(code)[first] for code in codes], axis=1)
    return rows.tolist(), row_of


# --- of whole columns -----------------------------------------------------------------------


def _elementary(name: str, arguments: Sequence[Arrow]) -> Arrow:
    """exp, sin, ... of columns of doubles."""
    valid = arguments[0].is_valid()
    for column in arguments[1:]:
        valid = pc.and_(valid, column.is_valid())
    numbers = [c.fill_null(0.0).to_numpy(zero_copy_only=False) for c in arguments]
    return pa.array(elementary(name, *numbers), mask=~valid.to_numpy(zero_copy_only=False))


def _ascii_case(function: Callable[[Arrow], Arrow], arguments: Sequence[Arrow]) -> Arrow | None:
    """Lower or upper case, if all letters are ASCII."""
    is_ascii = pc.all(pc.string_is_ascii(arguments[0])).as_py()
    return None if is_ascii is False else function(arguments[0])


def _trim(arguments: Sequence[Arrow]) -> Arrow | None:
    """Texts without any of the characters of a constant text at both ends."""
    text, characters = arguments[0], _constant(arguments[1])
    return None if not characters else pc.utf8_trim(text, characters=characters)


def _matches(arguments: Sequence[Arrow]) -> Arrow | None:
    """Whether texts match a constant pattern, if RE2 supports the pattern."""
    text, patterns = arguments
    pattern = _constant(patterns)
    if pattern is None:
        return None
    try:
        pc.match_substring_regex(text.slice(0, 1), pattern=pattern)  # `a)(b` is refused
        return pc.match_substring_regex(text, pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return None


def _constant(column: Arrow) -> str | None:
    """The text that all rows share; None if they differ."""
    if not len(column) or column.null_count:
        return None
    bounds = pc.min_max(column.cast(pa.binary()))
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least.decode() if least == most else None


# --- arithmetic of decimals ------------------------------------------------------------------


def _decimals(
    op: str, arguments: Sequence[Arrow], scales: tuple[int, int], result: Decimal
) -> Arrow:
    """`a op b` of two columns of decimals, null where there is no result.

    The result is exact, by Python's integers, and rounded once.
    """
    valid = np.logical_and(
        *(array.is_valid().to_numpy(zero_copy_only=False) for array in arguments)
    )
    a, b = (_unscaled_integers(array) for array in arguments)
    if op in "/%":
        valid &= b != 0
        b = np.where(valid, b, 1)
    numerator, denominator = _exact(op, (a, scales[0]), (b, scales[1]), result.scale)
    rounded = _half_up(numerator, denominator)
    valid &= np.abs(rounded) < 10**result.precision
    return _column_of(np.where(valid, rounded, 0), valid, result)


def _exact(
    op: str, left: tuple[Arrow, int], right: tuple[Arrow, int], scale: int
) -> tuple[Arrow, Arrow]:
    """The result times 10**scale, as a fraction of integers."""
    (a, s1), (b, s2) = left, right
    if op == "*":
        return a * b * 10**scale, 10 ** (s1 + s2)
    if op == "/":
        return a * 10 ** (s2 + scale) * np.sign(b), np.abs(b) * 10**s1
    common = max(s1, s2)
    a, b = a * 10 ** (common - s1), b * 10 ** (common - s2)
    match op:
        case "+":
            exact = a + b
        case "-":
            exact = a - b
        case _:
            exact = np.sign(a) * (np.abs(a) % np.abs(b))
    return exact * 10**scale, 10**common


def _half_up(numerator: Arrow, denominator: Arrow) -> Arrow:
    """The nearest integers, halves away from zero."""
    return np.sign(numerator) * ((2 * np.abs(numerator) + denominator) // (2 * denominator))


def _unscaled_integers(array: Arrow) -> Arrow:
    """The unscaled integers of a column of decimals; 0 for null."""
    filled = array.fill_null(0)
    words = np.frombuffer(filled.buffers()[1], np.uint64).reshape(-1, 2)
    pairs = words[filled.offset : filled.offset + len(filled)]
    high = pairs[:, 1].view(np.int64).astype(object)
    return high * _WORD + pairs[:, 0].astype(object)


def _column_of(numbers: Arrow, valid: Arrow, type_: Decimal) -> Arrow:
    words = np.empty((len(numbers), 2), np.uint64)
    words[:, 0] = (numbers % _WORD).astype(np.uint64)
    words[:, 1] = (numbers // _WORD).astype(np.int64).view(np.uint64)
    validity = pa.array(valid).buffers()[1]
    kind = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(words.tobytes())])


# --- variance and stddev from exact sums --------------------------------------------------


def _variances(columns: Sequence[Arrow]) -> Arrow:
    """A column of variances, rounded once, from exact sums in limbs of 32 bits.

    The columns: the number of values; the sum of those that are not finite, 0.0 without any; the
    limbs of the sum of the others; the limbs of the sum of their squares; the exponent of two of
    the lowest limb of the sum.  For squares this exponent is twice as low.
    """
    rows = zip(*[column.to_pylist() for column in columns], strict=True)
    return pa.array([_variance(*row) for row in rows], pa.float64())


def _variance(
    count: int | None, special: float, limbs: list[int], squares: list[int], lowest: int
) -> float | None:
    if count is None or count < 2:
        return None
    if special != 0.0:
        return math.nan
    total, square = (sum(part << 32 * n for n, part in enumerate(p)) for p in (limbs, squares))
    return variance_of(total, square, count, Fraction(2) ** lowest)


# --- the tables -----------------------------------------------------------------------------

COLUMNS: Final[Mapping[str, Columns]] = {
    **{f"{name}(double)": partial(_elementary, name) for name in NAMES if name != "pow"},
    "pow(double, double)": partial(_elementary, "pow"),
    "matches(string, string)": _matches,
    "toLowerCase(string)": partial(_ascii_case, pc.ascii_lower),
    "toUpperCase(string)": partial(_ascii_case, pc.ascii_upper),
    "spark.lower(string)": partial(_ascii_case, pc.ascii_lower),
    "spark.upper(string)": partial(_ascii_case, pc.ascii_upper),
    "spark.trim(string, string)": _trim,
}
"""Built-ins on whole columns without chunks, by the keys of `types.builtins`."""

OF_SUMS: Final[Mapping[str, Callable[[Sequence[Arrow]], Arrow]]] = {
    "variance#sums": _variances,
    "stddev#sums": lambda columns: pc.sqrt(_variances(columns)),
}
"""Functions that only lowered queries call (`lower.sums.aggregates`)."""
