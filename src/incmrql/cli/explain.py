"""`incmrql explain`: what becomes of a query, stage by stage."""

from __future__ import annotations

import click

from incmrql.cli.scripts import chosen_script

_STAGES = ("tree", "types", "algebra", "normal", "spark")


@click.command()
@click.argument("file", required=False)
@click.option("-e", "query", help="A query instead of a file.")
@click.option("--stage", type=click.Choice(_STAGES), default="normal", help="What to show.")
@click.option("--trace", is_flag=True, help="With normal: every rewrite, with its law.")
def explain(file: str | None, query: str | None, stage: str, trace: bool) -> None:
    """Show the script FILE at one stage of its way from text to what Spark runs."""
    from incmrql import api

    click.echo(api.explain(chosen_script(file, query), stage, trace=trace))
