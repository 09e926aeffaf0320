"""A SQL script is split into statements, each with what it is for."""

import pytest

from incmrql.compiler.sql import SqlStatement, split_statements
from incmrql.errors import QueryError, SourceText

SCRIPT = """\
-- what comes in
CREATE TEMPORARY VIEW orders (city STRING, price DOUBLE)
  USING csv OPTIONS (path 'orders; not the end', deletes "returns");
create or replace temp view large as select * from orders join t using (id) where price > 1;
CREATE MATERIALIZED VIEW IF NOT EXISTS `by city` (town COMMENT 'a, b', n)
  COMMENT 'AS' AS SELECT city, count(*) FROM large GROUP BY city;
SET spark.sql.ansi.enabled = false;
/* ; */ with x as (select 1) select * from x;
"""


def statements(text: str) -> list[SqlStatement]:
    return split_statements(SourceText(text, "q.sql"))


def test_each_statement_has_a_kind_and_a_name() -> None:
    kinds = [(statement.kind, statement.name) for statement in statements(SCRIPT)]
    assert kinds == [
        ("input", "orders"),
        ("view", "large"),
        ("answer", "by city"),
        ("setting", ""),
        ("query", ""),
    ]


def test_the_text_of_a_statement_is_at_its_place_in_the_script() -> None:
    for statement in statements(SCRIPT):
        start = len(statement.text) - len(statement.text.lstrip())
        assert SCRIPT[start : len(statement.text)] == statement.text.strip()
        assert statement.text[:start].split() == []
        assert statement.text.count("\n") == SCRIPT[: len(statement.text)].count("\n")


def test_a_view_is_its_query_and_its_names() -> None:
    (view, answer) = [
        statement for statement in statements(SCRIPT) if statement.kind in ("view", "answer")
    ]
    assert view.text.strip().startswith("select * from orders join t using (id)")
    assert view.columns == ()
    assert answer.text.strip() == "SELECT city, count(*) FROM large GROUP BY city"
    assert answer.columns == ("town", "n")
    assert answer.span.text.startswith("CREATE MATERIALIZED VIEW")


@pytest.mark.parametrize("text", ["", ";;", "-- only a comment\n"])
def test_a_script_without_statements(text: str) -> None:
    assert statements(text) == []


def test_all_statements_that_are_commands_are_refused_at_once() -> None:
    with pytest.raises(QueryError) as refusal:
        statements("INSERT INTO t SELECT 1;\nSELECT 1;\nDROP TABLE t; CREATE TABLE t (a INT)")
    assert [problem.code for problem in refusal.value.problems] == ["C002"] * 3
    assert [problem.span.text for problem in refusal.value.problems] == ["INSERT", "DROP", "CREATE"]
    assert "CREATE MATERIALIZED VIEW" in refusal.value.hint


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE MATERIALIZED VIEW v", "C007"),
        ("CREATE TEMPORARY VIEW db.v AS SELECT 1", "C007"),
        ("CREATE MATERIALIZED VIEW", "C002"),
        ("CREATE VIEW v AS SELECT 1", "C002"),
    ],
)
def test_views_that_are_not_written_as_they_should_be(text: str, code: str) -> None:
    with pytest.raises(QueryError) as refusal:
        statements(text)
    assert refusal.value.code == code


def test_a_string_that_is_not_closed() -> None:
    with pytest.raises(QueryError) as refusal:
        statements("SELECT 'abc")
    assert refusal.value.code == "C006"
