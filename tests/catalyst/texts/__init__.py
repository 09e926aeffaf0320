"""SQL texts over empty tables, from which plans are made for tests."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def texts(name: str, directory: Path = HERE) -> dict[str, str]:
    """The texts of a file by the name in the comment above each."""
    text = (directory / f"{name}.sql").read_text("utf-8")
    parts = re.split(r"^-- (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def tables(name: str, directory: Path = HERE) -> dict[str, str]:
    """The columns of each table that a file of texts reads."""
    lines = (directory / f"{name}.tables").read_text("utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)
