"""Plots of what `iteration` has found, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ENDINGS: Final = ("svg", "png")
TITLES: Final = {
    "pagerank-small": "PageRank, 5K pages",
    "kmeans": "k-means, 4 squares",
    "kmeans-drifting": "k-means, 4 squares that move",
}


def draw_results(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """Plot the results as far as they can be plotted; returns the files."""
    try:
        import_module("matplotlib").use("Agg")
    except ModuleNotFoundError:
        print("nothing is drawn: there is no matplotlib", flush=True)
        return []
    files: list[Path] = []
    errors = results.get("error", {})
    for name in (title for title in TITLES if title in errors):
        files += _draw_error(name, errors[name], folder)
    if "flat" in results:
        files += _draw_flat(results["flat"], folder)
    return files


def series(results: Mapping[str, Any]) -> Iterator[tuple[str, list[float]]]:
    """The lines of a plot of errors."""
    for name, result in results.items():
        if name == "paper":
            for reading, values in result.items():
                yield f"the paper's scheme, {reading}", values
        elif isinstance(result, dict) and "true" in result:
            yield f"{name}: true error", result["true"]
            for kind in ("bound", "residual"):
                if kind in result["kinds"]:
                    yield f"{name}: stated ({kind})", result["stated"]


def _pyplot() -> Any:
    return import_module("matplotlib.pyplot")


def _draw_error(name: str, results: Mapping[str, Any], folder: Path) -> list[Path]:
    figure, axes = _pyplot().subplots(figsize=(8, 5))
    for label, values in series(results):
        shown = [value if value > 0 else float("nan") for value in values]
        style = "--" if "stated" in label else ":" if "paper" in label else "-"
        axes.plot(range(1, len(values) + 1), shown, style, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("batch")
    axes.set_ylabel("sum of the sizes of all differences")
    axes.set_title(TITLES[name])
    axes.legend(fontsize="small")
    return _save(figure, folder / f"iteration-error-{name}")


def _draw_flat(courses: Mapping[str, Any], folder: Path) -> list[Path]:
    figure, axes = _pyplot().subplots(figsize=(8, 4))
    for name, course in courses.items():
        if isinstance(course, dict) and "seconds" in course:
            times = [1000 * seconds for seconds in course["seconds"]]
            axes.plot(range(1, len(times) + 1), times, label=f"{name} ({course['ways']})")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batch")
    axes.set_ylabel("milliseconds")
    axes.legend()
    return _save(figure, folder / "iteration-flat")


def _save(figure: Any, stem: Path) -> list[Path]:
    files = [stem.with_suffix(f".{ending}") for ending in ENDINGS]
    stem.parent.mkdir(exist_ok=True)
    for file in files:
        figure.savefig(
            file, bbox_inches="tight", metadata={"Date": None} if file.suffix == ".svg" else None
        )
    _pyplot().close(figure)
    return files
