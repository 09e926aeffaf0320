"""`incmrql verify`: compare the answers in a checkpoint with a full recomputation."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from incmrql.cli.options import allow_import, allow_path, spark_settings
from incmrql.cli.terminal import starting_spark, tell

if TYPE_CHECKING:
    from typing import Literal

    Against = Literal["reference", "spark"]


@click.command(short_help="Compare answers with a full recomputation.")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--master", help="Spark master URL. [default: this machine]")
@click.option("--conf", multiple=True, metavar="K=V", help="Spark setting. May be repeated.")
@click.option(
    "--against",
    type=click.Choice(["reference", "spark"]),
    help="For Spark SQL: recompute by the reference evaluator, or by Spark's own plan. "
    "[default: reference for small input, else Spark]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON object.")
@allow_import
@allow_path
def verify(  # noqa: PLR0913 - one parameter for each option
    *,
    checkpoint: Path,
    master: str | None,
    conf: tuple[str, ...],
    against: Against | None,
    as_json: bool,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> int:
    """Compare the answers in CHECKPOINT with a full recomputation from its input.

    Exits with 3 if they differ, and lists the differing rows with the source rows they come from.
    """
    from incmrql.api.checkpoints import SavedRun
    from incmrql.api.session import Session
    from incmrql.errors import DifferenceFound
    from incmrql.values import show

    settings = spark_settings(conf)
    saved = SavedRun(checkpoint, modules, allowed)
    with Session(master=master, conf=settings, on_start=starting_spark) as session:
        try:
            verified = saved.verify(session, against=against, on_notice=tell)
        except DifferenceFound as problem:
            if not as_json:
                raise
            rows = {
                "missing": [[show(row), count] for row, count in problem.missing],
                "extra": [[show(row), count] for row, count in problem.extra],
                "lineage": [
                    [show(row), [[name, show(value)] for name, value in sources]]
                    for row, sources in problem.lineage
                ],
            }
            result = {"same": False, "batch": problem.batch, "message": problem.message, **rows}
            click.echo(json.dumps(result, ensure_ascii=False))
            return 3
    if as_json:
        click.echo(json.dumps({"same": True, **asdict(verified)}))
    else:
        tell(str(verified))
    return 0
