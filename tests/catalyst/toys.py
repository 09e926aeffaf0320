"""Small random tables for TPC-H, with values that its queries ask for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any, Final

from tests.catalyst.judging import Tables
from tests.catalyst.texts import tables

_DATES: Final = tuple(
    map(
        date.fromisoformat,
        ("1993-07-20", "1993-08-01", "1993-10-15", "1994-02-10", "1994-06-01", "1995-03-10",
         "1995-03-20", "1995-09-10", "1996-01-20", "1996-02-15", "1998-08-01"),
    )
)  # fmt: skip
_CENTS: Final = tuple(Decimal(text) for text in ("0.00", "0.05", "0.06", "0.07", "0.10"))
_MONEY: Final = tuple(Decimal(text) for text in ("-10.50", "0.00", "99.99", "1500.25", "90000.00"))
_QUANTITIES: Final = tuple(Decimal(n) for n in (1, 5, 12, 23, 25, 160))

_POOLS: Final[dict[str, Sequence[Any]]] = {
    "c_mktsegment": ("BUILDING", "AUTOMOBILE"),
    "c_phone": ("13-111", "31-222", "40-333"),
    "c_name": ("Customer#1", "Customer#2", "Customer#3"),
    "l_discount": _CENTS,
    "l_tax": _CENTS,
    "l_quantity": _QUANTITIES,
    "l_returnflag": ("R", "A", "N"),
    "l_linestatus": ("O", "F"),
    "l_shipmode": ("MAIL", "SHIP", "AIR", "AIR REG"),
    "l_shipinstruct": ("DELIVER IN PERSON", "NONE"),
    "n_name": ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA"),
    "r_name": ("EUROPE", "ASIA", "AMERICA"),
    "o_orderstatus": ("F", "O"),
    "o_orderpriority": ("1-URGENT", "2-HIGH", "5-LOW"),
    "o_comment": ("plain", "very special packed requests", None),
    "p_name": ("forest green", "dark green mint", "blue"),
    "p_brand": ("Brand#12", "Brand#23", "Brand#34", "Brand#45"),
    "p_type": ("LARGE BRASS", "ECONOMY ANODIZED STEEL", "PROMO TIN", "MEDIUM POLISHED TIN"),
    "p_size": (3, 9, 14, 15, 49),
    "p_container": ("SM CASE", "MED BOX", "LG PKG"),
    "ps_availqty": (1, 3, 50, 400),
    "s_comment": ("fine", "the Customer had many Complaints", None),
    "s_name": ("Supplier#1", "Supplier#2"),
}
_KEYS: Final = {
    "orderkey": 6,
    "custkey": 4,
    "partkey": 4,
    "suppkey": 3,
    "nationkey": 5,
    "regionkey": 3,
}
_COUNTS: Final = {"lineitem": 24, "partsupp": 10, "orders": 7, "region": 3, "nation": 5}


def toy_tables(chance: Random) -> Tables:
    """A few rows for each table of TPC-H; most names are there, and some values are null."""
    return {name: _rows(name, columns, chance) for name, columns in tables("tpch").items()}


def _rows(name: str, columns: str, chance: Random) -> list[tuple[Any, ...]]:
    parts = [column.split(" ") for column in columns.split(", ")]
    return [
        tuple(_value(column, kind, number, place, chance) for place, (column, kind) in
              enumerate(parts))
        for number in range(_COUNTS.get(name, 5))
    ]  # fmt: skip


def _value(column: str, kind: str, number: int, place: int, chance: Random) -> Any:
    key = column.split("_")[1]
    is_own = place == 0 and column not in ("l_orderkey", "ps_partkey")
    if key in _KEYS:
        return number + 1 if is_own else chance.randint(1, _KEYS[key])
    if column in ("n_name", "r_name"):
        return _POOLS[column][number]
    if chance.random() < 0.05:
        return None
    if column in _POOLS:
        return chance.choice(_POOLS[column])
    match kind:
        case "date":
            return chance.choice(_DATES)
        case "string":
            return chance.choice(("p", "q"))
        case "int" | "bigint":
            return chance.randint(1, 3)
        case _:
            return chance.choice(_MONEY)
