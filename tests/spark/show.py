"""Shows that queries of Spark are kept right: after every batch they answer as plain Spark does.

    python -m tests.spark.show [--seeds N] [--batches N] [--seed N] [--only NAME ...]

Part by part: the questions of TPC-H and TPC-DS, the texts and DataFrames of many shapes that tests
of the conversion read, and random queries: 20,000 cases of engine against evaluator without a JVM,
and 500 queries against plain Spark; random windows, if asked for.  What is refused is counted with
its reason, and what is not run is named.  The exit code is 1 if an answer differs, or if too many
queries are refused.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import duckdb
from pyspark.errors import AnalysisException

import incmrql
from incmrql.spark.session import start
from tests.catalyst.dumps import user_session
from tests.catalyst.frames import FRAMES
from tests.catalyst.judging import agree, is_close
from tests.catalyst.random_cases import MOST_REFUSED, try_pool
from tests.catalyst.random_plans import frames_of, read_pool, write_pool
from tests.catalyst.random_windows import random_query
from tests.catalyst.texts import texts
from tests.spark.changing import ChangingTables, rows_of
from tests.spark.shapes import random_tables, shape_tables, window_tables
from tests.spark.tpcds import BATCHES, ChangingStore, for_spark, questions, without_limit
from tests.spark.tpch import QUESTIONS, tpch_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.api.results import Result


Rows: TypeAlias = list[tuple[Any, ...]]
OPEN: Final = ("drop_duplicates", "first_last", "limit", "collect")
"""Queries that leave Spark a choice of rows: they are compared by how many there are."""


@dataclass(slots=True)
class Part:
    """What came of the queries of a part, by their names."""

    name: str
    right: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    spark_fails: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    """Rows of all answers: a part whose answers are empty would show nothing."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0

    def lines(self) -> Iterator[str]:
        """The part for a reader."""
        queries = {*self.right, *self.refused, *self.spark_fails, *self.wrong}
        took = f"{self.seconds:.0f} s"
        if queries or not self.notes:
            right = f": {len(set(self.right) - self.wrong.keys())} of {len(queries)} right"
            yield f"{self.name}{right if queries else ''}, {self.rows} rows, {took}"
        else:
            yield f"{self.name}: {self.notes[0]}, {took}"
            yield from self.notes[1:]
        for reason, _ in Counter(self.refused.values()).most_common():
            names = [name for name, why in self.refused.items() if why == reason]
            yield f"  refused, {len(names)}: {reason} ({', '.join(names[:5])})"
        if self.spark_fails:
            yield f"  raise an error in Spark itself: {', '.join(self.spark_fails)}"
        for name, why in self.wrong.items():
            yield f"  WRONG {name}: {why}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query over tables that change: as users ask it, and as plain Spark is asked."""

    name: str
    tables: ChangingTables
    users: SparkSession
    ask: Ask
    plain: Plain


Ask = Callable[[incmrql.Session], "Result"]
Plain = Callable[["SparkSession"], "DataFrame"]


def follow(part: Part, query: Query, batches: int) -> None:
    """Follow a query over some batches, and note what came of it."""
    name, tables, users = query.name, query.tables, query.users
    for table in tables.schemas:
        tables.frame(users, table).createOrReplaceTempView(table)
    try:
        with (
            incmrql.Session(spark=users) as session,
            query.ask(session).start(settle=0, on_arithmetic="null") as run,
        ):
            for batch in range(batches):
                tables.change()
                run.step()
                try:
                    expected = rows_of(query.plain(tables.plain_session(users)))
                except Exception:  # an error of ANSI mode, mostly
                    part.spark_fails.append(name)
                    return
                answer = rows_of(run.answer_df())
                part.rows += answer.total()
                is_open = name in OPEN and answer.total() == expected.total()
                if answer != expected and not is_open:
                    missing, extra = list(expected - answer)[:2], list(answer - expected)[:2]
                    part.wrong[name] = f"batch {batch}: missing {missing}, too many {extra}"
                    return
        part.right.append(name)
    except incmrql.QueryError as refusal:
        part.refused[name] = refusal.message
    except incmrql.DataError as refusal:
        part.refused[name] = refusal.message
    except AnalysisException as problem:  # the tables lack columns of types that we do not have
        part.refused[name] = str(problem.getCondition())
    except Exception as problem:  # a finding like any other
        part.wrong[name] = f"{type(problem).__name__}: {str(problem)[:300]}"


def tpch(spark: SparkSession, folder: Path, chosen: Chosen) -> Part:
    """The questions of TPC-H."""
    part = Part("TPC-H")
    for seed in range(chosen.seeds):
        for name, text in QUESTIONS.items():
            tables = tpch_tables(folder / f"tpch-{name}-{seed}", 100 * seed + int(name[1:]))
            query = Query(
                name, tables, spark.newSession(),
                lambda session, text=text: session.sql(text),  # type: ignore[misc]
                lambda plain, text=text: plain.sql(text),  # type: ignore[misc]
            )  # fmt: skip
            follow(part, query, chosen.batches)
    return part


