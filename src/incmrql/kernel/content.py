"""What a state table or a change of one holds: keys in order, and per key what is added up.

Sorted by (hash, canonical bytes of the key), each key once.  A bag of rows with weights is the
same thing without accumulators.  Merging two contents adds up the rows of equal keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.formats.arrow_types import arrow_type
from incmrql.kernel.accumulators import Parts, is_neutral, pick, tidy
from incmrql.kernel.columns import WEIGHT, flat, names
from incmrql.kernel.keys import Groups, Keys, concat_keys, group, hash_keys
from incmrql.kernel.sums import Integers
from incmrql.types.model import Type
from incmrql.values.hash_columns import Hashes

HASH: Final = "_hash"


@dataclass(frozen=True, slots=True)
class Content:
    """Keys with their hashes, multiplicities and accumulators."""

    hashes: Hashes
    keys: Keys
    weights: Integers
    parts: Parts = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, places: npt.NDArray[Any]) -> Content:
        """The rows at some places, or where a mask is true."""
        index = np.flatnonzero(places) if places.dtype == np.bool_ else places
        keys = self.keys.take(index)
        return Content(self.hashes[index], keys, self.weights[index], pick(self.parts, index))

    def slice(self, start: int, stop: int) -> Content:
        """The rows from one place to another; nothing is copied."""
        parts = {name: column[start:stop] for name, column in self.parts.items()}
        keys = self.keys.slice(start, stop)
        return Content(self.hashes[start:stop], keys, self.weights[start:stop], parts)


def added_up(
    keys: Keys, weights: Integers, lifted: Callable[[Groups], Parts] | None = None
) -> Content:
    """Rows with weights, in any order, as a content; `lifted` gives the accumulators of groups."""
    keys = keys.with_bytes()
    hashes = hash_keys(keys)
    groups = group(hashes, keys)
    totals = groups.add_up(weights)
    parts = {} if lifted is None else lifted(groups)
    whole = Content(hashes[groups.firsts], keys.take(groups.firsts), totals, parts)
    return _without_neutral(whole)


def consolidated(content: Content) -> Content:
    """Rows in any order to rows in order, each key once; what adds up to nothing is left out."""
    groups = group(content.hashes, content.keys)
    weights = groups.add_up(content.weights)
    parts = tidy({name: groups.add_up(column) for name, column in content.parts.items()})
    firsts = groups.firsts
    merged = Content(content.hashes[firsts], content.keys.take(firsts), weights, parts)
    return _without_neutral(merged)


def _without_neutral(content: Content) -> Content:
    neutral = is_neutral(content.parts, content.weights)
    return content.take(~neutral) if neutral.any() else content


def merge(contents: Sequence[Content]) -> Content:
    """The rows of several contents, equal keys added up."""
    if len(contents) == 1:
        return contents[0]
    return consolidated(concat(contents))


def concat(contents: Sequence[Content]) -> Content:
    """The rows of several contents one after the other."""
    ends = np.cumsum([0, *map(len, contents)])
    parts: Parts = {}
    for content, start, stop in zip(contents, ends, ends[1:], strict=False):
        for name, column in content.parts.items():
            parts.setdefault(name, np.zeros(ends[-1], np.int64))[start:stop] = column
    return Content(
        np.concatenate([content.hashes for content in contents]),
        concat_keys([content.keys for content in contents]),
        np.concatenate([content.weights for content in contents]),
        parts,
    )


def empty(types: tuple[Type, ...]) -> Content:
    """No rows."""
    keys = Keys(tuple(pa.array([], arrow_type(type_)) for type_ in types), types)
    return Content(np.zeros(0, np.uint64), keys, np.zeros(0, np.int64))


def to_table(content: Content) -> Any:
    """The columns (hash, key, multiplicity, accumulators) as an Arrow table."""
    labels = names("k", len(content.keys.types))
    columns = {HASH: pa.array(content.hashes)}
    columns.update(zip(labels, content.keys.columns, strict=True))
    columns[WEIGHT] = pa.array(content.weights)
    columns.update({name: pa.array(column) for name, column in content.parts.items()})
    return pa.table(columns)


def from_table(table: Any, types: tuple[Type, ...]) -> Content:
    """The content of an Arrow table, without copying."""
    keys = tuple(flat(table.column(name)) for name in names("k", len(types)))
    own = {HASH, WEIGHT, *names("k", len(types))}
    parts = {name: _numbers(table, name) for name in table.column_names if name not in own}
    return Content(_numbers(table, HASH), Keys(keys, types), _numbers(table, WEIGHT), parts)


def _numbers(table: Any, name: str) -> Any:
    return flat(table.column(name)).to_numpy(zero_copy_only=True)
