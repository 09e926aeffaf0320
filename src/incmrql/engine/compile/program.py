"""Compiles a program of changes to a physical plan: an operator for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from incmrql.algebra import rows as build
from incmrql.engine.columns.layouts import (
    Layout,
    Leaf,
    Struct,
    common_layout,
    descending_columns,
    kept_columns,
    leaves,
    of_elements,
    of_rows,
    pair_of,
    part,
    prune_layout,
    sort_layout,
    width,
)
from incmrql.engine.columns.pipelines import Pipeline, Projection
from incmrql.engine.compile.groups import GroupsCompiler, fuse
from incmrql.engine.compile.loops import LoopCompiler
from incmrql.engine.compile.physical import (
    AnswerPart,
    Derived,
    Physical,
    PhysicalOutput,
    PhysicalSide,
)
from incmrql.engine.compile.pipelines import Lowering
from incmrql.engine.compile.single_rows import as_conditional, group_of, inline_variables
from incmrql.engine.context import environment
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.operators.base import (
    ConstOp,
    MapOp,
    NamedSchema,
    Operator,
    OrderOp,
    ParamOp,
    UnionOp,
)
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.operators.joins import JoinOp
from incmrql.engine.operators.source import SourceOp
from incmrql.engine.store.sorting import TableInfo, TableSchema
from incmrql.plan.explain.nodes import program_shapes
from incmrql.plan.loops.program import step_program
from incmrql.plan.nodes import (
    Constant,
    Edge,
    Groups,
    Input,
    Join,
    Linear,
    LoopParam,
    Merge,
    Node,
    Ordered,
    Repeated,
    ResultPart,
    edge_of,
)
from incmrql.plan.program import LoopSettings, Output, Program
from incmrql.plan.reading import limit_value
from incmrql.reference import Environment
from incmrql.types import typed


def compile_program(program: Program, *, keep_answer: bool = True) -> Physical:
    """The physical plan of a program.

    Without `keep_answer`, an answer that changes row by row and cannot be derived from other state
    is not kept.
    """
    return ProgramCompiler(program, keep_answer).physical()


LEDGER = "ledger of rows, for deletions"
_BESIDE = 1 << 40
"""Variables with this number or a greater one belong to the engine."""


@dataclass(slots=True)
class ProgramCompiler:
    """Compiles node after node; `given` are the layouts of parameters."""

    program: Program
    keep_answer: bool = True
    steps: list[Operator] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    given: dict[int, Layout] = field(default_factory=dict)
    shared_tables: dict[tuple[int, tuple[int, ...], TableSchema], str] | None = None
    """The tables of joins by input, columns and schema, if several joins may share one."""
    lowering: Lowering = field(init=False)
    env: Environment = field(init=False)

    def __post_init__(self) -> None:
        self.lowering, self.env = Lowering(self.program), environment(self.program)

    def inside(self, program: Program, given: dict[int, Layout]) -> ProgramCompiler:
        """A compiler for a program nested in this one."""
        return ProgramCompiler(program, given=given)

    def all_steps(self) -> None:
        """Compile each node to its operator."""
        for place, node in enumerate(self.program.nodes):
            step, layout = self.step(place, node)
            self.steps.append(step)
            self.layouts.append(layout)

    def physical(self) -> Physical:
        """The physical plan of the whole program."""
        # A watch often joins the same rows as its answer does: the state is kept once.
        self.shared_tables = {} if self.program.watches else None
        self.all_steps()
        fuse(self.program, self.steps, self.lowering)
        outputs = enumerate(self.program.all_outputs)
        answers = tuple(self.answer(n, output) for n, output in outputs)
        tables = tuple(self.tables.values())
        scopes = tuple(shape.scope for shape in program_shapes(self.program))
        return Physical(tuple(self.steps), tuple(self.layouts), answers, tables, scopes)

    def step(self, place: int, node: Node) -> tuple[Operator, Layout]:
        """The operator of a node, and the layout of the rows it sends on."""
        match node:
            case Input():
                return self._source_op(place, node)
            case Constant(expr):
                layout = of_elements(expr, {})
                return ConstOp(expr, layout), layout
            case LoopParam():
                return ParamOp(), self.given[place]
            case Linear(input=below, steps=((variable, body), *rest)):
                pipeline = self.lowering.pipeline([(variable, self.layouts[below])], body, rest)
                return MapOp(pipeline, inputs=(below,)), pipeline.layout
            case Merge(parts):
                return self._union_op(parts)
            case Join():
                return self._join_op(place, node)
            case Groups():
                return GroupsCompiler(self, place, node).step()
            case Ordered():
                return self._order_op(place, node)
            case Repeated():
                return LoopCompiler(self, place, node).step()
            case _:
                assert_never(node)  # type: ignore[arg-type]

    def table(
        self,
        name: str,
        schema: TableSchema,
        holds: str,
        node: int | None,
        answer: int | None = None,
    ) -> str:
        """The name of a new state table."""
        self.tables[name] = TableInfo(name, schema, holds, node, answer)
        return name

    def _source_op(self, place: int, node: Input) -> tuple[Operator, Layout]:
        stream = next(stream for stream in self.program.streams if stream.place == place)
        layout = of_rows(node.element, packed=stream.packed)
        if node.unique or (_is_computed(node) and node.ledger):
            row = typed.Variable("row", _BESIDE, node.element)
            key = _ledger_key(node, build.var(row))
            pairs = build.bag_of(build.tuple_of(key, build.var(row)))
            pipeline = self.lowering.pipeline([(row, layout)], pairs)
            assert isinstance(pipeline.layout, Struct)
            key_layout, row_layout = pipeline.layout.parts
            ledger = self._ledger(place, TableSchema(leaves(key_layout), leaves(row_layout)))
            return SourceOp(stream, layout, node.insert_only, pipeline, ledger), layout
        counts = self._ledger(place, TableSchema(leaves(layout))) if node.ledger else None
        return SourceOp(stream, layout, node.insert_only, None, counts), layout

    def _ledger(self, place: int, schema: TableSchema) -> NamedSchema:
        return self.table(f"l{place}", schema, LEDGER, place), schema

    def _union_op(self, parts: tuple[int, ...]) -> tuple[Operator, Layout]:
        layout = self.layouts[parts[0]]
        for place in parts[1:]:
            layout = common_layout(layout, self.layouts[place])
        pipelines = tuple(self.converter(place, layout) for place in parts)
        return UnionOp(pipelines, inputs=parts), layout

    def converter(self, place: int, wanted: Layout) -> Pipeline | None:
        """The pipeline that converts rows of a node to a layout; None if they have it."""
        return self.layout_converter(self.layouts[place], wanted)

    def layout_converter(self, given: Layout, wanted: Layout) -> Pipeline | None:
        """The pipeline that converts rows from one layout to another; None if they are the same."""
        if given == wanted:
            return None
        row = typed.Variable("row", _BESIDE, given.type)
        return self.lowering.pipeline([(row, given)], build.bag_of(build.var(row)), layout=wanted)

    # --- pairs -----------------------------------------------------------------------------

    def keys(self, places: tuple[int, ...]) -> Layout:
        """The common layout of the keys of the pairs of several nodes."""
        layout = self._pair(places[0]).parts[0]
        for place in places[1:]:
            layout = common_layout(layout, self._pair(place).parts[0])
        return layout

    def _pair(self, place: int) -> Struct:
        """The layout of the pairs of a node, which are never null."""
        layout = self.layouts[place]
        return pair_of(part(layout, 0), part(layout, 1))

    def side(
        self,
        place: int,
        key: Layout,
        columns: tuple[int | str, ...] | None,
        table: str | None,
        node: int,
    ) -> PhysicalSide:
        """A side with a key in this layout, and with the columns of the value that it keeps.

        `node` is the node that has the side, and `place` the node whose rows it reads.
        """
        value = self._pair(place).parts[1]
        kept = prune_layout(value, columns)
        schema = TableSchema(leaves(key), leaves(kept))
        if table is not None:
            self.table(table, schema, "rows by key", node)
        paired = self.converter(place, pair_of(key, value))
        start = width(key)
        picked = tuple(start + column for column in kept_columns(value, kept))
        return PhysicalSide(paired, kept, picked, table, schema)

    def with_shared_table(self, place: int, side: PhysicalSide) -> PhysicalSide:
        """The side of a join, with the table of an earlier join that keeps the same rows."""
        if self.shared_tables is None or side.table is None or side.paired is not None:
            return side
        same = place, side.columns, side.schema
        owner = self.shared_tables.setdefault(same, side.table)
        if owner == side.table:
            return side
        del self.tables[side.table]
        return replace(side, table=owner, owns=False)

    def whole_value(self, place: int) -> Layout:
        """The layout of the values of a node's pairs."""
        return self._pair(place).parts[1]

    def _join_op(self, place: int, node: Join) -> tuple[Operator, Layout]:
        key = self.keys((node.left, node.right))
        tables = [f"n{place}r{side}" if side in node.kept else None for side in (0, 1)]
        left, right = (
            self.with_shared_table(input_, self.side(input_, key, columns, table, place))
            for input_, columns, table in zip(
                (node.left, node.right), node.columns, tables, strict=True
            )
        )
        names = [
            typed.Variable(name, _BESIDE + n, layout.type)
            for n, (name, layout) in enumerate(
                [("key", key), ("left", left.value), ("right", right.value)]
            )
        ]
        rows = [build.var(name) for name in names]
        body = inline_variables(node.body, group_of(node.group, rows[0], rows[1:]))
        given = list(zip(names, (key, left.value, right.value), strict=True))
        pipeline = self.lowering.pipeline(given, as_conditional(body))
        return JoinOp((left, right), key, pipeline, inputs=(node.left, node.right)), pipeline.layout

    # --- order -------------------------------------------------------------------

    def _order_op(self, place: int, node: Ordered) -> tuple[Operator, Layout]:
        layout = self.layouts[node.input]
        wanted = sort_layout(layout)
        limit = limit_value(node.limit, self.env) or 0
        schema = TableSchema((), leaves(wanted), descending_columns(wanted, node.descending))
        if node.grows:
            schema = TableSchema(schema.keys, schema.rest, schema.descending, most=limit)
        name = self.table(f"n{place}t", schema, "values in order", place)
        paired = self.converter(node.input, wanted)
        return OrderOp(paired, name, schema, limit, inputs=(node.input,)), wanted

    # --- answers ---------------------------------------------------------------------------

    def answer(self, number: int, output: Output) -> PhysicalOutput:
        """The answer of an output: its parts, and how rows are computed from them."""
        spread = output.part is not None and output.part.order is None
        parts = tuple(
            self.answer_part(number, n, part, spread=spread) for n, part in enumerate(output.parts)
        )
        row, layout = self.answer_row(output)
        shown = self.layout_converter(layout, of_rows(output.element, packed=False))
        return PhysicalOutput(output, parts, row, layout, shown)

    def answer_row(self, output: Output) -> tuple[Pipeline | None, Layout]:
        """The pipeline from rows of the main part to rows of the answer, and their layout."""
        one = output.part
        if one is None:
            return None, Leaf(output.element)
        layout = self.layouts[one.place]
        if one.order is None:
            return None, layout
        layout = sort_layout(layout)
        row = typed.Variable("row", _BESIDE, layout.type)
        body = build.bag_of(build.item(build.var(row), 1))
        pipeline = self.lowering.pipeline([(row, layout)], body)
        return pipeline, pipeline.layout

    def answer_part(self, number: int, n: int, one: ResultPart, *, spread: bool) -> AnswerPart:
        """A part of an answer, kept in a table unless it can be derived from other state."""
        layout = self.layouts[one.place]
        schema, paired = TableSchema(leaves(layout)), None
        if one.order is not None:
            pairs = sort_layout(layout)
            paired, layout = self.layout_converter(layout, pairs), pairs
            schema = TableSchema((), leaves(pairs), descending_columns(pairs, one.order))
        # A watch is usually empty: it has a table of its own, so that nothing else is read for it.
        is_watch = number >= len(self.program.outputs)
        derived = self.derivation(one.place) if spread and not is_watch else None
        kept = derived is None and (self.keep_answer or is_watch or not spread)
        holds = "rows for which arithmetic fails" if is_watch else f"rows of answer {number + 1}"
        table = self.table(f"a{number}p{n}", schema, holds, None, number) if kept else None
        return AnswerPart(
            one.place, layout, table, derived, schema, paired, one.order, one.variable
        )

    def derivation(self, place: int) -> Derived | None:
        """The fold from whose tables a node's rows can be computed, if there is one."""
        maps: list[Pipeline] = []
        step, whole = self.steps[place], True
        while isinstance(step, MapOp):
            maps.insert(0, step.pipeline)
            (place,) = step.inputs
            whole = whole and _keeps_all(step.pipeline, self.layouts[place])
            step = self.steps[place]
        if not isinstance(step, GroupOp) or step.mode != "fold" or step.table is None:
            return None
        how = step.body.how
        keys = range(len(step.schema.keys))
        keyed = whole and isinstance(how, Projection) and set(keys) <= set(how.columns)
        return Derived(place, step, tuple(maps), keyed)


