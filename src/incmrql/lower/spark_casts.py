"""Spark's casts in its evaluation modes as SQL for DuckDB.

None instead of a tree means that there is no form that agrees with the reference
(`reference.spark.casts`), which then runs for every distinct value.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from incmrql.lower import conversions
from incmrql.lower.literals import double, integer, string
from incmrql.lower.tree import Dialect, binary, boolean, call, case, text, type_text
from incmrql.lower.tree import cast as sql_cast
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
    is_float,
    is_integer,
    is_numeric,
)
from incmrql.types.typed import Mode

_BLANKS: Final = "".join(map(chr, (*range(0x21), 0x7F)))
_COMPACT_DIGITS: Final = 18
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")


def cast_in_mode(
    operand: exp.Expression, source: Type, target: Type, mode: Mode, dialect: Dialect
) -> exp.Expression | None:
    """A scalar in another type, null where there is no result."""
    if source == target or NOTHING in (source, target):
        return conversions.cast(operand, source, target, dialect)
    if dialect is Dialect.SPARK:
        return None
    if target == STRING:
        return _to_text(operand, source, mode)
    if source == STRING:
        return None if mode == "legacy" else _from_text(operand, target)
    if {source, target} == {DATE, TIMESTAMP}:
        return sql_cast(operand, type_text(target, dialect))
    if TIMESTAMP in (source, target) or DATE in (source, target):
        return None
    return _number(operand, source, target, mode)


def _to_text(operand: exp.Expression, source: Type, mode: Mode) -> exp.Expression | None:
    if is_float(source) or (isinstance(source, Decimal) and mode == "legacy"):
        return None
    if source == TIMESTAMP:
        return sql_cast(sql_cast(operand, "TIMESTAMP"), "VARCHAR")
    return conversions.to_text(operand, source, Dialect.DUCKDB)


def _from_text(operand: exp.Expression, target: Type) -> exp.Expression | None:
    trimmed = call("trim", operand, string(_BLANKS, Dialect.DUCKDB))
    if target == BOOL:
        word = call("lower", trimmed)
        branches = [
            (exp.In(this=word.copy(), expressions=[text(w) for w in words]), boolean(value))
            for words, value in ((_TRUE, True), (_FALSE, False))
        ]
        return case(branches, None)
    if is_integer(target):
        number = sql_cast(trimmed, type_text(target, Dialect.DUCKDB), attempt=True)
        is_number = call("regexp_full_match", trimmed.copy(), text("[+-]?[0-9]+"))
        return case([(is_number, number)], None)
    return None


def _number(
    operand: exp.Expression, source: Type, target: Type, mode: Mode
) -> exp.Expression | None:
    """A number or truth value in another numeric type, or as a truth value."""
    dialect = Dialect.DUCKDB
    if is_integer(target) and mode == "legacy":
        return None
    if target == FLOAT and source not in (BOOL, DOUBLE):
        return sql_cast(operand, "FLOAT") if is_integer(source) else None
    if is_integer(target) and isinstance(source, Decimal):
        is_double_between = source.precision > _COMPACT_DIGITS and target != LONG
        return None if is_double_between else conversions.cast(operand, source, target, dialect)
    if target == LONG and is_float(source):
        exact = operand if source == DOUBLE else sql_cast(operand, "DOUBLE")
        whole = conversions.cast(exact.copy(), DOUBLE, LONG, dialect)
        assert whole is not None
        limit = binary(exp.EQ, exact.copy(), double(2.0**63, dialect))
        return case([(limit, integer(2**63 - 1, LONG, dialect))], whole)
    if is_numeric(source) or source == BOOL:
        return conversions.cast(operand, source, target, dialect)
    return None
