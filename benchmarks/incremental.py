"""Answers kept up to date, against doing it all again over the same files, in one run.

    python -m benchmarks.incremental [NAME ...] [--scale 0.01] [--rounds N] [--write] [--data DIR]

The names are those of workloads (`average`, `join`, …) and `chain`, `flat`, `floor`, `load`,
`memory`, `reads`; without any all of them are run.  Ends with status 1 if a figure is not as it
must be.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.incremental_chain import CHAIN
from benchmarks.incremental_costs import chain, floor, load
from benchmarks.incremental_flat import flat
from benchmarks.incremental_memory import memory
from benchmarks.incremental_pairs import SIDES, Pairs, error_text, measure, measure_reads
from benchmarks.incremental_queries import WORKLOADS
from benchmarks.incremental_run import Bench
from incmrql.api.session import Session

RESULTS: Final = Path(__file__).with_name("results") / "incremental.json"
READS: Final = "reads"
OTHERS: Final[Mapping[str, Callable[[Bench], dict[str, Any]]]] = {
    "chain": chain,
    "flat": flat,
    "floor": floor,
    "load": load,
    "memory": memory,
}
NAMES: Final = (*(workload.name for workload in WORKLOADS), *OTHERS, READS)
HEAD: Final = (
    "| workload | batch | batch engine | by hand | ratio (quartiles) | must | aim "
    "| state rows read | verdict |\n|---|---|---|---|---|---|---|---|---|"
)
READS_HEAD: Final = "| state rows read | history | ten times as large | factor |\n|---|---|---|---|"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and maybe write the results."""
    options = _options()
    given = options.parse_args(arguments)
    wanted = given.names or NAMES
    if unknown := set(wanted) - set(NAMES):
        options.error(f"no such name: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    load_before = os.getloadavg()[0]
    with Session(master="local[2]", conf={"spark.driver.memory": given.memory}) as session:
        bench = Bench(
            session,
            session.private_spark(),
            given.data,
            given.scale,
            given.rounds,
            given.warm_up,
            given.patience,
        )
        results = run(bench, wanted)
    results["about"] = {
        "scale": given.scale,
        "rounds": given.rounds,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
    }
    if given.write:
        write(RESULTS, results)
    return 1 if any(_is_bad(result) for result in results.values()) else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.incremental")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--rounds", type=int, default=15, help="rounds that are timed")
    parser.add_argument("--warm-up", type=int, default=6, help="rounds before them")
    parser.add_argument("--write", action="store_true", help="keep the results")
    parser.add_argument("--memory", default="5g", help="memory of the driver")
    parser.add_argument("--patience", type=float, default=600, help="seconds a run may take")
    where = Path(tempfile.gettempdir()) / "incmrql-incremental"
    parser.add_argument("--data", type=Path, default=where, help="folder for the data")
    return parser


def run(bench: Bench, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What was found, by name; it is printed on the way."""
    wanted = set(names)
    results: dict[str, dict[str, Any]] = {}
    chosen = [workload for workload in WORKLOADS if workload.name in wanted]
    if chosen:
        print(HEAD, flush=True)
    for workload in chosen:
        pairs = measure(bench, workload)
        results[workload.name] = pairs.as_json()
        print(line(pairs), flush=True)
    for name, measure_it in OTHERS.items():
        if name in wanted:
            try:
                results[name] = measure_it(bench)
            except Exception as error:  # whatever it is, the others are still wanted
                results[name] = {"about": name, "verdict": f"FAIL: {error_text(error)}"}
            print("\n" + "\n".join(facts(name, results[name])), flush=True)
    if READS in wanted:
        print("\n" + READS_HEAD, flush=True)
        results[READS] = {}
        for workload in (*WORKLOADS, CHAIN):
            read = results[READS][workload.name] = measure_reads(bench, workload)
            print(reads_line(workload.about, read), flush=True)
        bad = [name for name, read in results[READS].items() if not all(map(all, read.values()))]
        if bad:
            results[READS]["verdict"] = f"FAIL: nothing was counted for {', '.join(bad)}"
    return results


def reads_line(about: str, read: Mapping[str, list[int]]) -> str:
    """How many rows batches have read with either history, and how many times as many."""
    cells = [", ".join(f"{count:,}" for count in counts) for counts in read.values()]
    few, many = (statistics.median(counts) for counts in read.values())
    factor = f"{many / few:.2f}" if few else "nothing was counted"
    return "| " + " | ".join([about, *cells, factor]) + " |"


def line(pairs: Pairs) -> str:
    """A row of the table."""
    workload, data = pairs.workload, pairs.as_json()
    times, ratio, read = ["-"] * len(SIDES), "-", "-"
    if "medians" in data:
        times = [f"{data['medians'][side] * 1000:,.0f} ms" for side in SIDES]
        low, middle, high = data["quartiles"]
        ratio = f"{middle:.2f} ({low:.2f}-{high:.2f})"
        read = f"{data['state_read']:,.0f}"
    cells = [workload.about, *times, ratio, f"{workload.must}", f"{workload.aim}", read]
    return "| " + " | ".join([*cells, pairs.verdict.replace("|", "\\|")]) + " |"


def facts(name: str, result: Mapping[str, Any]) -> list[str]:
    """A table of figures, one a line."""
    lines = [f"| {name} | {result['about']} |", "|---|---|"]
    for key, value in result.items():
        if key == "about":
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [
                f"| {key.replace('_', ' ')} | {', '.join(_pairs(item))} |" for item in value
            ]  # fmt: skip
        elif isinstance(value, dict):
            for part, inner in value.items():
                shown = (
                    ", ".join(_pairs(inner)) if isinstance(inner, dict) else _cell_text(key, inner)
                )
                lines.append(f"| {key.replace('_', ' ')}: {part} | {shown} |")
        else:
            lines.append(f"| {key.replace('_', ' ')} | {_cell_text(key, value)} |")
    return lines


def _pairs(figures: Mapping[str, Any]) -> list[str]:
    return [f"{key.replace('_', ' ')} {_cell_text(key, value)}" for key, value in figures.items()]


def _cell_text(key: str, value: object) -> str:
    if not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    if "bytes" in key:
        return f"{value / 2**20:,.3f} MiB" if abs(value) < 2**24 else f"{value / 2**20:,.0f} MiB"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Put what was found beside what other runs have found about other workloads."""
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **results}, indent=1) + "\n")


def _is_bad(result: Mapping[str, Any]) -> bool:
    return str(result.get("verdict", "PASS")).startswith("FAIL")


if __name__ == "__main__":
    sys.exit(main())
