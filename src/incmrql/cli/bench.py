"""`incmrql bench`: the experiments, which come with the source repository.

They are found beside the package's own files, in `benchmarks/`; an installed package has none.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

WRONG = 1


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Everything in small, in a few minutes.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds that are timed.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep histories here from run to run; without it they are removed at the end.",
)
@click.option("--write", is_flag=True, help="Keep what is found: results, plots, README.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each finding.")
@click.option("--list", "lists", is_flag=True, help="Only say which experiments there are.")
def bench(  # noqa: PLR0913 - the options of a command
    names: tuple[str, ...],
    *,
    quick: bool,
    rounds: int | None,
    data: Path | None,
    write: bool,
    as_json: bool,
    lists: bool,
) -> int:
    """Run the experiments NAME, or all: answers kept up to date against doing it all again.

    The table has a verdict for each row.  The exit code is 1 if an answer was wrong or a case
    failed; slower is no failure.
    """
    modules: Mapping[str, object] = loaded("benchmarks.experiments").MODULES
    for name in names:
        if name not in modules:
            there = ", ".join(modules)
            raise click.UsageError(f"There is no experiment {name}. There are {there}.")
    main = loaded("benchmarks.experiments.main")
    if lists:
        for name, about in main.listed():
            click.echo(f"{name:15} {about}")
        return 0
    wish = main.Wish(names, quick, rounds or 0, data, write, as_json)
    with _stopped_by_sigterm():
        good = main.run(wish, lambda text: click.echo(text, err=True), click.echo)
    return 0 if good else WRONG


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C: what was made is removed first."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def checkout() -> Path:
    """The folder of the source repository that this package is a part of."""
    return Path(__file__).resolve().parents[3]


def loaded(module: str) -> Any:
    """A module of the experiments; an error for the user where there are none."""
    folder = checkout()
    if not (folder / "benchmarks" / "experiments" / "__init__.py").is_file():
        raise click.ClickException(
            "the experiments come with the source repository, not with the installed package;"
            " run this from a checkout that was installed with `make setup`."
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return import_module(module)
