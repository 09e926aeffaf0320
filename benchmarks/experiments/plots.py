"""Plots of what experiments have found, as SVG and PNG.

Each takes the findings as they are kept: the paper's figures are drawn from the series of the
`paper-…` experiments, a panel for each size of the increments and a line for each side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.iteration_plot import _pyplot, _save

Row: TypeAlias = Mapping[str, Any]
STYLES: Final = {"incremental": "o-", "engine": "s--", "by hand": "^:"}


def draw_findings(name: str, findings: Sequence[Row], folder: Path) -> list[Path]:
    """Plot an experiment as far as it can be plotted; returns the files.

    Raises a `ModuleNotFoundError` where there is no matplotlib.
    """
    draw = next((plotter for prefix, plotter in _DRAWN.items() if name.startswith(prefix)), None)
    fitting = [row for row in findings if row["verdict"] != "failed"]
    if draw is None or not fitting:
        return []
    import_module("matplotlib").use("Agg")
    figure = draw(fitting)
    return [] if figure is None else _save(figure, folder / name)


def panels(findings: Sequence[Row]) -> dict[str, list[tuple[str, list[float]]]]:
    """The lines of each panel of a figure of the paper: seconds from the load to the end.

    A panel is a size of the increments; its recomputations are those beside the first way.
    """
    lines_by_title: dict[str, list[tuple[str, list[float]]]] = {}
    for row in findings:
        title, _, way = row["case"].partition(", ")
        lines = lines_by_title.setdefault(title, [])
        known = {label for label, _ in lines}
        for side, seconds in row.get("series", {}).items():
            label = f"{side} ({way})" if side == "incremental" and way else side
            if label not in known:
                lines.append((label, seconds))
    return lines_by_title


def lines_of(findings: Sequence[Row], across: str, up: str) -> dict[str, list[tuple[float, float]]]:
    """A line for each case: points of two figures, or of a figure and the ratio."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in findings:
        height = row["ratio"] if up == "ratio" else row["figures"].get(up)
        place = row["figures"].get(across)
        if isinstance(place, int | float) and isinstance(height, int | float):
            lines.setdefault(row["case"], []).append((place, height))
    return lines


def _paper(findings: Sequence[Row]) -> Any:
    filled = {title: lines for title, lines in panels(findings).items() if lines}
    if not filled:
        return None
    figure, grid = _pyplot().subplots(
        1, len(filled), figsize=(4 * len(filled), 4), sharey=True, squeeze=False
    )
    for axes, (title, lines) in zip(grid[0], filled.items(), strict=True):
        for label, seconds in lines:
            axes.plot(range(len(seconds)), seconds, STYLES.get(label, "o-"), label=label, ms=4)
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("time (Δt); 0 is the initial load")
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
    grid[0][0].set_ylabel("seconds")
    grid[0][-1].legend(fontsize="small")
    return figure


def _scale(findings: Sequence[Row]) -> Any:
    lines = lines_of(findings, "batch rows", "ratio")
    if not lines:
        return None
    figure, axes = _pyplot().subplots(figsize=(9, 6))
    for case, points in lines.items():
        style = "s--" if case.startswith("join") else "o-"
        axes.plot(*zip(*sorted(points), strict=True), style, label=case, ms=4)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows of a batch")
    axes.set_ylabel("times faster than doing it again (below 1: slower)")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.grid(alpha=0.3)
    return figure


def _deletions(findings: Sequence[Row]) -> Any:
    lines = lines_of(findings, "deleted %", "batch ms")
    if not lines:
        return None
    figure, axes = _pyplot().subplots(figsize=(7, 4))
    for case, points in lines.items():
        axes.plot(*zip(*points, strict=True), "o-", label=case)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("deletions among the changes (%)")
    axes.set_ylabel("milliseconds a batch")
    axes.legend(fontsize="small")
    return figure


_DRAWN: Final[Mapping[str, Callable[[Sequence[Row]], Any]]] = {
    "paper-": _paper,
    "scale": _scale,
    "deletions": _deletions,
}
