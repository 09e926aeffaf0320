"""A stream that is killed at random times, and very many random streams on Spark; for hours.

    python -m tests.runtime.soak --kills 50 --batches 200
    python -m tests.runtime.soak --kills 0 --fight 10
    python -m tests.runtime.soak --kills 0 --cases 1000

A process that runs batches is killed with SIGKILL at times drawn at random, itself or one of the
Python workers of its tasks, and started again; outputs, state and archive must be those of a
process that nobody killed.  The kills are shared out over programs: groups, joins and a total;
a chain; a loop.  In a fight two processes work on one checkpoint for some minutes: each is
paused at random, loses its lock to the other one, and wakes.  A case is a random query over random
rows that come and go, compared with the evaluator after each batch.  The exit code tells whether
there was a failure.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random

from incmrql.syntax.depth import deep_recursion
from tests.runtime.here import driver_here
from tests.runtime.streaming import MIXED, PROGRAMS, Place, archived_files, fill, state, strays

ROOT = Path(__file__).parent.parent.parent
WORKER = b"pyspark.daemon"
EVERY_SECONDS = 30
"""How often it says how far it is."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- kills -------------------------------------------------------------------------------


def start_stream(place: Place, program: str) -> subprocess.Popen[str]:
    """The stream in a process, which has its Spark when this returns."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.streaming", "local[2]", str(place.folder), program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def kills(program: str, number: int, batches: int, seed: int) -> bool:
    """Kill a stream repeatedly; returns whether it ends as one that was left alone."""
    with tempfile.TemporaryDirectory() as folder:
        quiet, place, pace = _quiet_run(Path(folder), program, batches)
        there = len(list(quiet.outputs()[-1].glob("batch=*")))  # a loop over fewer files has fewer
        done = _kill_often(place, program, number, pace, there, Random(seed))
        return _same(place, quiet) and done == number


def _quiet_run(folder: Path, program: str, batches: int) -> tuple[Place, Place, float]:
    """A stream that was left alone, the same one before its start, and seconds a batch."""
    query = PROGRAMS[program]
    quiet, place = Place(folder / "quiet", query), Place(folder / "disturbed", query)
    for stream in (quiet, place):
        fill(stream, batches, 200, large=400)
    begun = time.monotonic()
    process = start_stream(quiet, program)
    process.communicate()
    assert process.returncode == 0
    whole = time.monotonic() - begun
    say(f"{program}, undisturbed: {batches} batches in {whole:.0f} s")
    return quiet, place, whole / batches


# --- two drivers -------------------------------------------------------------------------


def fight(program: str, minutes: float, batches: int, seed: int) -> bool:
    """Two processes on one checkpoint; whether the end is that of one that was alone.

    What ends a process is that the other one has taken over: it is started again.
    """
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        quiet, place, pace = _quiet_run(Path(folder), program, batches)
        until = time.monotonic() + 60 * minutes
        rivals: list[subprocess.Popen[str] | None] = [None, None]
        starts = pauses = 0
        while time.monotonic() < until:
            for number, rival in enumerate(rivals):
                if rival is None or rival.poll() is not None:
                    (place.checkpoint / "lock").unlink(missing_ok=True)
                    rivals[number] = _start_unread(place, program)
                    starts += 1
                    time.sleep(chance.uniform(0, 20 * pace))
            paused = rivals[chance.randrange(2)]
            assert paused is not None
            _signal(paused.pid, signal.SIGSTOP)
            (place.checkpoint / "lock").unlink(missing_ok=True)
            pauses += 1
            time.sleep(chance.uniform(0, 20 * pace))
            _signal(paused.pid, signal.SIGCONT)
            time.sleep(chance.uniform(0, 4 * pace))
        for rival in rivals:
            assert rival is not None
            _signal(rival.pid, signal.SIGKILL)
            rival.communicate()
        batch = len(list(place.outputs()[-1].glob("batch=*")))
        say(f"fight: {starts} starts, {pauses} pauses, {batch} batches")
        (place.checkpoint / "lock").unlink(missing_ok=True)
        last = start_stream(place, program)
        last.communicate()
        return last.returncode == 0 and starts > 4 and batch > 0 and _same(place, quiet)


def _start_unread(place: Place, program: str) -> subprocess.Popen[str]:
    """The stream in a process of which nobody reads."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.streaming", "local[2]", str(place.folder), program],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _kill_often(
    place: Place, program: str, number: int, pace: float, batches: int, chance: Random
) -> int:
    """Kill the stream at times that are spread over all batches; how often it was killed."""
    drivers = 0
    process = start_stream(place, program)
    for done, target in enumerate(sorted(chance.randrange(batches - 1) for _ in range(number))):
        begun = time.monotonic()
        passed = _await_batch(process, target)
        if passed is None:
            process.communicate()
            say(f"all batches were done before all kills: {done} of {number}")
            return done
        if passed > 1:  # the machine may be quieter than it was, and batches quicker
            pace = min(pace, (time.monotonic() - begun) / passed)
        time.sleep(chance.uniform(0, 2 * pace))
        workers = list(_workers(process.pid))
        if workers and chance.random() < 0.3:
            _signal(chance.choice(workers), signal.SIGKILL)
        else:
            process.kill()
            process.communicate()
            process = start_stream(place, program)
            drivers += 1
        batch = len(list(place.outputs()[-1].glob("batch=*")))
        say(f"kill {done + 1}: {drivers} of the driver, {batch} batches")
    process.communicate()
    assert process.returncode == 0
    return number


