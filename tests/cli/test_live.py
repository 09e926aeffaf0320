"""What a terminal shows of a run: a line for each batch, and the answer drawn in place."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from incmrql.api.runs import Progress, Run
from incmrql.api.saved_answers import AnswerColumns, SavedAnswer
from incmrql.cli.live import LivePrinter, progress_line, status_line
from incmrql.cli.tables import answer_table, table
from incmrql.cli.terminal import duration, size_text
from incmrql.runtime.report import Batch
from incmrql.runtime.waiting import SourceLag
from incmrql.types.model import LONG, STRING, Collection, Record, list_of
from incmrql.values import Bag
from incmrql.values import Record as Row
from tests.cli.commands import Outcome, incmrql
from tests.cli.screens import screen, widest
from tests.cli.streams import AVERAGE, STREAM, Shop, shop_at
from tests.cli.test_console import report

TYPE = Collection("bag", Record((("city", STRING), ("n", LONG))))
Rows = dict[str, int]


def terminal(width: int = 60, height: int = 12) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None,
        _environ={},
    )  # fmt: skip


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Cities:
    """A run whose answer has a number for each city."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.last: list[tuple[Row, int]] = []
        self.number = -1
        self.printed = [0]
        self.at_work: Progress | None = None
        self.own_folder: Path | None = None
        self.is_committing = False
        self.rebuilt_from: int | None = None

    def becomes(self, rows: Rows) -> Batch:
        """The answer after the next batch."""
        changed = rows.keys() | self.rows.keys()
        self.last = [
            (Row({"city": city, "n": side[city]}), weight)
            for city in sorted(changed)
            for side, weight in ((self.rows, -1), (rows, 1))
            if city in side and self.rows.get(city) != rows.get(city)
        ]
        self.rows, self.number = rows, self.number + 1
        return Batch(report(self.number, changed=len(self.last)), lambda _: [], int)

    @property
    def status(self) -> Any:
        return SimpleNamespace(batch=self.number)

    def is_idle(self) -> bool:
        return True

    def progress(self) -> Progress | None:
        return self.at_work

    def columns(self, _item: int) -> AnswerColumns:
        return AnswerColumns(TYPE)

    def answer(self, _item: int) -> Bag:
        return Bag(Row({"city": city, "n": n}) for city, n in self.rows.items())

    def saved_answer(self, item: int) -> SavedAnswer:
        return SavedAnswer(self.answer(item), AnswerColumns(TYPE), self.number)

    def changes(self, _item: int, most: int | None = None) -> list[tuple[Row, int]]:
        return self.last[:most]

    def change_size(self, _item: int) -> tuple[int, int]:
        return len(self.last), sum(weight for _, weight in self.last)

    def as_run(self) -> Run:
        return cast("Run", self)


# --- texts -------------------------------------------------------------------------------


def test_a_batch_in_plain_words() -> None:
    one = report(7, inserted=1, deleted=0, changed=1, state_rows=1, state_bytes=1)
    assert status_line(one) == (
        "batch 7: 1 row added, 0 removed; 1 answer row changed; state 1 row, 1 bytes; 25 ms"
    )
    many = report(8, bad=3, inserted=1000, changed=34, state_rows=12_345, state_bytes=1_234_567)
    assert status_line(replace(many, lags=(SourceLag("sales", 1.25, 0, 0),))) == (
        "batch 8: 1,000 rows added, 1 removed; 3 lines left out; 34 answer rows changed; "
        "state 12,345 rows, 1.2 MB; 25 ms; lag 1.2 s"
    )


def test_times_and_sizes_as_people_say_them() -> None:
    seconds = (0.0254, 3.14, 12.4, 200, 8000, 200_000)
    assert [*map(duration, seconds)] == ["25 ms", "3.1 s", "12 s", "3 min", "2 h", "2 days"]
    sizes = (0, 999, 1234, 12_345_678, 5e12)
    assert [*map(size_text, sizes)] == ["0 bytes", "999 bytes", "1.2 kB", "12 MB", "5.0 TB"]


