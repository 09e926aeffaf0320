"""`incmrql demo`: the queries are followed, the batches are as told, and the answers are right."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from incmrql import api
from incmrql.cli.demo import _SIZES, QUERIES, _nodes, demo, kept_by, lines_of
from incmrql.runtime.report import LoopWork
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOOPS = ("kmeans", "pagerank")
BATCH = re.compile(r"^batch (\d+): ([\d,]+) rows in, ([\d,]+) out; (\d+) changes", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_every_query_follows_its_streams(name: str) -> None:
    text = QUERIES[name].format(folder=".")
    # A loop may be run again from all of its input, where that costs less than its steps.
    expected = ["W103"] if name in LOOPS else []
    if name == "pagerank":  # ranks are divided by degrees in its steps
        expected.append("W304")
    assert [problem.code for problem in api.check(text) if problem.code.startswith("W")] == expected
    shown = list(_nodes(text))
    assert any("stream" in line for line in shown)
    assert any("repeat" in line for line in shown) == (name in LOOPS)


@pytest.mark.parametrize("name", LOOPS)
def test_only_lines_that_are_there_go(name: str, tmp_path: Path) -> None:
    stream = lines_of(name, tmp_path, random.Random(7), 5)
    for number, (inserts, deletes) in enumerate([(16, 0), (2, 1), (0, 3), (1, 99)]):
        stream.step(number, inserts, deletes)
    (folder,) = (path for path in tmp_path.iterdir() if not path.name.endswith("-gone"))
    came, gone = (
        Counter(line for file in directory.iterdir() for line in file.read_text().splitlines())
        for directory in (folder, tmp_path / f"{folder.name}-gone")
    )
    assert came.total() == 19
    assert gone <= came
    assert came - gone == Counter(stream.lines)


def test_points_are_in_four_squares(tmp_path: Path) -> None:
    stream = lines_of("kmeans", tmp_path, random.Random(7), 1)
    stream.step(0, 200, 0)
    places = [tuple(map(float, line.split(","))) for line in stream.lines]
    assert {int(number) for place in places for number in place} <= {2, 3, 6, 7}
    assert len({(x > 5, y > 5) for x, y in places}) == 4


def test_the_way_of_a_loop_is_told() -> None:
    loop = LoopWork("exact", "requested", 3, 12)
    assert kept_by(loop) == "the loop: exact, 3 steps (requested)"
    assert kept_by(LoopWork("recompute", "x", 1, 0)) == "the loop: recompute, 1 step (x)"


def test_only_names_that_there_are() -> None:
    done = CliRunner().invoke(demo, ["means"])
    assert done.exit_code == 2
    assert "'groupby', 'join', 'kmeans', 'pagerank'" in done.output


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", sample(sorted(QUERIES), 2))
def test_a_demo(name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from incmrql.api import session

    small, large = _SIZES[name]
    large = replace(large, rows=large.rows // 20, keys=large.keys // 20 + 1)
    monkeypatch.setitem(_SIZES, name, (small, large))
    monkeypatch.setattr(session, "Session", partial(session.Session, spark=spark))
    done = CliRunner().invoke(demo, [name], catch_exceptions=False)
    assert done.exit_code == 0
    told = re.findall(
        r"^batch (\d+): ([\d,]+) rows in, ([\d,]+) out; (\d+) changes", done.output, re.M
    )
    assert [int(number) for number, *_ in told] == [
        *range(small.batches + 1),
        *range(large.batches + 1),
    ]
    streams = 2 if name == "join" else 1
    assert {int(line[2]) for line in told} == {0, streams * small.deletes, streams * large.deletes}
    assert all(int(line[3]) for line in told)
    assert done.output.count("all of it again") == small.batches + large.batches
    assert done.output.count("  the loop: ") == (len(told) if name in LOOPS else 0)
    assert f"verified after batch {large.batches}: " in done.output
