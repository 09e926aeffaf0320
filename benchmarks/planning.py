"""How long a file of Spark SQL takes from its text to its program, stage by stage.

    python -m benchmarks.planning

Two files: a daily load of a warehouse in some 300 lines (staging views that cast and clean,
joins, answers with aggregates), and 40 views of which each reads the one before.  Spark is warm:
the first round is left out.  `reopen` is what a checkpoint needs, which keeps the analysed plans.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from incmrql import Session
from incmrql.api.plans import InputOptions, of_sql
from incmrql.compiler.plans import PlanScript, compile_plans
from incmrql.errors import SourceText

ROUNDS: Final = 3
SUBJECTS: Final = 6
CHAINED: Final = 40

INPUT: Final = """CREATE OR REPLACE TEMPORARY VIEW {name} (
{columns}
) USING parquet OPTIONS (path '{path}');
"""

SUBJECT: Final = """
CREATE TEMPORARY VIEW clean_{n} AS
SELECT
  CAST(order_id AS bigint) AS order_id,
  CAST(customer_id AS bigint) AS customer_id,
  CAST(product_id AS bigint) AS product_id,
  TO_DATE(ordered) AS ordered,
  CAST(quantity AS int) AS quantity,
  CAST(price AS decimal(12, 2)) AS price,
  COALESCE(CAST(discount AS decimal(4, 2)), 0.00) AS discount,
  UPPER(TRIM(channel)) AS channel
FROM raw_{n}
WHERE order_id IS NOT NULL AND quantity > 0;

CREATE TEMPORARY VIEW sales_{n} AS
SELECT
  o.order_id, o.ordered, o.channel, o.quantity,
  o.quantity * o.price * (1 - o.discount) AS revenue,
  CASE WHEN o.discount > 0.20 THEN 'sale' WHEN o.discount > 0 THEN 'offer' ELSE 'full' END AS kind,
  c.country, c.segment, p.category, p.brand
FROM clean_{n} o
JOIN customers c ON o.customer_id = c.id
LEFT JOIN products p ON o.product_id = p.id AND p.active;

CREATE MATERIALIZED VIEW by_country_{n} AS
SELECT country, ordered, COUNT(*) AS orders, SUM(revenue) AS revenue, AVG(quantity) AS quantity,
  SUM(CASE WHEN kind = 'sale' THEN revenue ELSE 0 END) AS on_sale
FROM sales_{n}
GROUP BY country, ordered
HAVING COUNT(*) > 1;

CREATE MATERIALIZED VIEW brands_{n} AS
SELECT s.category, s.brand, SUM(s.revenue) AS revenue, MAX(s.ordered) AS latest
FROM sales_{n} s
WHERE s.segment IN ('A', 'B') AND s.country NOT IN (SELECT country FROM blocked)
GROUP BY s.category, s.brand;
"""

TABLES: Final = {
    "customers": "  id bigint,\n  country string,\n  segment string",
    "products": "  id bigint,\n  category string,\n  brand string,\n  active boolean",
    "blocked": "  country string",
}
RAW: Final = ",\n".join(
    f"  {column} string"
    for column in (
        "order_id", "customer_id", "product_id", "ordered", "quantity", "price", "discount",
        "channel",
    )
)  # fmt: skip


def daily_load(directory: Path) -> str:
    """A file of some 300 lines."""
    inputs = TABLES | {f"raw_{n}": RAW for n in range(SUBJECTS)}
    return _inputs(directory, inputs) + "".join(SUBJECT.format(n=n) for n in range(SUBJECTS))


def chain(directory: Path) -> str:
    """Views of which each reads the one before, and an answer."""
    views = "".join(
        f"CREATE TEMPORARY VIEW v{n} AS SELECT k, SUM(a) AS a, MAX(b) AS b\n"
        f"FROM v{n - 1} WHERE a > {n} GROUP BY k;\n"
        for n in range(1, CHAINED + 1)
    )
    table = _inputs(directory, {"v0": "  k bigint,\n  a bigint,\n  b bigint"})
    return table + views + f"SELECT * FROM v{CHAINED};\n"


def _inputs(directory: Path, tables: dict[str, str]) -> str:
    text = ""
    for name, columns in tables.items():
        path = directory / name
        path.mkdir(exist_ok=True)
        text += INPUT.format(name=name, columns=columns, path=path)
    return text


class Stages:
    """Seconds by stage, of all rounds: on the clock, and of Python's processor time."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what runs inside the block."""
        start, own = time.perf_counter(), time.process_time()
        yield
        self.seconds[name].append((time.perf_counter() - start, time.process_time() - own))


def measure(session: Session, text: str, stages: Stages) -> int:
    """One round; returns the number of nodes of the program."""
    source = SourceText(text, "daily.sql")
    with stages.stage("analyse, read and convert"):
        program = of_sql(session, source, InputOptions())
    script = program.compiled.plans
    assert script is not None
    with stages.stage("of that: convert"):
        compiled = compile_plans(script.script)
    with stages.stage("plan"):
        planned = compiled.program(compiled.streaming, watch=True)
    saved = json.dumps(script.script.as_json())
    with stages.stage("reopen"):
        again = compile_plans(PlanScript.of_json(json.loads(saved)))
        again.program(again.streaming, watch=True)
    return len(planned.nodes)


def main() -> None:
    """Measure both files and print the medians."""
    with tempfile.TemporaryDirectory() as temporary, Session() as session:
        for name, text in (
            ("daily load", daily_load(Path(temporary))),
            ("chained views", chain(Path(temporary))),
        ):
            measure(session, text, Stages())
            stages, nodes = Stages(), 0
            for _ in range(ROUNDS):
                nodes = measure(session, text, stages)
            sys.stdout.write(f"{name}: {len(text.splitlines())} lines, {nodes} nodes\n")
            for stage, seconds in stages.seconds.items():
                clock, own = (
                    statistics.median(times) * 1000 for times in zip(*seconds, strict=True)
                )
                sys.stdout.write(f"  {stage:26} {clock:8.0f} ms, in Python {own:8.0f} ms\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
