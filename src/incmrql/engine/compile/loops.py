"""From a loop to its programs: one of a single step, and one of all steps with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from incmrql.engine.columns.layouts import Layout, Leaf, common_layout, leaves, part
from incmrql.engine.compile.groups import fuse
from incmrql.engine.compile.physical import Inner, Means, Numbered
from incmrql.engine.loops.affine.compile import affine_compiled
from incmrql.engine.loops.affine.tables import AffineTables
from incmrql.engine.loops.centroids import centres_form, is_fit
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
    """A loop of a program."""

    compiler: ProgramCompiler
    place: int
    node: Repeated

    def step(self) -> tuple[LoopOp, Layout]:
        """What is done for the loop, and the layout of the rows it sends on."""
        node, compiler = self.node, self.compiler
        script = compiler.program.script
        layouts = tuple(compiler.layouts[each] for each in node.inputs)
        schemas = tuple(TableSchema(leaves(each)) for each in layouts)
        names = tuple(
            self.table(f"i{n}", schema, "rows of an input") for n, schema in enumerate(schemas)
        )
        inner = self.inner(step_program(node, script), layouts)
        layout = inner.variables[node.term.chosen]
        steps = numbered_program(node, script)
        limit = None if node.term.limit is None else evaluate(node.term.limit, compiler.env) or 0
        counters = TableSchema((STRING, LONG))
        found = LoopOp(
            layouts,
            node,
            names,
            schemas,
            self.table("x", TableSchema(leaves(layout)), "result of the loop"),
            layout,
            TableSchema(leaves(layout)),
            limit,
            inner,
            None if isinstance(steps, str) else self.numbered(steps, layouts, layout),
            steps if isinstance(steps, str) else "",
            (self.table("c", counters, "what is known of the loop itself"), counters),
            compiler.program.iteration,
            self.diffused(inner, layouts, limit),
            inputs=node.inputs,
        )
        return found, layout

    def diffused(
        self, inner: Inner, inputs: Sequence[Layout], limit: int | None
    ) -> Means | AffineTables | str:
        """The tables of a loop that is to be diffused; or why it is not."""
        program = self.compiler.program
        if program.iteration.mode != "diffuse":
            return "not asked for"
        shape = require_diffusion(self.node, program.script, program.edges)
        if isinstance(shape, Affine):
            return affine_compiled(self, shape, inner, inputs, limit)
        if not isinstance(shape, Centroids):
            return "differences of such a step are not diffused inside tasks"
        averaged = inner.steps[shape.averaged]
        if not isinstance(averaged, GroupOp) or not is_fit(averaged):
            return "centroids are more than averages"
        places = centres_form(averaged, inner.variables[0])
        sums = self.table("m", averaged.schema, "sums of centroids"), averaged.schema
        centres = self.table("z", places, "places of centroids"), places
        return Means(shape, inner, averaged, sums, centres)

    def table(self, name: str, schema: TableSchema, holds: str) -> str:
        """The name of a new table of the loop."""
        return self.compiler.table(f"n{self.place}{name}", schema, holds, self.place)

    def inner(self, looping: LoopProgram, inputs: Sequence[Layout], *, fused: bool = True) -> Inner:
        """The steps of a loop's own program, over inputs in these layouts.

        A variable has the layout of its first rows, as far as a step keeps to it.
        """
        variables: list[Layout] = []
        while True:
            given = dict(zip(looping.inputs, inputs, strict=True))
            for n, place in enumerate(looping.variables):
                node = looping.nodes[place]
                assert isinstance(node, LoopParam)
                given[place] = variables[n] if variables else Leaf(node.element)
            compiler = self.compile_steps(looping, given)
            found = [compiler.layouts[place] for place in looping.initial]
            if variables:
                both = zip(found, looping.step, strict=True)
                found = [common_layout(layout, compiler.layouts[place]) for layout, place in both]
            if found == variables:
                break
            variables = found
        if fused:
            used = (*looping.step, *[each for each in looping.flags if each is not None])
            fuse(compiler.program, compiler.steps, compiler.lowering, used)
        initial, step = (
            tuple(compiler.brought(p, layout) for p, layout in zip(places, found, strict=True))
            for places in (looping.initial, looping.step)
        )
        return Inner(
            tuple(compiler.steps), tuple(compiler.layouts), looping, tuple(found), initial, step
        )

    def compile_steps(self, looping: LoopProgram, given: dict[int, Layout]) -> ProgramCompiler:
        """The compiler of a loop's own program, with the steps; `given` has the layouts of rows."""
        program = replace(
            self.compiler.program, nodes=looping.nodes, edges=looping.edges, streams=(), outputs=()
        )
        compiler = self.compiler.inside(program, given)
        compiler.all_steps()
        return compiler

    def numbered(self, looping: LoopProgram, inputs: Sequence[Layout], answer: Layout) -> Numbered:
        """The program of all steps, and its tables."""
        inner = self.inner(looping, inputs, fused=False)
        stored: dict[str, tuple[TableSchema, int]] = {}
        slots: dict[int, tuple[tuple[str, TableSchema], ...]] = {}
        for place, step in enumerate(inner.steps):
            if not isinstance(step, StatefulOp):
                continue
            tables = step.state_tables
            if not step.is_bilinear:  # by key alone: what it answers depends on all steps before
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
        brought = self.compiler.in_layout(row, answer)
        return Numbered(inner, names, slots, tuple(differences), stored, brought)
