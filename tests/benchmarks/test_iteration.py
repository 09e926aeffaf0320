"""The benchmark of loops at a tiny size: every case runs, and its answers are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.incremental_data import GONE, Supply, history_of
from benchmarks.incremental_run import Bench, program
from benchmarks.iteration import NAMES, lines, main, shorten
from benchmarks.iteration_answers import distance, matched_distance, norm
from benchmarks.iteration_data import LAYERS, rmat, squares
from benchmarks.iteration_error import Series, _untrue, error
from benchmarks.iteration_flat import flat
from benchmarks.iteration_hand import STARTS
from benchmarks.iteration_numpy import means, page_ranks
from benchmarks.iteration_pairs import Found, measure
from benchmarks.iteration_paper import PaperMeans, PaperRanks
from benchmarks.iteration_plot import draw_results, series
from benchmarks.iteration_queries import CASES, MEANS, REACHED, SMALL, Case
from benchmarks.iteration_run import open_lane
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TINY = 0.002
CHANCE = 7


def chance() -> np.random.Generator:
    return np.random.default_rng(CHANCE)


# --- without Spark -----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_text_is_a_program_with_one_loop(case: Case, tmp_path: Path) -> None:
    compiled = program(case.text_of(tmp_path))
    kinds = [type(node).__name__ for node in compiled.nodes]
    assert kinds.count("Repeated") == 1
    assert any(stream.deletes for stream in compiled.streams) == bool(case.deleted)


def supply(case: Case, folder: Path, scale: float) -> Supply:
    size = case.size(scale)
    history = history_of(folder, case.table.name, (case.table,), size)
    return Supply(folder / "run", history, (case.table,), size, case.deleted)


def test_batches_take_turns_in_size() -> None:
    sizes = [SMALL.size(1.0, number).batch for number in range(6)]
    assert sizes == [100, 200, 300, 400, 100, 200]
    assert SMALL.size(1.0).rows == 50_000


def test_rmat_edges_are_in_the_graph_and_lean_to_its_first_quarter() -> None:
    src, dst = rmat(chance(), 5_000, 20_000)
    assert len(src) == len(dst) == 20_000
    assert min(src.min(), dst.min()) >= 0
    assert max(src.max(), dst.max()) < 5_000
    low = (src < 4096) & (dst < 4096)
    first = ((src < 2048) & (dst < 2048))[low].mean()
    assert first == pytest.approx(0.30, abs=0.02)


def test_points_are_in_four_squares() -> None:
    x, y = squares(chance(), 1_000)
    for column in (x, y):
        assert (((column >= 2) & (column <= 4)) | ((column >= 6) & (column <= 8))).all()
    assert len({(a > 5, b > 5) for a, b in zip(x, y, strict=True)}) == 4


def graph_of(supplied: Supply) -> networkx.MultiDiGraph[int]:
    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    for row in pq.read_table(supplied.folder / "forest").to_pylist():
        graph.add_edge(row["src"], row["dst"])
    return graph


def test_the_forest_is_one_and_no_path_in_it_is_long(tmp_path: Path) -> None:
    supplied = supply(REACHED, tmp_path, 0.01)
    graph = graph_of(supplied)
    assert networkx.is_arborescence(graph)
    assert len(graph) == 1_001
    assert networkx.dag_longest_path_length(graph) <= LAYERS
    for _ in range(5):
        supplied.add()
    grown = graph_of(supplied)
    assert grown.number_of_edges() > graph.number_of_edges()
    assert networkx.dag_longest_path_length(grown) <= LAYERS
    there = pq.read_table(supplied.folder / "forest").to_pylist()
    for row in pq.read_table(supplied.folder / GONE).to_pylist():
        there.remove(row)


# --- by NumPy ----------------------------------------------------------------------------


def test_ranks_by_numpy_are_those_of_the_definition() -> None:
    links = [(0, 1), (0, 2), (1, 2), (2, 0), (3, 2), (3, 2)]
    ranks = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}
    for _ in range(3):
        sums: dict[int, float] = {}
        for one, other in links:
            if one in ranks:
                degree = sum(src == one for src, _ in links)
                sums[other] = sums.get(other, 0.0) + ranks[one] / degree
        ranks = {page: 0.15 + 0.85 * total for page, total in sums.items()}
    src, dst = np.array(links).T
    by_numpy = page_ranks(5, src, dst, 3)
    assert by_numpy == pytest.approx([ranks.get(page, 0.0) for page in range(5)])


def points(count: int) -> np.ndarray:
    return np.stack(squares(chance(), count), axis=1)


def test_the_centroids_are_the_middles_of_the_squares() -> None:
    centroids = means(points(4_000), np.array(STARTS), 10)
    wanted = np.array([(3.0, 3.0), (3.0, 7.0), (7.0, 3.0), (7.0, 7.0)])
    assert matched_distance(centroids, wanted) < 0.5


def test_the_scheme_of_the_paper_counts_ranks_twice() -> None:
    history, batch = rmat(chance(), 100, 1_000), rmat(np.random.default_rng(1), 100, 20)
    src, dst = (np.concatenate(both) for both in zip(history, batch, strict=True))
    truth = page_ranks(100, src, dst, 10)
    published = PaperRanks("published", 100, 10, *history)
    assert published.take(*batch).sum() > 2 * truth.sum()
    once = PaperRanks("once", 100, 10, *history).take(*batch)
    assert truth.sum() < once.sum() < 2 * truth.sum()


def test_the_scheme_of_the_paper_without_a_batch_is_the_loop() -> None:
    history = rmat(chance(), 100, 1_000)
    nothing = np.empty(0, np.int32)
    by_scheme = PaperRanks("once", 100, 10, *history).take(nothing, nothing)
    assert by_scheme == pytest.approx(page_ranks(100, *history, 10))


def test_the_scheme_of_the_paper_makes_old_points_weigh_more_and_more() -> None:
    old, new = points(400), points(400) + 0.05
    scheme = PaperMeans("published", np.array(STARTS), 10, old)
    centroids = [scheme.take(new) for _ in range(30)][-1]
    assert scheme.sums[:, 2].sum() > 2**29 * 400
    assert matched_distance(centroids, means(old, np.array(STARTS), 10)) < 0.3
    once = PaperMeans("once", np.array(STARTS), 10, old).take(new)
    assert matched_distance(once, means(np.concatenate([old, new]), np.array(STARTS), 10)) < 1e-9


# --- figures -----------------------------------------------------------------------------


def test_distances_count_rows_that_are_not_there() -> None:
    one = pa.table({"page": [1, 2], "rank": [0.5, 1.0]})
    other = pa.table({"page": [2, 3], "rank": [1.25, 2.0]})
    assert distance(one, other) == pytest.approx(0.5 + 0.25 + 2.0)
    assert norm(other) == pytest.approx(3.25)


def test_points_are_compared_with_the_nearest() -> None:
    one = pa.table({"X": [3.0, 3.01], "Y": [3.0, 7.0]})
    other = pa.table({"X": [3.01, 3.0], "Y": [3.0, 7.0]})
    assert distance(one, other) == pytest.approx(0.02)
    assert distance(one, other.slice(1)) == pytest.approx(0.01 + 6.0)


def test_the_median_of_pairs_decides_and_a_refusal_is_no_failure() -> None:
    measurement = Found(SMALL)
    measurement.seconds = {
        "default": [1.0, 2.0, 1.0],
        "hand": [9.0, 8.0, 5.0],
        "recompute": [1.0] * 3,
    }
    assert measurement.ratios("default") == [9.0, 4.0, 5.0]
    assert measurement.verdict == "PASS"
    measurement.seconds["hand"] = [4.0, 8.0, 5.0]
    assert measurement.verdict == "FAIL"
    measurement.refused = {"default": "not today"}
    assert measurement.verdict == "SKIPPED: default: not today"
    measurement.refused, measurement.slow = {}, {"default": "given up after 9 s"}
    measurement.seconds = {}
    assert measurement.verdict == "FAIL: given up after 9 s"
    assert lines(measurement)[-1].endswith("| FAIL: given up after 9 s |")
    measurement.problems.append("k differs")
    assert measurement.verdict == "FAIL: k differs"


def test_a_case_that_failed_at_once_is_told() -> None:
    measurement = Found(MEANS, problems=["failed: X"])
    assert lines(measurement)[-1].endswith("| FAIL: failed: X |")
    assert measurement.as_json()["ratios"] == {}


def test_a_bound_that_does_not_hold_is_seen() -> None:
    errors = Series([0.1, 0.3], [0.2, 0.2], ["bound", "residual"])
    assert list(_untrue(errors)) == []
    errors.kinds[1] = "bound"
    assert list(_untrue(errors)) == ["the error of batch 2 is greater than its bound"]


def test_long_series_are_shortened() -> None:
    short = shorten({"about": "a", "x": {"y": [float(n) for n in range(100)], "z": [1, 2]}})
    assert short == {"about": "a", "x": {"y": "0, 50, 99", "z": [1, 2]}}


def test_the_lines_of_a_plot() -> None:
    errors = {
        "paper": {"once": [1.0]},
        "size": 3.0,
        "diffuse": {"true": [0.1], "stated": [0.2], "kinds": ["bound"]},
        "other": {"skipped": "not there"},
    }
    assert dict(series(errors)) == {
        "the paper's scheme, once": [1.0],
        "diffuse: true error": [0.1],
        "diffuse: stated (bound)": [0.2],
    }


def test_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    errors = {"kmeans": {"diffuse": {"true": [0.1], "stated": [0.2], "kinds": ["residual"]}}}
    results = {"error": errors, "flat": {"about": "a", "x": {"seconds": [0.1], "ways": "exact"}}}
    files = draw_results(results, tmp_path / "new")
    assert sorted(file.suffix for file in files) == [".png", ".png", ".svg", ".svg"]
    assert all(file.stat().st_size for file in files)


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pagerank"])
    assert f"there are {', '.join(NAMES)}" in capsys.readouterr().err


# --- on Spark ----------------------------------------------------------------------------


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    from incmrql.api.session import Session

    yield Bench(Session(spark), spark, tmp_path, scale=TINY, rounds=1, warm_up=0)
    assert not list(tmp_path.glob("run-*")), "a run has left its folder behind"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("case", sample(CASES, 4), ids=lambda case: case.name)
def test_a_case(bench: Bench, case: Case) -> None:
    measurement = measure(bench, case)
    assert measurement.problems == []
    assert set(measurement.ways) | set(measurement.refused) == set(case.ways)
    assert set(measurement.refused) <= {"diffuse"}
    assert measurement.slow == {}
    assert all(len(seconds) == 1 for seconds in measurement.seconds.values())
    assert all(
        [report.jobs for report in reports] == [1] for reports in measurement.reports.values()
    )
    for way in set(measurement.ways) & {"exact", "recompute"}:
        assert measurement.as_json()["loops"][way]["ways"] == {way: 1}
    assert str(bench.data) not in json.dumps(measurement.as_json())


@pytest.mark.spark
@pytest.mark.slow
def test_the_truth_by_numpy_is_that_of_the_loop(bench: Bench) -> None:
    from benchmarks.iteration_error import CENTROIDS, RANKS, _nodes, _rows

    for subject in (RANKS, CENTROIDS):
        with open_lane(bench, subject.case, "recompute") as lane:
            rows = _rows(lane.feed.supply.folder / subject.case.table.name)
            truth = subject.truth(_nodes(subject.case, bench), rows)
            assert subject.distance(subject.answer(lane), truth) < 1e-9


@pytest.mark.spark
@pytest.mark.slow
def test_errors_and_courses(bench: Bench) -> None:
    results = error(bench, batches=2)
    assert not results["verdict"].startswith("FAIL")
    assert all(len(distances) == 2 for distances in results["kmeans"]["paper"].values())
    course = flat(bench, batches=3)
    assert course["reachability"]["ways"] == "exact"
    assert len(course["pagerank-small"]["seconds"]) == 3
