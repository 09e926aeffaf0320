"""Break the engine, what runs on Spark and the commit, and see that a test fails each time.

    python -m tests.mutation record     which tests run which lines (once for a state of the code)
    python -m tests.mutation run        all mutants of a seed; the exit code tells of survivors

A mutant runs in a copy of the package against the tests that run its line, the quickest first;
if it survives and is code of `runtime` or `spark`, also against those that `SPARK_TESTS` lists.
Results are appended to `build/mutation/results.jsonl`, and a run that was stopped goes on from
there.  Survivors that `known.toml` lists with a reason are no failures.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from coverage import CoverageData

from tests.mutation.draw import PACKAGE, ROOT, Mutant, draw_mutants

BUILD = ROOT / "build" / "mutation"
KNOWN = Path(__file__).with_name("known.toml")
RECORDED = ("tests/io", "tests/engine", "tests/runtime", "tests/plan/test_work.py")
"""Tests without a JVM whose lines are recorded."""
SPARK_TESTS: dict[str, tuple[str, ...]] = {
    "engine/columns/pinned": ("spark/test_means.py", "spark/test_values.py"),
    "engine/": ("runtime/test_stream.py", "runtime/test_shapes_streamed.py"),
    "runtime/checkpoint/ownership": ("cli/test_trust.py",),
    "runtime/checkpoint/compatibility": ("runtime/test_changed_query.py",),
    "runtime/checkpoint/rewrite": ("cli/test_streams.py", "runtime/test_changed_query.py"),
    "runtime/failures": ("cli/test_streams_refused.py", "cli/test_streams.py"),
    "runtime/ingested": ("api/test_frames.py", "runtime/test_verify.py"),
    "runtime/reach": ("cli/test_trust.py",),
    "runtime/verify": ("runtime/test_verify.py",),
    "runtime/replay": ("runtime/test_verify.py", "runtime/test_python.py"),
    "runtime/": ("runtime/test_python.py", "runtime/test_stream.py", "cli/test_streams.py"),
    "spark/clusters": ("spark/test_clusters.py",),
    "spark/internals": ("spark/test_internals.py", "spark/test_texts.py"),
    "spark/loops/": ("spark/test_loops.py", "spark/test_loops_task.py",
                     "runtime/test_loops_streamed.py"),
    "spark/plans/": ("spark/plans/test_reader.py", "spark/plans/test_types.py",
                     "spark/test_leaves.py"),
    "spark/probe": ("spark/test_probe.py",),
    "spark/sources/registered": ("spark/test_sources.py", "spark/test_frame_types.py",
                                 "spark/test_api.py"),
    "spark/sources/spools": ("runtime/feeds/test_readers.py", "runtime/test_reading.py",
                             "spark/test_spools.py"),
    "spark/sources/": ("spark/test_sources.py", "io/test_vectorised.py", "spark/test_notices.py",
                       "spark/test_trees.py", "spark/test_frame_types.py"),
    "spark/session": ("spark/test_session.py", "cli/test_mistakes.py", "spark/test_archive.py"),
    "spark/stream_": ("runtime/test_stream.py", "runtime/test_loops_streamed.py",
                      "runtime/test_python.py"),
    "spark/": ("spark/test_texts.py", "spark/test_api.py", "spark/test_outputs.py",
               "spark/test_shapes.py"),
}  # fmt: skip
"""Tests on Spark of what recorded tests run in part, by how the name of the module starts."""
MOST_SECONDS = 90.0
"""Of recorded tests for one mutant."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- which tests -----------------------------------------------------------------------------


