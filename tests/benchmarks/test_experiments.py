"""The frame of `incmrql bench`: what is there, tables, results that are kept, and plots."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import experiments
from benchmarks.experiments import MODULES, main
from benchmarks.experiments.base import Experiment, Finding, Options, Tell, pace, verdict_of
from benchmarks.experiments.main import README, Wish, keep, run
from benchmarks.experiments.plots import draw_findings, lines_of, panels
from benchmarks.experiments.scale import CASES, break_even
from benchmarks.experiments.tables import (
    as_markdown,
    as_text,
    cell_text,
    cells,
    marks,
    read,
    replace_table,
)
from incmrql.cli import bench as command
from tests.cli.commands import incmrql

BUILT = ("paper-groupby", "paper-join", "paper-kmeans", "paper-pagerank", "scale", "deletions")
WON = Finding("some", "a", {"batch ms": 20, "rows": "many"}, 2.5, "faster", "against by hand")
LOST = Finding("some", "b|c", {"batch ms": 1500, "state bytes": 3 << 20}, 0.5, "slower")


def about(finding: Finding) -> Experiment:
    def run_once(_options: Options, tell: Tell) -> Iterator[Finding]:
        tell("at work")
        yield finding

    return Experiment(finding.experiment, "something", run_once)


ABOUT = {
    "quick": False, "rounds": 3, "master": "local[2]", "cores": 2, "python": "3.11",
    "load_before": 0.1, "load_after": 1.9,
}  # fmt: skip


@pytest.fixture
def progress() -> list[str]:
    return []


# --- the registry ------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT)
def test_an_experiment_is_found_by_its_name(name: str) -> None:
    assert experiments.experiment(name).name == name


def test_the_readme_has_a_place_for_every_experiment() -> None:
    text = README.read_text()
    for name in MODULES:
        assert replace_table(text, name, "| x |") != text


def test_the_list_says_what_is_there() -> None:
    done = incmrql("bench", "--list")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.lines] == list(MODULES)
    assert experiments.experiment("scale").about in done.out


# --- the command -------------------------------------------------------------------------


def test_an_unknown_name_is_refused_with_the_list() -> None:
    done = incmrql("bench", "scale", "scales")
    assert (done.code, done.out) == (2, "")
    assert "There is no experiment scales. There are paper-groupby, " in done.err


def test_without_a_checkout_it_is_said_where_the_experiments_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "checkout", lambda: tmp_path)
    done = incmrql("bench", "--quick")
    assert (done.code, done.out) == (1, "")
    assert "the experiments come with the source repository" in done.err


def test_rounds_are_at_least_one() -> None:
    assert incmrql("bench", "--rounds", "0").code == 2


@pytest.mark.parametrize("finding", [WON, LOST], ids=["won", "lost"])
def test_the_table_goes_to_stdout_and_talk_to_stderr(
    finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "experiment", lambda _name: about(finding))
    done = incmrql("bench", "scale")
    assert done.code == 0, "a loss is no failure"
    assert as_text([finding]) in done.out
    assert "scale: at work" in done.err


def test_a_wrong_answer_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Finding("scale", "a", verdict="wrong")
    monkeypatch.setattr(main, "experiment", lambda _name: about(wrong))
    assert incmrql("bench", "scale").code == 1


def test_findings_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "experiment", lambda _name: about(WON))
    (line,) = incmrql("bench", "scale", "--json").lines
    data = json.loads(line)
    assert (data["figures"], data["ratio"]) == (dict(WON.figures), 2.5)


def test_a_run_that_is_stopped_removes_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Path] = []

    def stop_itself(options: Options, _tell: Tell) -> Iterator[Finding]:
        places.append(options.data)
        os.kill(os.getpid(), signal.SIGTERM)
        yield WON

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(main, "experiment", lambda name: Experiment(name, "", stop_itself))
    done = incmrql("bench", "scale")
    assert (done.code, done.out) == (130, "")
    assert not places[0].exists()
    assert signal.getsignal(signal.SIGTERM) == before


# --- running -----------------------------------------------------------------------------


def test_a_failure_is_a_finding_and_the_others_are_run(
    monkeypatch: pytest.MonkeyPatch, progress: list[str]
) -> None:
    def fail_after_one(_options: Options, _tell: Tell) -> Iterator[Finding]:
        yield WON
        raise ValueError("no file /some/where/a.parquet")

    experiments = {"scale": Experiment("scale", "", fail_after_one), "deletions": about(LOST)}
    monkeypatch.setattr(main, "experiment", experiments.__getitem__)
    shown: list[str] = []
    assert not run(Wish(("scale", "deletions")), progress.append, shown.append)
    first, second = shown
    assert "failed: ValueError: no file a.parquet" in first
    assert "2.50  faster" in first
    assert "slower" in second


def test_what_is_not_built_is_skipped(monkeypatch: pytest.MonkeyPatch, progress: list[str]) -> None:
    monkeypatch.setitem(MODULES, "profile", ("benchmarks.experiments.none", "X"))
    shown: list[str] = []
    assert run(Wish(("profile",)), progress.append, shown.append)
    assert "skipped: there is no benchmarks.experiments.none" in shown[0]


@pytest.mark.parametrize("kept", [True, False])
def test_data_stay_only_where_they_are_asked_for(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: list[str]
) -> None:
    places: list[Path] = []

    def leave_history(options: Options, _tell: Tell) -> Iterator[Finding]:
        places.append(options.data)
        (options.data / "history").mkdir()
        yield WON

    monkeypatch.setattr(main, "experiment", lambda name: Experiment(name, "", leave_history))
    run(Wish(("scale",), data=tmp_path / "new" if kept else None), progress.append, lambda _: None)
    assert (places[0] / "history").exists() == kept


def test_the_rounds_that_are_asked_for_win() -> None:
    options = Options(quick=True, rounds=0, data=Path(), seed=1, master="local[2]")
    assert options.count(5, 1) == 1
    assert Options(False, 7, Path(), 1, "local[2]").count(5, 1) == 7


# --- tables ------------------------------------------------------------------------------


def test_verdicts() -> None:
    assert [pace(ratio) for ratio in (0.5, 0.95, 1.05, 1.2)] == ["slower", "even", "even", "faster"]
    assert verdict_of(3.0, ["m differs"]) == "wrong"
    assert verdict_of(None, []) == "right"


def test_figures_by_their_names() -> None:
    assert cell_text("batch ms", 12345) == "12,345"
    assert cell_text("state bytes", 3 << 19) == "1.5 MiB"
    assert cell_text("shuffled bytes", 12) == "12 B"
    assert cell_text("error", 0.5) == "0.50"


def test_columns_are_those_of_all_findings_in_their_order() -> None:
    assert cells([WON, LOST]) == [
        ["case", "batch ms", "rows", "state bytes", "ratio", "verdict", "note"],
        ["a", "20", "many", "", "2.50", "faster", "against by hand"],
        ["b|c", "1,500", "", "3.0 MiB", "0.50", "slower", ""],
    ]


def test_a_table_for_the_terminal_is_aligned() -> None:
    head, line, first, second = as_text([WON, LOST]).split("\n")
    place = head.index("batch ms")
    assert first[place : place + 8] == "      20"
    assert second[place : place + 8] == "   1,500"
    assert first.startswith("a    ")
    assert set(line) == {"-", " "}


def test_a_table_for_the_readme_is_escaped() -> None:
    last = as_markdown([WON, LOST]).split("\n")[-1]
    assert last.startswith("| b\\|c | 1,500 |")


def test_a_table_goes_between_its_marks() -> None:
    begin, end = marks("scale")
    text = f"before\n{begin}\nold\n{end}\nafter {marks('other')[0]}"
    once = replace_table(text, "scale", "| new |")
    assert once == f"before\n{begin}\n| new |\n{end}\nafter {marks('other')[0]}"
    assert replace_table(once, "scale", "| new |") == once
    with pytest.raises(LookupError, match="no place for the table of other"):
        replace_table(text, "other", "| new |")


def test_results_of_other_experiments_stay(tmp_path: Path, progress: list[str]) -> None:
    results, readme = tmp_path / "new" / "some.json", tmp_path / "README.md"
    readme.write_text("".join(" ".join(marks(name)) for name in ("scale", "bank")))
    for name, finding in (("scale", WON), ("bank", LOST), ("scale", LOST)):
        keep(name, [finding], ABOUT, progress.append, results, readme)
    known = read(results)
    assert list(known) == ["scale", "bank"]
    assert [known[name]["findings"][0]["case"] for name in known] == ["b|c", "b|c"]
    assert known["scale"]["about"] == ABOUT
    assert readme.read_text().count("| slower |") == 2
    assert "faster" not in readme.read_text()
    keep("bank", [WON], {**ABOUT, "quick": True}, progress.append, results, readme)
    assert readme.read_text().count("load of the machine 0.1 before and 1.9 after") == 2
    assert readme.read_text().count("In small") == 1


# --- plots -------------------------------------------------------------------------------

SERIES = {"incremental": [1.0, 0.1], "engine": [1.0, 2.0]}
PAPER: list[dict[str, Any]] = [
    {"case": "10 rows an increment, default", "verdict": "faster", "series": SERIES},
    {"case": "10 rows an increment, diffuse", "verdict": "faster", "series": SERIES},
    {"case": "20 rows an increment, default", "verdict": "faster", "series": SERIES},
]
SCALE: list[dict[str, Any]] = [
    {"case": "a", "verdict": "faster", "ratio": 2.0, "figures": {"batch rows": 100}},
    {"case": "a", "verdict": "slower", "ratio": 0.5, "figures": {"batch rows": 1000}},
    {"case": "a", "verdict": "right", "ratio": None, "figures": {"load ms": 5}},
]


def test_a_panel_has_a_line_for_each_way_and_each_recomputation() -> None:
    lines_by_panel = panels(PAPER)
    assert [label for label, _ in lines_by_panel["10 rows an increment"]] == [
        "incremental (default)", "engine", "incremental (diffuse)",
    ]  # fmt: skip
    assert len(lines_by_panel["20 rows an increment"]) == 2


def test_only_rows_with_both_figures_are_points() -> None:
    assert lines_of(SCALE, "batch rows", "ratio") == {"a": [(100, 2.0), (1000, 0.5)]}


@pytest.mark.parametrize(("name", "rows"), [("paper-x", PAPER), ("scale", SCALE)])
def test_plots_are_drawn(name: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = draw_findings(name, rows, tmp_path)
    assert [file.name for file in files] == [f"{name}.svg", f"{name}.png"]
    assert all(file.stat().st_size for file in files)


def test_without_matplotlib_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    readme = tmp_path / "README.md"
    readme.write_text(" ".join(marks("scale")))
    finding = Finding("scale", "a", {"batch rows": 100}, 2.0, "faster")
    keep("scale", [finding], ABOUT, progress.append, tmp_path / "some.json", readme)
    assert progress == ["no plots are drawn: there is no matplotlib"]
    assert "scale" in read(tmp_path / "some.json")


# --- break-even --------------------------------------------------------------------------


def test_where_it_is_break_even() -> None:
    assert break_even({100: 4.0, 10_000: 0.25}) == "about 1,000"
    assert break_even({100: 4.0, 10_000: 1.5}) == "more than 10,000"
    assert break_even({100: 0.9, 10_000: 0.5}) == "fewer than 100"
    assert break_even({10: 0.9, 100: 100.0, 1000: 0.01}) == "about 320"


def test_the_cases_of_scale() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) == 13
    assert names[0] == "group-by, 1M rows, 10K keys"
    assert "group-by, 100M rows, 10M keys" in names
    assert sum(case.is_large for case in CASES) == 5
