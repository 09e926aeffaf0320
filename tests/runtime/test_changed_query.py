"""A changed query on the checkpoint of the old one: it is noticed whatever the texts look like."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from incmrql.algebra.translate import queries
from incmrql.engine.compile.program import compile_program
from incmrql.errors import CheckpointError
from incmrql.plan.assembly import program_of as planned
from incmrql.plan.identity.versions import VERSIONS
from incmrql.runtime import Driver
from incmrql.runtime.checkpoint import program as opening
from incmrql.runtime.sinks.binding import bind
from incmrql.values import Bag
from tests.engine.programs import AVERAGE, SEVERAL, program_of
from tests.plan.identity.test_identity import LOOKALIKES
from tests.runtime.here import Here, driver_here
from tests.runtime.streaming import OPTIONS, Place

STREAM = 'stream(line, "{data}", ",", type(< T: string, N: int >))'
CHOSEN = f'incr select (t, count(x)) from x in {STREAM} where x.T = "%s" group by t: x.T;'


def place_counting(folder: Path, text: str) -> Place:
    """A place for a query that counts the rows with one text."""
    return Place(folder, CHOSEN % text.replace("{", "{{").replace("}", "}}"))


def answer_of(place: Place) -> Bag:
    """The answer after all input is ingested."""
    with driver_here(place) as driver:
        while driver.step() is not None:
            pass
        answer = driver.answer()
    assert isinstance(answer, Bag)
    return answer


def put(folder: Path, name: str, *texts: str) -> None:
    path = folder / "data" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f'"{text}",1\n' for text in texts))
    os.utime(path, (1_000_000, 1_000_000))


@pytest.mark.parametrize(("one", "other"), LOOKALIKES)
def test_another_text_in_a_filter_is_another_query(tmp_path: Path, one: str, other: str) -> None:
    put(tmp_path, "1.csv", one, other)
    assert answer_of(place_counting(tmp_path, one)) == Bag([(one, 1)])
    put(tmp_path, "2.csv", one, other)
    with pytest.raises(CheckpointError, match="was written by a different query") as caught:
        answer_of(place_counting(tmp_path, other))
    assert "--on-change rebuild recomputes" in str(caught.value)
    assert "It was written by incmrql" not in str(caught.value)
    assert answer_of(place_counting(tmp_path, one)) == Bag([(one, 2)])


def test_another_value_that_was_stored_is_another_query(tmp_path: Path) -> None:
    text = "store n := %d; incr select x from x in " + STREAM + " where x.N > n;"
    put(tmp_path, "1.csv", "a")
    for number, refused in ((0, False), (1, True), (0, False)):
        place = Place(tmp_path, text % number)
        script = place.program.script
        store, query = script.items
        place.program = planned([query], script, stored={store.target: number})
        if refused:
            with pytest.raises(CheckpointError, match="was written by a different query"):
                answer_of(place)
        else:
            assert len(answer_of(place)) == 1


def test_items_in_another_order_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", "a", "b")
    items = [f"incr count({STREAM});", f"incr sum(select x.N from x in {STREAM});"]
    with driver_here(Place(tmp_path, "".join(items))) as driver:
        driver.step()
    with pytest.raises(
        CheckpointError, match="The items are the same, in a different order"
    ) as caught:
        driver_here(Place(tmp_path, "".join(reversed(items))))
    lines = str(caught.value).splitlines()
    assert [line for line in lines if "item " in line] == ["  item 1:", "  item 2:"]
    assert "0 of" not in str(caught.value)


def test_another_version_of_incmrql_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "1.csv", "a", "b")
    place = place_counting(tmp_path, "a")
    assert answer_of(place) == Bag([("a", 1)])
    monkeypatch.setattr(opening, "version", lambda _: "99.0")
    put(tmp_path, "2.csv", "a", "b")
    assert answer_of(place) == Bag([("a", 2)])


def test_an_operator_whose_meaning_was_fixed_is_refused_or_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "1.csv", "a", "b")
    place = place_counting(tmp_path, "a")
    answer_of(place)
    monkeypatch.setitem(VERSIONS, "builtin sqrt", 2)
    assert answer_of(place) == Bag([("a", 1)])  # it does not use that one
    monkeypatch.setitem(VERSIONS, "compare =", 2)
    with pytest.raises(CheckpointError, match="was written by a different query"):
        answer_of(place)


ROWS = f"incr select %s (x.T, x.N) from x in {STREAM} %s;"
ORDERED, DISTINCT = ROWS % ("", "order by x.N limit 2"), ROWS % ("distinct", "")


@pytest.mark.parametrize("other", ["out", "./out", "more/../out"])
def test_two_items_do_not_share_an_output_directory(tmp_path: Path, other: str) -> None:
    items = [f'store "{tmp_path}/{name}" from incr count({STREAM});' for name in ("out", other)]
    place = Place(tmp_path, "\n".join(items))
    with pytest.raises(CheckpointError, match="two items write to"):
        bind(place.program, [], None, OPTIONS, has_batches=False)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [(ORDERED, DISTINCT, "with a column"), (DISTINCT, ORDERED, "without a column")],
)
def test_a_list_and_a_bag_do_not_share_an_output_folder(
    tmp_path: Path, one: str, other: str, said: str
) -> None:
    """Changes of a list have a column with the position of each row; whole answers have none."""
    first, second = Place(tmp_path, one), Place(tmp_path, other)
    known = bind(first.program, [], first.output, OPTIONS, has_batches=False).as_json(first.program)
    with pytest.raises(CheckpointError, match=f"{said} _position, not with") as caught:
        bind(second.program, known, second.output, OPTIONS, has_batches=True)
    assert "Use a new directory" in str(caught.value)
    whole = [{**sink, "mode": "snapshot"} for sink in known]
    earlier = [{name: sink[name] for name in sink if name != "list"} for sink in known]
    for allowed in (whole, earlier):
        bound = bind(second.program, allowed, None, OPTIONS, has_batches=True)
        assert [sink.folder for sink in bound.sinks] == [first.output]


def test_state_in_another_form_is_refused_though_the_query_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "1.csv", "a", "b")
    place = place_counting(tmp_path, "a")
    with monkeypatch.context() as before:
        described = opening._table_json
        other = {"form": "another one"}
        before.setattr(opening, "_table_json", lambda *given: {**described(*given), **other})
        before.setattr(opening, "version", lambda _: "0.9")
        assert answer_of(place) == Bag([("a", 1)])
    with pytest.raises(
        CheckpointError, match=r"stores its state in different columns than 0\.9 did"
    ):
        answer_of(place)
    with (
        pytest.raises(CheckpointError, match="cannot be used as it is"),
        driver_here(place, replace(OPTIONS, on_change="reuse")),
    ):
        pass
    with pytest.raises(CheckpointError, match="in different columns"):
        Driver(place.program, place.checkpoint, None, _nobody, OPTIONS, read_only=True)


def _nobody() -> Any:
    raise AssertionError("no Spark here")


LOOP = (
    'incr repeat X = select (x.K, x.V) from x in stream(line, "{data}", ",", '
    "type(< K: int, V: double >)) step select (a, b + 1.0) from (a, b) in X limit 3;"
)


@pytest.mark.parametrize("text", [AVERAGE, SEVERAL, LOOP])
def test_tables_say_what_they_hold_and_of_which_node(text: str) -> None:
    program = program_of(text.format(data="in", deletes="out", names="names"))
    physical = compile_program(program)
    described = opening.describe(program, {}, physical.tables)["tables"]
    assert list(described) == [name for name, _ in physical.schemas]
    for table in physical.tables:
        assert table.holds
        if table.node is None:
            assert table.answer is not None
        else:
            assert 0 <= table.node < len(program.nodes)
    ledgers = [t.node for t in physical.tables if t.holds.startswith("ledger")]
    assert ledgers == [stream.place for stream in program.streams if stream.ledger]


VIEWS = f"""v = select (t, count(x)) from x in {STREAM} group by t: x.T;
incr v; incr select (n, count(t)) from (t, n) in v group by n;"""


def test_a_plan_that_had_a_view_twice_is_refused_or_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote a named query out at each of its uses."""
    put(tmp_path, "1.csv", "a", "b", "b")
    place = Place(tmp_path, VIEWS)
    once, script = place.program, place.program.script
    with monkeypatch.context() as before:
        before.setattr(queries, "view_keys", lambda *_: [])
        place.program = planned(script.items, script)
    assert len(place.program.nodes) > len(once.nodes)
    with driver_here(place) as driver:
        driver.step()
    place.program = once
    with pytest.raises(CheckpointError, match="was written by a different query"):
        driver_here(place)
    put(tmp_path, "2.csv", "a")
    with (
        pytest.raises(CheckpointError, match="Use a new directory"),
        driver_here(place, replace(OPTIONS, on_change="rebuild")),
    ):
        pass
    place.output = tmp_path / "other"
    monkeypatch.setattr(Driver, "job", property(lambda driver: Here(driver.compiled)))
    with driver_here(place, replace(OPTIONS, on_change="rebuild")) as driver:
        while driver.step() is not None:
            pass
        answers = [driver.answer(0), driver.answer(1)]
    assert answers == [Bag([("a", 2), ("b", 2)]), Bag([(2, 2)])]
