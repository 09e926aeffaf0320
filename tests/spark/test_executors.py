"""What workers of a cluster must have, and what is said if they have not."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from incmrql.spark import clusters
from incmrql.spark.clusters import NEEDED, differences

HERE = ".".join(map(str, sys.version_info[:2]))
GOOD = dict.fromkeys(NEEDED, "1.0") | {"incmrql": version("incmrql")}


@pytest.mark.parametrize(
    ("python", "change", "said"),
    [
        (HERE, {}, ""),
        ("2.7", {}, f"is 2.7, and this one is {HERE}"),
        (HERE, {"incmrql": None, "duckdb": None}, "has no incmrql, duckdb"),
        (HERE, {"incmrql": "0.0"}, f"has incmrql 0.0, and this is {version('incmrql')}"),
    ],
)
def test_differences(python: str, change: dict[str, str | None], said: str) -> None:
    assert differences(python, {**GOOD, **change}) == said


@pytest.mark.parametrize("isolated", [False, True])
def test_the_question_runs_where_the_package_is_missing(isolated: bool) -> None:
    code = f"NEEDED = {NEEDED!r}\n{clusters._PROBE}\nprint(next(probe(())))"
    options = ["-I", "-S"] if isolated else []
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True
    )
    _, python, reported = json.loads(done.stdout)
    assert python == HERE
    assert differences(python, reported) == ("has no " + ", ".join(NEEDED) if isolated else "")