def _await_batch(process: subprocess.Popen[str], target: int) -> int | None:
    """Wait until a batch is done, or a later one: how many were; None if there are no more."""
    assert process.stdout is not None
    passed = 0
    for line in process.stdout:
        word, number = line.split()
        passed += word == "batch"
        if word == "batch" and int(number) >= target:
            return passed
    return None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _workers(driver: int) -> Iterator[int]:
    """The Python workers that run tasks below a process."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    for pid in parents:
        above = pid
        while above in parents and above != driver:
            above = parents[above]
        if above == driver and _is_worker(pid) and _is_worker(parents[pid]):
            yield pid


def _is_worker(pid: int) -> bool:
    try:
        return WORKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _same(place: Place, quiet: Place) -> bool:
    with driver_here(place, MIXED) as one, driver_here(quiet, MIXED) as two:
        results = {
            "state": state(one) == state(two),
            "outputs": place.published_rows() == quiet.published_rows(),
            "archive": archived_files(place) == archived_files(quiet),
            "nothing left": not strays(place.checkpoint),
            "nothing begun": one.intended_files() is None,
        }
    for name, good in results.items():
        say(f"{name}: {'the same' if good else 'DIFFERENT'}")
    return all(results.values())


# --- random streams ----------------------------------------------------------------------


def streams(number: int, seed: int) -> int:
    """So many random cases on Spark; how many failed."""
    from incmrql.spark.session import private, start
    from tests.spark.streamed import case_of, check

    spark = start("local[2]", {"spark.sql.shuffle.partitions": "2"})
    own = private(spark)
    done = failed = 0
    begun = said = time.monotonic()
    with deep_recursion():
        while done < number:
            try:
                done += check(case_of(seed), own)
            except Exception:
                failed += 1
                done += 1
                say(f"seed {seed}\n{traceback.format_exc(limit=-3)}")
            seed += 1
            if time.monotonic() - said > EVERY_SECONDS:
                said = time.monotonic()
                say(f"{done} cases, {said - begun:.0f} s")
    spark.stop()
    say(f"{done} cases, {failed} failures")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--fight", type=float, default=0, metavar="MINUTES")
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    wanted = parser.parse_args()
    good = True
    for number, program in enumerate(wanted.programs):
        share = (wanted.kills + number) // len(wanted.programs)
        if share:
            good = kills(program, share, wanted.batches, wanted.seed) and good
    if wanted.fight:
        good = fight("several", wanted.fight, 10 * wanted.batches, wanted.seed) and good
    if wanted.cases:
        good = not streams(wanted.cases, wanted.seed) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
