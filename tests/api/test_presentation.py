"""What Python shows of us: names, representations, tables in notebooks, short tracebacks."""

from __future__ import annotations

import datetime
import random
import subprocess
import sys
import traceback
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import incmrql
from incmrql.api.html import MOST_ROWS, answer_html, changes_html, facts_html
from incmrql.api.saved_answers import AnswerColumns, SavedAnswer
from incmrql.errors import DataError, QueryError
from incmrql.types.model import (
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    Collection,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, show
from incmrql.values import Record as Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CITIES = Collection("bag", Record((("city", STRING), ("n", LONG))))


def saved(value: object, type_: Type = CITIES, names: tuple[str, ...] = ()) -> SavedAnswer:
    return SavedAnswer(value, AnswerColumns(type_, names), 3)


def test_dir_shows_what_there_is() -> None:
    assert dir(incmrql) == sorted(incmrql.__all__)
    for name in dir(incmrql):
        assert getattr(incmrql, name) is not None


# --- equality ----------------------------------------------------------------------------


def test_a_bag_equals_a_list_with_the_same_elements_in_any_order() -> None:
    assert Bag([1, 2, 2]) == [2, 1, 2]
    assert [2, 1, 2] == Bag([1, 2, 2])  # noqa: SIM300
    assert Bag([1, 2, 2]) != [1, 1, 2]
    assert Bag([1, 2]) != [1, 2, 2]
    assert Bag([("Oslo", 15.0)]) == [("Oslo", 15)]
    assert Bag([[1], [2]]) == [[2], [1]]
    assert Bag([[1], [1]]) != [[1], [2]]
    assert Bag([1]) != (1,)


def test_a_record_equals_a_dict_with_the_same_fields() -> None:
    record = Row({"city": "Oslo", "n": 2})
    assert record == {"n": 2, "city": "Oslo"}
    assert {"n": 2, "city": "Oslo"} == record  # noqa: SIM300
    assert record != {"city": "Oslo"}
    assert record != Row({"n": 2, "city": "Oslo"})  # the language knows the order of fields
    assert Row({"inner": record}) == {"inner": {"city": "Oslo", "n": 2}}
    assert Bag([record]) == [{"city": "Oslo", "n": 2}]


_ELEMENTS = st.lists(st.integers(0, 3) | st.text("ab", max_size=1) | st.lists(st.integers(0, 1)))


@given(_ELEMENTS, st.randoms(), _ELEMENTS)
def test_a_bag_equals_every_order_of_its_elements_and_no_other_list(
    elements: list[object], chance: random.Random, others: list[object]
) -> None:
    shuffled = list(elements)
    chance.shuffle(shuffled)
    assert Bag(elements) == shuffled
    assert (Bag(elements) == others) == (sorted(map(show, elements)) == sorted(map(show, others)))


# --- representations ---------------------------------------------------------------------


def test_a_large_bag_is_shown_by_its_first_elements_and_its_size() -> None:
    assert repr(Bag(range(3))) == "Bag([0, 1, 2])"
    text = repr(Bag(range(5000)))
    assert text.startswith("Bag([0, 1, 2, ")
    assert text.endswith(", 19, ...]: 5,000 elements)")


def test_an_answer_says_its_columns_and_how_many_rows_it_has() -> None:
    rows = Bag(Row({"city": f"<{n}>", "n": n}) for n in range(30))
    assert repr(saved(rows)) == "SavedAnswer(batch=3, 30 rows: city, n)"
    html = saved(rows)._repr_html_()
    assert "answer after batch 3: 30 rows; the first 20 are shown" in html
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "&lt;1&gt;" in html
    assert "<1>" not in html
    assert "first" not in saved(Bag(list(rows)[:1]))._repr_html_()


def test_changes_have_their_weights() -> None:
    columns = AnswerColumns(CITIES)
    html = changes_html(columns, [(Row({"city": "Oslo", "n": 1}), -1)], "batch 1")
    assert '<td style="text-align:right">-1</td><td style="text-align:left">Oslo</td>' in html
    long = answer_html(columns, [Row({"city": "x" * 500, "n": 1})], "")
    assert "x" * 200 + "…" in long
    assert "x" * 201 not in long
    assert facts_html("a & b", [("c", "d")]).startswith("<table><caption>a &amp; b</caption>")


def test_a_session_and_a_query_say_what_they_have() -> None:
    session = incmrql.Session()
    session.register("orders", [{"city": "Oslo", "price": 1.0}])
    session.stream("points", "< X: int >")
    expected = "Session(Spark: not started yet; data: orders; streams: points)"
    assert repr(session) == expected
    assert "orders" in session._repr_html_()
    assert repr(incmrql.Session(engine="local")) == "Session(engine: local)"
    query = session.query("select < c: o.city > from o in orders")
    assert repr(query) == (
        "Result({< c: string >}; not run yet: collect(), to_df(), to_pandas() or start())"
    )
    assert "select &lt; c: o.city &gt; from o in orders" in query._repr_html_()
    session.stop()


# --- pandas ------------------------------------------------------------------------------


def test_columns_of_pandas_have_its_types() -> None:
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    type_ = Collection(
        "bag",
        Tuple((LONG, DOUBLE, STRING, TIMESTAMP, DATE, DecimalType(5, 2), Collection("bag", LONG))),
    )
    row = (7, 0.5, "a", moment, moment.date(), Decimal("1.25"), Bag([1]))
    frame = saved(Bag([row, row]), type_).to_pandas()
    assert list(frame.columns) == ["_1", "_2", "_3", "_4", "_5", "_6", "_7"]
    kinds = [dtype.kind for dtype in frame.dtypes]
    assert kinds == ["i", "f", "O", "M", "O", "O", "O"]
    assert frame["_4"].iloc[0] == pd.Timestamp(moment)
    assert frame["_7"].iloc[0] == Bag([1])
    empty = saved(Bag(), type_).to_pandas()
    assert [dtype.kind for dtype in empty.dtypes] == kinds
    assert len(empty) == 0


def test_equal_names_and_single_values_are_columns_too() -> None:
    twice = saved(Bag([(1, 2)]), Collection("bag", Tuple((LONG, LONG))), ("a", "a")).to_pandas()
    assert twice.to_numpy().tolist() == [[1, 2]]
    assert list(twice.columns) == ["a", "a"]
    assert saved(7, LONG).to_pandas().to_dict("list") == {"value": [7]}


@pytest.mark.spark
def test_a_query_and_a_run_give_the_same_columns(spark: SparkSession) -> None:
    with incmrql.Session(spark=spark) as session:
        points = session.stream("points", "< X: int, Y: double >")
        points.insert([(1, 2.0), (1, 4.0)])
        query = session.query("select (k, avg(p.Y)) from p in points group by k: p.X")
        run = query.start()
        batch = run.step()
        assert batch is not None
        expected = {"_1": [1], "_2": [3.0]}
        assert query.to_pandas().to_dict("list") == expected
        assert run.to_pandas().to_dict("list") == expected
        assert run.answer() == [(1, 3)]
        assert "answer after batch 0: 1 row" in run._repr_html_()
        assert "rows inserted 2, deleted 0; rows of the answer changed 1" in batch._repr_html_()
        assert repr(session).endswith("; streams: points; runs: 1)")
        run.stop()
        assert "stopped" in run._repr_html_()


# --- tracebacks --------------------------------------------------------------------------


def files_of(error: BaseException) -> list[str]:
    return [Path(entry.filename).name for entry in traceback.extract_tb(error.__traceback__)]


def is_short(error: BaseException) -> bool:
    """Whether the traceback has this file, and at most one line of ours."""
    own = Path(__file__).name
    return files_of(error) in ([own], [own, "tracebacks.py"])


def test_a_traceback_shows_the_line_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    session = incmrql.Session()
    with pytest.raises(QueryError) as wrong:
        session.query("select p.naem from p in {< name: 1 >}")
    assert is_short(wrong.value)
    with pytest.raises(DataError) as refused:
        session.stream("s", "< X: int >").insert([("a", "b")])
    assert is_short(refused.value)
    monkeypatch.setenv("INCMRQL_DEBUG", "1")
    with pytest.raises(QueryError) as whole:
        session.query("select p.naem from p in {< name: 1 >}")
    assert len(files_of(whole.value)) > 4
    session.stop()


def test_what_python_prints_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import incmrql\n\nsession = incmrql.Session()\nsession.query('1 + nothing')\n"
    )
    command = [sys.executable, "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[2].strip() == "session.query('1 + nothing')"
    message = next(n for n, line in enumerate(lines) if "unknown name" in line)
    assert message < 10
    assert done.stderr.count('File "') <= 2


def test_names_and_signatures_stay() -> None:
    import inspect

    assert incmrql.Session.query.__doc__
    assert list(inspect.signature(incmrql.Session.sql).parameters)[:2] == ["self", "text"]
    assert incmrql.Run.step.__name__ == "step"
    assert incmrql.Run.status.__doc__