def shapes(spark: SparkSession, folder: Path, chosen: Chosen) -> Part:
    """SQL texts of many shapes over three tables."""
    part = Part("texts of many shapes")
    for seed in range(chosen.seeds):
        for name, text in texts("shapes").items():
            tables = shape_tables(folder / f"shapes-{name}-{seed}", seed)
            query = Query(
                name, tables, spark.newSession(),
                lambda session, text=text: session.sql(text),  # type: ignore[misc]
                lambda plain, text=text: plain.sql(text),  # type: ignore[misc]
            )  # fmt: skip
            follow(part, query, chosen.batches)
    return part


def frames(spark: SparkSession, folder: Path, chosen: Chosen) -> Part:
    """DataFrames of many shapes over the same tables."""
    part = Part("DataFrames of many shapes")
    for seed in range(chosen.seeds):
        for name, build in FRAMES.items():
            tables = shape_tables(folder / f"frames-{name}-{seed}", seed)
            users = spark.newSession()
            table = cache(users.table)
            query = Query(
                name, tables, users,
                lambda session, b=build, t=table: session.query(b(t)),  # type: ignore[misc]
                lambda plain, b=build: b(cache(plain.table)),  # type: ignore[misc]
            )  # fmt: skip
            follow(part, query, chosen.batches)
    return part


def windows(spark: SparkSession, folder: Path, chosen: Chosen) -> Part:
    """Random queries with windows, whose orders leave no choice; a hundred for each seed."""
    part = Part("random windows")
    for number in range(100 * chosen.seeds):
        text = random_query(random.Random(number), total=True).text
        query = Query(
            f"w{number}", window_tables(folder / f"windows-{number}", number), spark.newSession(),
            lambda session, text=text: session.sql(text),  # type: ignore[misc]
            lambda plain, text=text: plain.sql(text),  # type: ignore[misc]
        )  # fmt: skip
        follow(part, query, chosen.batches)
        if f"w{number}" in part.wrong:
            part.wrong[f"w{number}"] += f"\n    {text}"
    return part


def tpcds(spark: SparkSession, folder: Path, chosen: Chosen) -> Part:
    """The questions of TPC-DS: DuckDB answers them too, and where it differs plain Spark decides.

    A limit whose order leaves ties open is compared with all rows of the text without it.
    """
    part = Part("TPC-DS")
    asked = questions()
    if not asked:
        return Part("TPC-DS: not run, its tables are not there (get them: make tpcds)")
    store = ChangingStore(folder / "tpcds", chosen.seed)
    for name, text in asked.items():
        root, users = folder / "tpcds" / name, spark.newSession()
        store.begin(root, users)
        try:
            with (
                incmrql.Session(spark=users) as session,
                session.sql(for_spark(text)).start(settle=0, on_arithmetic="null") as run,
            ):
                for batch in range(BATCHES):
                    store.arrive(root, batch)
                    run.step()
                    rows = [tuple(row) for row in run.answer_df().collect()]
                    why = _difference(spark, store, text, batch, rows)
                    if why:
                        part.wrong[name] = f"batch {batch}: {why}"
                        break
                    part.rows += len(rows)
            _progress(part, name)
            part.right.append(name)
        except (incmrql.QueryError, incmrql.DataError) as refusal:
            part.refused[name] = refusal.message
        except Exception as problem:  # a finding like any other
            part.wrong[name] = f"{type(problem).__name__}: {str(problem)[:300]}"
        shutil.rmtree(root)
    return part


def _progress(part: Part, name: str) -> None:
    """Say on stderr how far a long part is."""
    sys.stderr.write(f"{part.name} {name}: {part.wrong.get(name, 'right')}\n")


def _difference(
    spark: SparkSession, store: ChangingStore, text: str, batch: int, rows: Rows
) -> str:
    """How an answer differs from those of DuckDB and of plain Spark; empty if it is one of both."""
    try:
        expected = store.by_duckdb(text, batch)
        if agree(rows, expected) or _are_first(rows, text, partial(store.by_duckdb, batch=batch)):
            return ""
    except duckdb.Error:
        expected = []

    plain = store.plain_session(spark, batch)

    def by_spark(asked: str) -> Rows:
        return [tuple(row) for row in plain.sql(for_spark(asked)).collect()]

    if agree(rows, by_spark(text)) or _are_first(rows, text, by_spark):
        return ""
    return f"{rows[:3]} are not {by_spark(text)[:3]}, DuckDB {expected[:3]}"


def _are_first(rows: Rows, text: str, answer: Callable[[str], Rows]) -> bool:
    """Whether rows are some of those of a text without its limit, and as many as it allows."""
    unlimited, limit = without_limit(text)
    if limit is None:
        return False
    rest = answer(unlimited)
    if len(rows) != min(limit, len(rest)):
        return False
    for row in rows:
        place = next((place for place, other in enumerate(rest) if is_close(row, other)), None)
        if place is None:
            return False
        del rest[place]
    return True


