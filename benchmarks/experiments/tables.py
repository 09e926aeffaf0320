"""Findings as tables: on the terminal, in the README between marks, and kept from run to run.

A column is there if a finding has a figure for it; losses are rows as all others are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.experiments.base import Figure, Finding

WORDS: Final = ("case", "verdict", "note")
"""Columns of words; the others are of numbers."""
_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def cell_text(name: str, figure: Figure) -> str:
    """The text of a figure in a table cell."""
    if isinstance(figure, str):
        return figure
    if name.endswith("bytes"):
        for unit, called in _UNITS:
            if figure >= unit:
                return f"{figure / unit:,.1f} {called}"
        return f"{figure:,.0f} B"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"


def cells(findings: Sequence[Finding]) -> list[list[str]]:
    """Rows of cells, the first with the names of the columns."""
    names = list(dict.fromkeys(name for finding in findings for name in finding.figures))
    rows = [["case", *names, "ratio", "verdict", "note"]]
    for finding in findings:
        figures = [cell_text(name, finding.figures.get(name, "")) for name in names]
        ratio = "" if finding.ratio is None else f"{finding.ratio:,.2f}"
        rows.append([finding.case, *figures, ratio, finding.verdict, finding.note])
    filled = [place for place in range(len(rows[0])) if any(row[place] for row in rows[1:])]
    return [[row[place] for place in filled] for row in rows]


def as_text(findings: Sequence[Finding]) -> str:
    """A table for a terminal."""
    rows = cells(findings)
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    sides = ["<" if column[0] in WORDS else ">" for column in columns]
    lines = ["  ".join(map("{:{}{}}".format, row, sides, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def as_markdown(findings: Sequence[Finding]) -> str:
    """A table for the README."""
    head, *rows = cells(findings)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_escape(cell) for cell in row) + " |" for row in lines)


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|")


def as_json(finding: Finding) -> dict[str, Any]:
    """A finding for programs."""
    data = asdict(finding)
    return data if data["series"] else {k: v for k, v in data.items() if k != "series"}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """What is known, by the name of the experiment: `about` the run, and its `findings`."""
    known: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return known


def merge(
    path: Path, name: str, about: Mapping[str, Any], findings: Iterable[Finding]
) -> dict[str, dict[str, Any]]:
    """Put what was found by an experiment beside what is known of others; all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"about": dict(about), "findings": [as_json(finding) for finding in findings]}
    known = {**read(path), name: entry}
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(json.dumps(known, indent=1) + "\n")
    hidden.rename(path)
    return known


def marks(name: str) -> tuple[str, str]:
    """Between what the README has the table of an experiment."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def replace_table(text: str, name: str, table: str) -> str:
    """Replace the table between the marks; raises `LookupError` if they are missing."""
    begin, end = marks(name)
    before, opening, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opening and closed):
        raise LookupError(f"there is no place for the table of {name}: {begin} … {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"
