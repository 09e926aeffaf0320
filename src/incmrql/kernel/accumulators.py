"""Accumulators as columns of integers: one group each, merged by adding column by column.

An accumulator is spread over named parts: `n` counts values that are not null, `l17` is a limb
of an exact sum, `inf`, `ninf` and `nan` count the doubles that are not finite.  A part that is
zero for every key is not there.  `tidy` gives the one form of each accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal as DecimalValue
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.diagnostics import InternalError
from incmrql.formats.arrow_types import arrow_type
from incmrql.incremental import Aggregate, Fold
from incmrql.kernel import sums
from incmrql.kernel.sums import Integers, Limbs
from incmrql.types.model import Decimal, Type
from incmrql.values.encoding import EXACT
from incmrql.values.exact import nearest_double

Parts: TypeAlias = dict[str, Integers]
"""The columns of accumulators by name: `a0.n`, `a1.l33`, ..."""

_NOT_FINITE: Final = ("inf", "ninf", "nan")
_EXACT_DOUBLE: Final = 1 << 53


def lift(fold: Fold, columns: list[Any], weights: Integers, of: Integers, n: int) -> Parts:
    """What rows with weights add to the accumulators of their groups."""
    parts: Parts = {}
    for i, accumulator in enumerate(fold.accumulators):
        column = columns[accumulator.column]
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        kept = weights, of
        if not valid.all():
            column, kept = column.drop_null(), (weights[valid], of[valid])
        for name, part in _lifted(accumulator.kind, column, *kept, n).items():
            parts[f"a{i}.{name}"] = part
    return parts


def _lifted(kind: str, column: Any, weights: Integers, of: Integers, n: int) -> Parts:
    match kind:
        case "count":
            return _without_zeros({"n": _added(weights, of, n)})
        case "integers":
            numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return _named(sums.sum_integers(numbers, weights, of, n))
        case "decimals":
            return _named(sums.sum_decimals(column, weights, of, n))
        case "floats":
            return _lifted_floats(column, weights, of, n)
        case _:
            raise InternalError(f"no accumulator adds up {kind}")


def _lifted_floats(column: Any, weights: Integers, of: Integers, n: int) -> Parts:
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    if finite.all():
        return _named(sums.sum_doubles(numbers, weights, of, n))
    parts = _named(sums.sum_doubles(numbers[finite], weights[finite], of[finite], n))
    for name, which in (
        ("inf", numbers == np.inf),
        ("ninf", numbers == -np.inf),
        ("nan", np.isnan(numbers)),
    ):
        parts[name] = _added(weights[which], of[which], n)
    return _without_zeros(parts)


def tidy(parts: Mapping[str, Integers]) -> Parts:
    """Every sum in its one form, and no part that is all zero."""
    limbs: dict[str, Limbs] = {}
    done: Parts = {}
    for name, column in parts.items():
        owner, _, part = name.partition(".")
        if part.startswith("l"):
            limbs.setdefault(owner, {})[int(part[1:])] = column
        elif column.any():
            done[name] = column
    for owner, digits in limbs.items():
        for name, column in _named(sums.carried(digits)).items():
            done[f"{owner}.{name}"] = column
    return dict(sorted(done.items()))


def is_neutral(parts: Mapping[str, Integers], weights: Integers) -> npt.NDArray[np.bool_]:
    """Which rows add nothing: tidy parts all zero, and no multiplicity."""
    neutral: npt.NDArray[np.bool_] = weights == 0
    for column in parts.values():
        neutral &= column == 0
    return neutral


def add(one: Mapping[str, Integers], two: Mapping[str, Integers]) -> Parts:
    """The merge of accumulators, key by key."""
    total = dict(one)
    for name, column in two.items():
        total[name] = total[name] + column if name in total else column
    return tidy(total)


def pick(parts: Mapping[str, Integers], places: npt.NDArray[Any]) -> Parts:
    """The accumulators of some keys."""
    return {name: column[places] for name, column in parts.items()}


# --- from accumulators to aggregates ------------------------------------------------------


def finish(fold: Fold, parts: Mapping[str, Integers], n: int) -> list[Any]:
    """The aggregates of keys, a column each."""
    return [_finished(fold, aggregate, parts, n) for aggregate in fold.aggregates]


def _finished(fold: Fold, aggregate: Aggregate, parts: Mapping[str, Integers], n: int) -> Any:
    first = aggregate.accumulators[0]
    if aggregate.function == "count":
        return pa.array(_count(parts, first, n))
    kind = fold.accumulators[first].kind
    if aggregate.function == "sum":
        return _sum(kind, parts, first, n, aggregate.type)
    count = _count(parts, aggregate.accumulators[1], n)
    if kind == "floats":
        with np.errstate(divide="ignore", invalid="ignore"):
            means = _float_sums(parts, first, n) / count + 0.0
        return pa.array(means, mask=count == 0)
    limbs = _limbs(parts, first)
    if kind == "integers":
        return _integer_means(limbs, count, n)
    return _decimal_means(limbs, count, n, fold.accumulators[first].scale, aggregate.type)


def _sum(kind: str, parts: Mapping[str, Integers], place: int, n: int, type_: Type) -> Any:
    if kind == "floats":
        return pa.array(_float_sums(parts, place, n))
    limbs = _limbs(parts, place)
    if kind == "integers":
        return sums.as_longs(limbs, n)
    assert isinstance(type_, Decimal)
    totals = sums.as_integers(limbs, n)
    return pa.array([_unscaled(total, type_) for total in totals], arrow_type(type_))


def _float_sums(parts: Mapping[str, Integers], place: int, n: int) -> npt.NDArray[np.float64]:
    total = sums.rounded(_limbs(parts, place), n)
    infinite, minus, nan = (parts.get(f"a{place}.{name}") for name in _NOT_FINITE)
    zero = np.zeros(n, np.int64)
    up, down = (zero if part is None else part for part in (infinite, minus))
    total = np.where(up != 0, np.inf, np.where(down != 0, -np.inf, total))
    neither = (up != 0) & (down != 0)
    return np.where(neither if nan is None else neither | (nan != 0), np.nan, total)


def _integer_means(limbs: Limbs, count: Integers, n: int) -> Any:
    """Exact sums over counts, rounded once: one division where both are exact doubles."""
    totals = sums.as_longs(limbs, n)
    plain = totals.fill_null(_EXACT_DOUBLE).to_numpy(zero_copy_only=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = plain / count + 0.0
    wide = np.flatnonzero((np.abs(plain) >= _EXACT_DOUBLE) & (count != 0))
    exact = sums.as_integers(pick_limbs(limbs, wide), len(wide))
    for i, total in zip(wide.tolist(), exact, strict=True):
        means[i] = nearest_double(total, int(count[i]))
    return pa.array(means, mask=count == 0)


def _decimal_means(limbs: Limbs, count: Integers, n: int, scale: int, type_: Type) -> Any:
    """Exact sums over counts at the scale of the result, halves away from zero."""
    assert isinstance(type_, Decimal)
    means = [
        _half_up(total * 10**type_.scale, c * 10**scale, type_) if c else None
        for total, c in zip(sums.as_integers(limbs, n), count.tolist(), strict=True)
    ]
    return pa.array(means, arrow_type(type_))


def _half_up(numerator: int, denominator: int, type_: Decimal) -> DecimalValue | None:
    whole, rest = divmod(abs(numerator), denominator)
    size = whole + (2 * rest >= denominator)
    return _unscaled(-size if numerator < 0 else size, type_)


def _unscaled(total: int, type_: Decimal) -> DecimalValue | None:
    """`total` units of the type's scale; null where they have too many digits."""
    if abs(total) >= 10**type_.precision:
        return None
    return DecimalValue(total).scaleb(-type_.scale, EXACT)


def pick_limbs(limbs: Limbs, places: npt.NDArray[Any]) -> Limbs:
    """The limbs of some keys."""
    return {place: column[places] for place, column in limbs.items()}


# --- parts ---------------------------------------------------------------------------------


def _limbs(parts: Mapping[str, Integers], place: int) -> Limbs:
    """The limbs of the accumulator at a place."""
    start = f"a{place}.l"
    found = [name for name in parts if name.startswith(start)]
    return {int(name[len(start) :]): parts[name] for name in found}


def _count(parts: Mapping[str, Integers], place: int, n: int) -> Integers:
    found = parts.get(f"a{place}.n")
    return np.zeros(n, np.int64) if found is None else found


def _named(limbs: Limbs) -> Parts:
    return {f"l{place}": column for place, column in limbs.items()}


def _added(weights: Integers, of: Integers, n: int) -> Integers:
    totals = np.zeros(n, np.int64)
    np.add.at(totals, of, weights)
    return totals


def _without_zeros(parts: Parts) -> Parts:
    return {name: column for name, column in parts.items() if column.any()}
