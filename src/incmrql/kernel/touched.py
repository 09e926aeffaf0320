"""The keys that a batch touches at a node, with what they have before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incmrql.kernel.accumulators import Parts
from incmrql.kernel.content import Content
from incmrql.kernel.keys import Keys, Places
from incmrql.values.exact.sums import Integers
from incmrql.values.hash_columns import Hashes


@dataclass(frozen=True, slots=True)
class Touched:
    """Different keys in order: multiplicities and accumulators before and after.

    `rankings` are the changes of tables, and `rows` those of the rows of sides, where they matter,
    with the place of each row's key.
    """

    hashes: Hashes
    keys: Keys
    before: Integers
    after: Integers
    parts_before: Parts
    parts_after: Parts
    rankings: Sequence[Content]
    rows: Sequence[tuple[Content, Places]]

    def __len__(self) -> int:
        return len(self.hashes)
