"""Names of a user's that look like ours, and JSON of which little is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql import Session
from incmrql.api import run
from incmrql.spark.sources import context
from incmrql.values import identical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

ROW = "< a1: int, k1: int, k2: int, b2: int, count3: int, c4: int, t5: int, value: int >"
NAMED = (
    "select (k, count(x), sum(x.a1), max(x.count3)) from x in T group by k: x.b2",
    "select < a1: x.b2, b2: x.a1, k2: x.k1 > from x in T where x.b2 > x.a1",
    "select < a1: k, b2: sum(x.a1) > from x in T group by k: (x.k2, x.b2) having count(x) > 1",
    "select (x.k1, y.k1, y.t5) from x in T, y in T where x.a1 = y.b2 and x.value < y.c4",
    "select x.a1 from x in T where x.b2 > 1 order by x.k2 desc, x.a1 limit 3",
    "select (x.k1, count(select y from y in T where y.a1 = x.b2), "
    "avg(select y.t5 from y in T where y.a1 = x.b2)) from x in T",
    "select (k, count(x)) from x in T group by k: 1",
    "select (k, j, count(x)) from x in T group by k: x.a1 % 2, j: -1",
)
ORDERS = [
    {"id": 1, "customer": "a", "items": [{"product": "p", "pieces": 2, "price": 0.5}]},
    {"customer": None, "id": 2, "items": []},
    {"id": 3, "customer": "b\\u00e9\n", "items": [None, {"product": "é\U00010000", "pieces": 1}]},
    {"id": 4, "items": None, "more": {"deep": [1]}},
    None,
]
READ = (
    "select (p, count(i), sum(i.pieces)) from o in S, i in o.items group by p: i.product",
    "select (o.id, count(o.items)) from o in S",
    "count(S)",
    "select o.customer from o in S where exists o.items",
)


@pytest.mark.parametrize("query", NAMED)
def test_columns_may_have_names_like_ours(query: str, tmp_path: Path, spark: SparkSession) -> None:
    rows = [",".join(str((n * k) % 5) for k in range(1, 9)) for n in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    text = query.replace(" T", f' source(line, "{tmp_path}/t.csv", ",", type({ROW}))')
    (expected,) = run(f"{text};")
    assert identical(Session(spark).query(text).collect(), expected.value)


@pytest.mark.parametrize("small", [-1, 1 << 20], ids=["workers", "here"])
@pytest.mark.parametrize("query", READ)
def test_json_is_read_alike_however_little_is_used(
    query: str, small: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_MOST_DRIVER_BYTES", small)
    lines = [json.dumps(order) for order in ORDERS] * 3
    lines += ['{"id": "no int", "items": []}', '{"id": 9, "items": [{"price": "x"}]}']
    (tmp_path / "o.json").write_text("\n".join(lines) + "\n")
    row = "< id: int, customer: string, items: [< product: string, pieces: int, price: double >] >"
    source = f'source(json, "{tmp_path}/o.json", type({row}), on_error: drop)'
    text = query.replace("S,", f"{source},").replace("in S", f"in {source}")
    text = text.replace("(S)", f"({source})")
    (expected,) = run(f"{text};")
    assert identical(Session(spark).query(text).collect(), expected.value)
