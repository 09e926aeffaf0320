"""Whether the workers of a cluster have what tasks need: this package, and its libraries.

Tasks of a stream run the kernel, so that the Python of every executor must have incmrql of the
same version, with DuckDB, Arrow and NumPy.  One tiny job asks before the first batch.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from incmrql.diagnostics import DataError
from incmrql.spark.clusters import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED: Final = ("incmrql", "duckdb", "pyarrow", "numpy")
_PROBE: Final = """
def probe(_numbers):
    import json, socket, sys
    from importlib import import_module
    from importlib.metadata import PackageNotFoundError, version
    found = {}
    for name in NEEDED:
        try:
            import_module(name)
            found[name] = version(name)
        except (ImportError, PackageNotFoundError):
            found[name] = None
    yield json.dumps([socket.gethostname(), ".".join(map(str, sys.version_info[:2])), found])
"""
"""Sent as it is: a function of this module could only be read where this module is."""
_SHIP: Final = (
    "Install incmrql on every worker and let PYSPARK_PYTHON name its Python; or pack the "
    "environment (venv-pack or conda-pack) and ship it: "
    "--conf spark.archives=environment.tar.gz#environment with "
    "PYSPARK_PYTHON=./environment/bin/python."
)


def check_executors(spark: SparkSession) -> None:
    """Refuse a cluster whose workers cannot run tasks; the workers of this machine can."""
    context = spark.sparkContext
    master = str(context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    namespace: dict[str, Any] = {"__name__": "__main__", "NEEDED": NEEDED}
    exec(_PROBE, namespace)
    tasks = max(2, context.defaultParallelism)
    try:
        with watched(spark):
            answers = context.parallelize(range(tasks), tasks).mapPartitions(namespace["probe"])
            found = answers.collect()
    except DataError:
        raise
    except Exception as problem:  # py4j and Spark have many
        raise _refused(f"no Python could be started on the workers: {_reason(problem)}") from None
    for answer in sorted(set(found)):
        host, python, versions = json.loads(answer)
        wrong = differences(python, versions)
        if wrong:
            raise _refused(f"the Python of {host} {wrong}")


def differences(python: str, versions: dict[str, str | None]) -> str:
    """What a worker's Python lacks, in words; the empty text if it will do."""
    here = ".".join(map(str, sys.version_info[:2]))
    missing = [name for name, found in versions.items() if found is None]
    if python != here:
        return f"is {python}, and this one is {here}"
    if missing:
        return f"has no {', '.join(missing)}"
    if versions["incmrql"] != version("incmrql"):
        return f"has incmrql {versions['incmrql']}, and this is {version('incmrql')}"
    return ""


def _reason(problem: Exception) -> str:
    """The part of an error of Spark's that says most."""
    text = str(problem)
    for mark in ("[PYTHON_VERSION_MISMATCH]", "Cannot run program", "Error:"):
        _, found, rest = text.partition(mark)
        if found:
            return (mark + rest).splitlines()[0][:300]
    return text.strip().splitlines()[0][:300] if text.strip() else type(problem).__name__


def _refused(message: str) -> DataError:
    return DataError("R213", message, hint=_SHIP)
