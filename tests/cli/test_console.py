"""What is printed of a batch: lines or objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from incmrql.cli.terminal import Json, Plain, summary
from incmrql.io.rows import ReadReport
from incmrql.runtime.report import BatchReport


def report(number: int, bad: int = 0, groups: int = 0, **given: int) -> BatchReport:
    counts = {"files": 1, "rows_in": 3, "inserted": 2, "deleted": 1, "changed": 1234, **given}
    zeros = {
        name: 0
        for name in BatchReport.__dataclass_fields__
        if name
        not in {*counts, "number", "bad", "nodes", "loops", "outputs", "seconds", "errors", "lags"}
    }
    values = {**zeros, **counts, "nodes": (), "loops": (), "outputs": (Path("out"),)}
    values |= {"notices": (), "noticed": {}}
    values["read_by_scope"] = {"change": 4, "groups": groups, "tables": 0}
    lines = ReadReport(2, bad)
    return BatchReport(number=number, bad=lines, seconds=0.0254, **values)  # type: ignore[arg-type]


def test_a_batch_in_a_line() -> None:
    said = "batch 7: 2 rows in, 1 out; 1,234 changes; 0 rows of state; 25 ms"
    assert summary(report(7)) == said
    assert "; 3 lines left out; " in summary(report(7, bad=3))
    assert "; 0 rows of state; read 5,000 of groups; 25 ms" in summary(report(7, groups=5000))
    one = report(7, bad=1, inserted=1, changed=1, state_rows=1)
    assert summary(one) == (
        "batch 7: 1 row in, 1 out; 1 line left out; 1 change; 1 row of state; 25 ms"
    )


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
