"""Expressions over columns: what can be computed for all rows at once, without SQL.

`vector(expr, scope)` is a function from a table to a column, or None where the expression has to
be evaluated row by row.  It covers what has one plain meaning in Arrow: columns, constants,
widening of numbers, comparisons, three-valued logic, tuples and records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.formats.arrow_types import arrow_type
from incmrql.formats.arrow_values import stored
from incmrql.kernel.columns import flat, parts_of
from incmrql.types import typed
from incmrql.types.model import DATE, DOUBLE, STRING, TIMESTAMP, Type, is_float, is_integer

Vector: TypeAlias = Callable[[Any], Any]
Scope: TypeAlias = Mapping[typed.Variable, str | tuple[str, ...]]
"""The column that holds each variable; a variable whose fields are spread has one for each."""

_COMPARE: Final = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def vector(expr: typed.Expr, scope: Scope) -> Vector | None:
    """How a column is made for an expression, if it can be."""
    match expr:
        case typed.Const(value):
            return _constant(value, expr.type)
        case typed.Var(variable) if variable in scope:
            held = scope[variable]
            return _column(held) if isinstance(held, str) else None
        case typed.Field(typed.Var(variable), name) if _is_spread(variable, scope):
            places = [field for field, _ in parts_of(variable.type)]
            return _column(scope[variable][places.index(name)])
        case typed.Item(typed.Var(variable), index) if _is_spread(variable, scope):
            return _column(scope[variable][index])
        case typed.Item(subject, index):
            return _applied(lambda column: pc.struct_field(column, [index]), [subject], scope)
        case typed.Widen(operand) if _widens_plainly(operand.type, expr.type):
            wanted = arrow_type(expr.type)
            return _applied(lambda column: column.cast(wanted, safe=False), [operand], scope)
        case typed.Compare("=", typed.Var(one), typed.Var(two)) if one == two and _is_spread(
            one, scope
        ):
            return _constant(True, expr.type)
        case typed.Compare(op, left, right) if _compares_plainly(left.type):
            prepared = _ordered_bits if is_float(left.type) else _same
            compare = _COMPARE[op]
            return _applied(lambda a, b: compare(prepared(a), prepared(b)), [left, right], scope)
        case typed.Logic(op, left, right):
            return _applied(pc.and_kleene if op == "and" else pc.or_kleene, [left, right], scope)
        case typed.Not(operand):
            return _applied(pc.invert, [operand], scope)
        case typed.If(condition, then, typed.Const(None)):
            return _applied(_unless, [condition, then], scope)
        case typed.MakeTuple(items) | typed.MakeRecord(items) if items:
            labels = [name for name, _ in parts_of(expr.type)]
            return _applied(lambda *columns: _struct(labels, columns), items, scope)
        case _:
            return None


def _applied(f: Callable[..., Any], operands: Sequence[typed.Expr], scope: Scope) -> Vector | None:
    inner = [vector(operand, scope) for operand in operands]
    made = [each for each in inner if each is not None]
    if len(made) < len(inner):
        return None
    return lambda table: f(*[each(table) for each in made])


def _column(name: str) -> Vector:
    return lambda table: flat(table.column(name))


def _constant(value: Any, type_: Type) -> Vector:
    scalar = pa.scalar(stored(value, type_), arrow_type(type_))
    return lambda table: pa.repeat(scalar, table.num_rows)


def _is_spread(variable: typed.Variable, scope: Scope) -> bool:
    return isinstance(scope.get(variable), tuple)


def _widens_plainly(source: Type, target: Type) -> bool:
    if is_integer(source):
        return is_integer(target) or target == DOUBLE
    return is_float(source) and target == DOUBLE


def _compares_plainly(type_: Type) -> bool:
    return is_integer(type_) or is_float(type_) or type_ in (STRING, DATE, TIMESTAMP)


def _same(column: Any) -> Any:
    return column


def _ordered_bits(column: Any) -> Any:
    """Doubles as integers in the canonical order, where NaN is the greatest and equals itself."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.float64("nan"), numbers)
    bits = np.ascontiguousarray(numbers).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits), mask=~valid)


def _unless(condition: Any, column: Any) -> Any:
    """The column where the condition is true, else null."""
    return pc.if_else(pc.fill_null(condition, False), column, pa.scalar(None, column.type))


def _struct(labels: list[str], columns: tuple[Any, ...]) -> Any:
    fields = [pa.field(name, c.type) for name, c in zip(labels, columns, strict=True)]
    return pa.StructArray.from_arrays(list(columns), fields=fields)
