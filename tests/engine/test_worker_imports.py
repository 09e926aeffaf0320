"""What a Spark worker imports for a batch: how much, and nothing of the oracle or the paper."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

# The target is 160 modules and 30,000 lines.  These are today's figures and 3 percent: lower them
# when the figures fall.
MOST_MODULES = 350
MOST_LINES = 57_100

BATCH = ("incmrql.spark.stream_job", "incmrql.engine.batch")
PAPER = "incmrql.paper"


@cache
def imported(*modules: str) -> dict[str, str]:
    """Our modules that a fresh process has after importing these, with their files."""
    program = f"""
import json, sys
import {", ".join(modules)}
ours = ("incmrql", "tests")
found = {{n: m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] in ours}}
print(json.dumps(found))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_worker_imports_no_more_than_it_did() -> None:
    files = [Path(file) for file in imported(*BATCH).values()]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    assert (len(files) <= MOST_MODULES, lines <= MOST_LINES) == (True, True), (len(files), lines)


def test_a_worker_imports_nothing_of_the_oracle_or_the_paper() -> None:
    names = imported(*BATCH)
    assert set(BATCH) <= names.keys()
    assert [name for name in names if name.startswith(("tests", PAPER))] == []


@pytest.mark.parametrize("module", ["incmrql.cli.explain", "incmrql.api.session"])
def test_the_paper_is_not_imported_before_it_is_asked_for(module: str) -> None:
    names = imported(module)
    assert module in names
    assert [name for name in names if name.startswith(PAPER)] == []
