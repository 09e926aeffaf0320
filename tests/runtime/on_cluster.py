"""A stream on a cluster, in a process of its own, driven by lines.

`python -m tests.runtime.on_cluster URL FOLDER EVENTS`: each line of stdin is the number of bytes
from which on the next batch counts as large, and is answered by a line of JSON: what the batch
was and what it changed, or why it failed.  EVENTS is the directory of Spark's event log.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from incmrql.errors import IncmrqlError
from incmrql.runtime import Driver
from incmrql.spark.session import private, start
from tests.runtime.cluster import SPECULATION
from tests.runtime.streaming import MIXED, Place, state

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.excludeOnFailure.enabled": "false",
}


def say(**message: object) -> None:
    """Answer with a line of JSON."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(url: str, folder: str, events: str) -> None:
    """One batch for each line."""
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(events).as_uri(),
        "spark.eventLog.compress": "false",
    }
    spark = start(url, {**CONF, **SPECULATION, **logged})
    options = replace(MIXED, keep_changes=True)
    with Place(Path(folder)).driver(private(spark), options) as driver:
        for line in sys.stdin:
            driver.options = replace(options, large=int(line))
            _batch(driver)
        say(state=repr(state(driver)))
    spark.stop()


def _batch(driver: Driver) -> None:
    try:
        report = driver.step()
    except IncmrqlError as problem:
        say(failed=str(problem))
        return
    assert report is not None
    answers = range(len(driver.program.outputs))
    say(
        number=report.number,
        tasks=report.tasks,
        changed=report.changed,
        changes=[driver.changes(number) for number in answers],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
