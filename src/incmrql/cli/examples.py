"""`incmrql examples`: scripts to try, with their data, from the installed package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import click

from incmrql.cli.terminal import count, tell

_FILES: Final = (".mrql", ".py", ".csv", ".json", ".txt", ".xml")


def examples_folder() -> Path:
    """Where the examples are: in the installed package, or in a checkout beside its sources."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "examples"
    return installed if installed.is_dir() else package.parents[1] / "examples"


@click.command(short_help="Copy example scripts and their data.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def examples(directory: Path) -> None:
    """Copy the example scripts, with their data, to a new DIRECTORY.

    Then run one: incmrql run DIRECTORY/kmeans.mrql DIRECTORY/data
    """
    source = examples_folder()
    if not source.is_dir():
        raise click.ClickException("this installation has no examples.")
    if directory.exists():
        raise click.UsageError(f"{directory} exists already; name a new directory.")
    files = [path for path in sorted(source.rglob("*")) if path.suffix in _FILES]
    for path in files:
        target = directory / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    scripts = sum(path.suffix == ".mrql" and path.parent == source for path in files)
    tell(f"{count(scripts, 'script', 'scripts')} and their data in {directory}")
    tell(f"try: incmrql run {directory}/kmeans.mrql {directory}/data")
