"""Analysed plans that were read on several versions of Spark: `make plans` writes them.

The plans of version 4.2 are complete; of other versions there are those that differ.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Final

from incmrql.catalyst import AnalyzedPlan, analyzed_from_json

PLANS: Final = Path(__file__).parent / "plans"
MAIN: Final = "4.2"
SETS: Final = ("tpch", "tpcds", "shapes", "operators", "windows", "frames", "types")


def versions() -> list[str]:
    """The versions of Spark whose plans are there."""
    return sorted(path.name for path in PLANS.iterdir())


def read_plans(name: str, version: str = MAIN) -> dict[str, AnalyzedPlan]:
    """The plans of a set that were written for a version, by name."""
    path = PLANS / version / f"{name}.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).decode().splitlines() if path.exists() else []
    named = (json.loads(line) for line in lines)
    return {entry["name"]: analyzed_from_json(json.dumps(entry["plan"])) for entry in named}


def write_plans(name: str, version: str, plans: dict[str, str]) -> None:
    """Write the plans of a set, given as JSON."""
    lines = [f'{{"name":"{key}","plan":{plan}}}\n' for key, plan in sorted(plans.items())]
    path = PLANS / version / f"{name}.jsonl.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress("".join(lines).encode()))
