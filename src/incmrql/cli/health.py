"""`incmrql health`: whether a run is well, for people, for scripts and for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from incmrql.api.options import About, seconds
from incmrql.cli.options import Parsed
from incmrql.cli.terminal import count, duration, print_answer, size_text

if TYPE_CHECKING:
    from typing import Literal

    from incmrql.api.health import Health

    Format = Literal["text", "json", "prometheus"]


_TIME = Parsed(About("", metavar="TIME", read=seconds))


@click.command(short_help="Say whether a run is well.")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--max-age",
    type=_TIME,
    metavar="TIME",
    help="Not healthy if the last batch is older, as in 10m. [default: any age]",
)
@click.option(
    "--max-lag",
    type=_TIME,
    metavar="TIME",
    help="Not healthy if the lag of the last batch was longer. [default: any lag]",
)
@click.option("--may-be-stopped", is_flag=True, help="Healthy also if no run is working.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "prometheus"]),
    default="text",
    show_default=True,
    help="prometheus is its text format, for a file that a collector reads.",
)
def health(
    checkpoint: Path,
    max_age: float | None,
    max_lag: float | None,
    may_be_stopped: bool,
    format_: Format,
) -> int:
    """Say whether the run of CHECKPOINT is well: exit code 0 if it is, else 1.

    It is not if no run works on it, or if it met a problem after its last batch. Nothing runs: the
    checkpoint is only read, also beside the run.
    """
    from incmrql.api.health import health_of, metrics

    found = health_of(checkpoint)
    wrong = found.complaints(may_be_stopped=may_be_stopped, max_age=max_age, max_lag=max_lag)
    if format_ == "prometheus":
        print_answer(metrics([found]).removesuffix("\n"))
    elif format_ == "json":
        print_answer(json.dumps({"healthy": not wrong, "complaints": wrong, **found.as_json()}))
    else:
        for line in _lines(found, wrong):
            print_answer(line)
    return 1 if wrong else 0


def _lines(found: Health, wrong: list[str]) -> Iterator[str]:
    yield f"not healthy: {'; '.join(wrong)}" if wrong else "healthy"
    holder = found.holder
    if holder is not None:
        yield f"  run: process {holder.pid} on {holder.host}"
    if found.batch < 0:
        yield "  no batch yet"
        return
    last = found.last
    yield f"  last batch: {found.batch}, {duration(found.age)} ago"
    if last is not None:
        lag = "" if last["lag"] is None else f", lag {duration(last['lag'])}"
        bad = f", {count(last['bad'], 'line', 'lines')} left out" if last["bad"] else ""
        rows = f"{count(last['inserted'], 'row', 'rows')} added, {last['deleted']:,} removed"
        yield f"    {rows}{bad}, {duration(last['seconds'])}{lag}"
    yield f"  state: {count(found.rows, 'row', 'rows')}, {size_text(found.size)}"
    if found.verified is not None:
        ago = duration(max(0.0, found.at - found.verified["time"]))
        yield f"  verified after batch {found.verified['batch']}, {ago} ago"
