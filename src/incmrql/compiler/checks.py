"""What should be known of a script before it runs: what is wrong, doubtful or costly."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from incmrql.compiler.compiled import Compiled
from incmrql.errors import Diagnostic, QueryError, in_text_order
from incmrql.plan.explain.text import Strict, cautions
from incmrql.plan.program import LoopMode
from incmrql.syntax.depth import room
from incmrql.types import typed
from incmrql.types.questionable import questionable

_FOLLOWED: Final = ("print", "incr", "store", "dump")


def advice(
    compiled: Compiled, *, strict: Strict = False, iterate: LoopMode = "default"
) -> list[Diagnostic]:
    """What should be known of the queries; with `strict`, errors among it."""
    found = questionable(compiled.typed)
    with room():
        for each in compiled.items:
            if not each.reads_streams:
                continue
            item = each.item
            if not item.incremental and item.kind in _FOLLOWED:
                found.append(_each_batch_alone(item))
            try:
                if each.without_terms is None:
                    found += cautions(each.plan, item.span, strict=strict, iterate=iterate)
                elif strict:
                    found += each.without_terms.problems
                else:
                    problems = each.without_terms.problems
                    found += [replace(problem, severity="warning") for problem in problems]
            except QueryError as error:
                found += error.problems
    return in_text_order(found)


def _each_batch_alone(item: typed.ScriptItem) -> Diagnostic:
    """The note on a query over streams without `incr`."""
    message = "without incr, incmrql run answers this query for each batch alone"
    hint = "Write incr before it for the answer over everything; in Python, start() means that."
    return Diagnostic("W303", message, item.span, "has no incr", hint, severity="note")
