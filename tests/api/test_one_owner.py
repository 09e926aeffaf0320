"""A driver is made in one place, and front ends start quickly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import incmrql

SOURCES = Path(incmrql.__file__).parent


def test_one_place_makes_drivers() -> None:
    modules = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name("Driver") | ast.Attribute(attr="Driver")):
                    modules.append(str(path.relative_to(SOURCES)))
                case _:
                    pass
    assert modules == ["api/drivers.py"]


def test_the_command_line_touches_no_private_names_of_others() -> None:
    touched = []
    for path in (SOURCES / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(owner), attr=name) if (
                    name.startswith("_") and not name.startswith("__") and owner != "self"
                ):
                    touched.append((path.name, owner, name))
                case _:
                    pass
    assert touched == [("signals.py", "os", "_exit")]


def test_the_command_line_begins_without_the_compiler_and_without_spark() -> None:
    program = "import sys, incmrql.cli; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"pyspark", "pyarrow", "duckdb", "incmrql.compiler", "incmrql.runtime.driver"}
    assert not loaded & heavy
    assert "incmrql.api.options" in loaded
