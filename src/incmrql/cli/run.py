"""`incmrql run`: run a script and print its answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.options import (
    StreamCommand,
    allow_path,
    checked_words,
    chosen_script,
    field_option,
    is_sql,
    spark_settings,
    stream_options,
)
from incmrql.cli.streams import Format, run_script
from incmrql.cli.terminal import is_terminal, print_answer, starting_spark, tell

if TYPE_CHECKING:
    from incmrql.api.scripts import Policy, ReadReport, Strict
    from incmrql.values import Value


_TERMINAL_LIMIT = 100
"""Rows of an answer that a terminal shows without `--limit`."""


@click.command(cls=StreamCommand, short_help="Run a script and print its answers.")
@click.argument("file", required=False)
@click.argument("arguments", nargs=-1)
@click.option("-e", "query", help="Query text, instead of a file.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Maximum number of rows to print per answer. [default: 100 on a terminal, else all]",
)
@click.option("--json", "as_json", is_flag=True, help="Print answers as JSON, one per line.")
@field_option("on_arithmetic")
@click.option(
    "--engine",
    type=click.Choice(["spark", "local", "reference"]),
    default="spark",
    show_default=True,
    envvar="INCMRQL_ENGINE",
    help="Engine for queries that read sources: Spark; this process, for small data; or the "
    "reference evaluator, which answers all queries once.",
)
@click.option("--master", help="Spark master URL. [default: this machine]")
@click.option("--conf", multiple=True, metavar="K=V", help="Spark setting. May be repeated.")
@click.option(
    "--float-sums",
    type=click.Choice(["exact", "fast"]),
    default="exact",
    show_default=True,
    help="fast uses Spark's own sums of doubles, whose last bits depend on the order of rows.",
)
@click.option(
    "--quarantine",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("quarantine"),
    show_default=True,
    help="Directory for lines that cannot be parsed.",
)
@allow_path
@stream_options
def run(  # noqa: PLR0913 - one parameter for each option
    *,
    file: str | None,
    arguments: tuple[str, ...],
    query: str | None,
    limit: int | None,
    as_json: bool,
    engine: str,
    master: str | None,
    conf: tuple[str, ...],
    float_sums: str,
    quarantine: Path,
    allowed: tuple[str, ...],
    strict: Strict,
    **stream: Any,
) -> None:
    """Run the script FILE with ARGUMENTS, and print the answer of each item.

    FILE is a script of MRQL, or of Spark SQL if its name ends with .sql.
    """
    from incmrql import api
    from incmrql.api.scripts import Imports, Paths, doubts, dump_json
    from incmrql.values import show

    script = chosen_script(file, query)
    words = checked_words((file, *arguments) if query is not None and file else arguments)
    most = limit if limit is not None else _TERMINAL_LIMIT if is_terminal(sys.stdout) else None
    reported: set[str] = set()

    def shown(value: Value) -> str:
        return dump_json(_first(value, limit)) if as_json else show(value, limit=most)

    def report(bad: ReadReport, policy: Policy) -> None:
        for sentence in (*bad.sentences(policy), *(n.render() for n in bad.notices)):
            if sentence not in reported:
                tell(sentence)
            reported.add(sentence)

    paths = Paths.of(allowed)
    settings: api.Settings = {
        "paths": paths.also(quarantine),
        "fail_arithmetic": stream["on_arithmetic"] == "fail",
        "quarantine": quarantine,
        "on_trace": lambda text, value: tell(f"trace: {text} = {show(value)}"),
        "on_report": report,
    }
    if is_sql(script):
        engine = _sql_engine(engine)
        if not _is_given("on_arithmetic"):
            stream["on_arithmetic"] = "fail"  # as in Spark
    if engine == "reference":
        compiled = api.compiled(script, words, Imports(paths=paths))
        for problem in doubts(compiled):
            tell(problem.render())
        api.run(
            compiled, words, on_answer=lambda answer: print_answer(shown(answer.value)), **settings
        )
    else:
        from incmrql.api.session import EngineName, FloatSums, Session

        fast: FloatSums = "fast" if float_sums == "fast" else "exact"
        name: EngineName = "local" if engine == "local" else "spark"
        with Session(
            engine=name,
            master=master,
            conf=spark_settings(conf),
            float_sums=fast,
            allow_paths=allowed,
            on_start=starting_spark,
        ) as session:
            runnable = session.script(script, words, **settings)
            compiled = runnable.compiled
            run_script(runnable, stream, Format(shown, as_json, limit), strict=strict)
    if not compiled.items:
        is_empty = not api.load(script).text.strip()
        what = "is empty: nothing to do" if is_empty else "has only declarations: nothing to run"
        tell(f"the script {what}")


def _sql_engine(engine: str) -> str:
    """The engine for a script of Spark SQL."""
    if engine != "spark" and _is_given("engine"):
        hint = "incmrql verify compares its answers with those of the reference evaluator."
        raise click.UsageError(f"A .sql file runs on Spark, not by --engine {engine}. {hint}")
    return "spark"


def _is_given(option: str) -> bool:
    """Whether an option stands on the command line."""
    source = click.get_current_context().get_parameter_source(option)
    return source == click.core.ParameterSource.COMMANDLINE


def _first(value: Value, limit: int | None) -> Value:
    """The first rows of a collection."""
    from incmrql.values import Bag, OrderedBag, shown_order

    if limit is None or not isinstance(value, list):
        return value
    return OrderedBag(shown_order(value)[:limit]) if isinstance(value, Bag) else value[:limit]
