"""What a Spark worker imports for a batch: how much, and nothing of the compiler or the tests.

Every module that a worker imports delays the first batch of its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.compile.program import compile_program
from incmrql.plan.assembly import program_of
from incmrql.spark.packing import pack_program
from tests.engine import programs

MOST_MODULES = 160
MOST_LINES = 30_500
WORKER = "incmrql.spark.stream_tasks"
PAPER = "incmrql.paper"

PROGRAM = f"""
{programs.SEVERAL}
incr select x.K * x.K from x in {programs.NUMBERS} order by x.V desc limit 3;
incr select (x.K, count(select y from y in {programs.NUMBERS} where y.V < x.V))
  from x in {programs.NUMBERS};
incr repeat r = (select (x.K, x.V / 2.0) from x in {programs.NUMBERS})
  step (select (k, sum(v)) from (k, v) in r group by k) limit 3;
"""
"""Groups, joins, an order, a correlated sub-query and a loop, all watched for arithmetic."""

SHOW = """
ours = ("incmrql", "tests")
found = {n: m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] in ours}
print(json.dumps(found))
"""


def shown_modules(program: str, *arguments: str) -> dict[str, str]:
    """Our modules in a fresh process after a program, with their files."""
    command = [sys.executable, "-c", f"import json, sys\n{program}\n{SHOW}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules: dict[str, str] = json.loads(done.stdout)
    return modules


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a worker has imported once it has loaded a program."""
    script = programs.typed_script(PROGRAM)
    program = program_of(script.items, script, watch=True)
    assert program.watches
    sent = pack_program(CompiledProgram(program, compile_program(program)))
    path = tmp_path_factory.mktemp("program") / "content"
    path.write_bytes(sent.content.content)
    code = f"""
import pathlib
from {WORKER} import SentProgram, load_program
from incmrql.spark.packing import PickledObject
load_program(SentProgram("", PickledObject(pathlib.Path(sys.argv[1]).read_bytes())))
"""
    return shown_modules(code, str(path))


def test_a_worker_imports_little(worker: dict[str, str]) -> None:
    files = [Path(file) for file in worker.values()]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    assert (len(files) <= MOST_MODULES, lines <= MOST_LINES) == (True, True), (len(files), lines)


@pytest.mark.parametrize(
    "layers",
    [
        ("tests", PAPER, "incmrql.compiler", "incmrql.runtime", "incmrql.api", "incmrql.cli"),
        ("incmrql.types.infer", "incmrql.syntax.parser", "incmrql.algebra.normalize"),
        ("incmrql.plan.planner", "incmrql.lower.relations", "incmrql.engine.compile.program"),
    ],
)
def test_a_worker_imports_nothing_that_compiles(
    worker: dict[str, str], layers: Sequence[str]
) -> None:
    assert {WORKER, "incmrql.engine.operators.groups", "incmrql.engine.operators.joins"} <= (
        worker.keys()
    )
    assert [name for name in worker if name.startswith(tuple(layers))] == []


@cache
def modules_after_import(module: str) -> dict[str, str]:
    """Our modules that a fresh process has loaded after importing one of them."""
    return shown_modules(f"import {module}")


@pytest.mark.parametrize("module", ["incmrql.cli.explain", "incmrql.api.session"])
def test_the_paper_is_not_imported_before_it_is_asked_for(module: str) -> None:
    names = modules_after_import(module)
    assert module in names
    assert [name for name in names if name.startswith(PAPER)] == []
