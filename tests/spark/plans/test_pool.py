"""The plans below `tests/catalyst/plans` are what this version of Spark gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from incmrql.catalyst import analyzed_from_json
from tests.catalyst.dumps import VERSION, plans_of_texts
from tests.catalyst.pool import MAIN, read_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(VERSION != MAIN, reason="the plans of the main version are complete"),
]


@pytest.mark.parametrize("name", ["tpch", "shapes"])
def test_plans_of_texts(spark: SparkSession, tmp_path: Path, name: str) -> None:
    plans = plans_of_texts(spark.newSession(), name, tmp_path)
    assert {key: analyzed_from_json(plan) for key, plan in plans.items()} == read_plans(name)


FRAMES_ANEW = """
import json, sys
from pathlib import Path
from incmrql.spark.session import start
from tests.catalyst.dumps import plans_of_frames
print(json.dumps(plans_of_frames(start("local[1]"), Path(sys.argv[1]))))
"""


def test_plans_of_frames(tmp_path: Path) -> None:
    """In a process of its own: PySpark numbers what it generates from the start of the process."""
    command = [sys.executable, "-c", FRAMES_ANEW, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    plans = json.loads(done.stdout.splitlines()[-1])
    assert {key: analyzed_from_json(plan) for key, plan in plans.items()} == read_plans("frames")