def test_the_progress_of_a_load() -> None:
    half = Progress(0, 12, 100_000_000, 1_000_000, 50_000_000)
    assert progress_line(half, 4.0) == (
        "batch 0: reading 12 files, 100 MB (50%): 1,000,000 rows, 250,000 a second, 4.0 s left"
    )
    assert progress_line(replace(half, rows=0, read=0), 4.0) == (
        "batch 0: reading 12 files, 100 MB: 0 rows"
    )
    assert progress_line(replace(half, files=1, read=half.size), 4.0) == (
        "batch 0: 1,000,000 rows read from 1 file; computing the answer"
    )


# --- tables ------------------------------------------------------------------------------


def printed(parts: Sequence[Any], width: int) -> list[str]:
    console = terminal(width)
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in written(console).splitlines()]


def test_numbers_stand_on_the_right_and_wide_characters_take_two_cells() -> None:
    rows = [Row({"city": "Oslo", "n": 7}), Row({"city": "東京", "n": 1234})]
    assert printed(answer_table(AnswerColumns(TYPE), rows, 60), 60) == [
        "city     n",
        "Oslo     7",
        "東京  1234",
    ]


def test_a_narrow_terminal_cuts_wide_columns_then_counts_those_on_the_right() -> None:
    header, row = ("city", "remark", "n"), ("Oslo", "a long remark that goes on", "7")
    numeric = (False, False, True)
    assert printed(table(header, [row], numeric, 24), 24) == [
        "city  remark           n",
        "Oslo  a long remark …  7",
    ]
    assert printed(table(header, [row], numeric, 16), 16) == [
        "city  remark",
        "Oslo  a long re…",
        "and 1 more",
        "column: n",
    ]


_CELLS = st.text(st.sampled_from("aé東\u0301\n\x1b🙂 "), max_size=12)


