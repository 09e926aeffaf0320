"""A script on a session: items that are answered once, and one run for all that follow streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import incmrql
from incmrql import api
from incmrql.api.checkpoints import SavedRun
from incmrql.api.options import stream_options
from incmrql.api.runs import Failures, Run
from incmrql.api.session import PreparedScript
from incmrql.errors import DataError
from incmrql.runtime.report import Batch, Verified
from incmrql.spark.stream_job import StreamJob
from incmrql.values import Bag
from tests.runtime.here import Here

SCRIPT = """
store most := 3;
S = stream(line, "in", ",", type(< A: int, B: int >));
incr select (x.A, sum(x.B)) from x in S where x.A < most group by x.A;
6 * 7;
incr count(S);
"""


class Heard:
    """Remembers what a run tells."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.answers: list[tuple[Any, ...]] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def failures(self, number: int, failures: Failures) -> None:
        pass

    def batch(self, run: Run, batch: Batch) -> None:
        self.answers.append((batch.number, *map(run.answer, run.printed)))

    def verified(self, verified: Verified) -> None:
        self.notices.append(str(verified))


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparedScript:
    """The script in a folder of its own; its batches run in this process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1,10\n2,20\nx,1\n")
    (tmp_path / "in" / "2.csv").write_text("1,5\n7,7\n")
    original = Run._open

    def open_here(self: Run) -> Any:
        driver = original(self)
        driver._job = cast("StreamJob", Here(driver.compiled))
        return driver

    monkeypatch.setattr(Run, "_open", open_here)
    return incmrql.Session().script(SCRIPT)


def options(**given: Any) -> Any:
    return stream_options({"settle": 0.0, "available_now": True, "max_files_per_batch": 1, **given})


def test_a_run_has_an_answer_for_each_streaming_item(script: PreparedScript) -> None:
    heard, once = Heard(), []
    assert list(script.plan_notes(options())) == []
    run = script.run(options(), lambda item, value: once.append((item.kind, value)), heard)
    assert once == [("print", 42)]
    assert run is not None
    with run:
        assert heard.answers == []  # nothing is ingested before it is asked for
        run.follow()
        own = run.own_folder
        assert own is not None
        assert own.exists()
    assert not own.exists()
    assert heard.answers == [(0, Bag([(1, 10), (2, 20)]), 2), (1, Bag([(1, 15), (2, 20)]), 4)]
    (notice,) = heard.notices
    assert "1.csv" in notice


def test_answers_with_a_folder_are_not_printed(script: PreparedScript, tmp_path: Path) -> None:
    run = script.run(options(output="out"), lambda *_: None, Heard())
    assert run is not None
    with run:
        assert run.printed == []
        run.follow()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"1", "2"}


def test_changes_of_each_item(script: PreparedScript) -> None:
    chosen = replace(options(), keep_changes=True)
    run = script.run(chosen, lambda *_: None, Heard())
    assert run is not None
    with run:
        run.follow()
        assert sorted(run.changes(1), key=lambda change: change[1]) == [(2, -1), (4, 1)]
        assert run.changes(0) == [((1, 10), -1), ((1, 15), 1)]


def test_a_checkpoint_is_opened_without_the_script(script: PreparedScript, tmp_path: Path) -> None:
    run = script.run(options(checkpoint="ck"), lambda *_: None, Heard())
    assert run is not None
    with run:
        run.follow()
    saved = SavedRun(tmp_path / "ck")
    assert saved.facts()["batches"] == 2
    assert [output.kind for output in saved.program.outputs] == ["incr", "incr"]
    assert saved.rebucket(3) == (sum(table.rows for table in saved.tables()), 8)
    assert SavedRun(tmp_path / "ck").facts()["buckets"] == 3
    names = [table.name for table in saved.tables()]
    assert any(saved.rows(name, 1) for name in names)


def test_a_script_without_streams_has_no_run() -> None:
    answers: list[Any] = []
    script = incmrql.Session().script("1 + 1;")
    assert script.run(options(), lambda _, value: answers.append(value), Heard()) is None
    assert answers == [2]


@pytest.mark.parametrize("script", [None, 3, b"1;"])
def test_a_script_that_is_no_text_is_refused(script: Any) -> None:
    for use in (incmrql.Session().query, incmrql.Session().script, api.run, api.check):
        with pytest.raises(DataError, match="a script is a text or a Path") as caught:
            use(script)
        assert caught.value.code == "R212"
