"""What a state table or a change of one holds: rows in order, and per row what is added up.

Sorted by (hash of the key, key, order within the key), each row once.  A bag of rows with weights
is the same thing without accumulators.  Merging two contents adds up equal rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.engine.columns.accumulators import Parts, is_neutral, pick, tidy
from incmrql.engine.columns.keys import (
    Keys,
    Mask,
    Places,
    concat_keys,
    hash_keys,
    no_keys,
    same_keys,
)
from incmrql.engine.store.sorting import Groups, TableSchema, Within, group, order_words
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
    """A word that sorts like the rest within a key, as far as it goes; None if there is no rest."""
    weights: Integers
    parts: Parts = field(default_factory=dict)
    before: Integers | None = None
    """The sums of the weights up to each row, the row included; in runs of ordered tables."""

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of the key and of the rest."""
        return self.keys.columns + self.rest.columns

    def take(self, places: npt.NDArray[Any]) -> SortedRows:
        """The rows at some places, or where a mask is true."""
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
        """The rows from one place to another; nothing is copied."""
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
        """The same rows with the sums of their weights."""
        if self.before is not None:
            return self
        return replace(self, before=np.cumsum(self.weights))

    def with_weights(self, weights: Integers) -> SortedRows:
        """The same rows with other weights."""
        return replace(self, weights=weights, before=None)

    def grouped(self) -> Groups:
        """The groups of equal rows; the content may consist of a few that are sorted."""
        return group(self.hashes, self.keys, self.within(), merged=True)

    def within(self) -> Within | None:
        """What sorts the rows within their keys."""
        return None if self.order is None else Within(self.schema, self.order, self.rest)


def added_up(
    schema: TableSchema,
    columns: Sequence[Any],
    weights: Integers,
    lifted: Callable[[Groups], Parts] | None = None,
) -> SortedRows:
    """Rows with weights, in any order, as a content; `lifted` gives the accumulators of groups.

    `columns` are those of the key and of the rest.
    """
    width = len(schema.keys)
    keys = Keys(tuple(columns[:width]), schema.keys, None, len(weights)).with_bytes()
    rest = Keys(tuple(columns[width:]), schema.rest, None, len(weights))
    if not schema.ordered and schema.rest:
        rest = rest.with_bytes()
    whole = SortedRows(schema, hash_keys(keys), keys, rest, _order(schema, rest), weights)
    groups = group(whole.hashes, keys, whole.within())
    return _of_groups(whole, groups, {} if lifted is None else lifted(groups))[0]


def _order(schema: TableSchema, rest: Keys) -> Hashes | None:
    if not schema.rest:
        return None
    return hash_keys(rest) if schema.descending is None else order_words(rest, schema.descending)


def consolidated(content: SortedRows) -> SortedRows:
    """Rows in any order to rows in order, each once; what adds up to nothing is left out."""
    return settled(content, content.grouped())[0]


def settled(content: SortedRows, groups: Groups) -> tuple[SortedRows, Places]:
    """The groups of a content as rows, without those that add up to nothing; and their places.

    A place is that of some row of the group.
    """
    parts = tidy({name: groups.add_up(column) for name, column in content.parts.items()})
    return _of_groups(content, groups, parts)


def _of_groups(content: SortedRows, groups: Groups, parts: Parts) -> tuple[SortedRows, Places]:
    """The rows of groups that have these accumulators."""
    weights = groups.add_up(content.weights)
    kept = ~is_neutral(parts, weights)
    if content.schema.most is not None:
        weights = _cut(content.schema, weights, groups.key_starts)
        kept &= weights != 0
    places = groups.firsts
    if not kept.all():
        places, weights = places[kept], weights[kept]
        parts = pick(parts, np.flatnonzero(kept))
    if len(places) == len(content) and (places[1:] > places[:-1]).all():
        return replace(content, weights=weights, parts=parts, before=None), places
    bare = replace(content, weights=content.weights, parts={})
    return replace(bare.take(places), weights=weights, parts=parts), places


def _cut(schema: TableSchema, weights: Integers, key_starts: Mask) -> Integers:
    """Weights of which each key keeps only its first or last ones."""
    assert schema.most is not None
    until = upto(weights, key_starts, last=schema.last)
    kept: Integers = np.clip(schema.most - (until - weights), 0, weights)
    return kept


