"""`assert_incremental`: a query over streams is right after each batch, however data are cut.

    answer after batch n  =  the query over all rows of batches 0 to n

The right side is computed anew by the reference evaluator, which knows nothing of batches.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from incmrql.api.crashes import Crashed, crash_at, crash_points
from incmrql.api.results import Result
from incmrql.api.session import Session
from incmrql.api.text_tables import TextTable, text_table
from incmrql.values import Value, decode, encode, show

Query: TypeAlias = str | Callable[[Session], Result]
"""A query of MRQL, or a function that makes a query of a session's streams."""
Data: TypeAlias = Mapping[str, str | TextTable]
"""The streams of a query by name: tables, or texts of tables."""
Change: TypeAlias = tuple[str, Value, int]
"""A stream, a row of it and a weight."""

_MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Way:
    """One way to cut changes into batches, and the batches that crash, each at a point."""

    name: str
    batches: tuple[tuple[Change, ...], ...]
    crashes: Mapping[int, str]

    def __str__(self) -> str:
        sizes = ", ".join(str(len(batch)) for batch in self.batches)
        crashed = [f"batch {number} crashed at {point!r}" for number, point in self.crashes.items()]
        return "; ".join([f"{self.name}: batches of {sizes} changes", *crashed])


def assert_incremental(  # noqa: PLR0913 - what is tried, each with a default
    query: Query,
    data: Data,
    *,
    splits: int = 3,
    deletes: float = 0.3,
    crashes: int = 1,
    seed: int = 0,
    session: Callable[[], Session] = lambda: Session(engine="local"),
) -> None:
    """Assert that the answer of a query is right after every batch, however its data are cut.

    The changes of the tables are tried all at once, one by one, and cut at `splits` random places
    sets.  Of these random ways, each also takes a share of rows (`deletes`) back and brings them
    again, and in each `crashes` batches are cut off at a random step and resumed from the
    checkpoint.  `session` makes the sessions that the query runs in; what is expected is always
    computed by the reference evaluator for MRQL, and by Spark for its own queries.

    Raises an AssertionError that names the way, the batch, and the rows that are missing or too
    many.  The same `seed` tries the same ways.
    """
    tables = {
        name: text_table(table) if isinstance(table, str) else table for name, table in data.items()
    }
    chance = random.Random(seed)
    for way in _ways(tables, splits, deletes, crashes, chance):
        _follow(query, tables, way, session)


# --- ways ----------------------------------------------------------------------------------


def _ways(
    tables: Mapping[str, TextTable],
    splits: int,
    deletes: float,
    crashes: int,
    chance: random.Random,
) -> Iterator[Way]:
    changes = [(name, *change) for name, table in tables.items() for change in table.changes]
    yield Way("all at once", (tuple(changes),), {})
    yield Way("one by one", tuple((change,) for change in changes), {})
    for number in range(1, splits + 1):
        mixed = _with_returns(_shuffled(tables, chance), deletes, chance)
        batches = _cut(mixed, chance)
        crashed = {
            place: chance.choice(crash_points())
            for place in chance.sample(range(len(batches)), min(crashes, len(batches)))
        }
        yield Way(f"random way {number}", batches, crashed)


def _shuffled(tables: Mapping[str, TextTable], chance: random.Random) -> list[Change]:
    """The changes of all tables mixed; those of one table stay in their order."""
    names = [name for name, table in tables.items() for _ in table.changes]
    chance.shuffle(names)
    rest = {name: iter(table.changes) for name, table in tables.items()}
    return [(name, *next(rest[name])) for name in names]


def _with_returns(changes: list[Change], deletes: float, chance: random.Random) -> list[Change]:
    """The changes, some of whose rows go and come again at later places."""
    returned = list(changes)
    for name, row, weight in changes:
        if weight > 0 and chance.random() < deletes:
            first = next(n for n, change in enumerate(returned) if change[:2] == (name, row))
            gone = chance.randint(first + 1, len(returned))
            returned.insert(gone, (name, row, -1))
            returned.insert(chance.randint(gone + 1, len(returned)), (name, row, 1))
    return _without_debts(returned)


def _without_debts(changes: list[Change]) -> list[Change]:
    """The changes with each deletion moved behind the insertion that it needs."""
    there: Counter[tuple[str, bytes]] = Counter()
    waiting: list[Change] = []
    ordered: list[Change] = []
    for change in changes:
        for one in [change, *waiting]:
            name, row, weight = one
            key = name, encode(row)
            if there[key] + weight < 0:
                if one is change:
                    waiting.append(one)
                continue
            there[key] += weight
            ordered.append(one)
            if one is not change:
                waiting.remove(one)
    return ordered + waiting


