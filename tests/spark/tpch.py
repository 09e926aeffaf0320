"""The tables of TPC-H in small, random and changing, and the 22 questions.

The values are drawn so that every question has an answer: they favour the constants of the texts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tests.catalyst.texts import texts
from tests.spark.changing import ChangingTables, Row

QUESTIONS: Final = texts("tpch")
"""The texts by name, such as `q01`."""

_MONEY: Final = pa.decimal128(15, 2)
_LONG, _INT, _TEXT, _DATE = pa.int64(), pa.int32(), pa.string(), pa.date32()
SCHEMAS: Final[dict[str, Any]] = {
    name: pa.schema(list(columns.items()))
    for name, columns in {
        "region": {"r_regionkey": _LONG, "r_name": _TEXT, "r_comment": _TEXT},
        "nation": {
            "n_nationkey": _LONG, "n_name": _TEXT, "n_regionkey": _LONG, "n_comment": _TEXT,
        },
        "supplier": {
            "s_suppkey": _LONG, "s_name": _TEXT, "s_address": _TEXT, "s_nationkey": _LONG,
            "s_phone": _TEXT, "s_acctbal": _MONEY, "s_comment": _TEXT,
        },
        "customer": {
            "c_custkey": _LONG, "c_name": _TEXT, "c_address": _TEXT, "c_nationkey": _LONG,
            "c_phone": _TEXT, "c_acctbal": _MONEY, "c_mktsegment": _TEXT, "c_comment": _TEXT,
        },
        "part": {
            "p_partkey": _LONG, "p_name": _TEXT, "p_mfgr": _TEXT, "p_brand": _TEXT,
            "p_type": _TEXT, "p_size": _INT, "p_container": _TEXT, "p_retailprice": _MONEY,
            "p_comment": _TEXT,
        },
        "partsupp": {
            "ps_partkey": _LONG, "ps_suppkey": _LONG, "ps_availqty": _INT,
            "ps_supplycost": _MONEY, "ps_comment": _TEXT,
        },
        "orders": {
            "o_orderkey": _LONG, "o_custkey": _LONG, "o_orderstatus": _TEXT,
            "o_totalprice": _MONEY, "o_orderdate": _DATE, "o_orderpriority": _TEXT,
            "o_clerk": _TEXT, "o_shippriority": _INT, "o_comment": _TEXT,
        },
        "lineitem": {
            "l_orderkey": _LONG, "l_partkey": _LONG, "l_suppkey": _LONG, "l_linenumber": _INT,
            "l_quantity": _MONEY, "l_extendedprice": _MONEY, "l_discount": _MONEY, "l_tax": _MONEY,
            "l_returnflag": _TEXT, "l_linestatus": _TEXT, "l_shipdate": _DATE,
            "l_commitdate": _DATE, "l_receiptdate": _DATE, "l_shipinstruct": _TEXT,
            "l_shipmode": _TEXT, "l_comment": _TEXT,
        },
    }.items()
}  # fmt: skip

_REGIONS: Final = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS: Final = (
    ("BRAZIL", 1), ("CANADA", 1), ("INDIA", 2), ("CHINA", 2), ("FRANCE", 3), ("GERMANY", 3),
    ("SAUDI ARABIA", 4), ("KENYA", 0),
)  # fmt: skip
_TYPES: Final = (
    "ECONOMY ANODIZED STEEL", "SMALL PLATED BRASS", "PROMO BRUSHED TIN", "MEDIUM POLISHED NICKEL",
    "LARGE BURNISHED BRASS",
)  # fmt: skip
_NAMES: Final = ("forest green", "green azure", "forest navy", "blush linen")
_BRANDS: Final = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
_CONTAINERS: Final = ("SM CASE", "MED BOX", "MED BAG", "LG BOX", "LG PKG")
_COMMENTS: Final = (
    "quick deposits", "special packed requests", "Customer recent Complaints", "even ideas",
)  # fmt: skip
_PRIORITIES: Final = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")
_PHONES: Final = ("13", "31", "23", "40")
_MODES: Final = ("MAIL", "SHIP", "AIR", "AIR REG", "RAIL")
_PARTS, _SUPPLIERS, _CUSTOMERS = 12, 8, 15


class Generator:
    """Draws rows; keys are small, so that rows meet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def row(self, table: str) -> Row:
        """A row of a table; two may have the same key."""
        draw: Callable[[], Row] = getattr(self, f"_{table}")
        return draw()

    def _money(self, most: int) -> Decimal:
        return Decimal(self.random.randrange(100 * most)) / 100

    def _date(self, first: date, days: int) -> date:
        return first + timedelta(days=self.random.randrange(days))

    def _key(self, most: int) -> int:
        return self.random.randrange(1, most + 1)

    def _phone(self) -> str:
        return f"{self.random.choice(_PHONES)}-{self.random.randrange(10**7):07d}"

    def _region(self) -> Row:
        key = self.random.randrange(len(_REGIONS))
        return key, _REGIONS[key], ""

    def _nation(self) -> Row:
        key = self.random.randrange(len(_NATIONS))
        return key, _NATIONS[key][0], _NATIONS[key][1], ""

    def _supplier(self) -> Row:
        key = self._key(_SUPPLIERS)
        comment = self.random.choice(_COMMENTS)
        nation = key % len(_NATIONS)
        return key, f"Supplier#{key}", "a", nation, self._phone(), self._money(9999), comment

    def _customer(self) -> Row:
        key = self._key(_CUSTOMERS + 5)
        balance = self._money(9999) - 1000
        segment = self.random.choice(("BUILDING", "MACHINERY"))
        nation = key % len(_NATIONS)
        return key, f"Customer#{key}", "b", nation, self._phone(), balance, segment, "c"

    def _part(self) -> Row:
        choice, key = self.random.choice, self._key(_PARTS)
        size = choice((15, 15, 3, 9, 14, 49))
        return (
            key, choice(_NAMES), "Manufacturer#1", choice(_BRANDS), choice(_TYPES), size,
            choice(_CONTAINERS), self._money(2000), "d",
        )  # fmt: skip

    def _partsupp(self) -> Row:
        part, supplier = self._key(_PARTS), self._key(_SUPPLIERS)
        return part, supplier, self._key(9999), self._money(1000), "e"

    def _orders(self) -> Row:
        choice, key = self.random.choice, self._key(60)
        first = choice((date(1993, 7, 1), date(1994, 1, 1), date(1995, 2, 1), date(1996, 1, 1)))
        return (
            key, self._key(_CUSTOMERS), choice("FFOP"), self._money(400_000),
            self._date(first, 150), choice(_PRIORITIES), "f", 0, choice(_COMMENTS),
        )  # fmt: skip

    def _lineitem(self) -> Row:
        choice = self.random.choice
        first = choice((date(1994, 1, 1), date(1995, 3, 1), date(1995, 9, 1), date(1996, 1, 1)))
        shipped = self._date(first, 80)
        committed = shipped + timedelta(days=self.random.randrange(-20, 30))
        received = shipped + timedelta(days=self.random.randrange(1, 30))
        quantity = Decimal(choice((self._key(50), self._key(50), self._key(5), 120)))
        instruction = choice(("DELIVER IN PERSON", "NONE"))
        return (
            self._key(60), self._key(_PARTS), self._key(_SUPPLIERS), self._key(7), quantity,
            self._money(90_000), Decimal(self.random.randrange(11)) / 100,
            Decimal(self.random.randrange(9)) / 100, choice("RAN"), choice("OF"), shipped,
            committed, received, instruction, choice(_MODES), "g",
        )  # fmt: skip


_FIRST: Final = {
    "supplier": 12, "customer": 20, "part": 25, "partsupp": 60, "orders": 120, "lineitem": 400,
}  # fmt: skip
"""Rows of the first batch; regions and nations are there once each."""
_LATER: Final = {
    "supplier": 2, "customer": 3, "part": 3, "partsupp": 8, "orders": 15, "lineitem": 40,
}  # fmt: skip


def tpch_tables(root: Path, seed: int) -> ChangingTables:
    """The tables of TPC-H; nothing is in them before the first change."""

    def rows(table: str, batch: int) -> list[Row]:
        generator = Generator(1000 * seed + batch)
        if table == "region":
            return [] if batch else [(key, name, "") for key, name in enumerate(_REGIONS)]
        if table == "nation":
            known = [(key, name, at, "") for key, (name, at) in enumerate(_NATIONS)]
            return [] if batch else known
        count = generator.random.randrange(_LATER[table] + 1) if batch else _FIRST[table]
        return [generator.row(table) for _ in range(count)]

    return ChangingTables(root, seed, SCHEMAS, rows)
