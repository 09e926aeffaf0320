"""The test of the bank: money moves between accounts, so the sum of all balances is always 0.

Four views of random transfers follow each other: credits and debits by account, balances from both,
and their total.  A reader looks at them after every batch.  An engine whose views do not belong
together shows money that nobody has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from benchmarks.experiments.bank_data import GONE, TRANSFERS, Batch, Ledger, Views, batches
from benchmarks.experiments.bank_streaming import streaming_findings
from benchmarks.experiments.base import Experiment, Finding, Options, Tell, failure, session_for
from benchmarks.incremental_run import folder_in, program
from incmrql.runtime import Driver, StreamOptions

TRANSFERS_COUNT: Final = 10_000
LARGEST: Final = 100
"""Transfers in the largest batch."""
QUICK_LARGEST: Final = 800
VIEWS: Final = """
    Transfers = stream(parquet, "{transfers}", type(< src: int, dst: int, amount: int >),
                       deletes: "{gone}");
    Credits = select < account: a, amount: sum(t.amount) > from t in Transfers group by a: t.dst;
    Debits = select < account: a, amount: sum(t.amount) > from t in Transfers group by a: t.src;
    Accounts = select distinct a from a in ((select t.src from t in Transfers)
                                            union (select t.dst from t in Transfers));
    Balance = select < account: a,
                       amount: sum(select c.amount from c in Credits where c.account = a)
                               - sum(select d.amount from d in Debits where d.account = a) >
              from a in Accounts;
    incr Credits;
    incr Debits;
    incr Balance;
    incr sum(select b.amount from b in Balance);
"""


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """incmrql, then Structured Streaming as far as it goes, over the same batches."""
    largest = QUICK_LARGEST if options.quick else LARGEST
    history = list(batches(TRANSFERS_COUNT, largest, options.seed))
    with session_for(options) as session, folder_in(options.data) as folder:
        tell(f"bank: {len(history)} batches of {TRANSFERS_COUNT:,} transfers by incmrql")
        try:
            yield check_views(session.private_spark(), history, folder / "ours")
        except Exception as error:  # whatever it is, the others are still wanted
            yield failure("bank", "incmrql", error)
        yield from streaming_findings(session.spark, history, folder / "streaming", tell)


def check_views(
    spark: SparkSession,
    history: list[Batch],
    folder: Path,
    text: str = VIEWS,
    case: str = "incmrql",
) -> Finding:
    """Run the views as one program over a stream and check them after every batch."""
    ledger, wrong, problems = Ledger(), 0, list[str]()
    data = folder / "data"
    for name in (TRANSFERS, GONE):
        (data / name).mkdir(parents=True)
    queries = program(text.format(transfers=data / TRANSFERS, gone=data / GONE))
    options = StreamOptions(settle=0.0)
    with Driver(queries, folder / "checkpoint", None, spark, options) as driver:
        for batch in history:
            batch.write(data)
            report = driver.step()
            assert report is not None, "there is nothing to take in"
            ledger.take(batch)
            look_problems = ledger.problems(views_of(driver))
            wrong += bool(look_problems)
            problems += [f"batch {batch.number}: {problem}" for problem in look_problems]
    figures = {
        "transfers": sum(len(batch.come) for batch in history),
        "taken back": sum(len(batch.gone) for batch in history),
        "looks": len(history),
        "not 0": sum("total" in problem for problem in problems),
        "wrong": wrong,
    }
    note = "; ".join(problems[:3])
    return Finding("bank", case, figures, None, "wrong" if problems else "right", note)


def views_of(driver: Driver) -> Views:
    """The views as a reader sees them after a batch."""
    credits_, debits, balance = (_by_account(driver.answer(place)) for place in range(3))
    return Views(credits_, debits, balance, int(driver.answer(3)))


def _by_account(rows: Any) -> dict[int, int]:
    return {row["account"]: row["amount"] for row in rows}


EXPERIMENT: Final = Experiment(
    "bank", "random transfers between accounts: is the total 0 after every batch?", run
)
