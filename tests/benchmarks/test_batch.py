"""The parts of the batch benchmark that need no Spark: comparing, counting, writing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.batch import BEGIN, END, line, write
from benchmarks.batch_data import QUICK, Sizes, folder_of
from benchmarks.batch_measure import Row, differences
from benchmarks.batch_queries import CASES
from benchmarks.batch_steps import Steps

ONE = pa.table({"k": [1, 2], "v": [0.5, 0.25]})


def differences_to_one(other: pa.Table, *, ordered: bool = False, close: bool = False) -> list[str]:
    return differences(other, ONE, ordered=ordered, close=close)


def test_answers_are_bags_unless_they_are_lists() -> None:
    turned = ONE.take([1, 0])
    assert differences_to_one(turned) == []
    assert differences_to_one(turned, ordered=True) == ["k differs", "v differs"]


def test_a_packed_answer_is_unpacked() -> None:
    assert differences_to_one(pa.table({"value": ONE.to_struct_array()})) == []


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"k": [1], "v": [0.5]}, "rows 1 ≠ 2"),
        ({"k": [1, 3], "v": [0.5, 0.25]}, "k differs"),
        ({"k": [1, 2], "v": [0.5, 0.2500001]}, "v differs"),
        ({"k": [1, 2], "v": [0.5, None]}, "v differs"),
        ({"k": [1, 2], "w": [0.5, 0.25]}, "columns ['k', 'w'] ≠ ['k', 'v']"),
    ],
)
@pytest.mark.parametrize("close", [False, True])
def test_what_differs_is_told(other: dict[str, list[float]], problem: str, close: bool) -> None:
    assert differences_to_one(pa.table(other), close=close) == [problem]


def test_rounding_is_allowed_only_where_doubles_are_summed() -> None:
    near = pa.table({"k": [1, 2], "v": [0.5, 0.25 + 1e-15]})
    assert differences_to_one(near, close=True) == []
    assert differences_to_one(near) == ["v differs"]


def test_a_row_says_what_is_wrong() -> None:
    row = Row(CASES[0], fast=False, pairs=[(1.0, 1.0), (3.0, 1.0), (2.0, 1.0)])
    assert "| 2.00 (1.50-2.50) | 1.15 |" in line(row)
    row.problems.append("slower")
    assert line(row).endswith("| slower |")


def test_growing_steps_are_seen() -> None:
    assert Steps("flat", [1.0, 1.1, 0.9, 1.0]).is_flat
    assert Steps("faster", [2.0, 1.5, 1.0]).is_flat
    assert not Steps("slower", [1.0, 1.2, 1.4, 1.6]).is_flat


def test_the_table_replaces_the_one_before(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"a\n{BEGIN}\nold\n{END}\nb\n")
    write(readme, "new")
    write(readme, "newer")
    assert readme.read_text() == f"a\n{BEGIN}\nnewer\n{END}\nb\n"


def test_data_of_other_sizes_are_not_taken_for_the_full_ones(tmp_path: Path) -> None:
    assert QUICK.name != Sizes().name
    tiny = Sizes(100, 10, 100, 10, 10, 10, 50, 20, 50)
    folder = folder_of(tmp_path, tiny)
    before = {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()}
    assert folder_of(tmp_path / "again", tiny) != folder
    again = folder_of(tmp_path / "again", tiny)
    assert {again / f.relative_to(folder): b for f, b in before.items()} == {
        file: file.read_bytes() for file in again.rglob("*.*") if file.is_file()
    }
