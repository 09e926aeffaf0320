"""The stateful operator: per key the sums over its rows, and -old +new for keys that change.

delta    rows with weights        -> what they add to each key
answers  delta, what was before   -> the rows of aggregates that leave and that appear
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from incmrql.incremental import Fold
from incmrql.kernel.accumulators import Parts, add, finish, lift, pick
from incmrql.kernel.columns import WEIGHT, flat, names, weights_of
from incmrql.kernel.content import Content, added_up
from incmrql.kernel.keys import Groups, Keys
from incmrql.kernel.segments import Segment
from incmrql.kernel.sums import Integers


def fold_delta(fold: Fold, table: Any) -> Content:
    """What the rows of a table (`k0 ...`: parts of the key, then values) add to each key."""
    columns = [flat(column) for column in table.columns[:-1]]
    width = len(fold.keys)
    weights = weights_of(table)

    def lifted(groups: Groups) -> Parts:
        return lift(fold, columns[width:], weights, groups.of_row, len(groups))

    return added_up(Keys(tuple(columns[:width]), fold.keys), weights, lifted)


def answer_changes(
    fold: Fold, answer: Segment, touched: Content, before: tuple[Integers, Mapping[str, Integers]]
) -> Any:
    """The answers of touched keys: those before with weight -1, those after with weight 1."""
    weights, parts = before
    after = add(parts, touched.parts)
    old, new = np.flatnonzero(weights > 0), np.flatnonzero(weights + touched.weights > 0)
    keys = touched.keys.take(np.concatenate([old, new]))
    signs = np.concatenate([np.full(len(old), -1), np.full(len(new), 1)])
    stacked = _stacked((pick(parts, old), len(old)), (pick(after, new), len(new)))
    return answer.apply(aggregates(fold, keys, stacked, signs))


def answer_rows(fold: Fold, answer: Segment, content: Content) -> Any:
    """The answers of all keys of a content that have a row."""
    there = content.take(content.weights > 0)
    signs = np.ones(len(there), np.int64)
    return answer.apply(aggregates(fold, there.keys, there.parts, signs))


def aggregates(fold: Fold, keys: Keys, parts: Parts, weights: Integers) -> Any:
    """Parts of keys and their aggregates, as a table."""
    columns = [*keys.columns, *finish(fold, parts, len(keys)), pa.array(weights)]
    return pa.table(columns, names=[*names("k", len(columns) - 1), WEIGHT])


def _stacked(*halves: tuple[Parts, int]) -> Parts:
    """The rows of one after those of the other; what one has no column for is zero."""
    labels = {name: None for parts, _ in halves for name in parts}
    return {
        name: np.concatenate([
            parts.get(name, np.zeros(length, np.int64)) for parts, length in halves
        ])
        for name in labels
    }  # fmt: skip
