"""Runs experiments and tells what they found.

Progress goes to `tell`, tables to `show`.  With `writes` the findings of each experiment are kept
as soon as it has ended, in `benchmarks/results/experiments.json`, in the README and as plots.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.experiments import MODULES, experiment
from benchmarks.experiments.base import Finding, Options, Tell, failure
from benchmarks.experiments.plots import draw_findings
from benchmarks.experiments.tables import as_json, as_markdown, as_text, merge, replace_table

FOLDER: Final = Path(__file__).parent.parent
RESULTS: Final = FOLDER / "results" / "experiments.json"
README: Final = FOLDER / "README.md"
SEED: Final = 5
MASTER: Final = "local[2]"


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to be run, and told."""

    names: Sequence[str]
    """All that are built if there is none."""
    quick: bool = False
    rounds: int = 0
    data: Path | None = None
    """Where histories are kept; without it they are removed at the end."""
    writes: bool = False
    as_json: bool = False


def experiments() -> Iterator[tuple[str, str]]:
    """The names and subjects of all experiments."""
    for name in MODULES:
        try:
            yield name, experiment(name).about
        except ModuleNotFoundError as missing:
            yield name, f"not there: {missing.name}"


def run(wish: Wish, tell: Tell, show: Callable[[str], None]) -> bool:
    """Run what is wanted; whether every answer was right."""
    good = True
    begun = time.perf_counter()
    with _data(wish) as data:
        options = Options(wish.quick, wish.rounds, data, SEED, MASTER)
        for name in wish.names or MODULES:
            before = os.getloadavg()[0]
            findings = _findings(name, options, tell)
            good = good and not any(finding.is_bad for finding in findings)
            for text in _output_lines(name, findings, wish):
                show(text)
            if wish.writes:
                keep(name, findings, _about(options, before), tell)
    tell(f"all done in {time.perf_counter() - begun:,.0f} s")
    return good


@contextmanager
def _data(wish: Wish) -> Iterator[Path]:
    if wish.data is not None:
        wish.data.mkdir(parents=True, exist_ok=True)
        yield wish.data.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="incmrql-bench-", ignore_cleanup_errors=True) as own:
        yield Path(own)


def _findings(name: str, options: Options, tell: Tell) -> list[Finding]:
    """What an experiment finds; that it failed is a finding too, after what it had found."""
    findings: list[Finding] = []
    begun = time.perf_counter()

    def tell_progress(text: str) -> None:
        tell(f"[{time.perf_counter() - begun:5.0f} s] {name}: {text}")

    try:
        for finding in experiment(name).run(options, tell_progress):
            findings.append(finding)
            ratio = "" if finding.ratio is None else f" {finding.ratio:.2f}"
            tell_progress(f"{finding.case}:{ratio} {finding.verdict}")
    except ModuleNotFoundError as missing:
        findings.append(Finding(name, "", verdict=f"skipped: there is no {missing.name}"))
    except Exception as error:  # whatever it is, the other experiments are still wanted
        findings.append(failure(name, "", error))
    return findings


def _output_lines(name: str, findings: Sequence[Finding], wish: Wish) -> Iterator[str]:
    if wish.as_json:
        yield from (json.dumps(as_json(finding), ensure_ascii=False) for finding in findings)
    else:
        yield f"\n{name}\n\n{as_text(findings)}"


def _about(options: Options, load: float) -> dict[str, Any]:
    return {
        "quick": options.quick,
        "rounds": options.rounds,
        "master": options.master,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }


def about_line(about: dict[str, Any]) -> str:
    """A line over a table: where it was run, how busy that was, and whether all was in small."""
    small = "In small (`--quick`), so that the figures mean little: " if about["quick"] else ""
    load = f"load of the machine {about['load_before']} before and {about['load_after']} after"
    where = f"{about['cores']} cores, Python {about['python']}"
    return f"{small}{where}, Spark `{about['master']}`; {load}."


def keep(
    name: str,
    findings: Sequence[Finding],
    about: dict[str, Any],
    tell: Tell,
    results: Path = RESULTS,
    readme: Path = README,
) -> None:
    """Keep what an experiment found: in the results, in the README, and as plots."""
    known = merge(results, name, about, findings)
    try:
        table = f"{about_line(about)}\n\n{as_markdown(findings)}"
        readme.write_text(replace_table(readme.read_text(), name, table))
    except LookupError as problem:
        tell(str(problem))
    try:
        files = draw_findings(name, known[name]["findings"], results.parent)
    except ModuleNotFoundError as missing:
        tell(f"no plots are drawn: there is no {missing.name}")
    else:
        tell("; ".join(f"drawn: {file.name}" for file in files) or "nothing to draw")
