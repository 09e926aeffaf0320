"""A session on a cluster that gives it no executors, in a process of its own.

`python -m tests.runtime.without_executors URL FOLDER` prints a line of JSON: what a batch query
and a stream say, and what Spark's web page and log level are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import incmrql
from incmrql.spark import clusters


def main(url: str, folder: str) -> None:
    """Ask for more memory than any worker has."""
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "200g",
        clusters.TIMEOUT: "6s",
    }
    # Half of the time-out, and looks that are frequent: however late some of them are, each of the
    # two waits is told once.
    clusters._LOG_SECONDS, clusters._POLL_SECONDS = 3.0, 0.2  # type: ignore[misc]
    numbers = Path(folder, "numbers")
    numbers.mkdir()
    (numbers / "1.csv").write_text("1\n2\n")
    session = incmrql.Session(master=url, conf=conf)
    said = []
    for text in ("source(line, {0}, type(int))", "stream(line, {0}, type(int))"):
        query = session.query(f"incr sum({text.format(json.dumps(str(numbers)))});")
        try:
            query.start().step() if "stream" in text else query.collect()
        except incmrql.DataError as problem:
            said.append(str(problem))
    context = session.spark.sparkContext
    level = context._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel()  # type: ignore[union-attr]
    report = {"said": said, "page": context.uiWebUrl, "level": level.toString()}
    sys.stdout.write(json.dumps(report) + "\n")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
