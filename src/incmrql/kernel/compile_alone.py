"""A loop on its own, without the program of changes that it would stand in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from incmrql.incremental.edges import edge
from incmrql.incremental.looping import Iteration, plain
from incmrql.incremental.nodes import Edge, Given, Node, Repeated
from incmrql.incremental.streams import Program
from incmrql.kernel.compile import _Compiler
from incmrql.kernel.compile_loops import LoopCompiler
from incmrql.kernel.finishing import Asked
from incmrql.kernel.form import Form
from incmrql.kernel.layouts import Layout, leaves
from incmrql.kernel.physical import (
    GroupOp,
    Inner,
    JoinOp,
    LoopOp,
    MapOp,
    Merged,
    OrderOp,
    Ranking,
    Read,
    Step,
    UnionOp,
    Walked,
    Wanted,
)
from incmrql.kernel.recompute_first import reads_first
from incmrql.kernel.segment import ByRow, Segment
from incmrql.types import typed


def compiled_alone(
    node: Repeated,
    layouts: Sequence[Layout],
    script: typed.Script,
    arguments: Sequence[str],
    stored: Sequence[tuple[str, object]],
    limit: int | None,
) -> LoopOp:
    """A loop that is only run from its beginning, over inputs in these layouts."""
    nodes: list[Node] = [*[Given(layout.type) for layout in layouts], node]
    edges: list[Edge] = []
    for each in nodes:
        edges.append(edge(each, edges))
    again = Iteration("recompute")
    program = Program(
        tuple(nodes), tuple(edges), (), (), script, tuple(arguments), tuple(stored), again
    )
    compiler = _Compiler(program, given=dict(enumerate(layouts)), layouts=list(layouts))
    inner = LoopCompiler(compiler, len(layouts), node).inner(plain(node, script), layouts)
    layout = inner.variables[node.term.chosen]
    nothing = Form(())
    return LoopOp(
        inputs=node.inputs,
        layouts=tuple(layouts),
        node=node,
        tables=(),
        forms=(),
        result="",
        layout=layout,
        form=Form(leaves(layout)),
        limit=limit,
        plain=inner,
        numbered=None,
        reason="",
        counters=("", nothing),
        asked=again,
    )


def goes_row_by_row(inner: Inner) -> bool:
    """Whether the evaluator goes through rows one by one in some step of a loop."""
    segments = [*inner.initial, *inner.step, *[s for step in inner.steps for s in _segments(step)]]
    if any(segment is not None and isinstance(segment.how, ByRow) for segment in segments):
        return True
    return any(_is_walked(step) for step in inner.steps)


def _is_walked(step: Step) -> bool:
    match step:
        case GroupOp(mode=mode, wanted=wanted, rankings=rankings):
            return mode == "whole" or any(_is_read(each, rankings) for each in wanted)
        case LoopOp(plain=inner):
            return goes_row_by_row(inner)
        case _:
            return False


def _is_read(wanted: Wanted, rankings: Sequence[Ranking]) -> bool:
    """Whether rows or values are read group by group for a request."""
    match wanted:
        case Read(table=table):
            return not reads_first(wanted, rankings[table])
        case Asked():
            return False
        case Walked() | Merged():
            return True


def crosses(inner: Inner) -> bool:
    """Whether all rows of two sides meet in some step of a loop."""
    return any(
        (isinstance(step, JoinOp) and not leaves(step.key))
        or (isinstance(step, LoopOp) and crosses(step.plain))
        for step in inner.steps
    )


def _segments(step: Step) -> Iterator[Segment | None]:
    match step:
        case MapOp(segment=segment):
            yield segment
        case UnionOp(segments=segments):
            yield from segments
        case OrderOp(paired=paired):
            yield paired
        case JoinOp(sides=sides, body=body):
            yield from [side.paired for side in sides]
            yield body
        case GroupOp(sides=sides, blocks=blocks, rankings=rankings, body=body):
            yield from [side.paired for side in sides]
            yield from [block.segment for each in blocks for block in each]
            yield from [ranking.segment for ranking in rankings]
            yield body
        case _:
            return
