"""The texts of syntax errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from incmrql import syntax
from incmrql.errors import QueryError, SourceText
from incmrql.syntax.parser.scripts import parse_query, parse_script
from tests import golden

GOLDEN = Path(__file__).parent / "errors.golden"


def error(text: str, args: Mapping[str, str]) -> str:
    text = "\n".join([text] * int(args.get("times", 1)))
    pad = int(args.get("pad", 0))
    nest = int(args.get("nest", 0))
    return problems_of(parse_script, f"{'1; ' * pad}{'(' * nest}{text}{' + 1' * pad}")


def query(text: str, _args: Mapping[str, str]) -> str:
    return problems_of(parse_query, text)


def problems_of(parse: Callable[[SourceText], object], text: str) -> str:
    try:
        parse(SourceText(text, "script.mrql"))
    except QueryError as problem:
        return str(problem)
    return "no error"


def test_golden(update_golden: bool) -> None:
    golden.check(GOLDEN, {"error": error, "query": query}, update=update_golden)


def test_every_code_of_the_parser_has_a_text() -> None:
    sources = Path(syntax.__file__).parent.rglob("*.py")
    raised = {code for path in sources for code in re.findall(r'"(P\d{3})"', path.read_text())}
    assert raised == set(re.findall(r"^error\[(P\d{3})\]", GOLDEN.read_text(), re.MULTILINE))
