"""Problems, warnings and notes about a script, reported before it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from incmrql.compiler.compiled import Compiled, CompiledItem
from incmrql.errors import Diagnostic, QueryError, in_text_order
from incmrql.plan.explain.text import Strict, cautions
from incmrql.plan.program import LoopMode
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.questionable import query_warnings

_STREAMING_KINDS: Final = ("print", "incr", "store", "dump")


def advice(
    compiled: Compiled, *, strict: Strict = False, iterate: LoopMode = "default"
) -> list[Diagnostic]:
    """Warnings and notes about the queries of a script; with `strict`, also errors."""
    problems = query_warnings(compiled.typed)
    with deep_recursion():
        for compiled_item in compiled.items:
            if not compiled_item.reads_streams:
                continue
            item = compiled_item.item
            if not item.incremental and item.kind in _STREAMING_KINDS:
                problems.append(_missing_incr(item))
            try:
                error = compiled_item.without_terms
                if error is None:
                    problems += unwatched_notes(compiled_item)
                    problems += cautions(
                        compiled_item.plan, item.span, strict=strict, iterate=iterate
                    )
                elif strict:
                    problems += error.problems
                else:
                    problems += [replace(p, severity="warning") for p in error.problems]
            except QueryError as failure:
                problems += failure.problems
    return in_text_order(problems)


def unwatched_notes(compiled_item: CompiledItem) -> list[Diagnostic]:
    """A note for each part of a query over streams whose arithmetic is not watched."""
    message = "overflow and division by zero in here give null, and batches do not report them"
    hint = "Compute what may fail in a query before it, or use a wider type."
    return [
        Diagnostic("W304", message, span, "arithmetic is not watched", hint, severity="note")
        for span in compiled_item.watches.unwatched
    ]


def _missing_incr(item: typed.ScriptItem) -> Diagnostic:
    """The note on a query over streams without `incr`."""
    message = "without incr, incmrql run answers this query for each batch alone"
    hint = "Write incr before it for the answer over everything; in Python, start() means that."
    return Diagnostic("W303", message, item.span, "has no incr", hint, severity="note")
