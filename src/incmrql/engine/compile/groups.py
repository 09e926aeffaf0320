"""Compilation of groups: what rows contribute, what is requested of them, how they answer."""

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
    part,
    sort_layout,
    width,
)
from incmrql.engine.columns.pipelines import ByRow, Pipeline
from incmrql.engine.compile.physical import (
    Block,
    CompiledRequest,
    Fused,
    GroupScan,
    Ranking,
    RankingMerge,
    RankingRead,
    Side,
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
    """The compilation of one node."""

    all: ProgramCompiler
    place: int
    node: Groups
    key: Layout = field(init=False)
    key_variable: typed.Variable = field(init=False)
    values: list[tuple[typed.Variable, Layout]] = field(init=False)
    rankings: list[Ranking] = field(default_factory=list)
    lifts: dict[int, Lift] = field(default_factory=dict)
    tabled: dict[int, int] = field(default_factory=dict)
    """The tables of accumulators that are not added up."""

    def __post_init__(self) -> None:
        self.key = self.all.keys(self.node.inputs)
        self.key_variable = typed.Variable("key", _BESIDE, self.node.key)
        layouts = [self.all.whole_value(place) for place in self.node.inputs]
        self.values = [
            (typed.Variable("value", _BESIDE + 1 + n, layout.type), layout)
            for n, layout in enumerate(layouts)
        ]

    def step(self) -> tuple[GroupOp, Layout]:
        """What is done, and the layout of the rows that are sent on."""
        node = self.node
        self.rankings += [self.ranking(n, table) for n, table in enumerate(node.tables)]
        blocks = tuple(self.blocks(side) for side in range(len(node.inputs)))
        wanted = tuple(map(self.wanted, node.requests))
        mode = answer_mode(node)
        sides = tuple(self.side(n) for n in range(len(node.inputs)))
        body = self.body(mode, sides)
        counted = any(block.counted for each in blocks for block in each)
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
            wanted,
            mode,
            body,
            linear,
            node.used,
            table,
            schema,
            node.group,
            inputs=node.inputs,
        )
        return step, body.made

    def side(self, number: int) -> Side:
        """A side, and the table of its rows if they are kept."""
        node = self.node
        kept = number in node.kept and not node.is_final
        table = f"n{self.place}r{number}" if kept else None
        below, columns = node.inputs[number], node.columns[number]
        return self.all.side(below, self.key, columns, table, self.place)

    # --- what rows bring -------------------------------------------------------------------

    def given(self, side: int) -> list[tuple[typed.Variable, Layout]]:
        """The variables that a pair of a side is: its key and its value."""
        return [(self.key_variable, self.key), self.values[side]]

    def alone(self, expr: typed.Expr, side: int) -> typed.Expr:
        """An expression over a group that has one row, on this side."""
        rows = [build.var(self.values[side][0]) if n == side else None for n in self.numbers]
        return inline_variables(expr, group_of(self.node.group, build.var(self.key_variable), rows))

    @property
    def numbers(self) -> range:
        """The numbers of the sides."""
        return range(len(self.node.inputs))

    def blocks(self, side: int) -> tuple[Block, ...]:
        """What rows of a side bring to accumulators, together as far as that goes."""
        together: list[tuple[Accumulator, int, list[typed.Expr]]] = []
        apart: list[Block] = []
        for number, each in enumerate(self.node.accumulators):
            if each.side != side:
                continue
            if is_in_table(each):
                self.tabled[number] = self.extreme(number, each)
                continue
            if each.distinct is not None:
                apart.append(self.of_different(number, each))
                continue
            found = single_element(self.alone(each.operand, side))
            if found is None:
                apart.append(self.of_bag(number, each, self.alone(each.operand, side), side))
            else:
                together.append((each, number, columns_of(each, found.head, found.condition)))
        counted = answer_mode(self.node) != "linear"
        if not together and not counted:
            return tuple(apart)
        return (*self.merged(together, side, counted=counted), *apart)

    def merged(
        self,
        together: Sequence[tuple[Accumulator, int, list[typed.Expr]]],
        side: int,
        *,
        counted: bool,
    ) -> list[Block]:
        """One block for accumulators to which each row brings one element at most."""
        exprs: list[typed.Expr] = []
        lifts: list[Lift] = []
        start = width(self.key)
        for each, number, columns in together:
            for column in columns:
                if column not in exprs:
                    exprs.append(column)
            places = tuple(start + exprs.index(column) for column in columns)
            lifts.append(self.lift(number, each, places, columns[0].type))
        block = Block(self.keyed(self.given(side), exprs), tuple(lifts), counted)
        if len(together) < 2 or not isinstance(block.pipeline.how, ByRow):
            return [block]
        found = [block] if counted else []
        if counted:
            found = [Block(self.keyed(self.given(side), []), (), counted)]
        for one_ in together:
            found += self.merged([one_], side, counted=False)
        return found

    def keyed(
        self, given: list[tuple[typed.Variable, Layout]], exprs: Sequence[typed.Expr]
    ) -> Pipeline:
        """A segment that makes the columns of the key, and those of expressions."""
        row = build.tuple_of(build.var(self.key_variable), build.tuple_of(*exprs))
        types = Tuple(tuple(expr.type for expr in exprs))
        columns = Struct(tuple(Leaf(expr.type) for expr in exprs), types)
        made = Struct((self.key, columns), row.type)
        return self.all.lowering.pipeline(given, build.bag_of(row), made=made)

    def lift(self, number: int, each: Accumulator, places: tuple[int, ...], type_: Type) -> Lift:
        """The accumulator of this number, over these columns."""
        self.lifts[number] = Lift(number, _HOW[each.kind], places, type_)
        return self.lifts[number]

    def of_bag(
        self,
        number: int,
        each: Accumulator,
        bag: typed.Expr,
        side: int,
        given: list[tuple[typed.Variable, Layout]] | None = None,
        table: int | None = None,
    ) -> Block:
        """A block for one accumulator, to which a row brings any number of elements."""
        assert isinstance(bag.type, Collection)
        found = single_element(bag)
        if found is not None and given is not None:
            columns = columns_of(each, found.head, found.condition)
            return self.of_columns(number, each, columns, given, table)
        element = typed.Variable("element", _BESIDE + 9, bag.type.element)
        columns = columns_of(each, build.var(element), None)
        row = build.tuple_of(build.var(self.key_variable), build.tuple_of(*columns))
        body = build.select(row, [typed.Generator(typed.Bind(element), bag)])
        types = Tuple(tuple(column.type for column in columns))
        parts = Struct(tuple(Leaf(column.type) for column in columns), types)
        made = Struct((self.key, parts), row.type)
        pipeline = self.all.lowering.pipeline(given or self.given(side), body, made=made)
        start = width(self.key)
        places = tuple(range(start, start + len(columns)))
        lift = self.lift(number, each, places, columns[0].type)
        return Block(pipeline, (lift,), table=table)

    def of_columns(
        self,
        number: int,
        each: Accumulator,
        columns: Sequence[typed.Expr],
        given: list[tuple[typed.Variable, Layout]],
        table: int | None,
    ) -> Block:
        """A block for one accumulator, to which each row brings one element at most."""
        start = width(self.key)
        places = tuple(range(start, start + len(columns)))
        lift = self.lift(number, each, places, columns[0].type)
        return Block(self.keyed(given, columns), (lift,), table=table)

    def of_different(self, number: int, each: Accumulator) -> Block:
        """A block over the different values of a table that come and go."""
        assert each.distinct is not None
        ranking = self.rankings[each.distinct.table]
        layout = part(ranking.element, 1) if ranking.paired else ranking.element
        value = typed.Variable("value", _BESIDE + 8, layout.type)
        known = group_of(each.distinct.group, build.var(self.key_variable), [build.var(value)])
        bag = inline_variables(inline_variables(each.operand, known), {})
        given: list[tuple[typed.Variable, Layout]] = [
            (self.key_variable, self.key),
            (value, layout),
        ]
        return self.of_bag(number, each, bag, each.side, given, each.distinct.table)

    # --- tables ----------------------------------------------------------------------------

    def ranking(self, number: int, table: Table) -> Ranking:
        """A table of values in order."""
        most = limit_value(table.most, self.all.env)
        name = f"n{self.place}t{number}"
        return self.ranked(
            name, "values in order", table.side, table.operand, table.order, most, last=False
        )

    def extreme(self, number: int, each: Accumulator) -> int:
        """The table of an accumulator that is not added up; its place."""
        most = None if each.kind == "user" else 1
        name = f"n{self.place}e{number}"
        last = each.kind == "greatest"
        holds = "different values"
        self.rankings.append(
            self.ranked(name, holds, each.side, each.operand, None, most, last=last)
        )
        return len(self.rankings) - 1

    def ranked(  # noqa: PLR0913 (a table, and what of the rows is in it)
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
        """A table of what an operand makes of each row."""
        bag = self.alone(operand, side)
        assert isinstance(bag.type, Collection)
        found = single_element(bag)
        element = typed.Variable("element", _BESIDE + 9, bag.type.element)
        if found is None:
            head: typed.Expr = build.var(element)
            row = build.tuple_of(build.var(self.key_variable), head)
            body = build.select(row, [typed.Generator(typed.Bind(element), bag)])
        else:
            row = build.tuple_of(build.var(self.key_variable), found.head)
            body = build.bag_of(row)
            if found.condition is not None:
                body = build.when(found.condition, body)
        pipeline = self.all.lowering.pipeline(self.given(side), body)
        layout: Layout = part(pipeline.made, 1)
        flags: tuple[bool, ...]
        if order is not None:
            pairs = sort_layout(layout)
            layout, flags = pairs, descending_columns(pairs, order)
        else:
            flags = (False,) * width(layout)
        wanted = Struct((self.key, layout), Tuple((self.key.type, layout.type)))
        if pipeline.made != wanted:
            pipeline = self.all.lowering.pipeline(self.given(side), body, made=wanted)
        schema = TableSchema(leaves(self.key), leaves(layout), flags, most, last)
        if not self.node.is_final:
            self.all.table(name, schema, holds, self.place)
        drops = order is None and isinstance(layout, Leaf)
        return Ranking(name, side, pipeline, layout, schema, order is not None, drops)

    # --- what is asked ---------------------------------------------------------------------

    def wanted(self, request: Request) -> CompiledRequest:
        """How a request is met."""
        method = read_method(self.node, request)
        if method == "rows":
            return GroupScan(request)
        if method == "totals":
            return AccumulatorRead(
                request, tuple(self.lifts[place] for place in request.accumulators)
            )
        if request.reading is not None:
            return RankingRead(request, request.reading.table, request.reading)
        first = self.node.accumulators[request.accumulators[0]]
        table = self.tabled[request.accumulators[0]]
        if method == "values":
            return RankingMerge(request, table, first.monoid.name)
        reading = TableRead(table, "least" if first.kind == "least" else "greatest")
        return RankingRead(request, table, reading)

    def body(self, mode: Mode, sides: Sequence[Side]) -> Pipeline:
        """The answer over the key, maybe a row, and what is asked."""
        node = self.node
        requests: list[tuple[typed.Variable, Layout]] = [
            (request.variable, Leaf(request.variable.type)) for request in node.requests
        ]
        key: list[tuple[typed.Variable, Layout]] = [(self.key_variable, self.key)]
        if mode == "whole":
            return Pipeline(ByRow((), node.body), of_elements(node.body, {}))
        if mode == "fold":
            rows: list[typed.Expr | None] = [None for _ in self.numbers]
            body = inline_variables(
                node.body, group_of(node.group, build.var(self.key_variable), rows)
            )
            return self.all.lowering.pipeline([*key, *requests], as_conditional(body))
        assert node.linear is not None
        value = self.values[node.linear][0], sides[node.linear].value
        body = self.alone(node.body, node.linear)
        return self.all.lowering.pipeline([*key, value, *requests], as_conditional(body))


def columns_of(
    each: Accumulator, head: typed.Expr, condition: typed.Expr | None
) -> list[typed.Expr]:
    """The columns that an accumulator looks at: null where there is no element."""
    match each.kind:
        case "rows":
            found: list[typed.Expr] = [typed.Const(True, type=BOOL)]
        case "parts":
            assert isinstance(head.type, Tuple)
            found = [build.item(head, 0), build.item(head, len(head.type.items) - 1)]
        case "sizes":
            found = [build.item(head, 1), build.item(head, 2)]
        case "count" if not isinstance(head.type, Basic | Decimal):
            found = [typed.Compare("=", head, head, type=BOOL)]
        case _:
            found = [head]
    if condition is None:
        return found
    return [
        typed.If(condition, column, typed.Const(None, type=column.type), type=column.type)
        for column in found
    ]


# --- Joins with the fold above them ---
#
# A fold above a join: where each partner need only be met by a sum.
#
# fold by g(left) of h(right) over X ⋈ Y       h of the rows of ΔY with one key is added up first
#
# It holds where the fold is the only one that takes the join's rows, keeps nothing but sums, groups
# by what depends on one side and adds up what depends on the other.


_BESIDE_JOIN = 1 << 42


def fuse(
    program: Program, steps: list[Operator], lowering: Lowering, used: Sequence[int] = ()
) -> None:
    """Note at joins which fold they can add up for; `used` are places whose rows others need."""
    users = Counter(place for step in steps for place in step.inputs)
    users.update(used)
    users.update(part.place for output in program.all_outputs for part in output.parts)
    for place, step in enumerate(steps):
        if not isinstance(step, GroupOp) or not _only_sums(step):
            continue
        (below,) = step.inputs
        join = steps[below]
        if isinstance(join, JoinOp) and users[below] == 1:
            found = _fusion(program, place, step, join, lowering)
            if found is not None:
                steps[below] = replace(join, fused=found)


def _only_sums(step: GroupOp) -> bool:
    """Whether a fold of one side keeps accumulators and nothing else."""
    return (
        len(step.sides) == 1
        and step.mode == "fold"
        and not step.rankings
        and step.sides[0].table is None
        and not any(each.request.reads_rows for each in step.wanted)
        and len(step.blocks[0]) == 1
    )


def _fusion(
    program: Program, place: int, step: GroupOp, join: JoinOp, lowering: Lowering
) -> Fused | None:
    node, below_ = program.nodes[place], program.nodes[step.inputs[0]]
    assert isinstance(node, Groups)
    assert isinstance(below_, Join)
    key, left, right = (
        typed.Variable(name, _BESIDE_JOIN + n, layout.type)
        for n, (name, layout) in enumerate(
            [("key", join.key), ("left", join.sides[0].value), ("right", join.sides[1].value)]
        )
    )
    known = group_of(below_.group, rows.var(key), [rows.var(left), rows.var(right)])
    pair = single_element(inline_variables(below_.body, known))
    if pair is None or pair.condition is not None or not isinstance(pair.head, typed.MakeTuple):
        return None
    grouped, value = pair.head.items
    columns = _lift_columns(node, grouped, value, [lift.number for lift in step.blocks[0][0].lifts])
    if columns is None:
        return None
    for side, (own, other) in enumerate(((left, right), (right, left))):
        mine = [free_variables(expr) for each in columns for expr in each]
        if free_variables(grouped) <= {key, other} and all(used <= {key, own} for used in mine):
            variables = (key, own, other)
            return _fusion_of(step, join, side, variables, grouped, columns, lowering)
    return None


def _lift_columns(
    node: Groups, key: typed.Expr, value: typed.Expr, numbers: Sequence[int]
) -> list[list[typed.Expr]] | None:
    """The columns of each accumulator, over the variables of the join."""
    found = []
    for number in numbers:
        each = node.accumulators[number]
        element: ElementAtMost | None = single_element(
            inline_variables(each.operand, group_of(node.group, key, [value]))
        )
        if element is None:
            return None
        found.append(columns_of(each, element.head, element.condition))
    return found


def _fusion_of(  # noqa: PLR0913, PLR0917 (two steps, and what they come to)
    step: GroupOp,
    join: JoinOp,
    side: int,
    variables: tuple[typed.Variable, typed.Variable, typed.Variable],
    grouped: typed.Expr,
    columns: Sequence[Sequence[typed.Expr]],
    lowering: Lowering,
) -> Fused | None:
    key, own, other = variables
    exprs: list[typed.Expr] = []
    lifts: list[Lift] = []
    for lift, mine in zip(step.blocks[0][0].lifts, columns, strict=True):
        for expr in mine:
            if expr not in exprs:
                exprs.append(expr)
        lifts.append(replace(lift, columns=tuple(exprs.index(expr) for expr in mine)))
    types = Tuple(tuple(expr.type for expr in exprs))
    made = Struct(tuple(Leaf(expr.type) for expr in exprs), types)
    layouts = {own: join.sides[side].value, other: join.sides[1 - side].value}
    added = lowering.pipeline(
        [(key, join.key), (own, layouts[own])], rows.bag_of(rows.tuple_of(*exprs)), made=made
    )
    by = lowering.pipeline(
        [(key, join.key), (other, layouts[other])], rows.bag_of(grouped), made=step.key
    )
    if isinstance(added.how, ByRow) or isinstance(by.how, ByRow):
        return None
    counted = step.blocks[0][0].counted
    return Fused(side, added, tuple(lifts), by, counted, step.schema)
