"""The texts of syntax errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from incmrql.diagnostics import QueryError, Source
from incmrql.syntax import parse_query, parse_script
from tests import golden

GOLDEN = Path(__file__).parent / "errors.golden"


def error(text: str, args: Mapping[str, str]) -> str:
    text = "\n".join([text] * int(args.get("times", 1)))
    pad = int(args.get("pad", 0))
    nest = int(args.get("nest", 0))
    return problems_of(parse_script, f"{'1; ' * pad}{'(' * nest}{text}{' + 1' * pad}")


def query(text: str, _args: Mapping[str, str]) -> str:
    return problems_of(parse_query, text)


def problems_of(parse: Callable[[Source], object], text: str) -> str:
    try:
        parse(Source(text, "script.mrql"))
    except QueryError as problem:
        return str(problem)
    return "no error"


def test_golden(update_golden: bool) -> None:
    golden.check(GOLDEN, {"error": error, "query": query}, update=update_golden)


def test_every_code_of_the_parser_has_a_text() -> None:
    text = GOLDEN.read_text()
    codes = [f"P{number:03}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13)]
    assert [code for code in codes if f"error[{code}]" not in text] == []
