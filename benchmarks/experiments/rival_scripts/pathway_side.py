"""A query on Pathway, as told on standard input; changes of its answer go to standard output.

Runs in an environment of its own: see `rivals_process.py` for what is said.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import pathway as pw

STEPS: Final = 10
COMMIT: Final = 20
"""Milliseconds after which rows that were read are let through."""
TYPES: Final = {"int": int, "double": float}


def average(tables: Mapping[str, Any]) -> Any:
    """The average by key."""
    facts = tables["facts"]
    return facts.groupby(facts.K).reduce(facts.K, m=pw.reducers.avg(facts.D))


def join(tables: Mapping[str, Any]) -> Any:
    """Two growing tables joined, and the average by group."""
    left, right = tables["left"], tables["right"]
    joined = left.join(right, left["B"] == right["C"]).select(left.A, right.D)
    return joined.groupby(joined.A).reduce(joined.A, m=pw.reducers.avg(joined.D))


def histogram(tables: Mapping[str, Any]) -> Any:
    """How many keys occur how often."""
    numbers = tables["numbers"]
    counts = numbers.groupby(numbers.K).reduce(n=pw.reducers.count())
    return counts.groupby(counts.n).reduce(counts.n, keys=pw.reducers.count())


def filter_by_sum(tables: Mapping[str, Any]) -> Any:
    """Rows above the sum of their partners."""
    outer, inner = tables["outer"], tables["inner"]
    sums = inner.groupby(inner.K).reduce(inner.K, s=pw.reducers.sum(inner["C"]))
    joined = outer.join_left(sums, outer.B == sums.K).select(
        outer.A, outer.B, outer.D, s=pw.coalesce(sums.s, 0)
    )
    return joined.filter(joined.s < joined.D).select(pw.this.A, pw.this.B, pw.this.D)


def extremes(tables: Mapping[str, Any]) -> Any:
    """Least and greatest by key; a row leaves by another one of weight -1."""
    numbers = tables["numbers"]
    rows = numbers.groupby(numbers.K, numbers.V).reduce(
        numbers.K, numbers.V, w=pw.reducers.sum(numbers.W)
    )
    there = rows.filter(rows.w > 0)
    return there.groupby(there.K).reduce(
        there.K, low=pw.reducers.min(there.V), high=pw.reducers.max(there.V)
    )


def top(tables: Mapping[str, Any]) -> Any:
    """The ten greatest: a group of all rows, of which the first ones are taken."""
    facts = tables["facts"].select(pair=pw.make_tuple(-pw.this.D, pw.this.K))
    whole = facts.reduce(all=pw.reducers.sorted_tuple(facts.pair))
    first = whole.select(pair=pw.apply_with_type(_first, list[tuple[float, int]], whole.all))
    rows = first.flatten(first.pair)
    return rows.select(K=rows.pair[1], D=-rows.pair[0])


def _first(pairs: Any) -> Any:
    return list(pairs[:10])


def distinct(tables: Mapping[str, Any]) -> Any:
    """All keys."""
    numbers = tables["numbers"]
    return numbers.groupby(numbers.K).reduce(numbers.K)


def pagerank(tables: Mapping[str, Any]) -> Any:
    """The steps one after the other."""
    edges = tables["edges"]
    degrees = edges.groupby(edges.src).reduce(edges.src, degree=pw.reducers.count())
    links = edges.join(degrees, edges.src == degrees.src).select(
        edges.src, edges.dst, degrees.degree
    )
    ranks = degrees.select(page=degrees.src, rank=1.0)
    for _ in range(STEPS):
        shares = links.join(ranks, links.src == ranks.page).select(
            links.dst, share=ranks.rank / links.degree
        )
        sums = shares.groupby(shares.dst).reduce(page=shares.dst, s=pw.reducers.sum(shares.share))
        ranks = sums.select(sums.page, rank=0.15 + 0.85 * sums.s)
    return ranks


QUERIES: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "average": average,
    "join": join,
    "histogram": histogram,
    "filter": filter_by_sum,
    "extremes": extremes,
    "top": top,
    "distinct": distinct,
    "pagerank": pagerank,
}


def read(folder: str, columns: str) -> Any:
    """A folder of CSV files, watched; rows have a weight."""
    fields = dict(column.split() for column in columns.split(", "))
    types = {name: TYPES[type_] for name, type_ in fields.items()}
    schema = pw.schema_from_types(**types, W=int)
    return pw.io.csv.read(folder, schema=schema, mode="streaming", autocommit_duration_ms=COMMIT)


def main() -> None:
    """Run the query that the first line tells."""
    told = json.loads(sys.stdin.readline())
    out = sys.stdout

    def change(key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG001
        cells = "|".join(map(str, row.values()))
        out.write(f"{'+' if is_addition else '-'} {cells}\n")

    def flush(time: int) -> None:  # noqa: ARG001
        out.flush()

    try:
        tables = {
            name: read(f"{told['folder']}/{name}", columns)
            for name, columns in told["tables"].items()
        }
        pw.io.subscribe(QUERIES[told["query"]](tables), on_change=change, on_time_end=flush)
        print(json.dumps({"ready": told["query"]}), flush=True)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    except Exception as error:
        message = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}"
        print(json.dumps({"refused": message, "failed": message}), flush=True)


if __name__ == "__main__":
    main()
