"""Ingested files that are forgotten or retracted: durable, and the same after any crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from incmrql.api.options import StartOptions, stream_options
from incmrql.engine.batch import answer_value
from incmrql.errors import DataError
from incmrql.runtime import Driver, StreamOptions, driver
from incmrql.runtime.checkpoint import manifests
from incmrql.values import Value, show
from tests.runtime.here import driver_here, jobs_here
from tests.runtime.streaming import OPTIONS, Place, average

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = replace(OPTIONS, keep_input="all", max_files_per_batch=None)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A stream that has ingested a file of which only half was written, and another one."""
    place = average(tmp_path)
    place.put("1.csv", "1,10\n")
    place.put("half.csv", "1,20\n2,30\n")
    assert run(place, KEPT) == "{ (1,15.0), (2,30.0) }"
    place.put("half.csv", "1,20\n2,30\n2,50\n")
    return place


def run(place: Place, options: StreamOptions) -> str:
    """All batches, and the answer after them, which is that of the files that count."""
    with driver_here(place, options) as run:
        run.poll()
        while run.step() is not None:
            pass
        return show(run.answer())


def test_a_half_written_file_is_refused_and_the_message_names_both_ways_out(place: Place) -> None:
    with pytest.raises(DataError) as caught:
        run(place, KEPT)
    path = place.data / "half.csv"
    assert caught.value.code == "R301"
    assert f"--forget {path} " in caught.value.hint
    assert f"--retract {path} " in caught.value.hint
    path.unlink()
    with pytest.raises(DataError) as caught:
        run(place, KEPT)
    assert caught.value.code == "R302"
    assert f"--forget {path} " in caught.value.hint
    assert f"--retract {path} " in caught.value.hint


def test_the_rows_of_a_forgotten_file_stay_and_it_is_watched_no_more(place: Place) -> None:
    path = place.data / "half.csv"
    forgetting = replace(KEPT, forget=(str(path),))
    assert run(place, forgetting) == "{ (1,15.0), (2,30.0) }"
    assert run(place, forgetting) == "{ (1,15.0), (2,30.0) }"  # again: nothing to do
    path.unlink()
    assert run(place, KEPT) == "{ (1,15.0), (2,30.0) }"
    place.put("half.csv", "7,70\n")  # the path is taken
    place.put("2.csv", "2,50\n")
    assert run(place, KEPT) == "{ (1,15.0), (2,40.0) }"


def test_a_forgotten_file_counts_once_when_the_state_is_built_again(place: Place) -> None:
    run(place, replace(KEPT, forget=(str(place.data / "half.csv"),)))
    with driver_here(place, KEPT) as again:
        files = sorted(Path(file.path).name[7:] for file in again.ingested_files())
        assert len(files) == 2
    for number in range(60):  # until a manifest names all files so far
        place.put(f"more{number}.csv", "3,1\n")
        run(place, KEPT)
    with driver_here(place, KEPT) as again:
        assert again.state.ingested[0][str(place.data / "half.csv")][0].forgotten
        assert len(again.ingested_files()) == 62


def test_the_rows_of_a_retracted_file_leave_and_the_file_as_it_is_now_is_new(place: Place) -> None:
    retracting = replace(KEPT, retract=(str(place.data / "half.csv"),))
    assert run(place, retracting) == "{ (1,15.0), (2,40.0) }"
    assert run(place, KEPT) == "{ (1,15.0), (2,40.0) }"


def test_a_file_that_was_removed_is_retracted_and_may_come_back(place: Place) -> None:
    path = place.data / "half.csv"
    path.unlink()
    retracting = replace(KEPT, retract=(str(path),))
    assert run(place, retracting) == "{ (1,10.0) }"
    assert run(place, retracting) == "{ (1,10.0) }"  # again: nothing to do
    place.put("half.csv", "5,50\n")
    assert run(place, KEPT) == "{ (1,10.0), (5,50.0) }"
    place.put("half.csv", "5,511\n")  # it is watched like any other
    with pytest.raises(DataError, match="changed after it was ingested"):
        run(place, KEPT)


def test_a_forgotten_file_can_still_be_retracted(place: Place) -> None:
    path = place.data / "half.csv"
    path.unlink()
    run(place, replace(KEPT, forget=(str(path),)))
    assert run(place, replace(KEPT, retract=(str(path),))) == "{ (1,10.0) }"


