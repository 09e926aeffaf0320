"""Accumulators as columns of integers: one group each, merged by adding column by column.

An accumulator is spread over named parts: `a3.n` counts values, `a3.l17` is a limb of an exact sum,
`a3.inf`, `a3.ninf` and `a3.nan` count the doubles that are not finite.  A part that is zero for
every key is not there.  `tidy` gives the one form of each accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from incmrql.values.exact import sums
from incmrql.values.exact.sums import Integers, Limbs

Parts: TypeAlias = dict[str, Integers]
"""The columns of accumulators by name: `a0.n`, `a1.l33`, ..."""


def tidy(parts: Mapping[str, Integers]) -> Parts:
    """Every sum in its one form, and no part that is all zero."""
    limbs, others = split_limbs(parts)
    done = {name: column for name, column in others.items() if column.any()}
    for owner, digits in limbs.items():
        done |= named(sums.carried(digits), f"{owner}.")
    return dict(sorted(done.items()))


def split_limbs(parts: Mapping[str, Integers]) -> tuple[dict[str, Limbs], Parts]:
    """The limbs of each accumulator, by what its parts begin with, and the parts that are none."""
    limbs: dict[str, Limbs] = {}
    others: Parts = {}
    for name, column in parts.items():
        owner, _, part = name.partition(".")
        if part.startswith("l"):
            limbs.setdefault(owner, {})[int(part[1:])] = column
        else:
            others[name] = column
    return limbs, others


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


def named(limbs: Limbs, owner: str = "") -> Parts:
    """The limbs of a sum as parts, whose names begin with that of their owner."""
    return {f"{owner}l{place}": column for place, column in limbs.items()}
