"""Loops kept up to date, against running them by hand over all data so far, in one run.

    python -m benchmarks.iteration [NAME ...] [--scale 0.01] [--rounds N] [--write] [--plot]

The names are those of cases (`pagerank-small`, `kmeans`, …), `flat` and `error`; without any all of
them are run.  Ends with status 1 if a figure is not as it must be; a way that is refused is
skipped, and it is said why.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.incremental import _is_bad, facts, write
from benchmarks.incremental_pairs import error_text
from benchmarks.incremental_run import Bench
from benchmarks.iteration_error import error
from benchmarks.iteration_flat import flat
from benchmarks.iteration_pairs import Found, measure
from benchmarks.iteration_plot import draw_results
from benchmarks.iteration_queries import CASES, HAND
from incmrql.api.session import Session

RESULTS: Final = Path(__file__).with_name("results") / "iteration.json"
OTHERS: Final[Mapping[str, Callable[[Bench], dict[str, Any]]]] = {"flat": flat, "error": error}
NAMES: Final = (*(case.name for case in CASES), *OTHERS)
HEAD: Final = (
    "| loop | way | batch | against by hand (quartiles) | must | other code by hand "
    "| against recompute in a task | kept by | verdict |\n|---|---|---|---|---|---|---|---|---|"
)
_MOST_SHOWN: Final = 12


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and maybe write and draw the results."""
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
    if given.plot:
        known = json.loads(RESULTS.read_text()) if given.write else results
        for file in draw_results(known, RESULTS.parent):
            print(f"drawn: {file.name}", flush=True)
    return 1 if any(_is_bad(result) for result in results.values()) else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.iteration")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--rounds", type=int, default=12, help="rounds that are timed")
    parser.add_argument("--warm-up", type=int, default=4, help="rounds before them")
    parser.add_argument("--write", action="store_true", help="keep the results")
    parser.add_argument("--plot", action="store_true", help="draw the results")
    parser.add_argument("--memory", default="5g", help="memory of the driver")
    parser.add_argument("--patience", type=float, default=600, help="seconds a run may take")
    where = Path(tempfile.gettempdir()) / "incmrql-iteration"
    parser.add_argument("--data", type=Path, default=where, help="folder for the data")
    return parser


def run(bench: Bench, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What was found, by name; it is printed on the way."""
    wanted = set(names)
    results: dict[str, dict[str, Any]] = {}
    chosen = [case for case in CASES if case.name in wanted]
    if chosen:
        print(HEAD, flush=True)
    for case in chosen:
        measured = measure(bench, case)
        results[case.name] = measured.as_json()
        print("\n".join(lines(measured)), flush=True)
    for name, measure_it in OTHERS.items():
        if name in wanted:
            try:
                results[name] = measure_it(bench)
            except Exception as problem:  # whatever it is, the others are still wanted
                results[name] = {"about": name, "verdict": f"FAIL: {error_text(problem)}"}
            print("\n" + "\n".join(facts(name, shorten(results[name]))), flush=True)
    return results


def lines(measured: Found) -> list[str]:
    """Rows of the table: one for each way, and one for each code by hand."""
    case, data = measured.case, measured.as_json()
    rows = []
    for way in measured.ways:
        ratios = data["ratios"][way]
        others = [f"{side}: {_ratio(ratios[side])}" for side in case.experts if side != HAND]
        kept = data["loops"][way]
        is_barred = way == case.barred
        rows.append(
            [
                case.about,
                way,
                _milliseconds(data["medians"][way]),
                _ratio(ratios[HAND]),
                f"{case.must}" if is_barred else "",
                ", ".join(others),
                _ratio(ratios["recompute"]) if "recompute" in ratios else "",
                ", ".join(f"{loop_mode} {times}" for loop_mode, times in kept["ways"].items()),
                measured.verdict if is_barred else "",
            ]
        )
    rows += [
        [case.about, side, _milliseconds(data["medians"][side]), *[""] * 6]
        for side in case.experts
        if side in data["medians"]
    ]
    missing = {**measured.refused, **measured.slow}
    rows += [[case.about, way, f"skipped: {why}", *[""] * 6] for way, why in missing.items()]
    if case.barred not in measured.ways:
        rows.append([case.about, case.barred, *[""] * 6, measured.verdict])
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _ratio(quartiles: list[float]) -> str:
    low, middle, high = quartiles
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def shorten(results: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten the long series in results to their first, middle and last figures."""
    return {key: _short(value) for key, value in results.items()}


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list) and len(value) > _MOST_SHOWN:
        some = (value[0], value[len(value) // 2], value[-1])
        return ", ".join(
            f"{number:.3g}" if isinstance(number, float) else str(number) for number in some
        )
    return value


if __name__ == "__main__":
    sys.exit(main())
