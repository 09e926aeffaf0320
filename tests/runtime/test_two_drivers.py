"""Two drivers on one checkpoint: whoever was paused changes nothing when it wakes.

A driver is stopped at a point of its batch, loses its lock, another one does all that is left, and
then the first one goes on. Output, state and archive must be those of a driver that was alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from incmrql.engine import batch as batches
from incmrql.errors import CheckpointError
from incmrql.plan.assembly import program_of
from incmrql.runtime import Driver, driver
from incmrql.runtime.checkpoint import manifests
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.spooled import SpoolFolder
from incmrql.runtime.sinks import folders as sinks
from incmrql.values import Bag
from tests.plan.stepping import typed_script
from tests.runtime.here import driver_here
from tests.runtime.streaming import MIXED, QUICK, Place, archived_files, fill, state, strays

POINTS = [
    "intent", "task-read", "task-runs", "task-parts", "runs", "archive", "manifest", "committed",
    "parts", "publish", "after",
]  # fmt: skip
"""Where a driver or its task is between two writes."""
BATCHES = 5
PAUSED_IN = 2
ROWS = [{"A": 1, "B": 2, "C": 0.5, "S": "a"}]


def at(
    monkeypatch: pytest.MonkeyPatch, point: str, number: int, act: Callable[[], None]
) -> list[str]:
    """Do something once at a point of a batch; the list says whether it was reached."""
    reached: list[str] = []

    def here(name: str, batch: int) -> None:
        if (name, batch) == (point, number) and not reached:
            reached.append(name)
            act()

    for module in (driver, manifests, sinks, batches):
        monkeypatch.setattr(module, "crash_here", here)
    return reached


def remove_lock(place: Place) -> None:
    """Remove the lock, as if the driver that holds it were paused on another machine."""
    (place.checkpoint / "lock").unlink(missing_ok=True)


def run_to_end(place: Place) -> dict[str, Any]:
    """Run all remaining batches with a new driver; returns the state after them."""
    with driver_here(place, MIXED) as own:
        while own.step() is not None:
            pass
        return state(own)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_wakes_after_another_has_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    quiet, place = Place(tmp_path / "quiet"), Place(tmp_path / "fought")
    for stream in (quiet, place):
        fill(stream, BATCHES, 5)
    wanted = run_to_end(quiet)

    def rival() -> None:
        remove_lock(place)
        run_to_end(place)

    reached = at(monkeypatch, point, PAUSED_IN, rival)
    paused = driver_here(place, MIXED)

    def go_on() -> None:
        while paused.step() is not None:
            pass

    with pytest.raises(CheckpointError, match="another driver has taken over"):
        go_on()
    paused.close()
    assert reached == [point]
    assert paused.state.number == PAUSED_IN - (point not in POINTS[6:])
    assert run_to_end(place) == wanted
    assert place.published_rows() == quiet.published_rows()
    assert archived_files(place) == archived_files(quiet)
    assert strays(place.checkpoint) == set()
    for output in place.outputs():
        assert [path.name for path in output.glob(".*")] == []


def test_the_requests_of_two_drivers_have_names_of_their_own(tmp_path: Path) -> None:
    """`work/order.json` was shared: a driver's task ran what another driver had asked for."""
    place = Place(tmp_path)
    fill(place, 2)
    with driver_here(place, MIXED) as one:
        first = {one.checkpoint.attempt() for _ in range(3)}
        remove_lock(place)
        with driver_here(place, MIXED) as two:
            assert (one.checkpoint.epoch, two.checkpoint.epoch) == (1, 2)
            assert not first & {two.checkpoint.attempt() for _ in range(3)}
            assert not list(place.checkpoint.rglob("order.json"))


# --- rows that are pushed ------------------------------------------------------------------


@pytest.fixture
def pushed_rows(tmp_path: Path) -> Iterator[tuple[Place, Driver, PushFeed]]:
    script = typed_script("select (k, count(x)) from x in R group by k: x.A;", frozenset("R"))
    place = Place(tmp_path, "1;")
    place.program = program_of(script.items, script)
    with driver_here(place, QUICK) as own:
        yield place, own, feed_of(own)


