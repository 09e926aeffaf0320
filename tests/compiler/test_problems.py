"""All problems of a script are told at once, whatever stage finds them."""

from __future__ import annotations

from incmrql import api


def codes(text: str) -> list[str]:
    return [problem.code for problem in api.check(text)]


def test_parse_and_type_problems_come_together_in_text_order() -> None:
    text = 'include "none1"; x = 1 +; include "none2"; 1 + "a"; select 3; {1, "b"};'
    assert codes(text) == ["P012", "P001", "P012", "T301", "P001", "T304"]


def test_names_of_items_that_cannot_be_read_are_not_missed() -> None:
    assert codes("x = 1 +; x; function f(y: int) { y }; f(1); type T = <A int>; 1 as T;") == [
        "P001", "P001", "P001",
    ]  # fmt: skip


def test_names_are_missed_where_all_items_can_be_read() -> None:
    assert codes("x; f(1); 1 as T;") == ["T101", "T102", "T103"]


def test_laws_are_tried_when_the_types_are_right() -> None:
    minus = r"aggregation minus(\(x: int, y: int): int. x - y, 0): int; minus({1});"
    (problem,) = api.check(minus)
    assert problem.code == "T605"
    assert "merge(" in problem.label
