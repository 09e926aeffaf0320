"""`incmrql check`: parse and type a script, run nothing."""

from __future__ import annotations

import json

import click

from incmrql.cli.scripts import chosen_script


@click.command()
@click.argument("file", required=False)
@click.argument("arguments", nargs=-1)
@click.option("-e", "query", help="A query instead of a file.")
@click.option("--json", "as_json", is_flag=True, help="Problems as JSON, one a line, on stdout.")
def check(file: str | None, arguments: tuple[str, ...], query: str | None, as_json: bool) -> int:
    """Parse and type FILE; report every problem."""
    from incmrql import api
    from incmrql.diagnostics import DataError, QueryError

    words = (*((file,) if query is not None and file is not None else ()), *arguments)
    try:
        problems = api.check(chosen_script(file, query), words or None)
    except DataError as error:
        if not as_json:
            raise
        fields = {"code": error.code, "message": error.message, "hint": error.hint}
        click.echo(json.dumps({**fields, "place": error.place}, ensure_ascii=False))
        return 1
    if as_json:
        for problem in problems:
            click.echo(json.dumps(problem.as_json(), ensure_ascii=False))
    elif problems:
        raise QueryError(*problems)
    else:
        click.echo("no problems found", err=True)
    return 1 if problems else 0
