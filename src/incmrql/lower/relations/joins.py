"""A cMap over groups: joins of the sides it goes through, aggregates of the others."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from incmrql.algebra.term import CMap, Term
from incmrql.errors import InternalError
from incmrql.lower import tree
from incmrql.lower.expressions import arrays
from incmrql.lower.relations.builder import (
    GroupSide,
    LoweredRelation,
    RelationBuilder,
    as_columns,
    column_name,
    same_structure,
)
from incmrql.lower.relations.flows import Flow, emit, select_rows, side_of
from incmrql.lower.shapes import Cell, Env, GroupBag, Parts, Shape, leaves, map_leaves, split
from incmrql.types import typed
from incmrql.types.model import Collection


def lower_groups(term: CMap, sources: list[Term], b: RelationBuilder) -> LoweredRelation:
    """A cMap over the groups of one side or two."""
    iterated = _iterated_sides(term.body, term.variable)
    sides = []
    for number, source in enumerate(sources):
        source_rows = _with_canonical_key(b.relation(source, b), b)
        key, value = split(source_rows.row).parts
        sides.append(GroupSide(source_rows, key, value, term.variable, number in iterated))
    keys = _matching_keys(sides, b)
    flow = Flow(Env(), sides)
    for side in sides:
        if side.iterated or len(sides) == 1:
            flow.present |= set(side.relation.present)
    key = keys[iterated[0]] if iterated else _coalesced_key(keys)
    bags = tuple(GroupBag(s, s.value, Collection("bag", s.value.type)) for s in sides)
    inner = tree.parts_of(term.variable.type)[1][1]
    group: Shape = bags[0] if len(sides) == 1 else Parts(bags, inner)
    flow.env = Env({term.variable: Parts((key, group), term.variable.type)})
    head = _collect_bags(emit(term.body, flow.env, flow, b), b)
    row_sides = flow.iterated_sides or ([0] if len(sides) == 1 else [])
    if len(row_sides) == 1:
        flow.size = sides[row_sides[0]].relation.size
        flow.grouped = not flow.iterated_sides or sides[row_sides[0]].relation.grouped
    return select_rows(head, _join_sides(flow, b), flow, b)


def _collect_bags(shape: Shape, b: RelationBuilder) -> Shape:
    """A shape whose bags of the group are asked for, so that the group can be formed."""
    match shape:
        case Parts(parts, type_):
            return Parts(tuple(_collect_bags(part, b) for part in parts), type_)
        case GroupBag():
            return Cell(b.ctx.whole(shape), shape.type, present=True)
        case _:
            return shape


def _with_canonical_key(source: LoweredRelation, b: RelationBuilder) -> LoweredRelation:
    """A relation of pairs whose keys are equal exactly when they are identical."""
    key = split(source.row).parts[0]
    if not any(arrays.holds_bag(cell.type) for cell in leaves(key)):
        return source
    return _replace_key(
        source,
        map_leaves(
            lambda cell: replace(cell, tree=arrays.canonical(cell.tree, cell.type, b.ctx)),
            key,
        ),
        b,
    )


def _replace_key(source: LoweredRelation, key: Shape, b: RelationBuilder) -> LoweredRelation:
    """The same pairs with another form of the key, in a column of its own."""
    value = split(source.row).parts[1]
    row, columns, present = as_columns(Parts((key, value), source.row.type), b, source.present)
    return LoweredRelation(b.define(exp.select(*columns).from_(source.name)), row, present)


def _matching_keys(sides: list[GroupSide], b: RelationBuilder) -> list[Shape]:
    """The keys of the sides, in parts that correspond."""
    if len(sides) == 2 and not same_structure(sides[0].key, sides[1].key):
        for side in sides:
            whole = Cell(b.ctx.whole(side.key), side.key.type, isinstance(side.key, Parts))
            side.relation = _replace_key(side.relation, whole, b)
            side.key, side.value = split(side.relation.row).parts
    return [side.key for side in sides]


def _coalesced_key(keys: list[Shape]) -> Shape:
    """The key where rows of one side may be missing."""
    if len(keys) == 1:
        return keys[0]
    pairs = zip(leaves(keys[0]), leaves(keys[1]), strict=True)
    coalesced = [tree.call("coalesce", a.tree, c.tree) for a, c in pairs]
    trees = iter(coalesced)
    return map_leaves(lambda cell: Cell(next(trees), cell.type), keys[0])


def _iterated_sides(body: typed.Expr, group: typed.Variable) -> list[int]:
    """The sides of a group whose rows the body goes through, in order."""
    match body:
        case typed.If(_, then, typed.MakeCollection(())):
            return _iterated_sides(then, group)
        case typed.Widen(operand):
            return _iterated_sides(operand, group)
        case typed.Select(group=None, order=(), limit=None, distinct=False):
            indexes = [
                side_of(q.domain, group) for q in body.qualifiers if isinstance(q, typed.Generator)
            ]
            return [index for index in indexes if index is not None]
        case _:
            index = side_of(body, group)
            return [] if index is None else [index]


def _join_sides(flow: Flow, b: RelationBuilder) -> exp.Expression:
    """The relation that the body's columns come from."""
    if flow.iterated_sides:
        return _join_rows(flow, b)
    if len(flow.sides) == 1:
        return exp.to_table(_by_key(flow.sides[0], b, alone=True))
    left, right = flow.sides
    first, second = _by_key(left, b, alone=True), _by_key(right, b, alone=True)
    on = _same_keys(left, right)
    return _join(exp.to_table(first), second, "FULL OUTER", on)


