"""Scalar functions on Arrow columns with the bits of the reference, for every engine to share.

A call that an engine has no identical form for runs here instead.  By default the reference's
own function is called once for each distinct row of arguments; `pinned_columns` has versions of
the common ones for whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any as Arrow

import numpy as np
import pyarrow as pa

from incmrql.diagnostics import InternalError
from incmrql.formats.arrow_types import arrow_type
from incmrql.formats.arrow_values import plain_type, reader, stored
from incmrql.kernel.pinned_columns import COLUMNS
from incmrql.reference.builtins import OTHER, SCALAR
from incmrql.reference.casts import cast
from incmrql.reference.operators import arithmetic, fitted
from incmrql.types.model import NOTHING, Type
from incmrql.values import Value

_OPERATORS = frozenset("+-*/%")


def apply(
    function: str, arguments: Sequence[Arrow], parameter_types: Sequence[Type], result_type: Type
) -> Arrow:
    """A column of results of a scalar built-in, or of an operator `+ - * / %`."""
    columns = [_whole(array) for array in arguments]
    vectorised = COLUMNS.get(function)
    if vectorised is not None:
        found = vectorised(columns, parameter_types, result_type)
        if found is not None:
            return found
    return _by_row(_meaning(function, result_type), columns, parameter_types, result_type)


def is_pinned(function: str) -> bool:
    """Whether a scalar built-in, or an operator, can be called here by its name."""
    return function != "random" and (function in OTHER or function in SCALAR)


def apply_cast(array: Arrow, source: Type, target: Type) -> Arrow:
    """A column in another type, null where a value has no form there."""
    return _by_row(lambda value: cast(value, target), [_whole(array)], [source], target)


def _meaning(function: str, type_: Type) -> Callable[..., Value]:
    """What the reference calls for one row."""
    if function in OTHER:
        return OTHER[function]
    if function in _OPERATORS:
        return _unless_null(lambda a, b: arithmetic(function, type_, a, b))
    if function not in SCALAR:
        raise InternalError(f"{function} is not a function of scalars")
    known = SCALAR[function]

    def called(*arguments: Value) -> Value:
        result = known(*arguments)
        return None if result is None else fitted(result, type_)

    return _unless_null(called)


def _unless_null(function: Callable[..., Value]) -> Callable[..., Value]:
    def called(*arguments: Value) -> Value:
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return called


def _by_row(
    function: Callable[..., Value],
    arguments: Sequence[Arrow],
    types: Sequence[Type],
    result_type: Type,
) -> Arrow:
    """The function of each distinct row of arguments, put where the row occurs."""
    codes, values = zip(*map(_distinct, arguments, types), strict=True)
    rows, places = _distinct_rows(codes, [len(known) for known in values])
    results = [
        stored(
            function(*[known[code] for known, code in zip(values, row, strict=True)]), result_type
        )
        for row in rows
    ]
    return pa.array(results, stored_type(result_type)).take(pa.array(places))


def stored_type(type_: Type) -> Arrow:
    """The type of a column of values of a type; nulls alone are kept as SQL has them."""
    return pa.bool_() if type_ == NOTHING else arrow_type(type_)


def _whole(array: Arrow) -> Arrow:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _distinct(column: Arrow, type_: Type) -> tuple[Arrow, list[Value]]:
    """A number for each row, and the value that each number stands for."""
    read = reader(column.type, type_)
    plain = column.cast(plain_type(column.type))
    if pa.types.is_nested(plain.type):  # Arrow finds no distinct ones among these
        return np.arange(len(plain)), [read(value) for value in plain.to_pylist()]
    coded = plain.dictionary_encode(null_encoding="encode")
    known = [read(value) for value in coded.dictionary.to_pylist()]
    return coded.indices.to_numpy(zero_copy_only=False), known


def _distinct_rows(codes: Sequence[Arrow], sizes: Sequence[int]) -> tuple[Arrow, Arrow]:
    """The distinct combinations of codes, and for each row which one it is."""
    keys = np.zeros(len(codes[0]), np.int64)
    for code, size in zip(codes, sizes, strict=True):
        _, keys = np.unique(keys * max(size, 1) + code, return_inverse=True)
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    rows = np.stack([np.asarray(code)[first] for code in codes], axis=1)
    return rows.tolist(), places