def test_files_are_found_by_relative_paths_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.data)
    assert run(place, replace(KEPT, forget=("half.csv",))) == "{ (1,15.0), (2,30.0) }"


class Killed(BaseException):
    """Stands for a SIGKILL."""


@pytest.mark.parametrize("way", ["forget", "retract"])
@pytest.mark.parametrize(
    "point", ["intent", "runs", "archive", "manifest", "committed", "publish", "after"]
)
@pytest.mark.parametrize("again", [True, False])
def test_a_crash_at_any_point(
    place: Place, monkeypatch: pytest.MonkeyPatch, way: str, point: str, again: bool
) -> None:
    path = place.data / "half.csv"
    path.unlink()
    chosen = replace(KEPT, **{way: (str(path),)})  # type: ignore[arg-type]

    def crash(name: str, number: int) -> None:
        if (name, number) == (point, 1):
            raise Killed

    with monkeypatch.context() as patch:
        for module in (driver, manifests):
            patch.setattr(module, "crash_here", crash)
        with pytest.raises(Killed):
            run(place, chosen)
    wanted = "{ (1,15.0), (2,30.0) }" if way == "forget" else "{ (1,10.0) }"
    is_done = point not in ("intent", "runs", "archive")
    if again or is_done:
        assert run(place, chosen if again else KEPT) == wanted
    else:
        with pytest.raises(DataError, match="no longer exists"):
            run(place, KEPT)
        assert run(place, chosen) == wanted
    assert place.outputs_sum() == wanted


def test_to_retract_needs_what_was_ingested(tmp_path: Path) -> None:
    place = average(tmp_path)
    path = place.put("1.csv", "1,10\n")
    run(place, OPTIONS)
    with pytest.raises(DataError, match="no copy of") as caught:
        run(place, replace(OPTIONS, retract=(str(path),)))
    assert caught.value.code == "R305"
    assert "--keep-input all" in caught.value.hint
    assert run(place, OPTIONS) == "{ (1,10.0) }"


# --- streams that only grow -------------------------------------------------------------------

GREATEST = """incr select (k, max(x.V)) from x in
  stream(line, "{data}", ",", type(< K: int, V: double >)) group by k: x.K;"""


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A stream without deletions, whose state keeps only the greatest values."""
    jobs_here(monkeypatch)
    place = Place(tmp_path, GREATEST)
    place.put("1.csv", "1,10\n")
    place.put("half.csv", "1,20\n2,3\n")
    assert run_with_jobs(place) == "{ (1,20.0), (2,3.0) }"
    place.put("half.csv", "1,5\n2,300\n")
    return place


def run_with_jobs(place: Place, **chosen: object) -> str:
    """All batches without Spark, and the answer after them."""
    options = replace(OPTIONS, max_files_per_batch=None, **chosen)  # type: ignore[arg-type]
    spark = cast("SparkSession", None)
    with Driver(place.program, place.checkpoint, place.output, spark, options) as run:
        run.poll()
        while run.step() is not None:
            pass
        answer = show(run.answer())
        assert show(answer_over(run)) == answer
    assert place.outputs_sum() == answer
    return answer


def answer_over(run: Driver) -> Value:
    """The answer over the files that count, in a checkpoint of their own."""
    tables = run.build_state(run.ingested_files(), run.checkpoint.runs)
    return answer_value(run.compiled, 0, tables, run.checkpoint.runs)


def test_a_file_of_a_stream_that_only_grows_is_retracted(growing: Place) -> None:
    path = str(growing.data / "half.csv")
    with pytest.raises(DataError, match=f"--retract {path} "):
        run_with_jobs(growing)
    assert run_with_jobs(growing, retract=(path,)) == "{ (1,10.0), (2,300.0) }"
    assert run_with_jobs(growing) == "{ (1,10.0), (2,300.0) }"
    growing.put("half.csv", "7,7\n")
    growing.put("3.csv", "3,3\n")
    assert run_with_jobs(growing, retract=(path,)) == "{ (1,10.0), (3,3.0), (7,7.0) }"


def test_a_retraction_by_a_new_state_needs_all_other_input(growing: Place) -> None:
    path = str(growing.data / "half.csv")
    growing.put("2.csv", "4,4\n")
    (growing.data / "1.csv").unlink()
    with pytest.raises(DataError, match=r"1\.csv") as caught:
        run_with_jobs(growing, retract=(path,))
    assert caught.value.code == "R305"
    growing.put("1.csv", "1,10\n")
    assert run_with_jobs(growing, retract=(path,)) == "{ (1,10.0), (2,300.0), (4,4.0) }"


def test_a_file_of_a_source_that_is_read_once_is_not_retracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would be read in its place: its rows would be missing from then on."""
    jobs_here(monkeypatch)
    place = Place(
        tmp_path,
        """incr select (x.K, y.G) from x in stream(line, "{data}", ",", type(< K: int >)),
          y in source(line, "{names}", ",", type(< K: int, G: string >)) where x.K = y.K;""",
    )
    place.put("1.csv", "1\n")
    names = place.names / "a.csv"
    names.write_text("1,a\n")
    assert run(place, KEPT) == '{ (1,"a") }'
    names.write_text("1,other\n")
    for options, code in ((KEPT, "R301"), (replace(KEPT, retract=(str(names),)), "R323")):
        with pytest.raises(DataError, match=r"a\.csv") as caught:
            run(place, options)
        assert caught.value.code == code
        assert "--retract" not in caught.value.hint
        assert f"--forget {names}" in caught.value.hint
    assert run(place, replace(KEPT, forget=(str(names),))) == '{ (1,"a") }'


