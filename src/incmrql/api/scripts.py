"""Checks, explains and evaluates scripts without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from incmrql.algebra.scripts import run_script
from incmrql.compiler.checks import advice
from incmrql.compiler.compiled import Compiled, compile_script
from incmrql.compiler.load import READ_ONLY, Imports, catalog_for, read_script
from incmrql.compiler.stages import explain as explain_stage
from incmrql.compiler.stages import explain_paper, explain_plans
from incmrql.errors import DataError, Diagnostic, QueryError, SourceText
from incmrql.io.files import ANYWHERE, Paths
from incmrql.io.json.values import dump_json
from incmrql.io.rows import Policy, ReadReport
from incmrql.plan.explain.text import Strict
from incmrql.plan.program import LoopMode
from incmrql.reference import new_world
from incmrql.reference.script import check_script
from incmrql.syntax.depth import deep_recursion
from incmrql.types import model, typed
from incmrql.types.questionable import query_warnings
from incmrql.values import Value

SCRIPT_NAME = "<query>"
DEEPEST_EVALUATION = 200_000
"""The depth of Python frames that functions of a script may reach by recursion."""


class Settings(TypedDict, total=False):
    """The settings with which a script is evaluated."""

    fail_arithmetic: bool
    """Whether overflow, division by zero and failed conversions are errors instead of null."""
    quarantine: Path | None
    """The directory for lines that cannot be read."""
    on_trace: Callable[[str, Value], None]
    """Called with the text and the value of each `trace(e)`."""
    on_report: Callable[[ReadReport, Policy], None]
    """Called with the counts of each source that has unreadable lines."""
    paths: Paths
    """Which files the script may read and write."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The value of an item of a script."""

    value: Value
    type: model.Type
    item: str
    """The kind of the item: print, incr, lineage or debug."""


def load(script: object) -> SourceText:
    """The text of a script: a `Path` is read, a string is the text itself."""
    if isinstance(script, Path):
        return read_script(script)
    if not isinstance(script, str):
        message = f"a script is a text or a Path, not a value of type {type(script).__name__}"
        raise DataError("R212", message, hint='Give a text, as in "select x from x in R".')
    return SourceText(script, SCRIPT_NAME)


def compiled(
    script: str | Path | Compiled,
    arguments: Sequence[str] | None = None,
    imports: Imports | None = None,
) -> Compiled:
    """The script at every stage of compilation, each computed on demand; raises `QueryError`."""
    if isinstance(script, Compiled):
        return script
    source, may = load(script), imports or Imports()
    return compile_script(source, catalog_for(source, arguments, may), may.include)


def doubts(compiled: Compiled) -> list[Diagnostic]:
    """Warnings about the queries of a script that do not depend on data."""
    with deep_recursion():
        return query_warnings(compiled.typed)


def check(
    script: str | Path,
    arguments: Sequence[str] | None = None,
    *,
    strict: Strict = False,
    iterate: LoopMode = "default",
    imports: Imports = READ_ONLY,
) -> tuple[Diagnostic, ...]:
    """The problems of a script; none with severity "error" if it can run.

    Warnings say what a query over streams costs.  With `strict` it is an error if a batch may
    read all rows of a table, with "groups" also if it may read whole groups.  `iterate` says how
    the run will maintain loops.
    """
    try:
        program = compiled(script, arguments, imports)
        return tuple(advice(program, strict=strict, iterate=iterate))
    except QueryError as error:
        return error.problems


def explain(
    script: str | Path | Compiled,
    stage: str = "incremental",
    *,
    trace: bool = False,
    imports: Imports = READ_ONLY,
) -> str:
    """A script at one of the stages tree, types, algebra, normal, incremental, spark, as text."""
    return explain_stage(compiled(script, imports=imports), stage, trace=trace)


def explain_as_the_paper(script: str | Path | Compiled, imports: Imports = READ_ONLY) -> str:
    """The homomorphism h, the merge ⊗ and the answer a of each item, in the paper's notation."""
    return explain_paper(compiled(script, imports=imports))


def explain_data(
    script: str | Path | Compiled, imports: Imports = READ_ONLY
) -> list[dict[str, Any]]:
    """The plan of each item of a script as data; docs/explain.md lists the fields."""
    return explain_plans(compiled(script, imports=imports))


def answer_type(item: typed.ScriptItem) -> model.Type:
    """The type of an item's answer; `lineage` and `debug` add a note to each row."""
    if item.kind not in ("lineage", "debug"):
        return item.expr.type
    whole = item.expr.type
    rows = whole if isinstance(whole, model.Collection) else model.bag(whole)
    leaves = model.bag(model.Tuple((model.STRING, model.ANY)))
    note = leaves if item.kind == "lineage" else model.ANY
    return model.Collection(rows.kind, model.Tuple((rows.element, note)))


def run(
    script: str | Path | Compiled,
    arguments: Sequence[str] = (),
    *,
    on_answer: Callable[[Answer], None] | None = None,
    **settings: Unpack[Settings],
) -> list[Answer]:
    """Run a script by the reference evaluator; returns the answers of its items, in order.

    A compiled script must have been compiled with the same arguments.  `on_answer` is called with
    each answer as soon as it is computed.
    """
    program = compiled(script, arguments, Imports(paths=settings.get("paths", ANYWHERE)))
    answers: list[Answer] = []

    def emit(item: typed.ScriptItem, value: Value) -> None:
        answers.append(Answer(value, answer_type(item), item.kind))
        if on_answer is not None:
            on_answer(answers[-1])

    world = new_world(program.typed, arguments=list(arguments), **settings)
    check_script(program.typed, world)
    try:
        with deep_recursion(DEEPEST_EVALUATION):
            run_script(program.typed, world, emit)
    except RecursionError:
        hint = "A loop or a function keeps nesting its own result: limit it."
        raise DataError("R209", "a value is nested too deeply", hint=hint) from None
    return answers


__all__ = [
    "Answer",
    "Compiled",
    "Imports",
    "LoopMode",
    "Paths",
    "Policy",
    "ReadReport",
    "Settings",
    "Strict",
    "advice",
    "answer_type",
    "check",
    "compiled",
    "doubts",
    "dump_json",
    "explain",
    "explain_as_the_paper",
    "explain_data",
    "load",
    "run",
]
