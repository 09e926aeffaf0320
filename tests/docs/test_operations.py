"""docs/operations.md names every option, every file and every column that there is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from incmrql.cli.main import commands
from incmrql.cli.options import stream_options
from incmrql.engine.inputs import InputFile
from incmrql.engine.store.content import aggregate_rows, to_table
from incmrql.engine.store.sorting import TableSchema
from incmrql.runtime.checkpoint.manifests import FORMAT, Checkpoint, Commit, State
from incmrql.runtime.checkpoint.program import describe
from incmrql.storage.files import load
from incmrql.types.model import INT
from tests.engine.programs import AVERAGE, program_of

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_every_option_of_streams() -> None:
    @stream_options
    def nothing() -> None:
        pass

    options = [option.opts[0] for option in nothing.__click_params__]  # type: ignore[attr-defined]
    listed = re.findall(r"^\| `(--[\w-]+)", PAGE, re.MULTILINE)
    assert set(options) <= set(listed)
    known = {o for parameter in commands.commands["run"].params for o in parameter.opts}
    assert set(listed) <= known


def test_the_files_and_fields_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    program = program_of(AVERAGE.format(data=tmp_path / "d", deletes=tmp_path / "d"))
    checkpoint = Checkpoint(tmp_path / "ck")
    checkpoint.prepare()
    checkpoint.take_over({**describe(program, {}), "window": False}, (), 8)
    known = checkpoint.description()
    assert f"`format` (of the checkpoint, {FORMAT})" in PAGE
    assert set(known) <= NAMED
    assert {field for node in known["nodes"] for field in node} <= NAMED
    assert {field for stream in known["streams"] for field in stream} <= NAMED
    file = InputFile("a", 1, 2, 0)
    checkpoint.intend(0, [file])
    checkpoint.commit(State(-1, {}), Commit({}, files=[(file, "x")]))
    manifest = load(tmp_path / "ck" / "manifests" / "000001.json")
    assert set(manifest) | set(manifest["files"][0]) <= NAMED
    for path in (tmp_path / "ck").iterdir():
        assert path.name in PAGE


@pytest.mark.parametrize(
    "form", [TableSchema((INT,)), TableSchema((INT,), (INT,)), TableSchema((), (INT,), (False,))]
)
def test_the_columns_of_runs(form: TableSchema) -> None:
    width = len(form.keys) + len(form.rest)
    column = pa.array([1, 2], pa.int32())
    content = aggregate_rows(form, [column] * width, np.ones(2, np.int64))
    assert set(to_table(content).column_names) <= NAMED
