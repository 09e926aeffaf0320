"""What a user gives as a table, before Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from incmrql.api.trial import TableFile
from incmrql.errors import DataError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text("id,city\n1,Oslo\n")
    (tmp_path / "a:b").mkdir()
    (tmp_path / "a:b/c.csv").write_text("id\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("o=orders.csv", TableFile("o", Path("orders.csv"))),
        ("o=orders.csv:id INT", TableFile("o", Path("orders.csv"), "id INT")),
        ("o=orders.csv:s STRUCT<x: INT>", TableFile("o", Path("orders.csv"), "s STRUCT<x: INT>")),
        ("o=a:b", TableFile("o", Path("a:b"))),
        ("o=a:b/c.csv:id INT", TableFile("o", Path("a:b/c.csv"), "id INT")),
    ],
)
def test_a_name_a_path_and_maybe_a_schema(text: str, table: TableFile) -> None:
    assert TableFile.of_text(text) == table


@pytest.mark.parametrize(
    "text", ["orders.csv", "=orders.csv", "o=", "o.p=orders.csv", "1=orders.csv"]
)
def test_what_names_no_table(text: str) -> None:
    with pytest.raises(DataError, match="does not name a table and its file"):
        TableFile.of_text(text)


def test_a_path_that_is_not_there_has_the_nearest_name() -> None:
    with pytest.raises(DataError) as refused:
        TableFile.of_text("o=order.csv:id INT")
    assert refused.value.message == "table o: there is no file or folder order.csv"
    assert refused.value.hint == 'Did you mean "orders.csv"?'