def _join_rows(flow: Flow, b: RelationBuilder) -> exp.Expression:
    first = flow.iterated_sides[0]
    joined: exp.Expression = exp.to_table(_with_windows(flow.sides[first], b))
    for position, number in enumerate(flow.iterated_sides[1:], 1):
        side = flow.sides[number]
        if position in flow.copies:
            copy = flow.copies[position]
            key = split(copy.row).parts[0]
            name, on = copy.name, _key_conditions(flow.sides[first], side, key)
        else:
            name, on = _with_windows(side, b), _same_keys(flow.sides[first], side)
        if on and position == 1 and number != first:
            _broadcast_smallest(flow, {flow.iterated_sides[0]: joined.name, number: name}, b)
        joined = _join(joined, name, "CROSS" if not on else "INNER", on)
    for number, side in enumerate(flow.sides):
        if number in flow.iterated_sides or not (side.aggregates or side.test):
            continue
        on = _same_keys(flow.sides[first], side)
        if side.test and not side.aggregates:
            joined = _join(joined, side.relation.name, f"LEFT {side.test.upper()}", on)
            continue
        if side.test:
            raise InternalError("a side is both tested and aggregated")
        name = _by_key(side, b, alone=False)
        if on:
            _broadcast_smallest(flow, {number: name}, b)
        joined = _join(joined, name, "LEFT" if on else "CROSS", on)
    return joined


def _broadcast_smallest(flow: Flow, names: dict[int, str], b: RelationBuilder) -> None:
    """Have the best side of a join sent to all tasks, if one is known to be small.

    The best is one row for each key, which may be much smaller than what is known of it.
    """
    small = [
        (not flow.sides[number].relation.grouped, size, name)
        for number, name in names.items()
        if (size := flow.sides[number].relation.size) is not None and size <= b.ctx.broadcast
    ]
    if small:
        flow.hints.append(min(small)[2])


def _join(left: exp.Expression, right: str, kind: str, on: list[exp.Expression]) -> exp.Expression:
    """`left KIND JOIN right ON …` as the table of a FROM clause."""
    condition = tree.conjunction(on)
    if condition is None and kind not in ("CROSS", "INNER"):
        condition = tree.boolean(True)
    words = kind.split()
    join = exp.Join(this=exp.to_table(right), on=condition)
    if words[0] in ("LEFT", "FULL"):
        join.set("side", words[0])
        words = words[1:]
    if words:
        join.set("kind", words[0])
    left.append("joins", join)
    return left


def _same_keys(left: GroupSide, right: GroupSide) -> list[exp.Expression]:
    return _key_conditions(left, right, right.key)


def _key_conditions(left: GroupSide, right: GroupSide, right_key: Shape) -> list[exp.Expression]:
    """The conditions under which two keys are identical.

    Where one side has no null, plain equality says the same and is what engines do best.
    """
    conditions = []
    for a, c in zip(leaves(left.key), leaves(right_key), strict=True):
        plain = _never_null(a, left.relation) or _never_null(c, right.relation)
        kind = exp.EQ if plain else exp.NullSafeEQ
        conditions.append(tree.binary(kind, a.tree, c.tree))
    return conditions


def _never_null(cell: Cell, source: LoweredRelation) -> bool:
    if cell.present:
        return True
    return isinstance(cell.tree, exp.Column) and cell.tree.name in source.present


def _with_prepared(side: GroupSide, b: RelationBuilder) -> str:
    """The rows of a side, with the columns that its aggregates share."""
    name = side.relation.name
    for column, value in side.prepared:
        name = b.define(exp.select(exp.Star(), exp.alias_(value, column)).from_(name))
    return name


def _by_key(side: GroupSide, b: RelationBuilder, *, alone: bool) -> str:
    """One row for each key, with the aggregates that are wanted."""
    keys = list(leaves(side.key))
    columns = [exp.alias_(value, name) for name, value in side.aggregates.values()]
    if not keys:
        select = exp.select(*(columns or [exp.alias_(tree.call("count", tree.number(1)), "n")]))
        select = select.from_(_with_prepared(side, b))
        if alone:  # there is no group without a row
            select = select.having(tree.binary(exp.GT, tree.call("count", tree.number(1)),
                                               tree.number(0)))  # fmt: skip
        return _with_derived(side, b.define(select), b)
    select = exp.select(*[cell.tree for cell in keys], *columns).from_(_with_prepared(side, b))
    return _with_derived(side, b.define(select.group_by(*[cell.tree for cell in keys])), b)


def _with_derived(side: GroupSide, name: str, b: RelationBuilder) -> str:
    """A relation with the aggregates of a side, and all that is made of them."""
    for step in side.derived:
        more = [exp.alias_(value, column) for column, value in step]
        name = b.define(exp.select(exp.Star(), *more).from_(name))
    return name


def _with_windows(side: GroupSide, b: RelationBuilder) -> str:
    """The rows of a side, each with the aggregates of its group."""
    if not side.aggregates:
        return side.relation.name
    keys = [cell.tree for cell in leaves(side.key)]
    rows = [tree.column(column_name(cell)) for cell in leaves(side.relation.row)]
    windows = [
        exp.alias_(exp.Window(this=value, partition_by=[key.copy() for key in keys]), name)
        for name, value in side.aggregates.values()
    ]
    return _with_derived(
        side, b.define(exp.select(*rows, *windows).from_(_with_prepared(side, b))), b
    )
