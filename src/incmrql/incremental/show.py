"""A program as text: what is read, what is kept for each key and why, how it answers."""

from __future__ import annotations

from incmrql.incremental.program import Program
from incmrql.types.show import show_expr, show_source, show_variable


def show_program(program: Program) -> str:
    """The parts of a program, one a line."""
    stream, linear, fold, answer = program.stream, program.linear, program.fold, program.answer
    deletes = "" if stream.deletes is None else f', deletes "{stream.deletes}"'
    ledger = ", ledger of rows" if stream.ledger else ""
    names = [show_variable(variable) for variable in answer.aggregates]
    lines = [
        f"stream {show_source(stream.source)}{deletes}{ledger}",
        f"linear {show_variable(linear.row)} -> {show_expr(linear.body)}",
        f"node {fold.name}: by {', '.join(map(str, fold.keys))}",
        "  keep multiplicity",
    ]
    for place, accumulator in enumerate(fold.accumulators):
        column = show_expr(linear.columns[accumulator.column])
        uses = zip(names, fold.aggregates, strict=True)
        asked = [name for name, aggregate in uses if place in aggregate.accumulators]
        what = "count" if accumulator.kind == "count" else f"exact sum of {accumulator.kind}"
        lines.append(f"  keep {what} of {column}, for {', '.join(asked)}")
    lines.append(f"answer {show_expr(answer.body)}")
    return "\n".join(lines)