def _cut(changes: Sequence[Change], chance: random.Random) -> tuple[tuple[Change, ...], ...]:
    if len(changes) < 2:
        return (tuple(changes),)
    most = min(4, len(changes) - 1)
    places = sorted(chance.sample(range(1, len(changes)), chance.randint(1, most)))
    borders = [0, *places, len(changes)]
    return tuple(tuple(changes[start:stop]) for start, stop in pairwise(borders))


# --- batches -------------------------------------------------------------------------------


def _follow(
    query: Query, tables: Mapping[str, TextTable], way: Way, session_of: Callable[[], Session]
) -> None:
    """Run all batches of a way, and compare the answer after each."""
    with tempfile.TemporaryDirectory(prefix="incmrql-test-") as folder:
        running = _Running(query, tables, Path(folder) / "checkpoint", session_of)
        there: dict[str, Counter[bytes]] = {name: Counter() for name in tables}
        try:
            for number, batch in enumerate(way.batches):
                for name, row, weight in batch:
                    there[name][encode(row)] += weight
                running.step(batch, way.crashes.get(number))
                expected = _expected(query, tables, there, session_of)
                _compare(running.answer(), expected, way, number, there)
        finally:
            running.close()


class _Running:
    """A run of the query, in a session of its own after each crash."""

    def __init__(
        self,
        query: Query,
        tables: Mapping[str, TextTable],
        checkpoint: Path,
        session_of: Callable[[], Session],
    ) -> None:
        self._query, self._tables = query, tables
        self._checkpoint, self._session_of = checkpoint, session_of
        self._open()

    def _open(self) -> None:
        self._session = self._session_of()
        self._streams = {
            name: self._session.stream(name, table.row) for name, table in self._tables.items()
        }
        self._run = _result(self._query, self._session).start(
            checkpoint=self._checkpoint, settle=0, checkpoint_mode=0o700
        )

    def step(self, batch: Sequence[Change], crash: str | None) -> None:
        """Push the changes of a batch and ingest them; with a crash, resume and go on."""
        for name, row, weight in batch:
            push = self._streams[name].insert if weight > 0 else self._streams[name].delete
            push([row] * abs(weight))
        if crash is None:
            self._run.step()
            return
        try:
            with crash_at(crash):
                self._run.step()
        except Crashed:
            self._crashed(crash)
            self.close()
            self._open()
        while self._run.step() is not None:
            pass

    def _crashed(self, point: str) -> None:
        """Do nothing: tests of this module note that the point was reached."""

    def answer(self) -> Value:
        """The answer after the last batch."""
        return self._run.answer()

    def close(self) -> None:
        """Let go of the checkpoint, as a process that ends does."""
        self._session.stop()


def _result(query: Query, session: Session) -> Result:
    return session.query(query) if isinstance(query, str) else query(session)


def _expected(
    query: Query,
    tables: Mapping[str, TextTable],
    there: Mapping[str, Counter[bytes]],
    session_of: Callable[[], Session],
) -> Value:
    """The answer of the query over rows that are there, all at once."""
    with session_of() as session:
        for name, table in tables.items():
            rows: list[Any] = [
                decode(row) for row, weight in there[name].items() for _ in range(weight)
            ]
            session.register(name, rows, table.row)
        return _result(query, session).collect()


def _compare(
    actual: Value,
    expected: Value,
    way: Way,
    number: int,
    there: Mapping[str, Counter[bytes]],
) -> None:
    if encode(actual) == encode(expected):
        return
    answered, wanted = _counts(actual), _counts(expected)
    lines = [
        f"the answer after batch {number} is not that of the query over all data",
        f"in {way}",
        *_shown("missing", wanted - answered),
        *_shown("too many", answered - wanted),
    ]
    if answered == wanted:
        lines.append(f"the rows are in another order: {show(actual)}, expected {show(expected)}")
    for name, rows in there.items():
        lines += _shown(f"{name} has", +rows)
    raise AssertionError("\n".join(lines))


def _counts(value: Value) -> Counter[bytes]:
    """The rows of an answer; one that is a value is one row."""
    return Counter(map(encode, value if isinstance(value, list) else [value]))


def _shown(what: str, rows: Counter[bytes]) -> list[str]:
    lines = [
        f"{what}: {show(decode(row))}" + (f", {count} times" if count > 1 else "")
        for row, count in sorted(rows.items())
    ]
    more = len(lines) - _MOST_SHOWN
    return [*lines[:_MOST_SHOWN], f"{what}: {more} more"] if more > 0 else lines


__all__ = ["Data", "Query", "assert_incremental"]
