"""Loops and checkpoints: what goes on from where it was, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from incmrql.errors import CheckpointError, DataError
from incmrql.plan.program import LoopMode
from incmrql.runtime.verify import verify
from incmrql.values import identical
from tests.runtime.here import driver_here
from tests.runtime.streaming import OPTIONS, Place

MEANS = (
    "incr repeat c = {{(0.0, 0.0), (4.0, 4.0)}} step select (avg(p#0), avg(p#1)) from p in "
    'stream(line, "{data}", ",", type((double,double))) group by k: (select m from m in c '
    "order by (m#0 - p#0) * (m#0 - p#0) + (m#1 - p#1) * (m#1 - p#1) limit 1) limit 4;"
)
REACHED = (
    'edges = stream(line, "{data}", ",", type((long,long)), deletes: "{deletes}");\n'
    "incr repeat x = {{1L}} step "
    "select distinct n from n in (x union (select b from (a, b) in edges, a in x));"
)


def test_exact_recompute_and_default_go_on_from_each_other(tmp_path: Path) -> None:
    place = Place(tmp_path, REACHED)
    ways = []
    asked: list[LoopMode] = ["exact", "exact", "recompute", "default", "exact"]
    for number, iterate in enumerate(asked):
        place.put(f"{number}.csv", f"{number + 1},{number + 2}\n")
        with driver_here(place, replace(OPTIONS, iterate=iterate)) as driver:
            report = driver.step()
            assert report is not None
            ways.append(report.loops[0].way)
            assert identical(sorted(driver.answer()), list(range(1, number + 3)))
    assert ways == ["exact", "exact", "recompute", "recompute", "exact"]


def test_a_run_that_diffuses_is_not_gone_on_with_exactly(tmp_path: Path) -> None:
    place = Place(tmp_path, MEANS)
    place.put("0.csv", "0.5,0.5\n3.5,3.0\n")
    diffuse = replace(OPTIONS, iterate="diffuse")
    with driver_here(place, diffuse) as driver:
        driver.step()
        with pytest.raises(DataError, match="R313"):
            verify(driver, None)
    with pytest.raises(
        CheckpointError, match="created with --iterate diffuse, and this run is without"
    ):
        driver_here(place)
    place.put("1.csv", "0.25,0.5\n")
    with driver_here(place, diffuse) as driver:
        report = driver.step()
        assert report is not None
        assert (report.loops[0].way, report.state_read < 20) == ("diffuse", True)


def test_what_a_killed_loop_has_left_is_removed(tmp_path: Path) -> None:
    place = Place(tmp_path, REACHED)
    left = place.checkpoint / "work" / "loops-000000-0a1b2c3d" / "t1"
    left.mkdir(parents=True)
    (left / "input-0-0").write_bytes(b"half")
    with driver_here(place):
        assert list(left.parent.parent.glob("loops-*")) == []
