"""`sum` and `avg`, from sums of what is made of each element: native columns or folds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from incmrql.sql import sums, tree
from incmrql.sql.context import Context
from incmrql.sql.rounding import Derive, integer_mean, mean_of, narrow_mean, rounded
from incmrql.sql.shapes import Cell, Parts, Shape
from incmrql.types.model import (
    BYTE,
    DOUBLE,
    EXACT_SUM,
    INT,
    LONG,
    NOTHING,
    SHORT,
    Decimal,
    Type,
    is_float,
    is_integer,
)


def or_else(value: exp.Expression, default: exp.Expression) -> exp.Expression:
    """The value, or the default where it is null."""
    return tree.call("coalesce", value, default)


@dataclass(frozen=True, slots=True)
class Summing:
    """How elements are summed: `total` of what is made of each, and the `number` of them."""

    total: sums.Total
    number: exp.Expression
    element: Type
    narrow: bool
    """Whether the elements are integers of 32 bits or less, maybe in a wider type."""
    derive: Derive | None = None
    """How columns are made of the sums, where they are columns."""

    def result(self, name: str, type_: Type, ctx: Context) -> Shape | None:
        """`sum`, `avg` or `sum#part` in its type; None where there is no native form."""
        if is_float(self.element):
            return self._of_doubles(name, type_, ctx)
        if is_integer(self.element) or self.element == NOTHING:
            return self._of_integers(name, type_, ctx)
        if isinstance(self.element, Decimal) and self.element.precision <= 28 and name == "sum":
            kind = tree.type_text(type_, ctx.dialect)
            found = tree.cast(self.total(lambda x: x, tree.null()), kind, attempt=True)
            return Cell(or_else(found, tree.cast(tree.number(0), kind)), type_)
        return None

    def _of_doubles(self, name: str, type_: Type, ctx: Context) -> Shape:
        if ctx.fast_sums:
            found = self.total(lambda x: x, sums.double(0.0))
            if name == "sum#part":
                return Parts((Cell(or_else(found, sums.double(0.0)), DOUBLE, True),), EXACT_SUM)
        else:
            parts = sums.parts(self.total, ctx.window, ctx)
            if name == "sum#part":
                return Parts(tuple(Cell(each, LONG, True) for each in parts.all), EXACT_SUM)
            found = rounded(parts, ctx.window, self.derive)
        found = or_else(found, sums.double(0.0))
        if name == "sum":
            return Cell(found, type_, present=True)
        return Cell(mean_of(found, self.number), type_)

    def _as_long(self, value: exp.Expression) -> exp.Expression:
        return value if self.element == LONG else tree.cast(value, "BIGINT")

    def _of_integers(self, name: str, type_: Type, ctx: Context) -> Shape:
        if self.narrow or self.element in (BYTE, SHORT, INT):
            whole = self.total(self._as_long, sums.long(0))
            long = or_else(whole, sums.long(0))
            exact = tree.cast(long, "DECIMAL(38, 0)")
        else:
            high, low = sums.integer_halves(self.total)
            none = [(tree.is_null(high), sums.long(0))]
            long = tree.case(none, sums.as_long(high, low))
            zero = tree.cast(tree.number(0), "DECIMAL(38, 0)")
            exact = whole = or_else(sums.as_decimal(high, low), zero)
        match name:
            case "avg" if whole is not exact:
                return Cell(narrow_mean(whole, self.number, ctx), type_)
            case "avg":
                return Cell(integer_mean(whole, self.number), type_)
            case "sum#part" if whole is not exact:  # a long holds the sum of 2^31 of them
                return Cell(long, LONG, present=True)
            case "sum#part":
                return Cell(exact, type_, present=True)
            case _:
                return Cell(long, type_)
