"""The rows of a state table or of its delta: sorted, distinct, with weights and accumulators.

Rows are sorted by (hash of the key, key, order within the key).  A bag of rows with weights is the
same without accumulators.  Merging sums the weights and accumulators of equal rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import Parts, is_neutral, normalize_parts, pick
from incmrql.engine.columns.keys import (
    Indices,
    Keys,
    Mask,
    concat_keys,
    hash_keys,
    no_keys,
    same_keys,
)
from incmrql.engine.store.sorting import RowGroups, RowOrder, TableSchema, group, order_words
from incmrql.io.arrow.columns import WEIGHT, flat, names
from incmrql.values.exact.sums import Integers
from incmrql.values.hashing.columns import Hashes

HASH: Final = "_hash"
ORDER: Final = "_order"
BEFORE: Final = "_before"


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows with the hashes of their keys, multiplicities and accumulators."""

    schema: TableSchema
    hashes: Hashes
    keys: Keys
    rest: Keys
    order: Hashes | None
    """A word that sorts like the rest within a key, except for ties; None if there is no rest."""
    weights: Integers
    parts: Parts = field(default_factory=dict)
    before: Integers | None = None
    """The running sums of the weights, each row included; only in segments of ordered tables."""

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of the key, then those of the rest."""
        return self.keys.columns + self.rest.columns

    def take(self, places: npt.NDArray[Any]) -> SortedRows:
        """The rows at these indices, or where a mask is true."""
        index = np.flatnonzero(places) if places.dtype == np.bool_ else places
        return SortedRows(
            self.schema,
            self.hashes[index],
            self.keys.take(index),
            self.rest.take(index),
            None if self.order is None else self.order[index],
            self.weights[index],
            pick(self.parts, index),
        )

    def slice(self, start: int, stop: int) -> SortedRows:
        """The rows from `start` to `stop`; nothing is copied."""
        return SortedRows(
            self.schema,
            self.hashes[start:stop],
            self.keys.slice(start, stop),
            self.rest.slice(start, stop),
            None if self.order is None else self.order[start:stop],
            self.weights[start:stop],
            {name: column[start:stop] for name, column in self.parts.items()},
            None if self.before is None else self.before[start:stop],
        )

    def with_before(self) -> SortedRows:
        """The same rows with the running sums of their weights."""
        if self.before is not None:
            return self
        return replace(self, before=np.cumsum(self.weights))

    def with_weights(self, weights: Integers) -> SortedRows:
        """The same rows with different weights."""
        return replace(self, weights=weights, before=None)

    def grouped(self) -> RowGroups:
        """The groups of equal rows, where the rows consist of a few sorted parts."""
        return group(self.hashes, self.keys, self.within(), merged=True)

    def within(self) -> RowOrder | None:
        """The columns that order the rows within their keys; None if there are none."""
        return None if self.order is None else RowOrder(self.schema, self.order, self.rest)


def aggregate_rows(
    schema: TableSchema,
    columns: Sequence[Any],
    weights: Integers,
    lift_rows: Callable[[RowGroups], Parts] | None = None,
) -> SortedRows:
    """Rows with weights, in any order, as sorted rows; `lift_rows` gives accumulators of groups.

    `columns` are the columns of the key, then those of the rest.
    """
    width = len(schema.keys)
    keys = Keys(tuple(columns[:width]), schema.keys, None, len(weights)).with_bytes()
    rest = Keys(tuple(columns[width:]), schema.rest, None, len(weights))
    if not schema.ordered and schema.rest:
        rest = rest.with_bytes()
    whole = SortedRows(schema, hash_keys(keys), keys, rest, _order_of(schema, rest), weights)
    groups = group(whole.hashes, keys, whole.within())
    return _rows_of_groups(whole, groups, {} if lift_rows is None else lift_rows(groups))[0]


def _order_of(schema: TableSchema, rest: Keys) -> Hashes | None:
    if not schema.rest:
        return None
    return hash_keys(rest) if schema.descending is None else order_words(rest, schema.descending)


def consolidate(rows: SortedRows) -> SortedRows:
    """Rows in any order as sorted distinct rows, without rows that sum to zero."""
    return sum_groups(rows, rows.grouped())[0]


def sum_groups(rows: SortedRows, groups: RowGroups) -> tuple[SortedRows, Indices]:
    """The sums of groups, without groups that sum to zero; and the index of a row of each group."""
    parts = normalize_parts({name: groups.add_up(column) for name, column in rows.parts.items()})
    return _rows_of_groups(rows, groups, parts)


def _rows_of_groups(
    rows: SortedRows, groups: RowGroups, parts: Parts
) -> tuple[SortedRows, Indices]:
    """The groups as rows with these accumulators; and the index of a row of each group."""
    weights = groups.add_up(rows.weights)
    is_kept = ~is_neutral(parts, weights)
    if rows.schema.most is not None:
        weights = _limit_weights(rows.schema, weights, groups.key_starts)
        is_kept &= weights != 0
    places = groups.firsts
    if not is_kept.all():
        places, weights = places[is_kept], weights[is_kept]
        parts = pick(parts, np.flatnonzero(is_kept))
    if len(places) == len(rows) and (places[1:] > places[:-1]).all():
        return replace(rows, weights=weights, parts=parts, before=None), places
    bare = replace(rows, weights=rows.weights, parts={})
    return replace(bare.take(places), weights=weights, parts=parts), places


def _limit_weights(schema: TableSchema, weights: Integers, key_starts: Mask) -> Integers:
    """The weights, limited to the first or last rows of each key."""
    assert schema.most is not None
    until = running_weights(weights, key_starts, last=schema.last)
    limited: Integers = np.clip(schema.most - (until - weights), 0, weights)
    return limited


def running_weights(weights: Integers, key_starts: Mask, *, last: bool = False) -> Integers:
    """The running sums of weights within each key, from its first row or from its last."""
    if not len(weights):
        return weights
    sums: Integers = np.cumsum(weights)
    starts = np.flatnonzero(key_starts)
    of_key = np.cumsum(key_starts) - 1
    sides = np.append(starts[1:], len(weights)) - 1 if last else starts
    side = sums[sides] if last else (sums - weights)[sides]
    until: Integers = side[of_key] - sums + weights if last else sums - side[of_key]
    return until


def key_starts(rows: SortedRows) -> Mask:
    """Which rows are the first row of their key."""
    starts = np.ones(len(rows), np.bool_)
    twins = np.flatnonzero(rows.hashes[1:] == rows.hashes[:-1]) + 1
    starts[twins] = ~same_keys(rows.keys, twins - 1, rows.keys, twins)
    return starts


def keys_of_rows(rows: SortedRows) -> tuple[Hashes, Keys, Indices]:
    """The distinct keys of the rows, in order, and the index of each row's key."""
    starts = key_starts(rows)
    firsts = np.flatnonzero(starts)
    return rows.hashes[firsts], rows.keys.take(firsts), np.cumsum(starts) - 1


