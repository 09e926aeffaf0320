"""Scripts that are deep, long, or not quite text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Outcome, incmrql, run_query
from tests.effort import sample

N = 300
NESTED = {
    "parentheses": ("(" * N + "1" + ")" * N, "1"),
    "tuples": ("(1," * N + "1" + ")" * N, "(1," * N + "1" + ")" * N),
    "bags": ("{" * N + "1" + "}" * N, "{ " * N + "1" + " }" * N),
    "lists": ("[" * N + "1" + "]" * N, "[ " * N + "1" + " ]" * N),
    "records": ("<A:" * N + "1" + ">" * N, "< A: " * N + "1" + " >" * N),
    "projections": ("<A:" * N + "1" + ">" * N + ".A" * N, "1"),
    "indexes": ("[" * N + "7" + "]" * N + "[0]" * N, "7"),
    "then": ("if true then " * N + "1" + " else 0" * N, "1"),
    "else": ("if false then 0 else " * N + "1", "1"),
    "domains": ("(select x + 1 from x in " * N + "{ 1 }" + ")" * N, f"{{ {N + 1} }}"),
    "heads": (
        "(select " * N + "1" + "".join(f" from x{n} in {{ 1 }})" for n in range(N)),
        "{ " * N + "1" + " }" * N,
    ),
    "conditions": (
        "exists (select 1 from x in {1} where " * N + "true" + ")" * N,
        "true",
    ),
    "calls": ("function f(x: int): int { x + 1 }; " + "f(" * N + "1" + ")" * N, f"{N + 1}"),
    "built-ins": ("abs(" * N + "-1" + ")" * N, "1"),
    "macros": ("macro m(x) { x + 1 }; " + "m(" * N + "1" + ")" * N, f"{N + 1}"),
    "lets": ("let x = 1 in " + "let x = x + 1 in " * N + "x", f"{N + 1}"),
    "cases": ("case 1 { 1: " * N + "7" + " }" * N, "7"),
    "repeats": ("repeat x = " * N + "1" + " step x + 1 limit 1" * N, f"{N + 1}"),
    "quantifiers": ("".join(f"some x{n} in {{ 1 }}: " for n in range(N)) + "x0 = 1", "true"),
    "nots": ("not " * N + "true", "true"),
    "signs": ("- " * (N + 1) + "1", "-1"),
    "casts": ("1" + " as long" * N, "1"),
    "json": ("[json| " + "[" * N + "1" + "]" * N + " |]", "JArray([ " * N + "Jlong(1)" + " ])" * N),
    "xml": (
        "[xml| " + "<a>" * N + "</a>" * N + " |]",
        'Node("a",{ },[ ' * (N - 1) + 'Node("a",{ },[ ])' + " ])" * (N - 1),
    ),
    "types": (
        f"type T = {'[' * N}int{']' * N}; function f(x: T): T {{ x }}; f({'[' * N}1{']' * N})",
        "[ " * N + "1" + " ]" * N,
    ),
}
CHAINS = {
    "+": ("1", "900"),
    "-": ("1", "-898"),
    "*": ("1", "1"),
    "and": ("true", "true"),
    "or": ("false", "false"),
    "union": ("{ }", "{ }"),
}
MANY = 900


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(NESTED, 3))
def test_nested(kind: str) -> None:
    query, printed = NESTED[kind]
    assert run_query(query).answer == printed


@pytest.mark.parametrize("operator", CHAINS)
def test_a_chain(operator: str) -> None:
    operand, printed = CHAINS[operator]
    assert run_query(f" {operator} ".join([operand] * MANY)).answer == printed


def test_names_that_use_each_other() -> None:
    names = "".join(f"x{n + 1} = x{n} + 1;" for n in range(MANY))
    assert run_query(f"x0 = 0; {names} x{MANY};").answer == str(MANY)


@pytest.mark.parametrize("text", ["(" * 100_000, "[" * 2000 + "1" + "]" * 2000, "1+" * 5000 + "1"])
def test_too_deep(text: str) -> None:
    done = run_query(text)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[P008]: the expression is nested deeper than 1000 levels\n")
    assert max(map(len, done.err.splitlines())) < 200


@pytest.mark.slow
def test_a_bag_of_a_megabyte(tmp_path: Path) -> None:
    rows = [f'({n},"v{n}",{n}.5)' for n in range(42_000)]
    path = tmp_path / "big.mrql"
    path.write_text(f"count({{{','.join(rows)}}});")
    assert path.stat().st_size > 1_000_000
    assert incmrql("run", path).answer == "42000"


def test_thousands_of_items(tmp_path: Path) -> None:
    items = [
        f"x{n} = select (a, b + {n}) from (a, b) in {{ (1, 2), ({n}, 3) }} where a <> {n};\n"
        for n in range(2000)
    ]
    (tmp_path / "many.mrql").write_text("".join(items) + "x1999;" + "1 + 1;" * 1000)
    done = incmrql("run", tmp_path / "many.mrql")
    assert done.lines == ["{ (1,2001) }", *["2"] * 1000]


@pytest.mark.parametrize("text", ['"{}"', "/* {} */ 1", "// {}\n1", "[xml| <a>{}</a> |]"])
def test_a_long_token(text: str, tmp_path: Path) -> None:
    (tmp_path / "long.mrql").write_text(text.replace("{}", "ab cd " * 800_000))
    done = incmrql("run", tmp_path / "long.mrql")
    assert (done.code, done.err) == (0, "")


def run_bytes(data: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.chdir(folder)
    Path("q.mrql").write_bytes(data)
    return incmrql("run", "q.mrql")


NOT_TEXT = {
    "a byte": (b"1;\n 2 + \xff;", "the byte 0xff is not UTF-8", "2:6"),
    "a cut off character": ("'é".encode()[:-1], "the byte 0xc3 is not UTF-8", "1:2"),
    "half of a pair": (b"'\xed\xa0\x80'", "the byte 0xed is not UTF-8", "1:2"),
    "Latin-1": ("'café';".encode("latin-1"), "the byte 0xe9 is not UTF-8", "1:5"),
    "UTF-16": ("1;".encode("utf-16"), "the byte 0xff is not UTF-8", "1:1"),
}


@pytest.mark.parametrize("kind", NOT_TEXT)
def test_not_utf_8(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, message, place = NOT_TEXT[kind]
    done = run_bytes(data, tmp_path, monkeypatch)
    hint = "Save the script as UTF-8."
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error[P011]: {message}\n --> q.mrql:{place}\n")
    assert done.err.endswith(f" = hint: {hint}\n")


def test_utf_16_without_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_bytes("1;".encode("utf-16-le"), tmp_path, monkeypatch)
    assert done.code == 1
    assert done.err.startswith('error[P002]: the character "U+0000" has no meaning here')


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"\xef\xbb\xbf1 + 1;", ["2"]),
        (b"\xef\xbb\xbf", []),
        (b"1;\r\n// c\r\n2;\r\n", ["1", "2"]),
        (b"1;\r// c\r\n2;", ["1", "2"]),
        (b"'a\r\nb';", ['"a\\r\\nb"']),
        (b"'a\0b';", ['"a\\u0000b"']),
        ("'日本'; '\U0001f600';".encode(), ['"日本"', '"\U0001f600"']),
    ],
)
def test_odd_text(
    data: bytes, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_bytes(data, tmp_path, monkeypatch)
    assert (done.code, done.lines) == (0, lines)


@pytest.mark.parametrize(
    ("text", "place", "shown"),
    [
        ("\t\tx + 1;", "1:3", ["        x + 1;", "        ^ unknown name"]),
        ("'日本語' +\tx;", "1:9", ["'日本語' +    x;", "              ^ unknown name"]),
        ("'e\u0301' + x;", "1:8", ["'e\u0301' + x;", "      ^ unknown name"]),
        ("1;\r\n  x;\r\n", "2:3", ["  x;", "  ^ unknown name"]),
        ("1\0;", "1:2", ["1\ufffd;", " ^ unknown character"]),
    ],
)
def test_the_caret_is_under_the_place(
    text: str, place: str, shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_bytes(text.encode(), tmp_path, monkeypatch)
    _, where, _, line, caret, *_ = done.err.splitlines()
    assert where == f" --> q.mrql:{place}"
    assert [line.partition(" | ")[2], caret.partition(" | ")[2]] == shown
