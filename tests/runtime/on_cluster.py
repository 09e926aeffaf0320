"""A stream on a cluster, in a process of its own.

`python -m tests.runtime.on_cluster URL FOLDER`: batches are done as lines come in; a line says how
large the batch counts, and each is answered with what the batch was.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from incmrql.spark.session import private, start
from tests.runtime.streaming import MIXED, Place, state

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
}


def say(**found: object) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main(url: str, folder: str) -> None:
    """One batch for each line."""
    spark = start(url, CONF)
    with Place(Path(folder)).driver(private(spark), MIXED) as driver:
        for line in sys.stdin:
            driver.options = replace(MIXED, large=int(line))
            report = driver.step()
            assert report is not None
            say(number=report.number, tasks=report.tasks, jobs=report.jobs)
        say(state=repr(state(driver)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
