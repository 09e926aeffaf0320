"""Reading sources and running scripts over files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from incmrql.algebra.scripts import run_script
from incmrql.errors import DataError
from incmrql.io.rows import Policy, ReadReport
from incmrql.reference import Environment, new_world, read_source
from incmrql.types import typed
from incmrql.types.model import INT, STRING, Record
from incmrql.values import Bag
from tests.reference.running import answer_text, const, run, typed_script, value, world

TYPE = "type(<A: int, B: string>)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1,a\n2,b\n")
    (tmp_path / "in" / "2.csv").write_text("2,b\n3,c\n")
    return tmp_path


def test_a_folder(folder: Path) -> None:
    text = f'select x.A from x in source(line, "in", ",", {TYPE})'
    assert value(text) == Bag([1, 2, 2, 3])
    path = str(folder / "in" / "1.csv")
    assert value(f'select x.A from x in source(line, args[0], ",", {TYPE})',
                 arguments=[path]) == Bag([1, 2])  # fmt: skip


def test_deletes_take_away_by_identity(folder: Path) -> None:
    (folder / "gone").mkdir()
    (folder / "gone" / "1.csv").write_text("2,b\n1,a\n")
    text = f'select x.A from x in stream(line, "in", ",", {TYPE}, deletes: "gone")'
    assert value(text) == Bag([2, 3])
    (folder / "gone" / "2.csv").write_text("9,z\n2,b\n2,b\n")
    with pytest.raises(DataError) as error:
        value(text)
    assert error.value.code == "R205"
    assert '< A: 9, B: "z" >' in error.value.message


def test_a_sign_column(folder: Path) -> None:
    (folder / "signed.csv").write_text("A,B,s\n1,a,+\n1,a,+\n1,a,-\n")
    text = f'stream(line, "signed.csv", ",", {TYPE}, sign: "s", header: true)'
    assert answer_text(text) == '{ < A: 1, B: "a" > }'


def test_bad_lines_are_reported(folder: Path) -> None:
    (folder / "in" / "3.csv").write_text("x,a\n4,d\n")
    reports: list[tuple[ReadReport, Policy]] = []
    text = f'select x.A from x in source(line, "in", ",", {TYPE}'
    numbers = value(text + ")", on_report=lambda *report: reports.append(report))
    assert numbers == Bag([1, 2, 2, 3, 4])
    ((report, policy),) = reports
    assert (report.bad, report.first[0].line, policy) == (1, 1, "quarantine")
    with pytest.raises(DataError) as error:
        value(text + ", on_error: fail)")
    assert error.value.code == "R110"


def test_an_item_sees_one_snapshot(folder: Path) -> None:
    source = f'source(line, "in", ",", {TYPE})'
    script = typed_script(
        f"count({source}) + trace(0) + count({source}); trace(1); count({source});"
    )

    def grow(_: str, __: Any) -> None:
        name = f"new{len(list((folder / 'in').iterdir()))}.csv"
        (folder / "in" / name).write_text("7,q\n")

    answers: list[Any] = []
    run_script(script, new_world(script, on_trace=grow), lambda _, x: answers.append(x))
    assert answers == [8, 1, 6]


def test_formats(folder: Path) -> None:
    (folder / "a.json").write_text('{"k": [1, 2]}\n{"k": [3]}\n')
    (folder / "a.xml").write_text("<r><b>1</b><b>2</b></r>")
    (folder / "a.txt").write_text("one\n\ntwo\n")
    assert value('select count(x.k as [int]) from x in source(json, "a.json")') == Bag([1, 2])
    assert value('select text(x) from x in source(xml, "a.xml", {"b"})') == Bag(["1", "2"])
    assert value('source(text, "a.txt")') == Bag(["one", "", "two"])


def test_store_and_dump(folder: Path) -> None:
    text = f"""
      Q = source(line, "in", ",", {TYPE});
      store n := count(Q);
      store "out.parquet" from Q;
      dump "out.csv" from select (x.A, n) from x in Q;
      n;
      count(source(binary, "out.parquet", {TYPE}));
    """
    assert run(text) == [4, 4]
    assert (folder / "out.csv").read_text() == "1,4\n2,4\n2,4\n3,4\n"


def test_registered_rows() -> None:
    row = Record((("A", INT), ("B", STRING)))
    rows = {"R": (row, [{"A": 1, "B": "x"}, (2, None)])}
    assert value("select x.A from x in R", rows) == Bag([1, 2])
    assert value("select x.A from x in source(R)", rows) == Bag([1, 2])
    assert value("count(R)", {"R": (row, pa.table({"A": [1, 2], "B": ["x", "y"]}))}) == 2
    with pytest.raises(DataError) as error:
        value("R", {"R": (row, [{"A": "no", "B": "x"}])})
    assert error.value.code == "R208"


def test_a_socket_and_other_refusals() -> None:
    env = Environment(world())
    text = const("x", STRING)
    for source, code in [
        (typed.Source("line", True, None, INT, host=text, port=const(1, INT)), "R206"),
        (typed.Source("line", False, const(None, STRING), INT), "R207"),
        (typed.Source("registered", False, None, INT, name="Nope"), "R208"),
        (typed.Source("line", False, const("no/such", STRING), INT), "R101"),
    ]:
        with pytest.raises(DataError) as error:
            read_source(source, env)
        assert error.value.code == code


class Words:
    """A parser of our own: every word is a row."""

    def parse(self, text: str) -> Iterator[Any]:
        for word in text.split():
            yield int(word) if word.isdigit() else word


class Broken:
    def parse(self, text: str) -> Iterator[Any]:
        raise KeyError(text[:3])


@pytest.mark.parametrize("parser", [Words, Words()], ids=["class", "object"])
def test_a_python_parser(folder: Path, parser: Any) -> None:
    (folder / "w.txt").write_bytes(b"1 2 x\n\xff 8\n3\n")
    reports: list[ReadReport] = []
    catalog = {"python_parser": lambda _: (parser, INT)}
    answers = run(
        'parser words = "m.Words"; source(words, "w.txt");',
        catalog=catalog,
        on_report=lambda report, _: reports.append(report),
    )
    assert answers == [Bag([1, 2, 3])]
    assert reports[0].bad == 2


def test_a_parser_that_fails(folder: Path) -> None:
    (folder / "w.txt").write_text("1 2")
    catalog = {"python_parser": lambda _: (Broken, INT)}
    with pytest.raises(DataError) as error:
        run('parser broken = "m.Broken"; source(broken, "w.txt", on_error: fail);', catalog=catalog)
    assert error.value.code == "R204"
    assert '"broken" raised KeyError' in error.value.message


def test_a_file_that_a_parser_fails_on_is_one_bad_row(folder: Path) -> None:
    (folder / "w.txt").write_text("1 2\n3")
    reports: list[ReadReport] = []
    catalog = {"python_parser": lambda _: (Broken, INT)}
    answers = run(
        'parser broken = "m.Broken"; source(broken, "w.txt");',
        catalog=catalog,
        quarantine=folder / "q",
        on_report=lambda report, _: reports.append(report),
    )
    assert answers == [Bag()]
    ((bad,),) = [report.first for report in reports]
    assert bad.place == "w.txt"
    assert bad.reason == "parser \"broken\" raised KeyError: '1 2'"
    assert [row["text"] for row in quarantined_rows(folder / "q")] == ["1 2\n3"]


class Leaves:
    def parse(self, text: str) -> Iterator[Any]:
        print("on my way")  # noqa: T201
        sys.exit(text)


def test_a_parser_that_exits_or_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "w.txt").write_text("3")
    catalog = {"python_parser": lambda _: (Leaves(), INT)}
    with pytest.raises(DataError, match=r"R204.*raised SystemExit: 3"):
        run('parser leaves = "m.Leaves"; source(leaves, "w.txt", on_error: fail);', catalog=catalog)
    assert capsys.readouterr() == ("", "on my way\n")


# --- the quarantine ----------------------------------------------------------------------


def quarantined_rows(folder: Path) -> list[Any]:
    files = sorted(folder.iterdir())
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_sources_do_not_share_a_quarantine_file(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "data").write_text("x\n")
    (folder / "a_data").write_text("y\n")
    texts = [
        f'source(line, "{path}", ",", type(({type_})))'
        for path in ("a/data", "a_data", "./a_data")
        for type_ in ("int,", "double,")
    ]
    texts.append(texts[0].replace('","', '"|"'))
    kept = folder / "q"
    for number, text in enumerate(texts, 1):
        value(text, quarantine=kept)
        assert len(list(kept.iterdir())) == number
    names = [file.name for file in kept.iterdir()]
    assert all(re.fullmatch(r"_a_data-[0-9a-f]{8}\.jsonl", name) for name in names)


def test_a_mended_source_leaves_no_quarantine_file(folder: Path) -> None:
    text, kept = f'source(line, "in", ",", {TYPE})', folder / "q"
    (folder / "in" / "3.csv").write_text("x,a\n")
    value(text, quarantine=kept)
    assert [row["line"] for row in quarantined_rows(kept)] == [1]
    (folder / "in" / "3.csv").write_text("3,a\n")
    value(text, quarantine=kept)
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize("path", [".", "*", "**/*"])
def test_a_source_around_the_quarantine_does_not_read_it(folder: Path, path: str) -> None:
    (folder / "in" / "3.csv").write_text("x,a\n")
    text = f'count(source(line, "{path}", ",", {TYPE}))'
    counts = [value(text, quarantine=Path("quarantine")) for _ in range(2)]
    assert counts[0] == counts[1]
    assert len(quarantined_rows(folder / "quarantine")) == counts[0] // 4
