"""Masters that do not answer, clusters without executors, and whose Spark it is."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkRuntimeError

import incmrql
from incmrql.errors import DataError
from incmrql.spark import clusters
from incmrql.spark.clusters import check_master, start_on_cluster, watch_executors
from incmrql.spark.session import _defaults
from tests.cli.commands import incmrql as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STREAM = 'incr sum(stream(line, "{0}", type(int)));'
BATCH = 'sum(source(line, "{0}", type(int)));'


@pytest.fixture
def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def listening() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


# --- masters -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [BATCH, STREAM])
def test_an_unreachable_master_is_named_at_once(
    text: str, closed_port: int, tmp_path: Path
) -> None:
    tmp_path.joinpath("1.csv").write_text("1\n")
    query, master = text.format(tmp_path), f"spark://127.0.0.1:{closed_port}"
    done = command("run", "-e", query, "--engine", "spark", "--master", master)
    assert done.code == 1
    assert done.err.startswith(
        f"error[R214]: no Spark master answers at {master}: connection refused\n = hint: "
    )
    assert "bug" not in done.err


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://nowhere", '"nowhere" is not HOST:PORT'),
        ("spark://127.0.0.1:99999", "no Spark master answers at spark://127.0.0.1:99999"),
        ("spark://no-such-host.invalid:7077", "no Spark master answers at spark://no-such-host"),
        ("yarn", "it is not known where YARN is"),
    ],
)
def test_unreachable_masters(master: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DataError, match="R214") as caught:
        check_master(master)
    assert said in caught.value.message
    assert caught.value.hint


def test_one_of_several_masters_is_enough(closed_port: int, listening: int) -> None:
    check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{listening}")
    check_master("local[3]")
    check_master("k8s://https://example.com")


def test_a_start_that_fails_names_the_master() -> None:
    with pytest.raises(DataError) as caught, start_on_cluster("spark://here:7077"):
        raise PySparkRuntimeError("Cannot call methods on a stopped SparkContext.\nand so on")
    assert caught.value.code == "R214"
    assert caught.value.message == (
        "Spark could not be started on master spark://here:7077: "
        "nobody there accepted the application; is it a master of this Spark?"
    )


# --- executors -----------------------------------------------------------------------------


class Context:
    """As much of a Spark context as a watch looks at; `executors` are what it has at each look.

    Its clock is the one of the watch and goes on by a hundredth of a second a look: the time that a
    look takes on a busy machine does not count.
    """

    def __init__(self, executors: list[int], conf: dict[str, str]) -> None:
        self.master, self.executors, self.conf = "spark://here:7077", executors, conf
        self.seconds, self.end = 0.0, 0.0
        self.is_cancelled, self.is_over = False, threading.Event()
        self.tags: set[str] = set()
        sizes = SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=self._size))
        self._jsc = SimpleNamespace(sc=lambda: sizes)

    def _size(self) -> int:
        self.seconds += 0.01
        if self.seconds > self.end:
            self.is_over.set()
        executors = self.executors.pop(0) if len(self.executors) > 1 else self.executors[0]
        return executors + 1  # with the driver

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return self.conf

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        assert tag in self.tags
        self.is_cancelled = True
        self.is_over.set()


def job(context: Context, seconds: float) -> None:
    """A job that ends when it is cancelled, or after a time of its context."""
    spark: Any = SimpleNamespace(sparkContext=context)
    context.end = seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "time", SimpleNamespace(monotonic=lambda: context.seconds))
        patch.setattr(clusters, "_POLL_SECONDS", 0.001)
        patch.setattr(clusters, "_LOG_SECONDS", 0.2)
        with watch_executors(spark):
            assert context.is_over.wait(60)
            if context.is_cancelled:
                raise RuntimeError("Job 0 cancelled part of cancelled job tags")


def test_a_job_without_executors_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    asked = {"spark.executor.memory": "64g", "spark.executor.instances": "3"}
    context = Context([0], {**asked, clusters.TIMEOUT: "1s"})
    with caplog.at_level(logging.WARNING, "incmrql"), pytest.raises(DataError) as caught:
        job(context, 30)
    assert caught.value.code == "R215"
    assert caught.value.message == "no executor came from spark://here:7077 in 1 s"
    assert "each executor asks for 64g of memory and all cores of a worker" in caught.value.hint
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 4
    assert all(
        message.startswith("waiting for executors (0 of 3) from spark://here") for message in said
    )
    assert context.tags == set()


def test_the_cores_of_all_and_of_one_say_how_many_executors_come(
    caplog: pytest.LogCaptureFixture,
) -> None:
    requested = {"spark.cores.max": "6", "spark.executor.cores": "2", clusters.TIMEOUT: "1s"}
    context = Context([0], requested)
    with caplog.at_level(logging.WARNING, "incmrql"), pytest.raises(DataError):
        job(context, 30)
    messages = [record.getMessage() for record in caplog.records]
    assert messages
    assert all(message.startswith("waiting for executors (0 of 3)") for message in messages)


def test_executors_that_are_lost_in_a_job_are_waited_for_anew() -> None:
    """The time counts from when the last one went, not from the start of the job."""
    context = Context([2] * 150 + [0], {clusters.TIMEOUT: "1s"})
    with pytest.raises(DataError, match="R215"):
        job(context, 30)
    assert 2.5 < context.seconds < 2.55


@pytest.mark.parametrize(("executors", "timeout"), [([1], "1s"), ([0, 0, 0, 1], "1s"), ([0], "0")])
def test_a_job_with_executors_ends_by_itself(executors: list[int], timeout: str) -> None:
    context = Context(executors, {clusters.TIMEOUT: timeout})
    job(context, 1.5)
    assert not context.is_cancelled
    assert context.tags == set()


def test_a_time_out_that_is_none() -> None:
    with pytest.raises(DataError, match="is a time such as 90s or 10m, not 'soon'"):
        job(Context([1], {clusters.TIMEOUT: "soon"}), 0)


# --- whose Spark it is ---------------------------------------------------------------------


def test_the_users_configuration_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# mine\nspark.ui.enabled true\n  spark.log.level=INFO\n\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert _defaults() == {"spark.ui.enabled", "spark.log.level"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    assert _defaults() == set()


@pytest.mark.spark
def test_a_session_that_the_user_brought_keeps_its_log_level(spark: SparkSession) -> None:
    context = spark.sparkContext
    log4j = context._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    context.setLogLevel("FATAL")
    try:
        with incmrql.Session(spark=spark) as session:
            session.register("numbers", [1, 2], "int")
            assert session.query("sum(numbers);").collect() == 3
        assert log4j.LogManager.getRootLogger().getLevel().toString() == "FATAL"
    finally:
        context.setLogLevel("OFF")