def distinct_keys(keys: Keys) -> tuple[Hashes, Keys, Indices]:
    """The distinct keys, in order, and the index of each given key among them."""
    keys = keys.with_bytes()
    hashes = hash_keys(keys)
    groups = group(hashes, keys)
    return hashes[groups.firsts], keys.take(groups.firsts), groups.of_row


def merge(parts_: Sequence[SortedRows]) -> SortedRows:
    """The rows of all parts, with equal rows summed."""
    non_empty = [rows for rows in parts_ if len(rows)]
    return consolidate(concat(non_empty)) if len(non_empty) > 1 else (non_empty or parts_)[0]


def concat(parts_: Sequence[SortedRows]) -> SortedRows:
    """The rows of all parts one after the other, not sorted."""
    if len(parts_) == 1:
        return parts_[0]
    ends = np.cumsum([0, *map(len, parts_)])
    parts: Parts = {}
    for rows, start, stop in zip(parts_, ends, ends[1:], strict=False):
        for name, column in rows.parts.items():
            parts.setdefault(name, np.zeros(ends[-1], np.int64))[start:stop] = column
    orders = [rows.order for rows in parts_ if rows.order is not None]
    return SortedRows(
        parts_[0].schema,
        np.concatenate([rows.hashes for rows in parts_]),
        concat_keys([rows.keys for rows in parts_]),
        concat_keys([rows.rest for rows in parts_]),
        np.concatenate(orders) if orders else None,
        np.concatenate([rows.weights for rows in parts_]),
        parts,
    )


def empty(schema: TableSchema) -> SortedRows:
    """Sorted rows without any row."""
    none = np.zeros(0, np.uint64)
    order = none if schema.rest else None
    return SortedRows(
        schema, none, no_keys(schema.keys), no_keys(schema.rest), order, np.zeros(0, np.int64)
    )


def to_table(rows: SortedRows) -> Any:
    """The columns (hash, key, order, rest, weight, accumulators) as an Arrow table."""
    schema = rows.schema
    columns = {HASH: pa.array(rows.hashes)}
    columns.update(zip(names("k", len(schema.keys)), rows.keys.columns, strict=True))
    if rows.order is not None:
        columns[ORDER] = pa.array(rows.order)
        columns.update(zip(names("r", len(schema.rest)), rows.rest.columns, strict=True))
    columns[WEIGHT] = pa.array(rows.weights)
    if schema.ordered:
        columns[BEFORE] = pa.array(np.cumsum(rows.weights))
    columns.update({name: pa.array(column) for name, column in rows.parts.items()})
    return pa.table(columns)


def from_table(table: Any, schema: TableSchema) -> SortedRows:
    """The sorted rows of an Arrow table, without copying."""
    labels = names("k", len(schema.keys)), names("r", len(schema.rest))
    keys, rest = (
        Keys(tuple(flat(table.column(name)) for name in labels_), types, None, table.num_rows)
        for labels_, types in zip(labels, (schema.keys, schema.rest), strict=True)
    )
    own = {HASH, ORDER, WEIGHT, BEFORE, *labels[0], *labels[1]}
    return SortedRows(
        schema,
        _numbers(table, HASH),
        keys,
        rest,
        _numbers(table, ORDER) if schema.rest else None,
        _numbers(table, WEIGHT),
        {name: _numbers(table, name) for name in table.column_names if name not in own},
        _numbers(table, BEFORE) if schema.ordered else None,
    )


def _numbers(table: Any, name: str) -> Any:
    return flat(table.column(name)).to_numpy(zero_copy_only=True)
