"""`incmrql bench`: run the experiments of the source repository.

They are in `benchmarks/` beside `src/`; an installed package does not have them.
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


@click.command(short_help="Run the experiments of the source repository.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--quick", is_flag=True, help="Run every experiment at reduced size (about 4 minutes)."
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of timed rounds. [default: that of the experiment]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep generated histories in this directory between runs. [default: removed at the end]",
)
@click.option("--write", is_flag=True, help="Save the results, plots and README.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each result.")
@click.option("--list", "lists", is_flag=True, help="List the experiments and exit.")
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
    """Run the experiments NAME, or all of them: incremental against full recomputation.

    Each row of the table has a verdict.  Exits with 1 if an answer was wrong or a case failed;
    being slower is not a failure.
    """
    modules: Mapping[str, object] = load_experiments("benchmarks.experiments").MODULES
    for name in names:
        if name not in modules:
            message = f"There is no experiment {name}. There are {', '.join(modules)}."
            raise click.UsageError(message)
    main = load_experiments("benchmarks.experiments.main")
    if lists:
        for name, about in main.experiments():
            click.echo(f"{name:15} {about}")
        return 0
    request = main.Wish(names, quick, rounds or 0, data, write, as_json)
    with _sigterm_as_interrupt():
        is_good = main.run(request, lambda text: click.echo(text, err=True), click.echo)
    return 0 if is_good else WRONG


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that generated data are removed before the process ends."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def checkout() -> Path:
    """The directory of the source repository that this package is part of."""
    return Path(__file__).resolve().parents[3]


def load_experiments(module: str) -> Any:
    """Import a module of the experiments; fail with a usage hint if there are none."""
    folder = checkout()
    if not (folder / "benchmarks" / "experiments" / "__init__.py").is_file():
        raise click.ClickException(
            "the experiments come with the source repository, not with the installed package;"
            " run this from a checkout that was installed with `make setup`."
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return import_module(module)
