"""docs/language.md and docs/errors.md say what is so, and all of it."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from difflib import unified_diff
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incmrql import api
from incmrql.algebra.scripts import run_script
from incmrql.api import scripts
from incmrql.errors import DataError, QueryError, SourceText
from incmrql.io.parquet import schema_type
from incmrql.reference import new_world
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_script
from incmrql.syntax.parser.tokens import KEYWORDS, scan
from incmrql.types import model
from incmrql.types.builtins import NAMES
from incmrql.types.infer.scripts import infer_script
from incmrql.types.infer.sources import FORMATS, OPTIONS
from incmrql.types.scope import Catalog
from incmrql.values import identical, show
from tests.docs.conftest import DOCS, PAGES, Ran
from tests.docs.examples import Example, Outcome, blocks, page, rewrite_page, tree
from tests.docs.productions import PRODUCTIONS, names, nodes

SOURCES = DOCS.parent / "src" / "incmrql"
CODE = re.compile(r'"([PTR]\d{3})"')

NO_EXAMPLE: Final = {
    "P008": "a thousand brackets",
    "R314": "a Spark query over many rows",
    "R315": "a table of a trial",
    "R316": "a Python file of a trial",
    "R317": "a query of a trial",
    "R326": "a Spark query with an output",
    "R327": "a Spark query with a function",
    "R328": "a Spark query with a function",
    "R329": "a session on the local engine",
    "R330": "a table of a test",
    "R321": "an output folder beside the data",
    "R322": "a disk that is not mounted",
    "R323": "a checkpoint",
    "R324": "an input that Spark reads",
    "R325": "an input that Spark reads",
    "P011": "a script that is not UTF-8",
    "P014": "a script that cannot be read",
    "R102": "a file that cannot be read",
    "R103": "a file that is cut off",
    "R104": "a path that is not allowed",
    "R120": "a Parquet file that others write",
    "R122": "an empty folder, which git does not keep",
    "R123": "a file that is not Parquet",
    "R208": "a source registered from Python",
    "R209": "a loop of very many steps",
    "R211": "a Spark that is too small",
    "R212": "a session used wrongly from Python",
    "R213": "a cluster without incmrql",
    "R214": "a cluster that cannot be reached",
    "R215": "a cluster without executors",
    "R216": "a cluster without shared storage",
    "R240": "a machine without Java",
    "R241": "a Spark that does not start",
    "R243": "a module that may not be imported",
    "R301": "a stream whose files change",
    "R302": "a stream whose files change",
    "R303": "a stream of rows that are null",
    "R304": "a stream whose rows share a key",
    "R305": "a stream whose files are gone",
    "R306": "rows pushed from Python",
    "R307": "a checkpoint written by others",
    "R308": "rows pushed from Python",
    "R309": "rows pushed from Python",
    "R310": "a socket of a stream",
    "R311": "a streaming DataFrame",
    "R312": "an option of Python",
    "R313": "an option of Python",
    "R361": "a damaged state file",
    "R374": "a call of Python",
}
"""Codes without an example on the page, with the reason; tests below raise them."""

NOT_NODES: Final = {
    "Bind": "a union",
    "BinaryOp": "a set of words",
    "Expr": "a union",
    "Held": "a type variable",
    "Item": "a union",
    "JsonPart": "a union",
    "LiteralKind": "a set of words",
    "Pattern": "a union",
    "TypeTree": "a union",
}
"""Names of `incmrql.syntax.ast` that no tree holds as such."""

FEWEST_EXAMPLES: Final = 120
FEWEST_READ_BACK: Final = 250


def everything(ran: Ran) -> list[tuple[Example, Outcome]]:
    return [pair for pairs in ran.values() for pair in pairs]


def scripts_with_results(ran: Ran) -> list[ast.Script]:
    """The trees of the examples that give a result."""
    return [tree(example) for example, _ in everything(ran) if not example.fails]


# --- what is shown is so ------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_do_what_the_page_shows(name: str, ran: Ran, update_golden: bool) -> None:
    if update_golden:
        (DOCS / name).write_text(rewrite_page(page(DOCS / name), ran[name]), encoding="utf-8")
        return
    wrong = [problem for pair in ran[name] if (problem := difference(name, *pair))]
    assert not wrong, "\n\n".join(wrong)


def difference(name: str, example: Example, outcome: Outcome) -> str:
    """What is shown and what is so, line by line; nothing if they agree."""
    notes = "" if example.notes is None else example.notes.text
    before = (example.shown.text + notes).splitlines()
    after = (outcome.printed + outcome.notes).splitlines()
    if before == after:
        return ""
    lines = unified_diff(before, after, "shown", "now", lineterm="")
    return "\n".join([f"{name}, {example.place}", example.script.text, *lines])


def test_examples_fail_where_they_should_and_nowhere_else(ran: Ran) -> None:
    wrong = [e.place for e, outcome in everything(ran) if e.fails != bool(outcome.codes)]
    assert wrong == []


def test_there_are_many_examples(ran: Ran) -> None:
    assert len(everything(ran)) >= FEWEST_EXAMPLES


def test_printed_values_read_back(ran: Ran) -> None:
    """Pasted into a script, a printed value is an equal value."""
    read = 0
    for example, outcome in everything(ran):
        for answer in outcome.answers:
            if readable(answer):
                script = declarations(example) + show(answer.value)
                (again,) = api.run(script)
                assert identical(again.value, answer.value), f"{example.place}: {script}"
                read += 1
    assert read >= FEWEST_READ_BACK


def readable(answer: api.Answer) -> bool:
    """Elements of different types can stand in one collection only where the type is any."""
    mixed = "any" in re.findall(r"\w+", str(answer.type))
    return answer.item != "debug" and not mixed


def declarations(example: Example) -> str:
    items = tree(example).items if not example.fails else ()
    kept = [item for item in items if isinstance(item, ast.DeclareData | ast.DeclareType)]
    return "".join(f"{item.span.text};\n" for item in kept)


def test_the_data_that_the_page_shows_are_those_of_the_files() -> None:
    shown = {block.text for block in blocks(page(DOCS / "language.md")) if block.language == "text"}
    for name in ("people.csv", "quoted.txt", "readings.txt", "books.json", "books.xml"):
        assert page(DOCS / "data" / name) in shown, name


# --- all of the language is shown ---------------------------------------------------------


def test_every_node_of_the_tree_has_an_example(ran: Ran) -> None:
    used = {type(node).__name__ for script in scripts_with_results(ran) for node in nodes(script)}
    nodes_of_trees = {
        name
        for name, node_class in vars(ast).items()
        if isinstance(node_class, type)
        and issubclass(node_class, ast.Node)
        and node_class is not ast.Node
    }
    assert nodes_of_trees - used - set(NOT_NODES) == set()
    assert set(NOT_NODES) & used == set()


def test_every_production_has_an_example(ran: Ran) -> None:
    used = {name for script in scripts_with_results(ran) for name in names(script)}
    assert set(PRODUCTIONS) - used == set()


def test_the_grammar_defines_what_it_uses_and_uses_what_it_defines() -> None:
    (grammar,) = [b.text for b in blocks(page(DOCS / "language.md")) if b.language == "ebnf"]
    defined = re.findall(r"^(\w+)\s*=", grammar, re.MULTILINE)
    bare = re.sub(r'"[^"\n]*"', " ", grammar)
    used = Counter(re.findall(r"\b[a-z_]+\b", bare))
    assert Counter(defined).most_common(1)[0][1] == 1
    assert set(used) == set(defined)
    assert {name for name in defined if used[name] < 2} == {"script"}
    quoted = {word for word in re.findall(r'"([a-z]+)"', grammar) if word in KEYWORDS}
    assert quoted == KEYWORDS


def test_the_page_lists_the_keywords() -> None:
    (listed,) = re.findall(
        r"cannot name a variable: (.+?)\.", page(DOCS / "language.md"), re.DOTALL
    )
    assert re.findall(r"`(\w+)`", listed) == sorted(KEYWORDS)


def test_every_keyword_occurs_in_an_example(ran: Ran) -> None:
    words: set[str] = set()
    for example, _ in everything(ran):
        if not example.fails:
            tokens = scan(SourceText(example.script.text)).tokens
            words |= {str(token.value) for token in tokens if token.kind == "keyword"}
            words |= {token.kind for token in tokens if token.kind == "xpath"}
    assert KEYWORDS - words == set()


def test_every_format_and_option_of_sources_occurs_in_an_example(ran: Ran) -> None:
    formats: set[str] = set()
    options: set[str | None] = set()
    for script in scripts_with_results(ran):
        for node in nodes(script):
            if isinstance(node, ast.Call) and node.function in ("source", "stream"):
                first = node.arguments[0].value
                formats |= {first.name} if isinstance(first, ast.Name) else set()
                options |= {argument.name for argument in node.arguments}
    assert set(FORMATS) - formats == set()
    assert set(OPTIONS) - options == set()


def test_every_built_in_is_called_in_an_example(ran: Ran) -> None:
    called: set[str] = set()
    for script in scripts_with_results(ran):
        for node in nodes(script):
            if isinstance(node, ast.Call):
                called.add(node.function)
            elif isinstance(node, ast.Unary):
                called.add(node.op)
    assert NAMES - called == set()


# --- errors -------------------------------------------------------------------------------


def codes() -> set[str]:
    codes_found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        codes_found |= set(CODE.findall(path.read_text(encoding="utf-8")))
    return codes_found


def test_the_table_has_every_code_once() -> None:
    listed = re.findall(r"^\| ([PTR]\d{3}) \|", page(DOCS / "errors.md"), re.MULTILINE)
    assert listed == sorted(set(listed), key=lambda code: ("PTR".index(code[0]), code))
    assert set(listed) == codes()


def test_every_code_has_an_example_or_a_reason(ran: Ran) -> None:
    shown = {code for _, outcome in everything(ran) for code in outcome.codes}
    assert codes() - shown == set(NO_EXAMPLE)


def test_every_example_of_the_page_of_errors_shows_the_code_above_it(ran: Ran) -> None:
    for example, outcome in ran["errors.md"]:
        assert set(outcome.codes) == {example.section}


def test_p008_deep_nesting() -> None:
    assert [problem.code for problem in api.check("(" * 1100 + "1" + ")" * 1100)] == ["P008"]


def test_p011_a_script_that_is_not_utf8(tmp_path: Path) -> None:
    script = tmp_path / "latin.mrql"
    script.write_bytes("1;\n'caf\u00e9';".encode("latin-1"))
    with pytest.raises(QueryError, match="is not UTF-8") as caught:
        api.run(script)
    assert caught.value.code == "P011"


def test_p014_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        api.run(tmp_path / "none.mrql")
    assert caught.value.code == "P014"


def test_r123_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    file = tmp_path / "text.parquet"
    file.write_text("hello\n")
    with pytest.raises(DataError) as caught:
        api.run(f'source(parquet, "{file}", type(< A: int >))')
    assert caught.value.code == "R123"


def test_r209_a_value_that_is_nested_too_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(scripts, "run_script", too_deep)
    with pytest.raises(DataError) as caught:
        api.run("1;")
    assert caught.value.code == "R209"


def test_r102_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("a\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError) as caught:
        api.run(f'source(text, "{file}")')
    assert caught.value.code == "R102"


def test_r103_a_file_that_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "rows.txt.gz"
    file.write_bytes(gzip.compress(b"row\n" * 1000)[:-10])
    with pytest.raises(DataError) as caught:
        api.run(f'source(text, "{file}")')
    assert caught.value.code == "R103"


def test_r120_a_column_of_a_foreign_type(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"span": pa.array([1], pa.duration("s"))}), file)
    with pytest.raises(DataError) as caught:
        schema_type(file)
    assert caught.value.code == "R120"
    # A script learns of it when it is typed.
    assert [problem.code for problem in api.check(f'source(parquet, "{file}")')] == ["T504"]


def test_r122_a_folder_without_parquet_files(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        schema_type(tmp_path)
    assert caught.value.code == "R122"
    assert [problem.code for problem in api.check(f'source(parquet, "{tmp_path}")')] == ["T504"]


def test_r208_a_registered_source() -> None:
    element = model.Tuple((model.STRING, model.INT))
    catalog = Catalog(registered={"orders": (element, False)})
    script = infer_script(parse_script(SourceText("count(orders); source(orders);")), catalog)
    values: list[object] = []
    world = new_world(script, registered={"orders": [("a", 1), ("b", 2)]})
    run_script(script, world, lambda _, value: values.append(value))
    assert values == [2, [("a", 1), ("b", 2)]]
    for registered in ({}, {"orders": [("a", "b")]}):
        with pytest.raises(DataError) as caught:
            run_script(script, new_world(script, registered=registered), lambda *_: None)
        assert caught.value.code == "R208"


def test_problems_of_a_script_come_together() -> None:
    with pytest.raises(QueryError) as caught:
        api.run("x; y; 1 + 'a';")
    assert [problem.code for problem in caught.value.problems] == ["T101", "T101", "T301"]
