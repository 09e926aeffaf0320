"""What an operator computes in Python, for each row or for each distinct row of arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from incmrql.engine.columns.pinned import has_column, has_columns
from incmrql.engine.columns.pipelines import ByRow, PinnedFunction, Pipeline, Projection, SqlText
from incmrql.engine.compile.physical import GroupScan, RankingMerge
from incmrql.engine.compile.program import ProgramCompiler
from incmrql.engine.operators.base import Operator
from incmrql.plan.nodes import Input, Node
from incmrql.plan.program import Program, Stream
from incmrql.types import typed
from incmrql.types.show import show_expr
from incmrql.values import Value

_LONGEST = 60


def nodes_by_row(
    nodes: tuple[Node, ...], script: typed.Script, stored: Mapping[str, Value]
) -> dict[int, tuple[str, ...]]:
    """What nodes compute in Python, by their places, each with how often and why."""
    # Paths of sources do not matter here, and may depend on arguments that are not known.
    streams = tuple(
        Stream(place, node.name, node.source, node.element, node.source.streaming, node.ledger)
        for place, node in enumerate(nodes)
        if isinstance(node, Input)
    )
    program = Program(nodes, (), streams, (), script, stored=tuple(stored.items()))
    compiler = ProgramCompiler(program)
    compiler.all_steps()
    found = {place: tuple(work_by_row(step)) for place, step in enumerate(compiler.steps)}
    return {place: work for place, work in found.items() if work}


def work_by_row(step: Operator) -> list[str]:
    """What an operator computes in Python."""
    return list(dict.fromkeys(_work(step)))


def _work(part: object) -> Iterator[str]:
    match part:
        case Pipeline(how=Projection()):
            return
        case Pipeline(how=ByRow(reason=reason)):
            yield f"for each row: {reason or 'the whole answer'}"
        case Pipeline(how=SqlText(functions=functions)):
            for function in functions:
                if not _is_of_columns(function):
                    yield f"for each distinct row of arguments: {_shown(function)}"
        case GroupScan() | RankingMerge():
            yield "for each row of a touched group: what is computed from whole groups"
        case tuple():
            for item in part:
                yield from _work(item)
        case Mapping():
            for item in part.values():
                yield from _work(item)
        case _ if is_dataclass(part) and type(part).__module__.startswith("incmrql.engine"):
            for field in fields(part):
                yield from _work(getattr(part, field.name))
        case _:
            return


def _is_of_columns(function: PinnedFunction) -> bool:
    if function.body is not None:
        return has_column(function.body)
    return has_columns(function.builtin, function.types, function.result)


def _shown(function: PinnedFunction) -> str:
    """A function as a reader of the query knows it."""
    if function.body is not None:
        text = show_expr(function.body)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if function.builtin is None:
        return f"{function.types[0]} as {function.result}"
    return f"{function.builtin} of {', '.join(map(str, function.types))}"
