"""What a script refers to: includes, modules, data that are missing or broken."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.commands import incmrql, run_query

LINES = "source(line, 'in.csv', ',', type(< A: int, B: string >){});"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    """Files by name; two underscores stand for a slash, and all are scripts."""
    for name, text in files.items():
        path = Path(f"{name.replace('__', '/')}.mrql")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_an_include_is_looked_for_beside_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    write(a__main="include 'deep/b.mrql'; c + 1;")
    Path("a/deep").mkdir()
    Path("a/deep/b.mrql").write_text("include 'c.mrql';")
    Path("a/deep/c.mrql").write_text("c = 41;")
    assert incmrql("run", "a/main.mrql").answer == "42"
    assert run_query("include 'a/main.mrql';").answer == "42"
    monkeypatch.chdir("a/deep")
    assert incmrql("run", "../main.mrql").answer == "42"


def test_a_problem_in_an_include_is_shown_there() -> None:
    write(main="1; include 'part.mrql';", part="\n x;")
    assert " --> part.mrql:2:2\n" in incmrql("run", "main.mrql").err


def test_a_missing_include() -> None:
    write(main="1;\ninclude 'prat.mrql';", part="2;")
    done = incmrql("run", "main.mrql")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[P012]: prat.mrql cannot be read: ")
    assert " --> main.mrql:2:1\n" in done.err


def test_an_include_that_is_a_folder() -> None:
    write(main="include 'part';", part__x="1;")
    assert "error[P012]: part cannot be read" in incmrql("run", "main.mrql").err


def test_includes_in_a_circle() -> None:
    write(a="include 'b.mrql';", b="include 'c.mrql';", c="1;\n include 'a.mrql';")
    done = incmrql("run", "a.mrql")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith('error[P012]: "a.mrql" includes itself\n --> c.mrql:2:2\n')


def test_includes_in_a_circle_by_other_names() -> None:
    write(a="include 'part/../a.mrql';", part__x="")
    assert '"part/../a.mrql" includes itself' in incmrql("run", "a.mrql").err


def test_a_file_may_be_included_twice() -> None:
    write(a="include 'b.mrql'; include 'b.mrql';", b="1;")
    assert incmrql("run", "a.mrql").lines == ["1", "1"]


def test_a_missing_module() -> None:
    done = run_query("import f from 'no_such_module_here'; 1;")
    assert done.err.startswith('error[T606]: there is no Python module "no_such_module_here"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(x): return x", 'the function "f" has no annotation for x, return'),
        ("f = 1", 'has no function "f"'),
        ("def f(x: set) -> int: return 1", "has no type of the language"),
        ("def f(x: int -> int: return 1", "failed: SyntaxError"),
        ("import no_such_module_here", 'needs "no_such_module_here"'),
        ("1 / 0", "failed: ZeroDivisionError"),
    ],
)
def test_a_module_that_is_of_no_use(text: str, said: str, request: pytest.FixtureRequest) -> None:
    name = f"module_{abs(hash(request.node.name))}"
    Path(f"{name}.py").write_text(text)
    done = run_query(f"import f from '{name}'; f(1);")
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_a_function_that_raises() -> None:
    Path("raising_module.py").write_text("def f(x: int) -> int: raise ValueError('no good')")
    done = run_query("import f from 'raising_module'; f(7);")
    assert done.code == 1
    assert done.err.startswith("error[R204]: f(7) raised ValueError: no good\n --> <query>:1:")


def test_each_script_gets_the_module_beside_it() -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "beside_module.py").write_text(f"def f() -> str: return '{name}'")
        Path(name, "q.mrql").write_text("import f from 'beside_module'; f();")
    assert [incmrql("run", f"{n}/q.mrql").answer for n in ("one", "two")] == ['"one"', '"two"']


def test_missing_data() -> None:
    Path("inn.csv").write_text("1,a\n")
    done = run_query(LINES.format(""))
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        'error[R101]: there is no file or folder "in.csv"\n'
        ' = hint: Did you mean "inn.csv"? Folder "." has: inn.csv.\n'
    )


def test_the_hint_names_no_hidden_files() -> None:
    Path(".hidden").write_text("")
    assert ".hidden" not in run_query("source(text, 'none');").err


def test_an_empty_folder_is_an_empty_bag() -> None:
    Path("in.csv").mkdir()
    assert run_query(LINES.format("")).answer == "{ }"


def test_an_empty_file_is_an_empty_bag() -> None:
    Path("in.csv").write_text("")
    assert run_query(LINES.format("")).answer == "{ }"


BAD = "1,a\nx,b\n3\n\n5,f\n"
REASONS = 'line 2: column 1 "A": "x" is not an int; line 3: expected 2 columns, found 1'


def test_bad_lines_are_quarantined() -> None:
    Path("in.csv").write_text(BAD)
    done = run_query(LINES.format(""))
    assert (done.code, done.out) == (0, '{ < A: 1, B: "a" >, < A: 5, B: "f" > }\n')
    assert f"2 lines of in.csv were quarantined: {REASONS}" in done.err


def test_the_quarantine_holds_the_lines() -> None:
    Path("in.csv").write_text(BAD)
    run_query(LINES.format(""), "--quarantine", "kept")
    (file,) = Path("kept").rglob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["line"], row["text"]) for row in rows] == [(2, "x,b"), (3, "3")]


def test_bad_lines_are_reported_once() -> None:
    Path("in.csv").write_text(BAD)
    query = LINES.format("").removesuffix(";")
    assert run_query(f"S = {query}; count(S); S; S;").err.count("quarantined") == 1


def test_bad_lines_are_dropped() -> None:
    Path("in.csv").write_text(BAD)
    done = run_query(LINES.format(", on_error: drop"))
    assert done.code == 0
    assert f"2 lines of in.csv were dropped: {REASONS}" in done.err


def test_bad_lines_fail() -> None:
    Path("in.csv").write_text(BAD)
    done = run_query(LINES.format(", on_error: fail"))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith('error[R110]: column 1 "A": "x" is not an int\n --> in.csv:2\n')


def test_bytes_that_are_no_text() -> None:
    Path("in.csv").write_bytes(b"1,a\n2,\xff\n\xef\xbb\xbf3,c\n")
    done = run_query(LINES.format(""))
    assert (done.code, done.lines) == (0, ['{ < A: 1, B: "a" > }'])
    assert "line 2: not UTF-8 at byte 3 of the line" in done.err


@pytest.mark.parametrize("type_", ["", ", type(< A: int >)"])
@pytest.mark.parametrize("data", [b"", b"PAR1", b"hello, this is text\n", b"PAR1" * 20])
def test_a_parquet_file_that_is_none(data: bytes, type_: str) -> None:
    Path("in.parquet").write_bytes(data)
    done = run_query(f"source(parquet, 'in.parquet'{type_});")
    assert (done.code, done.out) == (1, "")
    what = "is not a Parquet file" if data.startswith(b"hello") else "is damaged or was cut off"
    assert f'"in.parquet" {what}' in done.err


def test_a_parquet_file_that_was_cut_off() -> None:
    pq.write_table(pa.table({"A": list(range(1000))}), "in.parquet")
    whole = Path("in.parquet").read_bytes()
    assert run_query("sum(source(parquet, 'in.parquet').A);").answer == "499500"
    Path("in.parquet").write_bytes(whole[: len(whole) // 2])
    assert run_query("source(parquet, 'in.parquet');").code == 1


def test_what_is_dumped_is_replaced_whole_or_not_at_all() -> None:
    Path("out.csv").write_text("before")
    Path("in.csv").write_text(BAD)
    query = LINES.format(", on_error: fail")
    assert run_query(f"dump 'out.csv' from {query}").code == 1
    assert Path("out.csv").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir()) == ["in.csv", "out.csv"]


def test_what_cannot_be_written() -> None:
    Path("out").mkdir()
    for item in ("dump 'out' from {1};", "store 'out' from {1};"):
        done = run_query(item)
        assert done.code == 1
        assert done.err.startswith('error[R130]: "out" cannot be written: it is a folder')
