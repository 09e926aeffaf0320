"""A Spark session to work in: our own, or a private one beside the user's.

A session of the user's keeps its configuration: what incmrql needs is set on a new session that
shares its Spark context, and its SQL settings, views and functions are seen by nobody else.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import pyspark
from pyspark.sql import SparkSession

from incmrql.java import Java, cache_directory
from incmrql.spark.archive import java_options
from incmrql.spark.clusters import check_master, is_local, starting
from incmrql.spark.internals import byte_size, driver_memory
from incmrql.spark.startup import starting_spark, usable_java
from incmrql.sql import rounding

LOCAL: Final = "local[*]"

_CONTEXT: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # a Python stage starts 40 ms earlier
}
"""How a Spark context of our own is started, where the user does not say otherwise."""
_ON_THIS_MACHINE: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",  # what goes wrong is told by us, without a stack trace of Java's
}
"""The same on this machine; on a cluster web page and log are as Spark's configuration says."""

PRIVATE: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",  # fields `a` and `A` are two
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # a map of what occurs makes it distinct
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What every query is run with, whatever the session that the user works in says."""


def start(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark context of our own, on this machine unless a master is given."""
    master = (conf or {}).get("spark.master", master)
    if master is not None:
        check_master(master)
    java = usable_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("incmrql").master(master or LOCAL)
    warehouse = Path(tempfile.gettempdir(), "incmrql-warehouse")  # never used, but Spark makes one
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    settings = {**_CONTEXT, **_archive(java), **(conf or {})}
    if master is not None and not is_local(master):
        for name, value in settings.items():
            builder = builder.config(name, value)
        with starting(master):  # its log is the user's: nothing of it is kept back
            return _checked(builder.getOrCreate())
    cores = str(_local_cores(master or LOCAL))
    builder = builder.config("spark.sql.shuffle.partitions", cores)
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    quiet = {name: value for name, value in _ON_THIS_MACHINE.items() if name not in _defaults()}
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    with starting_spark(master or LOCAL, conf or {}):
        return _checked(builder.getOrCreate())


def _checked(spark: SparkSession) -> SparkSession:
    """A session whose settings are right; the context of one whose are not is stopped."""
    try:
        spark.conf  # noqa: B018 - only now are settings of Spark's SQL checked
    except Exception:
        spark.sparkContext.stop()
        raise
    return spark


def _defaults() -> set[str]:
    """The settings that the user's configuration of Spark has (`spark-defaults.conf`)."""
    home = os.environ.get("SPARK_HOME")
    given = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not given:
        return set()
    try:
        text = Path(given, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    names = (re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in text.splitlines())
    return {name for name in names if name and not name.startswith("#")}


def _archive(java: Java) -> dict[str, str]:
    """The options of Java that make its start fast; an option of the user's takes their place."""
    made_for = f"{pyspark.__version__} {pyspark.__file__} {java.home} {java.version}"
    options = java_options(cache_directory(os.environ), made_for, os.getpid())
    return {"spark.driver.extraJavaOptions": options} if options else {}


def private(spark: SparkSession) -> SparkSession:
    """A session beside the given one, on the same context, with the settings of `PRIVATE`."""
    own = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.files.maxPartitionBytes"):
        own.conf.set(name, spark.conf.get(name) or "")
    for name, value in PRIVATE.items():
        own.conf.set(name, value)
    own.conf.set(_BROADCAST, _most_broadcast(spark))
    return own


_BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"
_MEGABYTE: Final = 2**20
_DEFAULT: Final = 10 * _MEGABYTE


def _most_broadcast(spark: SparkSession) -> str:
    """Up to which size, as Spark guesses it, a side of a join is sent to all tasks.

    Spark's default suits its smallest heap; a larger one holds more.  What the user set stays.
    """
    given = spark.conf.get(_BROADCAST) or ""
    if given not in (f"{_DEFAULT}b", "10MB", str(_DEFAULT)):
        return given
    context = spark.sparkContext
    heaps = [driver_memory(context)]
    if not (context.master or "").startswith("local"):
        heaps.append(byte_size(context.getConf().get("spark.executor.memory", "1g") or "1g"))
    return f"{max(_DEFAULT, min(min(heaps) // 40, 32 * _MEGABYTE))}b"


def most_broadcast(spark: SparkSession) -> int:
    """How many bytes a side of a join may have that a session of ours sends to all tasks."""
    given = spark.conf.get(_BROADCAST) or ""
    return int(given.removesuffix("b")) if given.removesuffix("b").isdigit() else 0


_KNOWN: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The functions of ours that a session has."""


def provide(spark: SparkSession, text: str) -> None:
    """Make the functions of ours that a text calls, if the session does not have them yet."""
    known = _KNOWN.setdefault(spark, set())
    for name, statement in rounding.functions().items():
        if name not in known and f"{name}(" in text:
            spark.sql(statement)
            known.add(name)


def _local_cores(master: str) -> int:
    """How many tasks a local master runs at a time."""
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    return int(inside) if inside.isdigit() else (os.cpu_count() or 1) if inside == "*" else 1
