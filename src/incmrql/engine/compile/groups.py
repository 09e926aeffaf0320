"""Compiles groups: what rows contribute, what is requested of groups, how they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from incmrql.algebra import rows
from incmrql.algebra import rows as build
from incmrql.engine.columns.accumulators import AccumulatorRead, How, Lift
from incmrql.engine.columns.layouts import (
    Layout,
    Leaf,
    Struct,
    descending_columns,
    leaves,
    of_elements,
    pair_of,
    part,
    sort_layout,
    width,
)
from incmrql.engine.columns.pipelines import ByRow, Pipeline
from incmrql.engine.compile.physical import (
    CompiledRequest,
    Fused,
    GroupScan,
    PhysicalBlock,
    PhysicalSide,
    Ranking,
    RankingMerge,
    RankingRead,
)
from incmrql.engine.compile.pipelines import Lowering
from incmrql.engine.compile.single_rows import (
    ElementAtMost,
    as_conditional,
    group_of,
    inline_variables,
    single_element,
)
from incmrql.engine.operators.base import Operator
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.operators.joins import JoinOp
from incmrql.engine.store.sorting import TableSchema
from incmrql.plan.access import Mode, answer_mode, is_in_table, read_method
from incmrql.plan.nodes import Accumulator, Groups, Join, Request, Table, TableRead
from incmrql.plan.program import Program
from incmrql.plan.reading import limit_value
from incmrql.types import typed
from incmrql.types.model import BOOL, Basic, Collection, Decimal, Tuple, Type
from incmrql.types.walk import free_variables

if TYPE_CHECKING:
    from incmrql.engine.compile.program import ProgramCompiler
    from incmrql.engine.compile.windows import WindowPlan


_BESIDE: Final = 1 << 41
_HOW: Final[dict[str, How]] = {
    "rows": "count",
    "count": "count",
    "true": "true",
    "false": "false",
    "sum": "sum",
    "squares": "squares",
    "parts": "parts",
    "sizes": "sizes",
}


@dataclass(slots=True)
class GroupsCompiler:
    """Compiles one node."""

    all: ProgramCompiler
    place: int
    node: Groups
    key: Layout = field(init=False)
    key_variable: typed.Variable = field(init=False)
    values: list[tuple[typed.Variable, Layout]] = field(init=False)
    rankings: list[Ranking] = field(default_factory=list)
    lifts: dict[int, Lift] = field(default_factory=dict)
    table_of: dict[int, int] = field(default_factory=dict)
    """The table of each accumulator that cannot be added up, such as a minimum."""

    def __post_init__(self) -> None:
        self.key = self.all.keys(self.node.inputs)
        self.key_variable = typed.Variable("key", _BESIDE, self.node.key)
        layouts = [self.all.whole_value(place) for place in self.node.inputs]
        self.values = [
            (typed.Variable("value", _BESIDE + 1 + n, layout.type), layout)
            for n, layout in enumerate(layouts)
        ]

    def step(self) -> tuple[GroupOp, Layout]:
        """The operator, and the layout of the rows that it sends on."""
        node = self.node
        self.rankings += [self.ranking(n, table) for n, table in enumerate(node.tables)]
        blocks = tuple(self.blocks(side) for side in range(len(node.inputs)))
        requests = tuple(map(self.compile_request, node.requests))
        mode = answer_mode(node)
        sides = tuple(self.side(n) for n in range(len(node.inputs)))
        body = self.body(mode, sides)
        counted = any(block.counted for of_side in blocks for block in of_side)
        schema = TableSchema(leaves(self.key))
        table = None
        if not node.is_final and (counted or self.lifts):
            table = self.all.table(f"n{self.place}", schema, "accumulators by key", self.place)
        linear = node.linear if mode == "linear" else None
        step = GroupOp(
            sides,
            self.key,
            blocks,
            tuple(self.rankings),
            requests,
            mode,
            body,
            linear,
            () if mode == "window" else node.used,
            table,
            schema,
            node.group,
            self.window(),
            inputs=node.inputs,
        )
        return step, body.layout

    def side(self, number: int) -> PhysicalSide:
        """A side, with a table if its rows are kept."""
        node = self.node
        kept = number in node.kept and not node.is_final and node.window is None
        table = f"n{self.place}r{number}" if kept else None
        below, columns = node.inputs[number], node.columns[number]
        return self.all.side(below, self.key, columns, table, self.place)

    # --- contributions of rows -------------------------------------------------------------

    def pair_variables(self, side: int) -> list[tuple[typed.Variable, Layout]]:
        """The variables for a pair of a side: key and value."""
        return [(self.key_variable, self.key), self.values[side]]

    def for_single_row(self, expr: typed.Expr, side: int) -> typed.Expr:
        """An expression over groups, for a group with a single row, on this side."""
        rows = [build.var(self.values[side][0]) if n == side else None for n in self.numbers]
        return inline_variables(expr, group_of(self.node.group, build.var(self.key_variable), rows))

    @property
    def numbers(self) -> range:
        """The numbers of the sides."""
        return range(len(self.node.inputs))

    def blocks(self, side: int) -> tuple[PhysicalBlock, ...]:
        """The blocks for rows of a side: one for all accumulators that can share a pipeline."""
        shared: list[tuple[Accumulator, int, list[typed.Expr]]] = []
        separate: list[PhysicalBlock] = []
        for number, accumulator in enumerate(self.node.accumulators):
            if accumulator.side != side:
                continue
            if is_in_table(accumulator):
                self.table_of[number] = self.extreme(number, accumulator)
                continue
            if accumulator.distinct is not None:
                separate.append(self.distinct_block(number, accumulator))
                continue
            bag = self.for_single_row(accumulator.operand, side)
            element = single_element(bag)
            if element is None:
                separate.append(self.bag_block(number, accumulator, bag, side))
            else:
                columns = columns_of(accumulator, element.head, element.condition)
                shared.append((accumulator, number, columns))
        counted = answer_mode(self.node) != "linear"
        if not shared and not counted:
            return tuple(separate)
        return (*self.shared_blocks(shared, side, counted=counted), *separate)

    def shared_blocks(
        self,
        shared: Sequence[tuple[Accumulator, int, list[typed.Expr]]],
        side: int,
        *,
        counted: bool,
    ) -> list[PhysicalBlock]:
        """A block for accumulators to which each row contributes at most one element."""
        exprs: list[typed.Expr] = []
        lifts: list[Lift] = []
        start = width(self.key)
        for accumulator, number, columns in shared:
            for column in columns:
                if column not in exprs:
                    exprs.append(column)
            indices = tuple(start + exprs.index(column) for column in columns)
            lifts.append(self.lift(number, accumulator, indices, columns[0].type))
        block = PhysicalBlock(
            self.keyed_pipeline(self.pair_variables(side), exprs), tuple(lifts), counted
        )
        if len(shared) < 2 or not isinstance(block.pipeline.how, ByRow):
            return [block]
        # One accumulator that has to run by row must not make the others run by row too.
        blocks = [block] if counted else []
        if counted:
            blocks = [
                PhysicalBlock(self.keyed_pipeline(self.pair_variables(side), []), (), counted)
            ]
        for single in shared:
            blocks += self.shared_blocks([single], side, counted=False)
        return blocks

    def keyed_pipeline(
        self, given: list[tuple[typed.Variable, Layout]], exprs: Sequence[typed.Expr]
    ) -> Pipeline:
        """A pipeline that computes the columns of the key, and those of expressions."""
        row = build.tuple_of(build.var(self.key_variable), build.tuple_of(*exprs))
        types = Tuple(tuple(expr.type for expr in exprs))
        columns = Struct(tuple(Leaf(expr.type) for expr in exprs), types)
        layout = Struct((self.key, columns), row.type)
        return self.all.lowering.pipeline(given, build.bag_of(row), layout=layout)

    def lift(
        self, number: int, accumulator: Accumulator, columns: tuple[int, ...], type_: Type
    ) -> Lift:
        """The lift into the accumulator with this number, from these columns."""
        self.lifts[number] = Lift(number, _HOW[accumulator.kind], columns, type_)
        return self.lifts[number]

    def bag_block(
        self,
        number: int,
        accumulator: Accumulator,
        bag: typed.Expr,
        side: int,
        given: list[tuple[typed.Variable, Layout]] | None = None,
        table: int | None = None,
    ) -> PhysicalBlock:
        """A block for one accumulator, to which a row contributes any number of elements."""
        assert isinstance(bag.type, Collection)
        single = single_element(bag)
        if single is not None and given is not None:
            columns = columns_of(accumulator, single.head, single.condition)
            return self.column_block(number, accumulator, columns, given, table)
        element = typed.Variable("element", _BESIDE + 9, bag.type.element)
        columns = columns_of(accumulator, build.var(element), None)
        row = build.tuple_of(build.var(self.key_variable), build.tuple_of(*columns))
        body = build.select(row, [typed.Generator(typed.Bind(element), bag)])
        types = Tuple(tuple(column.type for column in columns))
        parts = Struct(tuple(Leaf(column.type) for column in columns), types)
        layout = Struct((self.key, parts), row.type)
        variables = given or self.pair_variables(side)
        pipeline = self.all.lowering.pipeline(variables, body, layout=layout)
        start = width(self.key)
        indices = tuple(range(start, start + len(columns)))
        lift = self.lift(number, accumulator, indices, columns[0].type)
        return PhysicalBlock(pipeline, (lift,), table=table)

    def column_block(
        self,
        number: int,
        accumulator: Accumulator,
        columns: Sequence[typed.Expr],
        given: list[tuple[typed.Variable, Layout]],
        table: int | None,
    ) -> PhysicalBlock:
        """A block for one accumulator, to which each row contributes at most one element."""
        start = width(self.key)
        indices = tuple(range(start, start + len(columns)))
        lift = self.lift(number, accumulator, indices, columns[0].type)
        return PhysicalBlock(self.keyed_pipeline(given, columns), (lift,), table=table)

    def distinct_block(self, number: int, accumulator: Accumulator) -> PhysicalBlock:
        """A block over the distinct values of a table that appear and disappear."""
        assert accumulator.distinct is not None
        ranking = self.rankings[accumulator.distinct.table]
        layout = part(ranking.element, 1) if ranking.paired else ranking.element
        value = typed.Variable("value", _BESIDE + 8, layout.type)
        distinct = accumulator.distinct
        known = group_of(distinct.group, build.var(self.key_variable), [build.var(value)])
        bag = inline_variables(inline_variables(accumulator.operand, known), {})
        variables: list[tuple[typed.Variable, Layout]] = [
            (self.key_variable, self.key),
            (value, layout),
        ]
        return self.bag_block(number, accumulator, bag, accumulator.side, variables, distinct.table)

    # --- tables ----------------------------------------------------------------------------

    def ranking(self, number: int, table: Table) -> Ranking:
        """A table of values in order."""
        most = limit_value(table.most, self.all.env)
        name = f"n{self.place}t{number}"
        return self.make_ranking(
            name, "values in order", table.side, table.operand, table.order, most, last=False
        )

    def extreme(self, number: int, accumulator: Accumulator) -> int:
        """Add the table of an accumulator that cannot be added up; returns its index."""
        most = None if accumulator.kind == "user" else 1
        name = f"n{self.place}e{number}"
        last = accumulator.kind == "greatest"
        side, operand = accumulator.side, accumulator.operand
        self.rankings.append(
            self.make_ranking(name, "different values", side, operand, None, most, last=last)
        )
        return len(self.rankings) - 1

    def make_ranking(  # noqa: PLR0913 (a table, and how its values are computed)
        self,
        name: str,
        holds: str,
        side: int,
        operand: typed.Expr,
        order: tuple[bool, ...] | None,
        most: int | None,
        *,
        last: bool,
    ) -> Ranking:
        """A table of the elements of an operand for each row."""
        bag = self.for_single_row(operand, side)
        assert isinstance(bag.type, Collection)
        single = single_element(bag)
        element = typed.Variable("element", _BESIDE + 9, bag.type.element)
        if single is None:
            head: typed.Expr = build.var(element)
            row = build.tuple_of(build.var(self.key_variable), head)
            body = build.select(row, [typed.Generator(typed.Bind(element), bag)])
        else:
            row = build.tuple_of(build.var(self.key_variable), single.head)
            body = build.bag_of(row)
            if single.condition is not None:
                body = build.when(single.condition, body)
        pipeline = self.all.lowering.pipeline(self.pair_variables(side), body)
        layout: Layout = part(pipeline.layout, 1)
        flags: tuple[bool, ...]
        if order is not None:
            pairs = sort_layout(layout)
            layout, flags = pairs, descending_columns(pairs, order)
        else:
            flags = (False,) * width(layout)
        keyed = Struct((self.key, layout), Tuple((self.key.type, layout.type)))
        if pipeline.layout != keyed:
            pipeline = self.all.lowering.pipeline(self.pair_variables(side), body, layout=keyed)
        schema = TableSchema(leaves(self.key), leaves(layout), flags, most, last)
        if not self.node.is_final:
            self.all.table(name, schema, holds, self.place)
        drops = order is None and isinstance(layout, Leaf)
        return Ranking(name, side, pipeline, layout, schema, order is not None, drops)

    # --- requests --------------------------------------------------------------------------

    def compile_request(self, request: Request) -> CompiledRequest:
        """How a request is answered."""
        method = read_method(self.node, request)
        if method == "rows":
            return GroupScan(request)
        if method == "totals":
            return AccumulatorRead(
                request, tuple(self.lifts[number] for number in request.accumulators)
            )
        if request.reading is not None:
            return RankingRead(request, request.reading.table, request.reading)
        first = self.node.accumulators[request.accumulators[0]]
        table = self.table_of[request.accumulators[0]]
        if method == "values":
            return RankingMerge(request, table, first.monoid.name)
        reading = TableRead(table, "least" if first.kind == "least" else "greatest")
        return RankingRead(request, table, reading)

    def window(self) -> WindowPlan | None:
        """How a window is read."""
        read = self.node.window
        if read is None:
            return None
        from incmrql.engine.compile.windows import WindowPlan  # workers do without
        from incmrql.plan.windows import reach_of

        indices = {request.variable: n for n, request in enumerate(self.node.requests)}
        row, answer = self.window_layouts(read.window)
        before = tuple(tuple(map(indices.__getitem__, own)) for own in read.before)
        return WindowPlan(read.window, reach_of(read), before, row, pair_of(self.key, answer))

    def window_layouts(self, window: typed.Window) -> tuple[Layout, Layout]:
        """The layouts of the rows of a window, and of these with the values of its functions."""
        row = part(self.rankings[0].element, 1)
        types = tuple(function.type for function in window.functions)
        values = Struct(tuple(map(Leaf, types)), Tuple(types))
        return row, Struct((row, values), Tuple((window.row.type, values.type)))

    def window_body(self) -> Pipeline:
        """The pipeline of the answer over the key and a row of the window."""
        read = self.node.window
        assert read is not None
        _, layout = self.window_layouts(read.window)
        row = typed.Variable("windowed", _BESIDE + 7, layout.type)
        known = group_of(read.group, build.var(self.key_variable), [build.var(row)])
        body = as_conditional(inline_variables(read.body, known))
        return self.all.lowering.pipeline([(self.key_variable, self.key), (row, layout)], body)

    def body(self, mode: Mode, sides: Sequence[PhysicalSide]) -> Pipeline:
        """The pipeline of the answer: over the key, a row in mode `linear`, and the requests."""
        node = self.node
        requests: list[tuple[typed.Variable, Layout]] = [
            (request.variable, Leaf(request.variable.type)) for request in node.requests
        ]
        key: list[tuple[typed.Variable, Layout]] = [(self.key_variable, self.key)]
        if mode == "whole":
            return Pipeline(ByRow((), node.body), of_elements(node.body, {}))
        if mode == "window":
            return self.window_body()
        if mode == "fold":
            rows: list[typed.Expr | None] = [None for _ in self.numbers]
            body = inline_variables(
                node.body, group_of(node.group, build.var(self.key_variable), rows)
            )
            return self.all.lowering.pipeline([*key, *requests], as_conditional(body))
        assert node.linear is not None
        value = self.values[node.linear][0], sides[node.linear].value
        body = self.for_single_row(node.body, node.linear)
        return self.all.lowering.pipeline([*key, value, *requests], as_conditional(body))


def columns_of(
    accumulator: Accumulator, head: typed.Expr, condition: typed.Expr | None
) -> list[typed.Expr]:
    """The columns that an accumulator reads: null where there is no element."""
    match accumulator.kind:
        case "rows":
            columns: list[typed.Expr] = [typed.Const(True, type=BOOL)]
        case "parts":
            assert isinstance(head.type, Tuple)
            columns = [build.item(head, 0), build.item(head, len(head.type.items) - 1)]
        case "sizes":
            columns = [build.item(head, 1), build.item(head, 2)]
        case "count" if not isinstance(head.type, Basic | Decimal):
            columns = [typed.Compare("=", head, head, type=BOOL)]
        case _:
            columns = [head]
    if condition is None:
        return columns
    return [
        typed.If(condition, column, typed.Const(None, type=column.type), type=column.type)
        for column in columns
    ]


# --- Joins fused with the fold above them ---
#
# fold by g(left) of h(right) over X ⋈ Y       sum h over the rows of ΔY with one key, then join
#
# Each partner in X is then read and joined once, with a sum, instead of once for each row of ΔY.
# This is possible if the fold is the only reader of the join's rows, keeps nothing but sums, groups
# by values of one side and sums values of the other.


_BESIDE_JOIN = 1 << 42


def fuse(
    program: Program, steps: list[Operator], lowering: Lowering, used: Sequence[int] = ()
) -> None:
    """Fuse joins with the folds above them; `used` are nodes whose rows have other readers."""
    users = Counter(place for step in steps for place in step.inputs)
    users.update(used)
    users.update(part.place for output in program.all_outputs for part in output.parts)
    for place, step in enumerate(steps):
        if not isinstance(step, GroupOp) or not _only_sums(step):
            continue
        (below,) = step.inputs
        join = steps[below]
        if isinstance(join, JoinOp) and users[below] == 1:
            fused = _fusion(program, place, step, join, lowering)
            if fused is not None:
                steps[below] = replace(join, fused=fused)


def _only_sums(step: GroupOp) -> bool:
    """Whether an operator is a fold of one side that keeps only accumulators."""
    return (
        len(step.sides) == 1
        and step.mode == "fold"
        and not step.rankings
        and step.sides[0].table is None
        and not any(compiled.request.reads_rows for compiled in step.requests)
        and len(step.blocks[0]) == 1
    )


def _fusion(
    program: Program, place: int, step: GroupOp, join: JoinOp, lowering: Lowering
) -> Fused | None:
    """The fusion of a join with the fold above it; None if the two cannot be fused."""
    node, join_node = program.nodes[place], program.nodes[step.inputs[0]]
    assert isinstance(node, Groups)
    assert isinstance(join_node, Join)
    key, left, right = (
        typed.Variable(name, _BESIDE_JOIN + n, layout.type)
        for n, (name, layout) in enumerate(
            [("key", join.key), ("left", join.sides[0].value), ("right", join.sides[1].value)]
        )
    )
    known = group_of(join_node.group, rows.var(key), [rows.var(left), rows.var(right)])
    pair = single_element(inline_variables(join_node.body, known))
    if pair is None or pair.condition is not None or not isinstance(pair.head, typed.MakeTuple):
        return None
    grouped, value = pair.head.items
    columns = _lift_columns(node, grouped, value, [lift.number for lift in step.blocks[0][0].lifts])
    if columns is None:
        return None
    for side, (own, other) in enumerate(((left, right), (right, left))):
        summed = [free_variables(expr) for exprs in columns for expr in exprs]
        if free_variables(grouped) <= {key, other} and all(used <= {key, own} for used in summed):
            variables = (key, own, other)
            return _fusion_of(step, join, side, variables, grouped, columns, lowering)
    return None


def _lift_columns(
    node: Groups, key: typed.Expr, value: typed.Expr, numbers: Sequence[int]
) -> list[list[typed.Expr]] | None:
    """The columns of each accumulator, over the variables of the join."""
    columns = []
    for number in numbers:
        accumulator = node.accumulators[number]
        element: ElementAtMost | None = single_element(
            inline_variables(accumulator.operand, group_of(node.group, key, [value]))
        )
        if element is None:
            return None
        columns.append(columns_of(accumulator, element.head, element.condition))
    return columns


def _fusion_of(  # noqa: PLR0913, PLR0917 (two operators, and what both compute)
    step: GroupOp,
    join: JoinOp,
    side: int,
    variables: tuple[typed.Variable, typed.Variable, typed.Variable],
    grouped: typed.Expr,
    columns: Sequence[Sequence[typed.Expr]],
    lowering: Lowering,
) -> Fused | None:
    """The fusion that sums `columns` of one side and groups by an expression over the other."""
    key, own, other = variables
    exprs: list[typed.Expr] = []
    lifts: list[Lift] = []
    for lift, read in zip(step.blocks[0][0].lifts, columns, strict=True):
        for expr in read:
            if expr not in exprs:
                exprs.append(expr)
        lifts.append(replace(lift, columns=tuple(exprs.index(expr) for expr in read)))
    types = Tuple(tuple(expr.type for expr in exprs))
    layout = Struct(tuple(Leaf(expr.type) for expr in exprs), types)
    layouts = {own: join.sides[side].value, other: join.sides[1 - side].value}
    added = lowering.pipeline(
        [(key, join.key), (own, layouts[own])], rows.bag_of(rows.tuple_of(*exprs)), layout=layout
    )
    by = lowering.pipeline(
        [(key, join.key), (other, layouts[other])], rows.bag_of(grouped), layout=step.key
    )
    if isinstance(added.how, ByRow) or isinstance(by.how, ByRow):
        return None
    counted = step.blocks[0][0].counted
    return Fused(side, added, tuple(lifts), by, counted, step.schema)
