"""How far answers of a loop are from each other, and what a batch says of that."""

from __future__ import annotations

from typing import Any
from typing import Any as Arrow

import numpy as np
import pyarrow as pa

from incmrql.runtime import BatchReport


def stated_error(report: BatchReport) -> dict[str, Any]:
    """The error bound that a batch states for its first loop; empty if loops are exact."""
    errors = [loop.error for loop in report.loops if loop.error is not None]
    return {name: errors[0][name] for name in ("kind", "figure")} if errors else {}


def norm(rows: pa.Table) -> float:
    """The sum of the sizes of all doubles."""
    return float(sum(np.abs(_column(rows, name)).sum() for name in _doubles(rows)))


def distance(one: pa.Table, other: pa.Table) -> float:
    """The sum of the sizes of all differences; a row that is not there is a 0.

    Rows are known by what is not a double; those of doubles only go with the nearest.
    """
    floats = _doubles(other)
    names = [name for name in other.column_names if name not in floats]
    if not names:
        return matched_distance(
            *(np.stack([_column(t, n) for n in floats], 1) for t in (one, other))
        )
    both = one.join(other, names, join_type="full outer", right_suffix=" too")
    pairs = [(_column(both, name), _column(both, f"{name} too")) for name in floats]
    return float(sum(np.abs(a - b).sum() for a, b in pairs))


def matched_distance(one: Arrow, other: Arrow) -> float:
    """The same distance for few points, matched greedily: the nearest pair first."""
    apart = np.abs(one[:, None, :] - other[None, :, :]).sum(axis=2)
    total = 0.0
    while apart.size:
        row, column = np.unravel_index(np.argmin(apart), apart.shape)
        total += float(apart[row, column])
        apart = np.delete(np.delete(apart, row, 0), column, 1)
        one, other = np.delete(one, row, 0), np.delete(other, column, 0)
    return total + float(np.abs(one).sum() + np.abs(other).sum())


def _doubles(rows: pa.Table) -> list[str]:
    return [field.name for field in rows.schema if pa.types.is_floating(field.type)]


def _column(rows: pa.Table, name: str) -> Arrow:
    return rows.column(name).fill_null(0.0).to_numpy()