def upto(weights: Integers, key_starts: Mask, *, last: bool = False) -> Integers:
    """The sums of the weights of a key up to each row, that included; or from its last row on."""
    if not len(weights):
        return weights
    sums: Integers = np.cumsum(weights)
    starts = np.flatnonzero(key_starts)
    of_key = np.cumsum(key_starts) - 1
    sides = np.append(starts[1:], len(weights)) - 1 if last else starts
    side = sums[sides] if last else (sums - weights)[sides]
    until: Integers = side[of_key] - sums + weights if last else sums - side[of_key]
    return until


def key_starts(content: SortedRows) -> Mask:
    """Which rows of a content are the first of their key."""
    starts = np.ones(len(content), np.bool_)
    twins = np.flatnonzero(content.hashes[1:] == content.hashes[:-1]) + 1
    starts[twins] = ~same_keys(content.keys, twins - 1, content.keys, twins)
    return starts


def touched_keys(content: SortedRows) -> tuple[Hashes, Keys, Places]:
    """The keys of a content, each once and in order, and which of them each row has."""
    starts = key_starts(content)
    firsts = np.flatnonzero(starts)
    return content.hashes[firsts], content.keys.take(firsts), np.cumsum(starts) - 1


def asked_keys(keys: Keys) -> tuple[Hashes, Keys, Places]:
    """Keys in any order: each once and in order, and which of them each one is."""
    keys = keys.with_bytes()
    hashes = hash_keys(keys)
    groups = group(hashes, keys)
    return hashes[groups.firsts], keys.take(groups.firsts), groups.of_row


def merge(contents: Sequence[SortedRows]) -> SortedRows:
    """The rows of several contents, equal ones added up."""
    some = [content for content in contents if len(content)]
    return consolidated(concat(some)) if len(some) > 1 else (some or contents)[0]


def concat(contents: Sequence[SortedRows]) -> SortedRows:
    """The rows of several contents one after the other."""
    if len(contents) == 1:
        return contents[0]
    ends = np.cumsum([0, *map(len, contents)])
    parts: Parts = {}
    for content, start, stop in zip(contents, ends, ends[1:], strict=False):
        for name, column in content.parts.items():
            parts.setdefault(name, np.zeros(ends[-1], np.int64))[start:stop] = column
    orders = [content.order for content in contents if content.order is not None]
    return SortedRows(
        contents[0].schema,
        np.concatenate([content.hashes for content in contents]),
        concat_keys([content.keys for content in contents]),
        concat_keys([content.rest for content in contents]),
        np.concatenate(orders) if orders else None,
        np.concatenate([content.weights for content in contents]),
        parts,
    )


def empty(schema: TableSchema) -> SortedRows:
    """No rows."""
    none = np.zeros(0, np.uint64)
    order = none if schema.rest else None
    return SortedRows(
        schema, none, no_keys(schema.keys), no_keys(schema.rest), order, np.zeros(0, np.int64)
    )


def to_table(content: SortedRows) -> Any:
    """The columns (hash, key, order, rest, multiplicity, accumulators) as an Arrow table."""
    schema = content.schema
    columns = {HASH: pa.array(content.hashes)}
    columns.update(zip(names("k", len(schema.keys)), content.keys.columns, strict=True))
    if content.order is not None:
        columns[ORDER] = pa.array(content.order)
        columns.update(zip(names("r", len(schema.rest)), content.rest.columns, strict=True))
    columns[WEIGHT] = pa.array(content.weights)
    if schema.ordered:
        columns[BEFORE] = pa.array(np.cumsum(content.weights))
    columns.update({name: pa.array(column) for name, column in content.parts.items()})
    return pa.table(columns)


def from_table(table: Any, schema: TableSchema) -> SortedRows:
    """The content of an Arrow table, without copying."""
    labels = names("k", len(schema.keys)), names("r", len(schema.rest))
    keys, rest = (
        Keys(tuple(flat(table.column(name)) for name in each), types, None, table.num_rows)
        for each, types in zip(labels, (schema.keys, schema.rest), strict=True)
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
