"""The three tables of `tests/catalyst/texts/shapes.tables`, random and changing.

They lack the columns of types that have no counterpart: `w` of `t`, bytes, and `m` of `v`, a map.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from incmrql.values import Record
from tests.catalyst.random_cases import Rows
from tests.catalyst.random_windows import TABLE, random_rows
from tests.spark.changing import ChangingTables, Row

_COLUMNS: Final[dict[str, dict[str, Any]]] = {
    "t": {
        "a": pa.int32(), "b": pa.int64(), "c": pa.string(), "d": pa.decimal128(10, 2),
        "e": pa.float64(), "f": pa.date32(), "g": pa.timestamp("us", "UTC"), "h": pa.bool_(),
        "r": pa.float32(), "k": pa.int16(), "y": pa.int8(), "n": pa.timestamp("us"),
    },
    "u": {"a": pa.int32(), "b": pa.int64(), "c": pa.string(), "d": pa.decimal128(10, 2)},
    "v": {
        "id": pa.int64(), "xs": pa.list_(pa.int32()),
        "s": pa.struct([("x", pa.int32()), ("y", pa.string())]),
        "ps": pa.list_(pa.struct([("p", pa.int32()), ("q", pa.string())])),
    },
}  # fmt: skip


def shape_tables(root: Path, seed: int) -> ChangingTables:
    """The tables, with few different values, so that rows meet, and some nulls."""
    schemas = {name: pa.schema(list(columns.items())) for name, columns in _COLUMNS.items()}

    def rows(table: str, batch: int) -> list[Row]:
        chance = random.Random(f"{seed} {table} {batch}")
        count = chance.randrange(6) if batch else 25
        draw = _DRAWS[table]
        return [draw(chance) for _ in range(count)]

    return ChangingTables(root, seed, schemas, rows)


def window_tables(root: Path, seed: int) -> ChangingTables:
    """The table of random queries with windows."""
    columns = {"k": pa.int32(), "a": pa.int64(), "b": pa.int32(), "s": pa.string(),
               "d": pa.decimal128(10, 2), "e": pa.float64()}  # fmt: skip

    def rows(table: str, batch: int) -> list[Row]:
        chance = random.Random(f"{seed} {table} {batch}")
        return random_rows(chance, 4) if batch else random_rows(chance, 30)

    return ChangingTables(root, seed, {TABLE: pa.schema(list(columns.items()))}, rows)


_RANDOM: Final[dict[str, dict[str, Any]]] = {
    "r": {
        "a": pa.int32(), "b": pa.int32(), "c": pa.string(), "d": pa.decimal128(10, 2),
        "e": pa.float64(), "f": pa.date32(), "h": pa.bool_(),
    },
    "s": {"a": pa.int32(), "b": pa.int64(), "c": pa.string(), "d": pa.decimal128(10, 2)},
    "v": {
        "id": pa.int32(), "xs": pa.list_(pa.int32()),
        "st": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    },
}  # fmt: skip


def random_tables(root: Path, seed: int) -> ChangingTables:
    """The tables of `tests/catalyst/texts/random.tables`, which random queries read."""
    schemas = {name: pa.schema(list(columns.items())) for name, columns in _RANDOM.items()}
    rows = Rows(random.Random(f"random {seed}"), hard=0.15)

    def draw(table: str, batch: int) -> list[Row]:
        count = rows.chance.randrange(4 if batch else 9)
        return [tuple(map(_plain, rows.row(table))) for _ in range(count)]

    return ChangingTables(root, seed, schemas, draw)


def _plain(value: Any) -> Any:
    match value:
        case Record():
            return value.values_
        case list():
            return tuple(value)
        case float() if abs(value) > 1e200:
            return 1e10  # Spark's sums of such numbers depend on their order
        case _:
            return value


def _maybe(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.1 else value


def _t(chance: random.Random) -> Row:
    day = chance.randrange(60)
    moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day, hours=chance.randrange(24))
    values = (
        chance.randrange(-2, 6), chance.randrange(-2, 6), chance.choice("xyxz"),
        Decimal(chance.randrange(-200, 900)) / 100, chance.randrange(-8, 40) / 4,
        date(2024, 1, 1) + timedelta(days=day), moment, chance.random() < 0.5,
        chance.randrange(16) / 4, chance.randrange(9), chance.randrange(9),
        moment.replace(tzinfo=None),
    )  # fmt: skip
    return tuple(_maybe(chance, value) for value in values)


def _u(chance: random.Random) -> Row:
    values = (
        chance.randrange(-2, 6), chance.randrange(-2, 6), chance.choice("xyq"),
        Decimal(chance.randrange(900)) / 100,
    )  # fmt: skip
    return tuple(_maybe(chance, value) for value in values)


def _v(chance: random.Random) -> Row:
    def number() -> Any:
        return _maybe(chance, chance.randrange(4))

    numbers = tuple(number() for _ in range(chance.randrange(4)))
    structs = tuple((number(), chance.choice("pq")) for _ in range(chance.randrange(3)))
    return (
        chance.randrange(9), _maybe(chance, numbers),
        _maybe(chance, (number(), chance.choice("xy"))), _maybe(chance, structs),
    )  # fmt: skip


_DRAWS: Final[dict[str, Callable[[random.Random], Row]]] = {"t": _t, "u": _u, "v": _v}
