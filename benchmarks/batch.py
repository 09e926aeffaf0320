"""Batch queries by incmrql against data-frame code of an expert, interleaved in one run.

    python -m benchmarks.batch [--quick] [--only NAME] [--rounds N] [--anew] [--write] [--data DIR]

Each query is made from its text, or its code, and run to its end, by both sides in turn, on the
same Spark session.  Before that the answers are compared, the exchanges of the final plans and
the rows that were scanned.  Ends with status 1 if any row is not as it should be.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.batch_data import QUICK, Sizes, folder_of
from benchmarks.batch_measure import Bench, Row, measure
from benchmarks.batch_queries import CASES
from benchmarks.batch_steps import STEPS, Steps, measure_steps
from incmrql.api.session import Session

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- batch: begin -->", "<!-- batch: end -->"
STEPS_NAME = "steps"
HEAD = (
    "| query | incmrql | by hand | ratio (quartiles) | allowed | exchanges | rows scanned "
    "| jobs | stages | verdict |\n|---|---|---|---|---|---|---|---|---|---|"
)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and maybe write the table into the README."""
    given = _options().parse_args(arguments)
    sizes = QUICK if given.quick else Sizes()
    rounds = given.rounds or (3 if given.quick else 15)
    load = os.getloadavg()
    data = folder_of(given.data, sizes)
    conf = {"spark.driver.memory": given.memory}
    with Session(master="local[2]", conf=conf) as session:
        bench = Bench(
            session,
            session.private_spark(),
            data,
            rounds,
            1 if given.quick else 3,
            given.patience,
            given.anew,
        )
        rows: list[Row] = []
        print(HEAD, flush=True)
        for case in CASES:
            if given.only is not None and given.only not in case.name:
                continue
            for fast in (False, True) if case.floats else (False,):
                rows.append(measure(bench, case, fast=fast))
                print(line(rows[-1]), flush=True)
        wanted = given.only is None or given.only in STEPS_NAME
        steps = measure_steps(bench, 1 if given.quick else 3) if wanted else []
    if steps:
        print("\n" + steps_table(steps))
    about = _about(sizes, rounds, load)
    print("\n" + about)
    if given.write:
        whole = [about, "\n".join([HEAD, *map(line, rows)]), steps_table(steps)]
        write(README, "\n\n".join(part for part in whole if part))
    bad = [row.name for row in rows if row.problems] + [s.side for s in steps if not s.is_flat]
    return 1 if bad else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch")
    parser.add_argument("--quick", action="store_true", help="small data and three rounds")
    parser.add_argument("--only", metavar="NAME", help=f'queries with this name, or "{STEPS_NAME}"')
    parser.add_argument("--rounds", type=int, metavar="N", help="pairs that are timed")
    parser.add_argument("--anew", action="store_true", help="compile the text in every run")
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    parser.add_argument("--memory", default="5g", help="memory of the driver")
    parser.add_argument("--patience", type=float, default=600, help="seconds a run may take")
    where = Path(tempfile.gettempdir()) / "incmrql-batch"
    parser.add_argument("--data", type=Path, default=where, help="folder for the data")
    return parser


def line(row: Row) -> str:
    """A row of the table."""
    ours, theirs, ratio = "-", "-", "-"
    if row.pairs:
        ours, theirs = (_seconds([pair[side] for pair in row.pairs]) for side in (0, 1))
        low, middle, high = row.quartiles
        ratio = f"{middle:.2f} ({low:.2f}-{high:.2f})"
    exchanges, scanned = "-", "-"
    if row.plans:
        exchanges = _pair(row.plans[0].exchanges, row.plans[1].exchanges)
        scanned = _pair(row.plans[0].scanned, row.plans[1].scanned)
    jobs, stages = "-", "-"
    if row.work:
        jobs = _pair(row.work[0].jobs, row.work[1].jobs)
        stages = _pair(row.work[0].stages, row.work[1].stages)
    verdict = "; ".join(row.problems).replace("|", "\\|") or "ok"
    cells = (row.name, ours, theirs, ratio, f"{row.limit}", exchanges, scanned, jobs, stages)
    return "| " + " | ".join([*cells, verdict]) + " |"


def _seconds(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s"


def _pair(ours: int, theirs: int) -> str:
    """A count of both sides, once where it is the same."""
    return f"{ours:,}" if ours == theirs else f"{ours:,} / {theirs:,}"


def steps_table(steps: list[Steps]) -> str:
    """How long the steps of a loop take from the first to the last."""
    if not steps:
        return ""
    lines = [
        f"| {STEPS} steps of PageRank | first five | last five | growth | verdict |",
        "|---|---|---|---|---|",
    ]
    for steps_of_side in steps:
        ends = [
            statistics.median(part)
            for part in (steps_of_side.seconds[:5], steps_of_side.seconds[-5:])
        ]
        shown = " | ".join(f"{seconds * 1000:.0f} ms" for seconds in ends)
        verdict = "flat" if steps_of_side.is_flat else "grows"
        lines.append(
            f"| {steps_of_side.side} | {shown} | {steps_of_side.growth:+.0%} | {verdict} |"
        )
    return "\n".join(lines)


def _about(sizes: Sizes, rounds: int, load: tuple[float, float, float]) -> str:
    after = os.getloadavg()
    return (
        f"{rounds} pairs, medians, {sizes.facts:,} rows of facts; {os.cpu_count()} cores, Python"
        f" {platform.python_version()}. Load of the machine {load[0]:.1f} before and {after[0]:.1f}"
        " after. Where two counts differ, incmrql's stands first."
    )


def write(readme: Path, table: str) -> None:
    """Put a text between the marks in the README."""
    text = readme.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (begin and closed):
        raise SystemExit(f"{readme} has no place for the table: {BEGIN} … {END}")
    readme.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
