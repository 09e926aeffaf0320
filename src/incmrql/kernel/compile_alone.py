"""A loop on its own, without the program of changes that it would stand in."""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.incremental.edges import edge
from incmrql.incremental.looping import Iteration, step_program
from incmrql.incremental.nodes import Edge, Given, Node, Repeated
from incmrql.incremental.streams import Program
from incmrql.kernel.compile import ProgramCompiler
from incmrql.kernel.compile_loops import LoopCompiler
from incmrql.kernel.form import Form
from incmrql.kernel.layouts import Layout, leaves
from incmrql.kernel.loops import LoopOp
from incmrql.types import typed


def compile_single_task_loop(
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
    compiler = ProgramCompiler(program, given=dict(enumerate(layouts)), layouts=list(layouts))
    inner = LoopCompiler(compiler, len(layouts), node).inner(step_program(node, script), layouts)
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
