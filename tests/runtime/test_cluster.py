"""A standalone cluster of three workers: speculative copies of tasks, kills, missing storage."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.effort import scale
from tests.runtime.cluster import HOSTS, Cluster, standalone, why_no_namespace
from tests.runtime.expected import Rows, expected_answers, expected_changes
from tests.runtime.on_blind_cluster import FILES, place_beside
from tests.runtime.streaming import MIXED, Place, changes, fill, state, strays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
LARGE, SMALL = 0, 1 << 30
BATCHES: Final = scale(5, 7)
KILLED: Final = scale(("an executor", "a worker"), ("all executors", "an executor", "a worker"))
"""What is killed, each in the middle of a batch; batches with an even number are small."""


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the third worker does not see, where the machine allows that."""
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, blind: Path) -> Iterator[Cluster]:
    hidden = {} if why_no_namespace(blind) else {HOSTS[2]: blind}
    with standalone(tmp_path_factory.mktemp("cluster") / "spark", HOSTS, hidden) as cluster:
        yield cluster


class Stream:
    """The process of `tests.runtime.on_cluster`."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        self.place, self.events = place, place.folder / "events"
        self.events.mkdir(exist_ok=True)
        module, folder = "tests.runtime.on_cluster", str(place.folder)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, cluster.url, folder, str(self.events)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def begin(self, large: int) -> None:
        """Begin a batch."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{large}\n")
        self.process.stdin.flush()

    def is_running(self) -> bool:
        """Whether the batch that was begun has not ended."""
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], 0)[0]

    def wait_for_batch(self) -> dict[str, Any]:
        """Wait for the end of the batch."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the driver has ended"
        result: dict[str, Any] = json.loads(line)
        return result

    def copies(self) -> int:
        """How many copies of tasks Spark has started."""
        logs = [path.read_text() for path in self.events.rglob("*") if path.is_file()]
        lines = [line for log in logs for line in log.splitlines() if "TaskStart" in line]
        return sum('"Speculative":true' in line for line in lines)

    def finish(self) -> str:
        """End the stream; the text of its state."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        state = self.wait_for_batch()["state"]
        assert self.process.wait(60) == 0
        return str(state)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def rows_of(pairs: list[list[Any]]) -> Rows:
    """The changes that a batch returned, added up; equal changes are not made one."""
    rows: Rows = Counter()
    for row, weight in pairs:
        rows[tuple(row) if isinstance(row, list) else (row,)] += weight
    return rows


def check_batch(place: Place, result: dict[str, Any], number: int) -> None:
    """A batch reports and returns exactly what it did to each answer."""
    wanted = expected_changes(place, number)
    assert result["number"] == number, result
    assert result["changed"] == sum(map(len, wanted))
    assert list(map(rows_of, result["changes"])) == wanted
    assert [len(change) for change in result["changes"]] == list(map(len, wanted))


def check_output(place: Place, batches: int) -> None:
    """The folders have the change of each batch, and add up to the answers."""
    for answer, output in enumerate(place.outputs()):
        published = changes(output)
        assert len(published) == batches
        for number, rows in enumerate(published.values()):
            assert rows == expected_changes(place, number)[answer]
        total: Rows = Counter()
        for rows in published.values():
            total.update(rows)
        left = Counter({row: times for row, times in total.items() if times})
        assert left == expected_answers(place, batches)[answer]


def kill_in_batch(cluster: Cluster, stream: Stream, what: str) -> bool:
    """Kill processes while a batch runs: as soon as a task has written to the checkpoint.

    False if the batch was over before: this process may have to wait while others run.
    """
    checkpoint = stream.place.checkpoint
    before = set((checkpoint / "runs").iterdir())
    until = time.monotonic() + 60
    while set((checkpoint / "runs").iterdir()) <= before and stream.is_running():
        assert time.monotonic() < until
        time.sleep(0.002)
    if not stream.is_running():
        return False
    if what == "a worker":
        cluster.kill_worker(HOSTS[1])
        return True
    for pid in cluster.executors()[: 1 if what == "an executor" else None]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True


def test_copies_of_tasks_and_kills_change_nothing(
    tmp_path: Path, spark: SparkSession, cluster: Cluster
) -> None:
    """Speculation is on; executors die in small and in large batches, then a whole worker."""
    place = Place(tmp_path / "stream")
    fill(place, BATCHES)
    left = list(KILLED)
    with Stream(cluster, place) as stream:
        for number in range(BATCHES):
            cluster.await_executors(1)
            stream.begin(SMALL if number % 2 == 0 else LARGE)
            if left and number > 0 and kill_in_batch(cluster, stream, left[0]):
                left.pop(0)
            check_batch(place, stream.wait_for_batch(), number)
        assert left == [], "batches were over before anything could be killed"
        assert stream.copies() > 0
        last = stream.finish()
    check_output(place, BATCHES)
    with place.driver(spark, MIXED) as driver:  # the checksums of all runs are compared
        assert repr(state(driver)) == last
        assert driver.step() is None
    assert strays(place.checkpoint) == set()
    cluster.start_worker(HOSTS[1])
    cluster.await_worker(HOSTS[1])


def test_without_executors_a_query_and_a_stream_are_given_up(
    tmp_path: Path, cluster: Cluster
) -> None:
    """Spark's web page and log are as Spark's own configuration says."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.without_executors", cluster.url, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    result = json.loads(done.stdout)
    assert len(result["said"]) == 2
    for said in result["said"]:
        assert said.startswith(f"error[R215]: no executor came from {cluster.url} in 6 s\n")
        assert "each executor asks for 200g of memory and all cores of a worker" in said
    waiting = f"waiting for executors (0 of at least 1) from {cluster.url}: "
    assert done.stderr.count(waiting) == 2
    assert result["page"].startswith("http://")
    assert result["level"] != "OFF"


def test_a_host_without_the_storage_is_named(tmp_path: Path, cluster: Cluster, blind: Path) -> None:
    """The third worker lacks checkpoint, output or sources: nothing is committed without them."""
    reason = why_no_namespace(blind)
    if reason:
        pytest.skip(f"not run: no directory can be hidden from a worker here ({reason})")
    command = [sys.executable, "-m", "tests.runtime.on_blind_cluster", cluster.url]
    with subprocess.Popen(
        [*command, str(blind), str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for kind in ("checkpoint", "output", "source"):
            result = json.loads(process.stdout.readline())
            message = result["said"].splitlines()[0]
            assert message.startswith("error[R216]: host "), result
            assert f"({HOSTS[2]}) cannot see the {kind} {blind}/{kind}" in message
            assert "share under the same path" in result["said"]
            assert result["committed"] == -1
        cluster.kill_worker(HOSTS[2])  # those that are left see everything
        process.stdin.write("\n")
        process.stdin.close()
        for kind in ("checkpoint", "output", "source"):
            assert json.loads(process.stdout.readline())["committed"] == 0, kind
        assert process.wait(60) == 0
    for kind in ("checkpoint", "output", "source"):
        place = place_beside(kind, blind, tmp_path)
        total = [Counter(changes(output)["batch=000000"]) for output in place.outputs()]
        assert total == expected_answers(place, FILES)
