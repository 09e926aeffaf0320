"""Compiles a loop to two programs: one of a single step, and one over rows numbered by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from incmrql.engine.columns.layouts import Layout, Leaf, common_layout, leaves, part
from incmrql.engine.compile.groups import fuse
from incmrql.engine.compile.physical import Inner, Means, NumberedLoop
from incmrql.engine.loops.affine.compile import compile_affine
from incmrql.engine.loops.affine.tables import AffineTables
from incmrql.engine.loops.centroids import centres_schema, is_fit
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.operators.base import StatefulOp
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.store.sorting import STATE_OF_A_STEP, TableSchema
from incmrql.plan.diffusion.shape import require_diffusion
from incmrql.plan.diffusion.ways import Affine, Centroids
from incmrql.plan.loops.program import numbered_program, step_program
from incmrql.plan.nodes import LoopParam, Repeated
from incmrql.plan.program import LoopProgram
from incmrql.reference import evaluate
from incmrql.types.model import LONG, STRING

if TYPE_CHECKING:
    from incmrql.engine.compile.program import ProgramCompiler


@dataclass(frozen=True, slots=True)
class LoopCompiler:
    """Compiles one loop of a program."""

    compiler: ProgramCompiler
    place: int
    node: Repeated

    def step(self) -> tuple[LoopOp, Layout]:
        """The operator of the loop, and the layout of the rows that it sends on."""
        node, compiler = self.node, self.compiler
        script = compiler.program.script
        layouts = tuple(compiler.layouts[index] for index in node.inputs)
        schemas = tuple(TableSchema(leaves(input_layout)) for input_layout in layouts)
        names = tuple(
            self.table(f"i{n}", schema, "rows of an input") for n, schema in enumerate(schemas)
        )
        inner = self.inner(step_program(node, script), layouts)
        layout = inner.variables[node.term.chosen]
        steps = numbered_program(node, script)
        limit = None if node.term.limit is None else evaluate(node.term.limit, compiler.env) or 0
        counters = TableSchema((STRING, LONG))
        operator = LoopOp(
            layouts,
            node,
            names,
            schemas,
            self.table("x", TableSchema(leaves(layout)), "result of the loop"),
            layout,
            TableSchema(leaves(layout)),
            limit,
            inner,
            None if isinstance(steps, str) else self.compile_numbered(steps, layouts, layout),
            steps if isinstance(steps, str) else "",
            (self.table("c", counters, "what is known of the loop itself"), counters),
            compiler.program.iteration,
            self.diffusion(inner, layouts, limit),
            inputs=node.inputs,
        )
        return operator, layout

    def diffusion(
        self, inner: Inner, inputs: Sequence[Layout], limit: int | None
    ) -> Means | AffineTables | str:
        """The tables of a loop that diffuses; or a text that says why it does not."""
        program = self.compiler.program
        if program.iteration.mode != "diffuse":
            return "not requested"
        shape = require_diffusion(self.node, program.script, program.edges)
        if isinstance(shape, Affine):
            return compile_affine(self, shape, inner, inputs, limit)
        if not isinstance(shape, Centroids):
            return "differences of such a step are not diffused inside tasks"
        averaged = inner.steps[shape.averaged]
        if not isinstance(averaged, GroupOp) or not is_fit(averaged):
            return "centroids are more than averages"
        places = centres_schema(averaged, inner.variables[0])
        sums = self.table("m", averaged.schema, "sums of centroids"), averaged.schema
        centres = self.table("z", places, "places of centroids"), places
        return Means(shape, inner, averaged, sums, centres)

    def table(self, name: str, schema: TableSchema, holds: str) -> str:
        """The name of a new table of the loop."""
        return self.compiler.table(f"n{self.place}{name}", schema, holds, self.place)

    def inner(self, looping: LoopProgram, inputs: Sequence[Layout], *, fused: bool = True) -> Inner:
        """The operators of a loop's own program, over inputs in these layouts.

        A variable has the most specific layout that both its first rows and the rows of a step fit.
        """
        variables: list[Layout] = []
        while True:  # ends: common layouts only get less specific
            given = dict(zip(looping.inputs, inputs, strict=True))
            for n, place in enumerate(looping.variables):
                node = looping.nodes[place]
                assert isinstance(node, LoopParam)
                given[place] = variables[n] if variables else Leaf(node.element)
            compiler = self.compile_steps(looping, given)
            layouts = [compiler.layouts[place] for place in looping.initial]
            if variables:
                both = zip(layouts, looping.step, strict=True)
                layouts = [common_layout(layout, compiler.layouts[place]) for layout, place in both]
            if layouts == variables:
                break
            variables = layouts
        if fused:
            used = (*looping.step, *[place for place in looping.flags if place is not None])
            fuse(compiler.program, compiler.steps, compiler.lowering, used)
        initial, step = (
            tuple(compiler.converter(p, layout) for p, layout in zip(places, layouts, strict=True))
            for places in (looping.initial, looping.step)
        )
        return Inner(
            tuple(compiler.steps), tuple(compiler.layouts), looping, tuple(layouts), initial, step
        )

    def compile_steps(self, looping: LoopProgram, given: dict[int, Layout]) -> ProgramCompiler:
        """A compiler that has compiled a loop's own program; `given` are layouts of its inputs."""
        program = replace(
            self.compiler.program, nodes=looping.nodes, edges=looping.edges, streams=(), outputs=()
        )
        compiler = self.compiler.inside(program, given)
        compiler.all_steps()
        return compiler

    def compile_numbered(
        self, looping: LoopProgram, inputs: Sequence[Layout], answer: Layout
    ) -> NumberedLoop:
        """The program over numbered rows, and its tables."""
        inner = self.inner(looping, inputs, fused=False)
        stored: dict[str, tuple[TableSchema, int]] = {}
        slots: dict[int, tuple[tuple[str, TableSchema], ...]] = {}
        for place, step in enumerate(inner.steps):
            if not isinstance(step, StatefulOp):
                continue
            tables = step.state_tables
            if not step.is_bilinear:  # by key alone: its answers depend on all iterations so far
                tables = slots[place] = tuple(
                    (f"n{place}k{n}", TableSchema(schema.keys[1:], (LONG, *schema.rest)))
                    for n, schema in enumerate(step.delta_schemas)
                )
            stored |= {name: (schema, len(schema.keys)) for name, schema in tables}
        names = tuple(
            (name, self.table(f"s{name}", schema, STATE_OF_A_STEP))
            for name, (schema, _) in stored.items()
        )
        differences = []
        for n, layout in enumerate(inner.variables):
            schema = TableSchema((LONG,), leaves(part(layout, 1)))
            differences.append(
                (self.table(f"d{n}", schema, "differences from step to step"), schema)
            )
        row = part(inner.variables[self.node.term.chosen], 1)
        to_answer = self.compiler.layout_converter(row, answer)
        return NumberedLoop(inner, names, slots, tuple(differences), stored, to_answer)
