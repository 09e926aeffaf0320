"""`incmrql check`: parse and type a script, run nothing."""

from __future__ import annotations

import json

import click

from incmrql.cli.scripts import checked_words, chosen_script


@click.command()
@click.argument("file", required=False)
@click.argument("arguments", nargs=-1)
@click.option("-e", "query", help="A query instead of a file.")
@click.option("--json", "as_json", is_flag=True, help="Problems as JSON, one a line, on stdout.")
def check(file: str | None, arguments: tuple[str, ...], query: str | None, as_json: bool) -> int:
    """Parse and type FILE; report every problem."""
    from incmrql import api
    from incmrql.diagnostics import QueryError

    words = checked_words((file, *arguments) if query is not None and file else arguments)
    problems = api.check(chosen_script(file, query), words or None)
    if as_json:
        for problem in problems:
            click.echo(json.dumps(problem.as_json(), ensure_ascii=False))
    elif problems:
        raise QueryError(*problems)
    else:
        click.echo("no problems found", err=True)
    return 1 if problems else 0