@pytest.mark.parametrize("point", ["manifest", "publish", "after"])
def test_a_crash_while_a_stream_that_only_grows_is_built_again(
    growing: Place, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    path = str(growing.data / "half.csv")

    def crash(name: str, number: int) -> None:
        if (name, number) == (point, 1):
            raise Killed

    with monkeypatch.context() as patch:
        for module in (driver, manifests):
            patch.setattr(module, "crash_here", crash)
        with pytest.raises(Killed):
            run_with_jobs(growing, retract=(path,))
    assert run_with_jobs(growing) == "{ (1,10.0), (2,300.0) }"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forget": ("halv.csv",)}, "was never ingested"),
        ({"retract": ("halv.csv",)}, "was never ingested"),
        ({"retract": ("x",), "forget": ("x",)}, "cannot be both forgotten and retracted"),
    ],
)
def test_a_file_that_is_none_of_the_ingested_ones_is_refused(
    place: Place, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        run(place, replace(KEPT, **options))
    assert caught.value.code == "R323"


@pytest.mark.parametrize("option", ["forget", "retract"])
def test_a_misspelt_file_gets_the_nearest_one_as_a_hint(place: Place, option: str) -> None:
    given: Any = {option: (str(place.data / "halff.csv"),)}
    with pytest.raises(DataError, match="was never ingested") as caught:
        run(place, replace(KEPT, **given))
    assert f'Did you mean "{place.data / "half.csv"}"?' in caught.value.hint


def test_files_are_named_from_python_too() -> None:
    given = StartOptions(forget=[Path("a.csv"), "b.csv"], retract=["c.csv"], allow_empty=True)
    options = stream_options(given)
    assert (options.forget, options.retract) == (("a.csv", "b.csv"), ("c.csv",))
    assert options.allow_empty


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "all"}, "mode='all': mode must be one of 'changes', 'snapshot'"),
        ({"on_arithmetic": "refuse"}, "must be one of 'null', 'report', 'fail'"),
        ({"keep_input": "some"}, "is not all, none or a number of batches"),
        ({"keep_input": -1}, "is not all, none or a number of batches"),
        ({"tolerance": -1.0}, "must be a number above 0"),
        ({"on_batch": 3}, "must be a function"),
        ({"max_files_per_batch": 0}, "must be an int, at least 1"),
        ({"buckets": "8"}, "must be an int, at least 1"),
        ({"verify": 0}, "must be an int, at least 1"),
        ({"forget": "a.csv"}, r"write forget=\['a.csv'\]"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused(given: Any, message: str) -> None:
    """With `max_files_per_batch=0` the answer stayed empty in silence."""
    with pytest.raises(DataError, match=message):
        stream_options(given)