def pool(spark: SparkSession, _folder: Path, chosen: Chosen) -> Part:
    """Make the plans of many random queries for the next part."""
    path = pool_path(chosen)
    if not path.exists():
        write_pool(spark, chosen.queries, path, first=1_000_000 * chosen.seed)
    return Part(f"random plans: {len(read_pool(path))} queries that Spark accepts, in {path}")


def pool_path(chosen: Chosen) -> Path:
    """Where the plans of a seed are."""
    return Path(f"build/random-plans/{chosen.seed}-{chosen.queries}.jsonl.xz")


def cases(_spark: SparkSession, _folder: Path, chosen: Chosen) -> Part:
    """Random plans: the engine against the evaluator, and queries against their parts."""
    if not pool_path(chosen).exists():
        return Part("random plans, without a JVM: not run, there is no pool (make it: --only pool)")
    part = Part("random plans, without a JVM")
    tally = try_pool(pool_path(chosen), chosen.cases)
    part.notes = list(tally.lines())
    part.wrong = {f"case {number}": why for number, why in enumerate(tally.wrong)}
    if tally.share_refused > MOST_REFUSED:
        part.wrong["refused"] = f"{tally.share_refused:.0%} of the queries are refused"
    return part


def random_queries(spark: SparkSession, folder: Path, chosen: Chosen) -> Part:
    """Random queries against plain Spark; what fails there is reported here as well."""
    part = Part("random queries on Spark")
    seed = 1_000_000 * chosen.seed
    while len(part.right) + len(part.wrong) < chosen.on_spark:
        kind = ("sql", "frame")[seed % 2]
        follow_random(part, spark, folder / f"random-{seed}", kind, seed)
        seed += 1
    tried = len(part.right) + len(part.wrong) + len(part.refused)
    if len(part.refused) > MOST_REFUSED * tried:
        part.wrong["refused"] = f"{len(part.refused)} of {tried} queries are refused"
    return part


def follow_random(part: Part, spark: SparkSession, folder: Path, kind: str, seed: int) -> None:
    """Follow a random query over two batches, and note what came of it."""
    name, tables = f"{kind} {seed}", random_tables(folder, seed)
    users = user_session(spark)
    for table in tables.schemas:
        tables.frame(users, table).createOrReplaceTempView(table)
    try:
        (frame,) = frames_of(users, kind, seed)
        frame.schema  # noqa: B018 - analyses it
    except Exception:  # Spark refuses it
        return
    try:
        with (
            incmrql.Session(spark=users) as session,
            session.query(frame).start(settle=0, on_arithmetic="report") as run,
        ):
            for batch in range(2):
                tables.change()
                report = run.step()
                has_failed = report is not None and report.errors is not None
                try:
                    (plain,) = frames_of(tables.plain_session(users), kind, seed)
                    expected = rows_of(plain)
                except Exception as problem:  # an error of ANSI mode, mostly
                    if not has_failed:
                        part.wrong[name] = f"batch {batch}: Spark says {str(problem)[:200]}"
                    part.spark_fails.append(name)
                    break
                answer = rows_of(run.answer_df())
                if answer != expected and not has_failed:
                    missing, extra = list(expected - answer)[:2], list(answer - expected)[:2]
                    part.wrong[name] = f"batch {batch}: missing {missing}, too many {extra}"
                    break
                part.rows += answer.total()
        part.right.append(name)
    except (incmrql.QueryError, incmrql.DataError) as refusal:
        part.refused[name] = refusal.message
    except Exception as problem:  # a finding like any other
        part.wrong[name] = f"{type(problem).__name__}: {str(problem)[:300]}"
    shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Chosen:
    """How much is run."""

    seeds: int
    batches: int
    seed: int
    queries: int
    cases: int
    on_spark: int


PARTS: Final[dict[str, Callable[[SparkSession, Path, Chosen], Part]]] = {
    "tpch": tpch,
    "tpcds": tpcds,
    "shapes": shapes,
    "frames": frames,
    "pool": pool,
    "cases": cases,
    "random": random_queries,
    "windows": windows,
}
ASKED_FOR: Final = ("windows",)
"""Parts that do not run by themselves."""


def main() -> int:
    """Run the parts, print them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=700)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--on-spark", type=int, default=500)
    parser.add_argument(
        "--only", nargs="*", default=[part for part in PARTS if part not in ASKED_FOR]
    )
    arguments = vars(parser.parse_args())
    only = arguments.pop("only")
    chosen = Chosen(**arguments)
    done: list[Part] = []
    with tempfile.TemporaryDirectory(prefix="incmrql-show-") as directory:
        spark = start("local[2]", {"spark.sql.shuffle.partitions": "2"})
        for name in only:
            began = time.monotonic()
            part = PARTS[name](spark, Path(directory), chosen)
            part.seconds = time.monotonic() - began
            _say("\n".join(part.lines()))
            done.append(part)
        spark.stop()
    _say("--- in short ---\n" + "\n".join(next(part.lines()) for part in done))
    return 1 if any(part.wrong for part in done) else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