def feed_of(own: Driver) -> PushFeed:
    (feed,) = own.feeds
    assert isinstance(feed, PushFeed)
    return feed


def test_rows_are_acknowledged_only_while_the_epoch_is_the_newest(
    pushed_rows: tuple[Place, Driver, PushFeed],
) -> None:
    place, own, feed = pushed_rows
    assert feed.insert(ROWS * 3) == 3
    own.step()
    assert feed.insert(ROWS) == 1, "acknowledged, and not ingested yet"
    remove_lock(place)
    with driver_here(place, QUICK) as rival:
        with pytest.raises(CheckpointError, match="another driver has taken over"):
            feed.insert(ROWS * 100)
        rival.step()
        (answer,) = rival.answer()
        assert answer in {(1, 4), (1, 104)}, "what was refused may have come, the rest has"
        assert feed_of(rival).insert(ROWS) == 1
        with pytest.raises(CheckpointError, match="another driver has taken over"):
            own.step()
        rival.step()
        assert rival.answer() == Bag([(1, answer[1] + 1)])


def test_a_spool_that_a_late_driver_writes_again_is_not_ingested_twice(
    pushed_rows: tuple[Place, Driver, PushFeed], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _, feed = pushed_rows
    feed.insert(ROWS * 3)
    news = feed.poll(0.0)
    whole = [(Path(file.path), Path(file.path).read_bytes()) for file in news.files]
    remove_lock(place)
    with driver_here(place, QUICK) as rival:
        rival.step()
        assert rival.answer() == Bag([(1, 3)])
        for path, content in whole:
            path.write_bytes(content)  # as the paused driver turns its log into a spool
        assert rival.step() is None
        feed_of(rival).insert(ROWS)
        rival.step()
        assert rival.answer() == Bag([(1, 4)])
        monkeypatch.setattr(SpoolFolder, "acknowledge", lambda *_: None)
        for path, content in whole:
            path.write_bytes(content)
    remove_lock(place)
    with driver_here(place, QUICK) as later:
        assert later.step() is None
        assert later.answer() == Bag([(1, 4)])


# --- what is read back -----------------------------------------------------------------------


def test_parts_of_attempts_that_no_result_names_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is retried or speculated leaves parts beside those that count."""
    place = Place(tmp_path)
    fill(place, 3)
    own = driver_here(place, replace(MIXED, keep_changes=True))
    run = own.job.run

    def twice(order: Any, **given: Any) -> Any:
        run(order, **given)  # an attempt whose result is lost
        return run(order, **given)

    monkeypatch.setattr(own.job, "run", twice)
    changes: list[Any] = []
    while (report := own.step()) is not None:
        changes = [own.changes(number) for number in range(3)]
        assert sum(map(len, changes)) == report.changed
        published = [output / f"batch={report.number:06d}" for output in place.outputs()]
        for rows, folder in zip(changes, published, strict=True):
            assert len(list(folder.glob("*.parquet"))) == bool(rows)
    own.close()
    with driver_here(place, replace(MIXED, keep_changes=True)) as again:
        assert [again.changes(number) for number in range(3)] == changes


@pytest.mark.parametrize(
    ("what", "damage"),
    [
        ("state", "gone"),
        ("state", "cut"),
        ("state", "other end"),
        ("output", "gone"),
        ("output", "cut"),
        ("output", "longer"),
        ("output", "other end"),
        ("quarantine", "gone"),
        ("quarantine", "cut"),
        ("quarantine", "longer"),
    ],
)
def test_a_batch_whose_files_the_driver_cannot_see_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, damage: str
) -> None:
    """As a worker that writes to a folder of its own machine under the same name."""
    place = Place(tmp_path)
    fill(place, 2)
    place.put("bad.csv", "not,a row\n")
    own = driver_here(place, replace(MIXED, quarantine=tmp_path / "q", max_files_per_batch=None))
    run = own.job.run

    def unseen(order: Any, **given: Any) -> Any:
        result = run(order, **given)
        folders = {
            "state": Path(order.runs),
            "output": Path(order.targets[0].folder),
            "quarantine": Path(order.quarantine),
        }
        (path,) = folders[what].iterdir()
        whole = path.read_bytes()
        match damage:
            case "gone":
                path.unlink()
            case "cut":
                path.write_bytes(whole[: len(whole) // 2])
            case "longer":
                path.write_bytes(whole + b"more")
            case _:
                path.write_bytes(whole[: len(whole) // 2].ljust(len(whole), b"\0"))
        return result

    with monkeypatch.context() as patched:
        patched.setattr(own.job, "run", unseen)
        with pytest.raises(CheckpointError, match="the driver does not see the same file"):
            own.step()
    assert (own.state.number, own.checkpoint.last()["batch"]) == (-1, -1)
    own.close()
    with driver_here(place, replace(MIXED, quarantine=tmp_path / "q")) as again:
        assert again.step() is not None
        assert again.step() is None
        assert state(again) != {}


# --- bad rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["manifest", "committed", "publish"])
def test_bad_rows_of_a_batch_that_was_killed_after_its_commit_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    place = Place(tmp_path)
    fill(place, 1)
    place.put("bad.csv", "not,a row\n7\n")
    options = replace(MIXED, quarantine=tmp_path / "q", max_files_per_batch=None)

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    reached = at(monkeypatch, point, 0, kill)
    own = driver_here(place, options)
    with pytest.raises(Killed):
        own.step()
    assert reached == [point]
    own.close()
    with driver_here(place, options) as again:
        assert again.step() is None
    (file,) = (tmp_path / "q").iterdir()
    assert file.name == "batch-000000.jsonl"
    assert len(file.read_text().splitlines()) == 2
    assert [path.name for path in (tmp_path / "q").glob(".*")] == []


def test_bad_rows_of_two_checkpoints_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """Runs that are started in one folder share `quarantine` by default."""
    options = replace(MIXED, quarantine=tmp_path / "q")
    for name in ("one", "two"):
        place = Place(tmp_path / name)
        place.put("bad.csv", f"bad {name}\n")
        with driver_here(place, options) as own:
            own.step()
    texts = sorted(path.read_text() for path in (tmp_path / "q").glob("batch-000000*.jsonl"))
    assert [json.loads(text)["text"] for text in texts] == ["bad one", "bad two"]


def test_a_refused_batch_leaves_no_bad_rows(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put("bad.csv", "not,a row\n")
    place.put("gone.csv", "7,1.0\n", deletes=True)
    with driver_here(place, replace(QUICK, quarantine=tmp_path / "q")) as own:
        with pytest.raises(Exception, match="not there"):
            own.step()
        assert not any((tmp_path / "q").glob("*"))
        assert not any((tmp_path / "q").glob(".*"))


# --- output folders --------------------------------------------------------------------------


def test_a_start_leaves_the_hidden_folders_of_other_runs_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 1)
    other = sinks.prepare(place.outputs()[0], "beef", 0, "000001-a1")
    (other / "part").write_text("committed by another run, and not published yet")
    run_to_end(place)
    with driver_here(place, MIXED):
        assert (other / "part").exists()


def test_a_consumer_may_remove_what_was_published(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 2)
    with driver_here(place, MIXED) as own:
        own.step()
        for output in place.outputs():
            for path in (output / "batch=000000").iterdir():
                path.unlink()
            (output / "batch=000000").rmdir()
    run_to_end(place)
    assert [path.name for path in place.outputs()[0].glob("batch=*")] == ["batch=000001"]


def test_output_that_vanished_before_it_was_published_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    fill(place, 1)

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    at(monkeypatch, "committed", 0, kill)
    own = driver_here(place, MIXED)
    with pytest.raises(Killed):
        own.step()
    own.close()
    for output in place.outputs():
        for hidden in output.glob(".incmrql-*"):
            shutil.rmtree(hidden)
    with pytest.raises(CheckpointError, match=r"neither in .* nor published"):
        driver_here(place, MIXED)
