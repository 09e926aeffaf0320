"""`incmrql check`: parse, type and plan a script, and report problems without running it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from incmrql.cli.options import (
    StrictCommand,
    allow_import,
    allow_path,
    checked_words,
    chosen_script,
    is_sql,
    strict_option,
)
from incmrql.cli.terminal import tell

if TYPE_CHECKING:
    from incmrql.api.scripts import LoopMode, Strict
    from incmrql.errors import Diagnostic


@click.command(cls=StrictCommand, short_help="Report problems and costs of a script.")
@click.argument("file", required=False)
@click.argument("arguments", nargs=-1)
@click.option("-e", "query", help="Query text, instead of a file.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print problems on stdout as JSON, one per line."
)
@strict_option(
    "Fail if a batch may read all rows of a table (W101 to W104); "
    "with =groups, also if it may read whole groups (W105)."
)
@click.option(
    "--iterate",
    type=click.Choice(["default", "exact", "recompute", "diffuse"]),
    default="default",
    show_default=True,
    help="How the run will maintain loops.",
)
@allow_import
@allow_path
def check(  # noqa: PLR0913 - one parameter for each option
    *,
    file: str | None,
    arguments: tuple[str, ...],
    query: str | None,
    as_json: bool,
    strict: Strict,
    iterate: LoopMode,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> int:
    """Parse, type and plan FILE; report every problem and the cost of queries over streams.

    FILE is a script of MRQL, or of Spark SQL if its name ends with .sql; Spark analyses SQL.
    """
    from incmrql import api
    from incmrql.api.scripts import Imports, Paths
    from incmrql.errors import DataError, Diagnostic, QueryError, SourceText, Span

    words = checked_words((file, *arguments) if query is not None and file else arguments)
    script = chosen_script(file, query)
    try:
        if is_sql(script):
            problems = _sql_problems(script, allowed, strict, iterate)
        else:
            problems = api.check(
                script,
                words or None,
                strict=strict,
                iterate=iterate,
                imports=Imports(frozenset(modules), is_read=True, paths=Paths.of(allowed)),
            )
    except DataError as error:
        if not as_json:
            raise
        nowhere = Diagnostic(error.code, error.message, Span(SourceText("", error.place), 0, 0))
        problems = (replace(nowhere, hint=error.hint),)
    errors = [problem for problem in problems if problem.severity == "error"]
    if as_json:
        for problem in problems:
            click.echo(json.dumps(problem.as_json(), ensure_ascii=False))
    elif errors:
        raise QueryError(*problems)
    else:
        for problem in problems:
            tell(f"{problem.render()}\n")
        tell("no problems found" if not problems else "no errors found")
    return 1 if errors else 0


def _sql_problems(
    script: str | Path, allowed: tuple[str, ...], strict: Strict, iterate: LoopMode
) -> tuple[Diagnostic, ...]:
    """The problems of a script of Spark SQL."""
    from incmrql.api.session import Session
    from incmrql.errors import QueryError

    with Session(allow_paths=allowed) as session:
        try:
            return session.script(script).problems(strict=strict, iterate=iterate)
        except QueryError as error:
            return error.problems
