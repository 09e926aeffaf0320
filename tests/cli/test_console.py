"""What is printed of a batch: lines, objects, or a table that is drawn again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from incmrql.cli.terminal import Json, Live, Plain, summary
from incmrql.io.rows import ReadReport
from incmrql.runtime.report import BatchReport


def report(number: int, bad: int = 0, groups: int = 0) -> BatchReport:
    counts = {"files": 1, "rows_in": 3, "inserted": 2, "deleted": 1, "changed": 1234}
    zeros = {
        name: 0
        for name in BatchReport.__dataclass_fields__
        if name not in {*counts, "number", "bad", "nodes", "loops", "outputs", "seconds", "errors"}
    }
    values = {**zeros, **counts, "nodes": (), "loops": (), "outputs": (Path("out"),)}
    values["read_by_scope"] = {"change": 4, "groups": groups, "tables": 0}
    lines = ReadReport(2, bad)
    return BatchReport(number=number, bad=lines, seconds=0.0254, **values)  # type: ignore[arg-type]


def test_a_batch_in_a_line() -> None:
    said = "batch 7: 2 rows in, 1 out; 1,234 changes; 0 rows of state; 25 ms"
    assert summary(report(7)) == said
    assert "; 3 lines left out; " in summary(report(7, bad=3))
    assert "; 0 rows of state; read 5,000 of groups; 25 ms" in summary(report(7, groups=5000))


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Plain(str).batch(report(7), [1, 2])
    out, err = capsys.readouterr()
    assert (out, err) == ("1\n2\n", summary(report(7)) + "\n")


def test_objects(capsys: pytest.CaptureFixture[str]) -> None:
    Json(json.dumps, "answers").batch(report(7), [[1], "x"])
    Json(json.dumps, "answers").batch(report(8), [])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["number"], first["answers"], first["bad"]) == (7, [[1], "x"], 0)
    assert "answers" not in second
    assert first["read"] == {"change": 4, "groups": 0, "tables": 0}


def screen(written: str, width: int) -> list[str]:
    """What a terminal shows that knows the end of a line, going up and clearing downwards."""
    lines: list[str] = [""]
    rest = written
    while rest:
        if rest.startswith("\x1b["):
            number = int(rest[2 : rest.index("F")])
            rest = rest[rest.index("F") + 1 :].removeprefix("\x1b[J")
            del lines[len(lines) - 1 - number :]
            lines.append("")
            continue
        if rest[0] == "\n":
            lines.append("")
        else:
            if len(lines[-1]) == width:
                lines.append("")
            lines[-1] += rest[0]
        rest = rest[1:]
    return lines


@pytest.mark.parametrize("length", [3, 30, 31, 75, 90])
def test_what_is_drawn_again_takes_the_place_of_what_was_there(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def echo(text: str = "", nl: bool = True, err: bool = False) -> None:
        written.append(text + "\n" * nl)
        assert isinstance(err, bool)

    monkeypatch.setattr("incmrql.cli.terminal.click.echo", echo)
    live = Live(str, lambda: 30, answers_too=True)
    for number in range(12):
        live.batch(report(number), ["x" * length + "y" * (number % 3)])
    shown = screen("".join(written), 30)
    assert "".join(shown).count("x") == length
    assert shown[-10].startswith("batch")
    assert [line.split()[0] for line in shown[-9:-1]] == [str(n) for n in range(4, 12)]
    live.say("stopping")
    live.batch(report(12), ["z"])
    assert "stopping" in screen("".join(written), 30)
