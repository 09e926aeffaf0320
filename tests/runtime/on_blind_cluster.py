"""Streams on a cluster of which one host lacks a directory, in a process of its own.

`python -m tests.runtime.on_blind_cluster URL BLIND SHARED`: three streams with one thing each in
BLIND, their checkpoint, output or sources.  What the first batch of each says is a line of JSON;
when a line comes in, each is tried again.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from incmrql.errors import IncmrqlError
from incmrql.runtime import Driver
from incmrql.spark.internals import executor_count
from incmrql.spark.session import private, start
from tests.runtime.on_cluster import CONF, say
from tests.runtime.streaming import MIXED, Place, fill

FILES = 4
KINDS = ("checkpoint", "output", "source")


def place_beside(kind: str, blind: Path, shared: Path) -> Place:
    """A stream of which one kind of directory is in `blind`, the others in `shared`."""
    own = {part: (blind if part == kind else shared) / kind / part for part in KINDS}
    place = Place(own["source"])
    place.checkpoint, place.output = own["checkpoint"], own["output"]
    return place


def main(url: str, blind: str, shared: str) -> None:
    """One batch of each stream, twice."""
    spark = start(url, CONF)
    until = time.monotonic() + 120
    while executor_count(spark.sparkContext) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    places = [place_beside(kind, Path(blind), Path(shared)) for kind in KINDS]
    for place in places:
        fill(place, FILES)
    options = replace(MIXED, large=0, max_files_per_batch=None)
    drivers = [place.driver(private(spark), options) for place in places]
    for driver in drivers:
        _step(driver)
    sys.stdin.readline()
    for driver in drivers:
        _step(driver)
        driver.close()
    spark.stop()


def _step(driver: Driver) -> None:
    said = ""
    try:
        driver.step()
    except IncmrqlError as problem:
        said = str(problem)
    say(said=said, committed=driver.state.number)


if __name__ == "__main__":
    main(*sys.argv[1:])
