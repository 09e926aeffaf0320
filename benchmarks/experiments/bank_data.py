"""Random transfers between accounts in random batches, some of them taken back later."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

ACCOUNTS: Final = 100
TAKEN_BACK: Final = 0.1
"""The share of the transfers that are taken back."""
TRANSFERS: Final = "transfers"
GONE: Final = "gone"
COLUMNS: Final = "src int, dst int, amount int"
_SCHEMA: Final = pa.schema([(name, pa.int32()) for name in ("src", "dst", "amount")])

Transfer = tuple[int, int, int]
"""From an account, to another one, how much."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Transfers that come, and transfers of before that are taken back."""

    number: int
    come: tuple[Transfer, ...]
    gone: tuple[Transfer, ...]

    def write(self, folder: Path) -> None:
        """Its files, each of which appears whole."""
        for name, rows in ((TRANSFERS, self.come), (GONE, self.gone)):
            place = folder / name
            place.mkdir(parents=True, exist_ok=True)
            if rows:
                columns = [pa.array(column, pa.int32()) for column in zip(*rows, strict=True)]
                hidden = place / f".{self.number:05d}"
                pq.write_table(pa.table(columns, schema=_SCHEMA), hidden)
                hidden.rename(place / f"{self.number:05d}.parquet")


def batches(count: int, largest: int, seed: int) -> Iterator[Batch]:
    """So many transfers in batches of 1 to `largest`."""
    chance = random.Random(seed)
    there: list[Transfer] = []
    number = left = 0
    while left < count:
        size = min(chance.randint(1, largest), count - left)
        come = tuple(_transfer(chance) for _ in range(size))
        gone = []
        for _ in range(sum(chance.random() < TAKEN_BACK for _ in range(size)) if there else 0):
            if there:
                place = chance.randrange(len(there))
                there[place], there[-1] = there[-1], there[place]
                gone.append(there.pop())
        there += come
        yield Batch(number, come, tuple(gone))
        number, left = number + 1, left + size


def _transfer(chance: random.Random) -> Transfer:
    src, dst = chance.sample(range(ACCOUNTS), 2)
    return src, dst, chance.randint(1, 1000)


@dataclass(frozen=True, slots=True)
class Views:
    """What a reader sees: sums by account, and the sum of all balances."""

    credits: Mapping[int, int]
    debits: Mapping[int, int]
    balance: Mapping[int, int]
    total: int


class Ledger:
    """The transfers that count so far, and the views that they make."""

    def __init__(self) -> None:
        self.credits: Counter[int] = Counter()
        self.debits: Counter[int] = Counter()
        self.uses: Counter[int] = Counter()

    def take(self, batch: Batch) -> None:
        """Add a batch."""
        for sign, rows in ((1, batch.come), (-1, batch.gone)):
            for src, dst, amount in rows:
                self.debits[src] += sign * amount
                self.credits[dst] += sign * amount
                self.uses[src] += sign
                self.uses[dst] += sign

    def problems(self, seen: Views) -> list[str]:
        """What is wrong in the views that were seen."""
        balance = {
            account: self.credits[account] - self.debits[account]
            for account, uses in self.uses.items()
            if uses
        }
        return [
            *([f"the total is {seen.total}"] if seen.total else []),
            *(["the credits are wrong"] if seen.credits != _without_zeros(self.credits) else []),
            *(["the debits are wrong"] if seen.debits != _without_zeros(self.debits) else []),
            *(["the balances are wrong"] if seen.balance != balance else []),
        ]


def _without_zeros(sums: Counter[int]) -> dict[int, int]:
    """The sums of accounts with transfers: no transfer has the amount zero."""
    return {account: total for account, total in sums.items() if total}
