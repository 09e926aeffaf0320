"""What a script that has no type is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import incmrql.types
from incmrql.errors import MOST_REPORTED, QueryError, SourceText
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from tests import golden
from tests.types.inference import CATALOG

FILE = Path(__file__).with_name("errors.golden")
CODE = re.compile(r"\bT\d{3}\b")
AVOIDED = re.compile(r"\b(unable|bad|illegal|invalid)\b", re.IGNORECASE)


def problems_of(text: str) -> QueryError:
    """The problems that the inference finds."""
    tree = parse_script(SourceText(text, "script.mrql"))
    with pytest.raises(QueryError) as caught:
        infer_script(tree, CATALOG)
    return caught.value


def error(text: str, _args: Mapping[str, str]) -> str:
    return str(problems_of(text))


def test_messages(update_golden: bool) -> None:
    golden.check(FILE, {"error": error}, update=update_golden)


def test_every_code_is_shown() -> None:
    folder = Path(incmrql.types.__file__).parent
    written = {code for path in folder.rglob("*.py") for code in CODE.findall(path.read_text())}
    shown = {code for block in golden.read(FILE) for code in CODE.findall(block.answer or "")}
    assert shown == written


@pytest.mark.parametrize("block", golden.read(FILE), ids=lambda block: f"line {block.line}")
def test_prose(block: golden.Block) -> None:
    for problem in problems_of(block.input).problems:
        first = problem.message[0]
        assert not first.isupper() or problem.message.split()[0] in ("XML", "JSON"), problem.message
        assert not problem.message.endswith("."), problem.message
        assert not AVOIDED.search(problem.message + problem.hint + problem.label), problem.message
        assert not problem.hint or problem.hint.endswith((".", "?", ";")), problem.hint
        assert not problem.hint or problem.hint[0].isupper() or problem.hint[0] in '"`', (
            problem.hint
        )
        assert 0 <= problem.span.start < problem.span.end <= len(block.input), problem.message
        assert problem.label, problem.message


@pytest.mark.parametrize("block", golden.read(FILE), ids=lambda block: f"line {block.line}")
def test_problems_are_told_in_the_order_of_the_text_and_once(block: golden.Block) -> None:
    problems = problems_of(block.input).problems
    starts = [problem.span.start for problem in problems]
    assert starts == sorted(starts)
    assert len(set(problems)) == len(problems)


def test_of_many_problems_ten_are_shown() -> None:
    error = problems_of("".join(f"nothing{i};\n" for i in range(MOST_REPORTED + 5)))
    assert len(error.problems) == MOST_REPORTED + 5
    assert str(error).count("error[T101]") == MOST_REPORTED
    assert str(error).endswith("... and 5 more")


SILENT_LATER = [
    "x = nothing; x + 1; x.A; x[0]; x#1; sum(x); select y.A from y in x; not x; x union {1};",
    "x = {1, 'a'}; x[0]; x.A; sum(x); select y + 1 from y in x; x union {1}; x = {true};",
    "x = <A: nothing>; x.A.B.C; x.A + 1; x = <A: 'a'>;",
    "x = if true then 1 else 'a'; x + 1; x.A; length(x);",
    "x = select y.nothing from y in R; sum(x); x.A; select z + 1 from z in x;",
    "function f(x: nothing): int { x }; f(1); f('a') + 1;",
    "function f(x: int): nothing { x }; f(1) + 1; f(1).A;",
    "function f(x: {nothing}): int { 1 }; f({1}); f(R);",
    "type T = <A: nothing>; function f(x: T): int { x.A }; f(<A: 1>); 1 as T;",
    "type T = T; function f(x: T): int { x }; f(1);",
    "1 as nothing;",
    "case 1 { x as nothing: x + 1 };",
    "data D = C: nothing; C(1); case C(2) { C(x): x + 1 };",
    "sum(source(line, 'f', ',', type(<A: nothing>)).A) + 1;",
    r"fold(\(x: nothing, y: int): int. 1, 0, {1});",
    r"aggregation a(\(x: int, y: int): int. x, 0): nothing; a({1});",
    "let (x, y) = 1 in x + y + length(x);",
    "case 1 { [xml| <a b='{{x}}'>{{y}}</a> |]: (x, y) };",
    'case 1 { [json| {"a": {{x}}, "b": [{{y}}]} |]: (x, y) };',
    "case [xml| <a/> |] { [xml| <a b='x{{y}}'/> |]: y };",
    "case 1 { Nothing(x, y): x + y };",
    "case 1 { Node(x, y): x + y };",
    "case <A: 1> { <B: x>: x.C + 1 };",
    "select x + length(x) from (x, y, z) in {1};",
    "select x.A from x in 1;",
    "repeat x = 1 step x + nothing;",
    "macro m(e) { e + nothing }; m(1); m(2);",
    "import nothing from 'module'; nothing(1);",
    "parser p = 'nothing'; source(p, 'f');",
    r"aggregation a(\(x: int, y: int): string. 'a', 0): int; a({1}); a({'b'});",
    "aggregation a(nothing, 0): int; a({1});",
    "x = nothing(1); x.A + length(x);",
    "1 + 'a' + true;",
    "abs('x') + true;",
    "('a' * 2) + [1];",
    "-('a' * 2);",
    "{<A: 1 + 'a'>, true};",
    "(1 + 'a', 2) = true;",
    "{(1 + 'a', 2)} union {true};",
    "sum({(1 + 'a', 2)});",
    "(1 + 'a', 2) as int;",
    "not (1 + 'a', 2);",
    "data XML = Foo: int; Foo(1); case 1 { Foo(x): x + 1 };",
    r"f = \(x: int): int. x; f(1);",
    "source(xml, 'f', 'a');",
    "macro m(f) { f(f) + f(f) }; m(m);",
    "macro m(x) { x }; macro m(x, y) { x }; m(1);",
]
"""Scripts with one problem each, however often what it spoils is used."""


@pytest.mark.parametrize("text", SILENT_LATER)
def test_a_problem_causes_no_others(text: str) -> None:
    assert len(problems_of(text).problems) == 1