@given(
    st.lists(st.lists(_CELLS, min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(8, 60),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_no_line_of_a_table_is_wider_than_the_terminal(
    rows: list[list[str]], width: int, numeric: list[bool]
) -> None:
    parts = table(("a", "b", "c"), rows, numeric, width)
    lines = printed(parts[:1], width)
    assert len(lines) == len(rows) + 1
    assert widest(lines) <= width
    assert all("\x1b" not in line for line in lines)


# --- drawing -----------------------------------------------------------------------------


def test_a_small_answer_is_drawn_in_place_below_a_line_for_each_batch() -> None:
    console, run = terminal(), Cities()
    live = LivePrinter(console=console)
    with live.following(run.as_run()):
        for rows in ({"Oslo": 1}, {"Oslo": 2, "Rome": 1}, {"Rome": 1}):
            live.batch(run.as_run(), run.becomes(rows))
        during = screen(written(console))
    assert [line.split(":")[0] for line in during if line.startswith("batch")] == [
        "batch 0", "batch 1", "batch 2",
    ]  # fmt: skip
    assert during[-3:] == ["city  n", "Rome  1", "waiting for new input; Ctrl-C stops"]
    assert sum("Oslo" in line for line in during) == 0
    assert screen(written(console))[-2:] == ["city  n", "Rome  1"]


def test_of_a_large_answer_the_changes_are_printed() -> None:
    console, run = terminal(height=10), Cities()
    live = LivePrinter(console=console)
    cities = {f"city{n:02}": 1 for n in range(30)}
    with live.following(run.as_run()):
        live.batch(run.as_run(), run.becomes(cities))
        live.batch(run.as_run(), run.becomes({**cities, "city07": 5}))
    lines = screen(written(console))
    start = next(n for n, line in enumerate(lines) if line.startswith("the answer has 30 rows"))
    assert lines[start + 2] == "+  city00  1"
    assert "and 20 more changes" in lines
    assert lines[-4:] == [
        "the answer has 30 rows; changes:", "   city    n", "-  city07  1", "+  city07  5",
    ]  # fmt: skip
    with live.following(run.as_run()):
        live.batch(run.as_run(), run.becomes({"Oslo": 1}))
    assert screen(written(console))[-2:] == ["city  n", "Oslo  1"]


def test_an_answer_that_changes_as_a_whole_is_one_row_of_its_changes() -> None:
    columns = AnswerColumns(list_of(TYPE))
    cells = columns.cells([Bag([Row({"city": "Oslo", "n": 1})])])
    assert (columns.header, cells) == (("value",), [('{ < city: "Oslo", n: 1 > }',)])
    assert not columns.is_bag


def test_changes_that_are_asked_for_are_printed() -> None:
    console, run = terminal(), Cities()
    live = LivePrinter(console=console, shows_changes=True)
    live.batch(run.as_run(), run.becomes({"Oslo": 1}))
    assert screen(written(console))[-2:] == ["   city  n", "+  Oslo  1"]


def test_a_start_shows_the_answer_on_a_terminal_but_repeats_nothing_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console, run = terminal(), Cities()
    run.becomes({"Oslo": 1})
    LivePrinter(console=console).start(run.as_run())
    assert screen(written(console)) == ["nothing new since batch 0", "city  n", "Oslo  1"]
    piped = LivePrinter(console=terminal(), show=str)
    piped.start(run.as_run())
    assert capsys.readouterr().out == ""
    run.rebuilt_from = 3
    piped.start(run.as_run())
    assert "Oslo" in capsys.readouterr().out


def test_what_ctrl_c_does_is_said() -> None:
    console, run = terminal(), Cities()
    live = LivePrinter(console=console)
    with live.following(run.as_run()):
        live.batch(run.as_run(), run.becomes({"Oslo": 1}))
        run.at_work = Progress(1, 1, 10, 0, 0)
        live.stopping()
        live._refresh()
        assert screen(written(console))[-1] == (
            "stopping after batch 1; Ctrl-C again stops at once"
        )
        run.at_work = None
        live._refresh()
        assert screen(written(console))[-1] == "stopping"
    said = " ".join(screen(written(console))[-2:])
    assert said == "stopped after batch 0; run again with the same --checkpoint to continue"


@pytest.mark.parametrize(
    ("is_committing", "own", "said"),
    [
        (False, None, "batch 1 was not committed and runs again at the next start"),
        (True, None, "batch 0 is committed; the next start publishes its output"),
        (False, Path("temporary"), "without --checkpoint nothing is kept"),
    ],
)
def test_a_second_ctrl_c_says_what_it_left(
    is_committing: bool, own: Path | None, said: str
) -> None:
    console, run = terminal(200), Cities()
    run.is_committing, run.own_folder, run.number = is_committing, own, 0
    with (
        pytest.raises(click.exceptions.Exit) as ended,
        LivePrinter(console=console).following(run.as_run()),
    ):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert said in written(console)


def test_text_of_others_cannot_draw() -> None:
    console, run = terminal(), Cities()
    live = LivePrinter(console=console)
    live.notice("a\x1b[2Jb [red]c")
    live.batch(run.as_run(), run.becomes({"\x1b[2J[red]": 1}))
    assert "\x1b[2J" not in written(console)
    assert "a\\x1b[2Jb [red]c" in written(console)
    assert "\\x1b[2J[red]" in written(console)


# --- the command -------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def drawn(monkeypatch: pytest.MonkeyPatch, *words: str) -> Outcome:
    """A command that believes that it has a terminal."""
    with monkeypatch.context() as patch:
        patch.setattr("incmrql.cli.streams.is_terminal", lambda _stream: True)
        patch.setenv("COLUMNS", "100")
        return incmrql("run", *words, "--checkpoint", "ck", "--available-now")


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_run_on_a_terminal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn(monkeypatch, "-e", AVERAGE)
    assert (first.code, first.out) == (0, "")
    assert first.err.startswith("batch 0: 3 rows added, 0 removed; 2 answer rows changed; state ")
    table = ["_1    _2    _3", "Oslo   2  15.0", "Rome   1   4.0"]
    assert [line.rstrip() for line in first.err.splitlines()[-3:]] == table
    again = drawn(monkeypatch, "-e", AVERAGE)
    assert [line.rstrip() for line in again.err.splitlines()] == [
        "nothing new since batch 0",
        *table,
    ]
    shop.sells("2.csv", "Rome,6\n")
    third = drawn(monkeypatch, "-e", AVERAGE)
    assert third.err.startswith("batch 1: 1 row added, 0 removed; 2 answer rows changed; ")
    assert " lag " in third.err.splitlines()[0] + third.err.splitlines()[1]


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_order_by_is_the_order_in_which_rows_are_printed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = f"(city string, price double) USING csv OPTIONS (path '{shop.folder / 'sales'}')"
    select = "SELECT city, sum(price) AS total FROM sales GROUP BY city ORDER BY total"
    view = f"CREATE TEMPORARY VIEW sales {given};\nCREATE MATERIALIZED VIEW v AS {select};\n"
    Path("q.sql").write_text(view)
    done = incmrql("run", "q.sql", "--checkpoint", "ck", "--available-now")
    assert done.lines == ['{ ("Rome",4.0), ("Oslo",30.0) }']
    assert incmrql("answer", "ck", "--format", "mrql").lines == done.lines
    shop.sells("2.csv", "Bonn,7\n")
    more = incmrql("run", "q.sql", "--checkpoint", "ck", "--available-now", "--json")
    assert '"answers": [[["Rome", 4.0], ["Bonn", 7.0], ["Oslo", 30.0]]]' in more.out
    shown = drawn(monkeypatch, "q.sql")
    assert [line.split()[0] for line in shown.err.splitlines()[-4:]] == [
        "city", "Rome", "Bonn", "Oslo",
    ]  # fmt: skip
    first = incmrql("run", "q.sql", "--checkpoint", "other", "--available-now", "--limit", "1")
    assert first.lines == ['{ ("Rome",4.0), ... }']


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_folder_for_deletions_that_is_missing_can_be_made(shop: Shop) -> None:
    (shop.folder / "returns").rmdir()
    refused = shop.run()
    assert refused.code == 1
    assert 'error[R101]: there is no file or folder "returns"' in refused.err
    assert "mkdir -p returns (empty is fine; the rows of files in it are deleted)" in refused.err
    (shop.folder / "returns").mkdir()
    assert shop.run().code == 0
    (shop.folder / "sales").rename(shop.folder / "elsewhere")
    assert "mkdir" not in shop.run().err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_tasks_note_what_they_have_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    import incmrql as package
    from incmrql.api.options import stream_options
    from incmrql.runtime import progress
    from incmrql.runtime.progress import read_progress

    seen: list[Progress] = []
    remove = shutil.rmtree

    def looked(folder: Path, **given: Any) -> None:
        if folder.name.startswith(progress.FOLDERS):
            rows, read = read_progress(folder)
            seen.append(Progress(-1, len([*folder.iterdir()]), 0, rows, read))
        remove(folder, **given)

    monkeypatch.setattr(shutil, "rmtree", looked)
    shop.sells("2.csv", "Rome,6\n")
    size = sum(path.stat().st_size for path in (shop.folder / "sales").iterdir())
    with package.Session() as session:
        query = session.query(f"incr count(select s from s in {STREAM});")
        for large, tasks in ((1 << 30, 1), (0, 2)):
            options = replace(stream_options({}), show_progress=True, large=large)
            program = query.compiled.program([query.compiled_item], (), {}, watch=False)
            with session.run_of(program, options, {}, LivePrinter(console=terminal())) as run:
                assert run.step() is not None
                assert run.progress() is None
            assert seen.pop() == Progress(-1, tasks, 0, 4, size)


def test_cells_of_times_are_plain() -> None:
    import datetime

    from incmrql.types.model import DATE, TIMESTAMP, Tuple

    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    type_ = Collection("bag", Tuple((TIMESTAMP, DATE, STRING)))
    columns = AnswerColumns(type_)
    assert columns.cells([(moment, moment.date(), None)]) == [
        ("2024-05-06T07:08:09Z", "2024-05-06", "")
    ]
    assert cell_len(columns.cells([(moment, None, "東京")])[0][2]) == 4
