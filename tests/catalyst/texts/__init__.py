"""SQL texts over empty tables, from which plans are made for tests."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def texts(name: str) -> dict[str, str]:
    """The texts of a file by the name in the comment above each."""
    parts = re.split(r"^-- (\w+)\n", (HERE / f"{name}.sql").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def tables(name: str) -> dict[str, str]:
    """The columns of each table that a file of texts reads."""
    lines = (HERE / f"{name}.tables").read_text("utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)