def _keeps_all(pipeline: Pipeline, given: Layout) -> bool:
    """Whether a pipeline keeps every column, so that different rows stay different."""
    how = pipeline.how
    return isinstance(how, Projection) and set(how.columns) == set(range(width(given)))


# --- A loop on its own ---


def compile_single_task_loop(
    node: Repeated,
    layouts: Sequence[Layout],
    script: typed.Script,
    arguments: Sequence[str],
    stored: Sequence[tuple[str, object]],
    limit: int | None,
) -> LoopOp:
    """A loop that is only ever recomputed, without state, over inputs in these layouts."""
    nodes: list[Node] = [*[LoopParam(layout.type) for layout in layouts], node]
    edges: list[Edge] = []
    for inner_node in nodes:
        edges.append(edge_of(inner_node, edges))
    settings = LoopSettings("recompute")
    program = Program(
        tuple(nodes), tuple(edges), (), (), script, tuple(arguments), tuple(stored), settings
    )
    compiler = ProgramCompiler(program, given=dict(enumerate(layouts)), layouts=list(layouts))
    inner = LoopCompiler(compiler, len(layouts), node).inner(step_program(node, script), layouts)
    layout = inner.variables[node.term.chosen]
    nothing = TableSchema(())
    return LoopOp(
        inputs=node.inputs,
        layouts=tuple(layouts),
        node=node,
        tables=(),
        schemas=(),
        result="",
        layout=layout,
        schema=TableSchema(leaves(layout)),
        limit=limit,
        plain=inner,
        numbered=None,
        reason="",
        counters=("", nothing),
        settings=settings,
    )


def _is_computed(node: Input) -> bool:
    """Whether rows have columns that were computed when they were inserted."""
    return node.source.reader is not None and bool(node.source.reader.computed)


def _ledger_key(node: Input, row: typed.Expr) -> typed.Expr:
    """The key of a ledger: that of the stream, or the columns that are in the files."""
    if node.unique:
        return build.tuple_of(*[build.field(row, name) for name in node.unique])
    reader = node.source.reader
    assert reader is not None
    return build.tuple_of(*[build.item(row, place) for place in range(len(reader.columns))])
