"""Places in a text, and problems drawn under them."""

from __future__ import annotations

import copy
import pickle

import pytest

from incmrql.errors import (
    MOST_REPORTED,
    NOWHERE,
    CheckpointError,
    DataError,
    Diagnostic,
    IncmrqlError,
    InternalError,
    QueryError,
    SourceText,
    Span,
    nearest,
)


def problem_at(text: str, start: int, end: int, label: str = "here") -> Diagnostic:
    return Diagnostic("T001", "a message", Span(SourceText(text, "q"), start, end), label)


def line_and_caret(text: str, start: int, end: int) -> list[str]:
    """The line and the line with the caret, both without the gutter."""
    _, _, _, line, caret = problem_at(text, start, end, "").render().split("\n")
    return [line.partition("| ")[2], caret.partition("| ")[2]]


# --- places --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "place"),
    [(0, (1, 1)), (1, (1, 2)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (6, (3, 3))],
)
def test_locate(offset: int, place: tuple[int, int]) -> None:
    assert SourceText("ab\n\ncd").locate(offset) == place


def test_lines() -> None:
    source = SourceText("ab\r\n\ncd")
    assert [source.line(number) for number in range(1, 5)] == ["ab", "", "cd", ""]
    assert SourceText("").line(1) == ""
    assert SourceText("").locate(0) == (1, 1)


def test_sources_are_equal_by_text_and_name_whatever_was_asked_of_them() -> None:
    one, other = SourceText("a\nb", "q"), SourceText("a\nb", "q")
    one.locate(2)
    assert one == other
    assert one != SourceText("a\nb", "r")


def test_spans() -> None:
    source = SourceText("one two three", "q")
    one, three = Span(source, 0, 3), Span(source, 8, 13)
    assert one.join(three) == three.join(one) == Span(source, 0, 13)
    assert (one.text, three.text) == ("one", "three")
    assert str(three) == "q:1:9"
    assert str(NOWHERE) == "<nowhere>:1:1"


# --- drawing -------------------------------------------------------------------------------


def test_the_caret_points_at_the_culprit() -> None:
    source = SourceText("select p.naem\nfrom p in People", "people.mrql")
    problem = Diagnostic(
        code="T201",
        message='record "People" has no field "naem"',
        span=Span(source, 9, 13),
        label="no such field",
        hint='Did you mean "name"?',
    )
    assert problem.render() == "\n".join(
        [
            'error[T201]: record "People" has no field "naem"',
            " --> people.mrql:1:10",
            "  |",
            "1 | select p.naem",
            "  |          ^^^^ no such field",
            '  = hint: Did you mean "name"?',
        ]
    )


def test_the_gutter_is_as_wide_as_the_number() -> None:
    assert problem_at("\n" * 99 + "abc", 99, 100).render() == "\n".join(
        [
            "error[T001]: a message",
            "   --> q:100:1",
            "    |",
            "100 | abc",
            "    | ^ here",
        ]
    )


def test_a_warning_says_so() -> None:
    problem = Diagnostic("T001", "a message", NOWHERE, severity="warning")
    assert problem.render().startswith("warning[T001]: a message\n")


@pytest.mark.parametrize(
    ("text", "start", "end", "caret"),
    [
        ("select", 6, 6, "      ^"),  # the end of the text
        ("", 0, 0, "^"),  # no text
        ("ab\ncd", 2, 2, "  ^"),  # the end of a line
        ("abc\ndef", 1, 6, " ^^"),  # several lines: up to the end of the first
        ("abc\r\ndef", 1, 7, " ^^"),
        ("a\tb", 2, 3, "     ^"),  # a tab is four cells
        ("\t\tx", 2, 3, "        ^"),
        ("a\tb", 0, 3, "^^^^^^"),
        ("世界x", 2, 3, "    ^"),  # wide characters are two cells
        ("世界x", 0, 2, "^^^^"),
        ("e\u0301x", 2, 3, " ^"),  # combining characters are none
        ("e\u0301x", 0, 2, "^"),
        ("a\u200bx", 2, 3, "  ^"),  # what cannot be seen is replaced
        ("\U0001f600x", 1, 2, "  ^"),
    ],
)
def test_where_the_caret_is(text: str, start: int, end: int, caret: str) -> None:
    assert line_and_caret(text, start, end)[1] == caret


def test_control_characters_are_replaced() -> None:
    assert line_and_caret("a\x1b[31m", 0, 1)[0] == "a\N{REPLACEMENT CHARACTER}[31m"


@pytest.mark.parametrize("start", [0, 79, 80, 81, 500, 999])
def test_long_lines_are_cut_around_the_place(start: int) -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(1000))
    line, caret = line_and_caret(text, start, start + 1)
    assert len(line) <= 160 + 2 * len("...")
    assert line[caret.index("^")] == text[start]
    assert line.startswith("...") == (start > 80)


def test_a_caret_does_not_run_out_of_a_cut_line() -> None:
    line, caret = line_and_caret("x" * 1000, 10, 900)
    assert len(caret) <= len(line)


def test_as_json() -> None:
    problem = Diagnostic("T001", "a message", Span(SourceText("a\nbcd", "q"), 0, 4), "here", "Try.")
    assert problem.as_json() == {
        "code": "T001",
        "severity": "error",
        "message": "a message",
        "file": "q",
        "line": 1,
        "column": 1,
        "end_line": 2,
        "end_column": 3,
        "label": "here",
        "hint": "Try.",
    }


# --- errors --------------------------------------------------------------------------------


def test_a_query_error_tells_of_its_first_problem() -> None:
    first = Diagnostic("T001", "first", Span(SourceText("ab", "q"), 1, 2), "here", "Try that.")
    error = QueryError(first, problem_at("x", 0, 1))
    assert (error.code, error.message, error.place, error.hint) == (
        "T001",
        "first",
        "q:1:2",
        "Try that.",
    )
    assert str(error) == first.render() + "\n\n" + problem_at("x", 0, 1).render()


@pytest.mark.parametrize(
    ("count", "last"), [(10, None), (11, "... and 1 more"), (13, "... and 3 more")]
)
def test_at_most_ten_problems_are_shown(count: int, last: str | None) -> None:
    problem = problem_at("x", 0, 1)
    parts = str(QueryError(*[problem] * count)).split("\n\n")
    assert parts == [problem.render()] * MOST_REPORTED + ([last] if last else [])


def test_errors_can_be_copied_and_sent_to_other_processes() -> None:
    error = QueryError(problem_at("x", 0, 1))
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(again), again.problems) == (str(error), error.problems)


def test_a_data_error_has_a_place_and_a_hint_where_known() -> None:
    error = DataError("R001", "a message", place="a.csv:3", hint="Try.")
    assert str(error) == "error[R001]: a message\n --> a.csv:3\n = hint: Try."
    assert str(DataError("R001", "a message")) == "error[R001]: a message"
    assert (error.code, error.message, error.place, error.hint) == (
        "R001",
        "a message",
        "a.csv:3",
        "Try.",
    )


def test_all_errors_are_ours() -> None:
    for kind in (QueryError, DataError, CheckpointError, InternalError):
        assert issubclass(kind, IncmrqlError)


# --- guesses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("naem", 'Did you mean "name"?'),
        ("NAME", 'Did you mean "name"?'),
        ("ages", 'Did you mean "age"?'),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_nearest(name: str, hint: str) -> None:
    assert nearest(name, ["age", "name", "address"]) == hint
    assert nearest(name, []) == ""
