"""`incmrql explain`: show a script at one stage of compilation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from incmrql.cli.options import allow_import, allow_path, chosen_script, is_sql
from incmrql.cli.terminal import print_answer

if TYPE_CHECKING:
    from incmrql.api.scripts import Compiled


_STAGES = ("tree", "types", "algebra", "normal", "incremental", "spark")


@click.command(short_help="Show how a script is kept up to date.")
@click.argument("file", required=False)
@click.option("-e", "query", help="Query text, instead of a file.")
@click.option(
    "--stage",
    type=click.Choice(_STAGES),
    default="incremental",
    show_default=True,
    help="Stage to show.",
)
@click.option("--trace", is_flag=True, help="Show every rewrite to normal form, with its law.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print plan nodes as JSON, one item per line."
)
@click.option("--paper", is_flag=True, help="Show the paper's own construction: h, ⊗ and a.")
@allow_import
@allow_path
def explain(  # noqa: PLR0913 - one parameter for each option
    *,
    file: str | None,
    query: str | None,
    stage: str,
    trace: bool,
    as_json: bool,
    paper: bool,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> None:
    """Show the script FILE at one stage between its text and what Spark runs.

    FILE is a script of MRQL, or of Spark SQL if its name ends with .sql; Spark analyses SQL.
    """
    from incmrql import api
    from incmrql.api.scripts import Imports, Paths

    if stage != "incremental" and (as_json or paper):
        raise click.UsageError("--json and --paper need --stage incremental.")
    if paper and (as_json or trace):
        raise click.UsageError("--paper cannot be combined with --json or --trace.")
    script = chosen_script(file, query)
    imports = Imports(frozenset(modules), is_read=True, paths=Paths.of(allowed))
    compiled = _sql(script, allowed) if is_sql(script) else api.compiled(script, imports=imports)
    if as_json:
        for item in api.explain_data(compiled):
            print_answer(json.dumps(item, ensure_ascii=False))
    elif paper:
        print_answer(api.explain_as_the_paper(compiled))
    else:
        print_answer(api.explain(compiled, stage, trace=trace))


def _sql(script: str | Path, allowed: tuple[str, ...]) -> Compiled:
    """A script of Spark SQL, analysed by a Spark that is stopped afterwards."""
    from incmrql.api.session import Session

    with Session(allow_paths=allowed) as session:
        return session.script(script).compiled
