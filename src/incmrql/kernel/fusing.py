"""Joins with the fold above them: where each partner need only be met by a sum.

    fold by g(left) of h(right) over X ⋈ Y       h of the rows of ΔY with one key is added up first

It holds where the fold is the only one that takes the join's rows, keeps nothing but sums, groups
by what depends on one side and adds up what depends on the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from incmrql.algebra import build
from incmrql.incremental.nodes import Groups, Join
from incmrql.incremental.streams import Program
from incmrql.kernel.alone import One, group_of, one, over
from incmrql.kernel.compile_groups import columns_of
from incmrql.kernel.groups import GroupOp
from incmrql.kernel.joins import JoinOp
from incmrql.kernel.layouts import Leaf, Struct
from incmrql.kernel.lifting import Lift
from incmrql.kernel.lowering import Lowering
from incmrql.kernel.operators import Operator
from incmrql.kernel.physical import Fused
from incmrql.kernel.segment import ByRow
from incmrql.types import typed
from incmrql.types.model import Tuple
from incmrql.types.walk import free

_BESIDE = 1 << 42


def fuse(
    program: Program, steps: list[Operator], lowering: Lowering, used: Sequence[int] = ()
) -> None:
    """Note at joins which fold they can add up for; `used` are places whose rows others need."""
    users = Counter(place for step in steps for place in step.inputs)
    users.update(used)
    users.update(part.place for output in program.answered for part in output.parts)
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
        and not any(each.request.is_walked for each in step.wanted)
        and len(step.blocks[0]) == 1
    )


def _fusion(
    program: Program, place: int, step: GroupOp, join: JoinOp, lowering: Lowering
) -> Fused | None:
    node, below_ = program.nodes[place], program.nodes[step.inputs[0]]
    assert isinstance(node, Groups)
    assert isinstance(below_, Join)
    key, left, right = (
        typed.Variable(name, _BESIDE + n, layout.type)
        for n, (name, layout) in enumerate(
            [("key", join.key), ("left", join.sides[0].value), ("right", join.sides[1].value)]
        )
    )
    known = group_of(below_.group, build.var(key), [build.var(left), build.var(right)])
    pair = one(over(below_.body, known))
    if pair is None or pair.condition is not None or not isinstance(pair.head, typed.MakeTuple):
        return None
    grouped, value = pair.head.items
    columns = _lift_columns(node, grouped, value, [lift.number for lift in step.blocks[0][0].lifts])
    if columns is None:
        return None
    for side, (own, other) in enumerate(((left, right), (right, left))):
        mine = [free(expr) for each in columns for expr in each]
        if free(grouped) <= {key, other} and all(used <= {key, own} for used in mine):
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
        element: One | None = one(over(each.operand, group_of(node.group, key, [value])))
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
    added = lowering.segment(
        [(key, join.key), (own, layouts[own])], build.bag_of(build.tuple_of(*exprs)), made=made
    )
    by = lowering.segment(
        [(key, join.key), (other, layouts[other])], build.bag_of(grouped), made=step.key
    )
    if isinstance(added.how, ByRow) or isinstance(by.how, ByRow):
        return None
    counted = step.blocks[0][0].counted
    return Fused(side, added, tuple(lifts), by, counted, step.form)
