"""Two versions side by side: here this one against itself, at a tiny size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.versions import ROOT, Comparison, main
from tests.effort import scale


def comparison() -> Comparison:
    comparison = Comparison()
    for number in range(3):
        for side, factor in (("old", 1.0), ("new", 2.0)):
            measured = {"seconds": factor * (number + 1), "jobs": 1, "state_read": 10 * factor}
            comparison.add(side, measured)
    return comparison


def test_the_median_of_paired_ratios_and_what_was_counted_are_shown() -> None:
    compared = comparison()
    assert compared.differences() == "state_read 30.0 -> 60.0"
    line = compared.line("a", compared.differences())
    assert line == "| a | 2,000 ms | 4,000 ms | 2.00 (2.00-2.00) | state_read 30.0 -> 60.0 |"


def test_bad_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        [str(tmp_path)],
        [str(ROOT), "--only", "nothing"],
        [str(ROOT), "--pairs", "1"],
    ):
        with pytest.raises(SystemExit):
            main([*arguments, "--data", str(tmp_path / "data")])
    errors = capsys.readouterr().err
    assert f"{tmp_path} has no src/incmrql" in errors
    assert "no such name; there are scan-filter" in errors
    assert "--pairs must be at least 2" in errors


@pytest.mark.spark
@pytest.mark.slow
def test_a_version_gives_what_it_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted = {"distinct": "-", "extremes": "equal", "reachability exact": "equal"}
    names = list(counted)[scale(2, 0) :]
    arguments = [str(ROOT), "--pairs", "2", "--scale", "0.001", "--data", str(tmp_path)]
    assert main([*arguments, "--only", *names]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines] == names
    assert [line.split("|")[-2].strip() for line in lines] == [counted[name] for name in names]
    assert all(re.search(r"\| [\d.]+ \([\d.]+-[\d.]+\) \|", line) for line in lines)