@dataclass
class Recorded:
    """The tests that run a line, and how long they take."""

    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def load() -> Recorded:
        """What `record` has left."""
        path = BUILD / "seconds.json"
        if not path.exists():
            sys.exit("run `python -m tests.mutation record` first")
        data = CoverageData(str(BUILD / "lines"))
        data.read()
        seconds = json.loads(path.read_text(encoding="utf-8"))
        recorded = Recorded(seconds=seconds)
        for name in data.measured_files():
            lines = data.contexts_by_lineno(name)
            known = {line: [t for t in tests if t in seconds] for line, tests in lines.items()}
            recorded.lines[str(Path(name).relative_to(PACKAGE))] = known
        return recorded

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that run the lines of a mutant, the quickest first, up to a time."""
        lines = self.lines.get(mutant.module, {})
        last = mutant.edit.line + mutant.edit.old.count("\n")
        every = {t for n in range(mutant.edit.line, last + 1) for t in lines.get(n, ())}
        tests: list[str] = []
        total = 0.0
        for test in sorted(every, key=lambda test: self.seconds[test]):
            total += self.seconds[test]
            if tests and total > MOST_SECONDS:
                break
            tests.append(test)
        return tests


def record() -> int:
    """Run the tests once and remember what they run."""
    shutil.rmtree(BUILD, ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.recording"]
    command += ["-p", "no:cacheprovider", "-m", "not spark", *RECORDED]
    env = {**os.environ, "INCMRQL_RECORD": str(BUILD), "HYPOTHESIS_PROFILE": "dev"}
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


# --- running them ------------------------------------------------------------------------------


class Copy:
    """A copy of the package in which one module at a time is broken."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "src"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", self.source, ignore=ignored)
        command = [sys.executable, "-m", "compileall", "-q", str(self.source)]
        subprocess.run(command, check=True)

    def run(self, mutant: Mutant, tests: Sequence[str], limit: float) -> tuple[str, str]:
        """Whether a test fails for a mutant: `killed`, `alive`, and which one."""
        path = self.source / "incmrql" / mutant.module
        text = path.read_text(encoding="utf-8")
        path.write_text(mutant.edit.apply_to(text), encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        try:
            return self._run_tests(tests, limit)
        finally:
            path.write_text(text, encoding="utf-8")

    def _run_tests(self, tests: Sequence[str], limit: float) -> tuple[str, str]:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as names:
            names.write("\n".join(tests))
            names.flush()
            command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-rN"]
            command += ["-p", "no:cacheprovider", "--tb=line", f"@{names.name}"]
            env = {
                **os.environ,
                "PYTHONPATH": str(self.source),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HYPOTHESIS_PROFILE": "dev",
                "INCMRQL_MUTANT": "1",
            }
            process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
            try:
                said, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "killed", f"no end after {limit:.0f} s"
        if process.returncode == 0:
            return "alive", f"{len(tests)} tests"
        lines = [line for line in said.splitlines() if line.strip()]
        return "killed", " | ".join(lines[-3:])[:300]


def judge(copy: Copy, mutant: Mutant, recorded: Recorded) -> dict[str, Any]:
    """Run the tests of a mutant and report the outcome."""
    begun = time.monotonic()
    tests = recorded.tests(mutant)
    outcome, why = "alive", "no test runs its line"
    if tests:
        planned = sum(recorded.seconds[test] for test in tests)
        outcome, why = copy.run(mutant, tests, 120 + 10 * planned)
    if outcome == "alive" and (not tests or mutant.module.startswith(("runtime/", "spark/"))):
        names = next(
            names for start, names in SPARK_TESTS.items() if mutant.module.startswith(start)
        )
        outcome, why = copy.run(mutant, [f"tests/{name}" for name in names], 900)
    seconds = round(time.monotonic() - begun, 1)
    return {"name": mutant.name, "outcome": outcome, "why": why, "seconds": seconds}


def run(seed: int, jobs: int, only: str) -> int:
    """All mutants of a seed."""
    recorded = Recorded.load()
    mutants = [mutant for mutant in draw_mutants(seed) if only in mutant.module]
    results_path = BUILD / "results.jsonl"
    done: dict[str, dict[str, Any]] = {}
    if results_path.exists():
        for line in results_path.read_text(encoding="utf-8").splitlines():
            result = json.loads(line)
            done[result["name"]] = result
    waiting = [mutant for mutant in mutants if mutant.name not in done]
    say(f"{len(mutants)} mutants, {len(mutants) - len(waiting)} judged before")
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(Path(directory, str(number))))

        def one(mutant: Mutant) -> None:
            copy = copies.get()
            try:
                result = judge(copy, mutant, recorded)
            finally:
                copies.put(copy)
            done[mutant.name] = result
            with results_path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(result) + "\n")
            say(f"{result['outcome']:7} {result['seconds']:6.1f} s  {mutant}")

        list(pool.map(one, waiting))
    return _summary([done[mutant.name] for mutant in mutants])


def _summary(results: Sequence[dict[str, Any]]) -> int:
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))["survivor"]
    reasons = {entry["name"]: entry for entry in known}
    alive = [result for result in results if result["outcome"] == "alive"]
    new = [result for result in alive if result["name"] not in reasons]
    for result in alive:
        entry = reasons.get(result["name"])
        say(f"survivor: {result['name']} ({result['why']})")
        say(f"    {entry['reason']}" if entry else "    NOT EXPLAINED")
    say(f"{len(results)} mutants, {len(results) - len(alive)} killed, {len(alive)} alive, "
        f"{len(new)} of these not explained")  # fmt: skip
    return 1 if new else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["record", "run"])
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants of modules with this in their name")
    wanted = parser.parse_args()
    if wanted.command == "record":
        return record()
    return run(wanted.seed, wanted.jobs, wanted.only)


if __name__ == "__main__":
    sys.exit(main())
