"""`incmrql verify`: the answers of a checkpoint against the same queries over all its input."""

from __future__ import annotations

import json
from pathlib import Path

import click

from incmrql.cli.options import allow_import, allow_path, spark_settings
from incmrql.cli.terminal import tell


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--master", help="The Spark to run on; this machine if not given.")
@click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="What was found as a JSON object.")
@allow_import
@allow_path
def verify(
    checkpoint: Path,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> int:
    """Run the queries of CHECKPOINT over everything it has taken in, and compare.

    The exit code is 3 if there is a difference; its rows are named, and where they come from.
    """
    from incmrql.api.checkpoints import SavedRun
    from incmrql.api.session import Session
    from incmrql.errors import DifferenceFound
    from incmrql.values import show

    settings = spark_settings(conf)
    saved = SavedRun(checkpoint, modules, allowed)
    with Session(master=master, conf=settings) as session:
        try:
            found = saved.verify(session.private_spark)
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
            told = {"same": False, "batch": problem.batch, "message": problem.message, **rows}
            click.echo(json.dumps(told, ensure_ascii=False))
            return 3
    if as_json:
        told = {"same": True, "batch": found.batch, "rows": found.rows, "seconds": found.seconds}
        click.echo(json.dumps(told))
    else:
        tell(str(found))
    return 0
