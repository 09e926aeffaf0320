"""The body of a cMap as a SELECT: columns, filters, explodes, and rows of a group's sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.expressions import patterns
from incmrql.lower.relations.builder import (
    GroupSide,
    LoweredRelation,
    RelationBuilder,
    as_columns,
    copy_relation,
)
from incmrql.lower.shapes import Cell, Env, GroupBag, Parts, Shape, split
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import root_variable


@dataclass(slots=True)
class Flow:
    """The SELECT of a cMap as it is put together."""

    env: Env
    sides: list[GroupSide]
    tests: list[exp.Expression] = field(default_factory=list)
    explodes: list[tuple[exp.Expression, str]] = field(default_factory=list)
    iterated_sides: list[int] = field(default_factory=list)
    """The sides whose rows are gone through, in order."""
    copies: dict[int, LoweredRelation] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    """Expressions that are not null in every row."""
    empty: bool = False
    size: int | None = None
    grouped: bool = False
    hints: list[str] = field(default_factory=list)
    """The relations that are sent to all tasks."""


def emit(body: typed.Expr, env: Env, flow: Flow, b: RelationBuilder) -> Shape:
    """What a body makes of a row: joins, filters and explodes go to the flow."""
    ctx = b.ctx
    match body:
        case typed.MakeCollection((item,)):
            return ctx.lower(item, env, ctx)
        case typed.MakeCollection(()):
            flow.empty = True
            assert isinstance(body.type, Collection)
            return Cell(tree.typed_null(body.type.element, ctx.dialect), body.type.element)
        case typed.If(condition, then, typed.MakeCollection(())):
            _require(condition, env, flow, b)
            return emit(then, env, flow, b)
        case typed.Widen(operand) if isinstance(operand.type, Collection):
            inner = emit(operand, env, flow, b)
            variable = typed.Variable("x", -1, inner.type)
            assert isinstance(body.type, Collection)
            widened = typed.Widen(typed.Var(variable, type=inner.type), type=body.type.element)
            return ctx.lower(widened, env.bind(variable, inner), ctx)
        case typed.Select(group=None, order=(), limit=None, distinct=False):
            for qualifier in body.qualifiers:
                env = _bind_qualifier(qualifier, env, flow, b)
            if body.where is not None:
                _require(body.where, env, flow, b)
            if body.having is not None:
                _require(body.having, env, flow, b)
            return ctx.lower(body.head, env, ctx)
        case _:
            return _elements(body, env, flow, b)


def _bind_qualifier(qualifier: typed.Qualifier, env: Env, flow: Flow, b: RelationBuilder) -> Env:
    match qualifier:
        case typed.Generator(pattern, domain):
            element = _elements(domain, env, flow, b)
            tests, env = patterns.match_pattern(pattern, element, env, b.ctx)
        case typed.Binding(pattern, value):
            tests, env = patterns.match_pattern(pattern, b.ctx.lower(value, env, b.ctx), env, b.ctx)
        case typed.Condition(condition):
            _require(condition, env, flow, b)
            return env
        case _:
            assert_never(qualifier)
    flow.tests += tests
    return env


def _elements(domain: typed.Expr, env: Env, flow: Flow, b: RelationBuilder) -> Shape:
    """One element of a domain: a row of a side, or what an array is exploded to."""
    shape = b.ctx.lower(domain, env, b.ctx)
    if isinstance(shape, GroupBag) and shape.head is shape.side.value and not shape.tests:
        number = next(n for n, side in enumerate(flow.sides) if side is shape.side)
        return iterate_side(number, flow, b)
    if not isinstance(shape.type, Collection):
        array: exp.Expression = _tree_elements(domain, env, b)
        type_ = domain.type
    else:
        array, type_ = b.ctx.whole(shape), shape.type.element
    column = b.ctx.fresh("item")
    flow.explodes.append((array, column))
    return Cell(tree.column(column), type_)


def _tree_elements(domain: typed.Expr, env: Env, b: RelationBuilder) -> exp.Expression:
    """The elements of a JSON array, in Python."""
    variable = typed.Variable("x", -3, domain.type)
    itself = typed.Var(variable, type=domain.type)
    generator = typed.Generator(typed.Bind(variable), domain)
    whole = Collection("bag", domain.type)
    query = typed.Select(False, itself, (generator,), None, None, None, (), None, type=whole)
    return b.ctx.whole(b.ctx.call_python(query, env, "the elements of a tree"))


def iterate_side(number: int, flow: Flow, b: RelationBuilder) -> Shape:
    """A row of a side; the second time that of a copy."""
    if number in flow.iterated_sides:
        copy = copy_relation(flow.sides[number].relation, b)
        flow.copies[len(flow.iterated_sides)] = copy
        flow.iterated_sides.append(number)
        return split(copy.row).parts[1]
    flow.iterated_sides.append(number)
    return flow.sides[number].value


def _require(condition: typed.Expr, env: Env, flow: Flow, b: RelationBuilder) -> None:
    """Rows for which a condition is not true are left out."""
    match condition:
        case typed.Logic("and", left, right):
            _require(left, env, flow, b)
            _require(right, env, flow, b)
        case typed.Compare("=", left, right) if left == right:
            operand = b.ctx.lower(left, env, b.ctx)
            if isinstance(operand, Parts):
                return
            value = b.ctx.whole(operand)
            flow.present.add(tree.print_tree(value, b.ctx.dialect))
            flow.tests.append(tree.not_null(value))
        case _:
            if not _partner_test(condition, env, flow):
                test = b.ctx.tree(condition, env)
                flow.tests.append(test)


def _partner_test(condition: typed.Expr, env: Env, flow: Flow) -> bool:
    """Whether a condition only asks for the presence of partners: a semi- or anti-join."""
    match condition:
        case typed.Exists(operand):
            kind = "semi"
        case typed.Not(typed.Exists(operand)):
            kind = "anti"
        case _:
            return False
    variable = root_variable(operand)
    index = None if variable is None else side_of(operand, variable)
    shape = None if variable is None else env.values.get(variable)
    if index is None or len(flow.sides) < 2 or not isinstance(shape, Parts):
        return False
    if shape is not next(iter(flow.env.values.values())):
        return False
    side, opposite = flow.sides[index], flow.sides[1 - index]
    if side.iterated or side.aggregates or side.test or not opposite.iterated:
        return False
    side.test = "semi" if kind == "semi" else "anti"
    return True


def side_of(domain: typed.Expr, group: typed.Variable) -> int | None:
    """Which side's bag an expression is, if it is one."""
    if root_variable(domain) != group:
        return None
    match domain:
        case typed.Item(typed.Item(typed.Var(), 1), index):
            return index
        case typed.Item(typed.Var(), 1) if isinstance(domain.type, Collection):
            return 0
        case _:
            return None


def select_rows(
    head: Shape, source: exp.Expression, flow: Flow, b: RelationBuilder
) -> LoweredRelation:
    """The relation of a body's elements."""
    dialect = b.ctx.dialect
    row, columns_, present = as_columns(head, b, flow.present)
    select = exp.select(*columns_).from_(source)
    if flow.hints and dialect is Dialect.SPARK:
        broadcast = [tree.column(name) for name in flow.hints]
        select.set("hint", exp.Hint(expressions=[tree.call("BROADCAST", *broadcast)]))
    for join in source.args.pop("joins", None) or []:
        select.append("joins", join)
    for array, column in flow.explodes:
        if dialect is Dialect.SPARK:
            names = exp.TableAlias(
                this=exp.to_identifier(b.ctx.fresh("each")), columns=[exp.to_identifier(column)]
            )
            lateral = exp.Lateral(this=tree.call("explode", array), view=True, alias=names)
            select.append("laterals", lateral)
        else:
            unnest = exp.Unnest(
                expressions=[array],
                alias=exp.TableAlias(
                    this=exp.to_identifier(b.ctx.fresh("each")), columns=[exp.to_identifier(column)]
                ),
            )
            select.append("joins", exp.Join(this=unnest, kind="CROSS"))
    tests = [*flow.tests, *([tree.boolean(False)] if flow.empty else [])]
    condition = tree.conjunction(tests)
    if condition is not None:
        select = select.where(condition)
    size = None if flow.explodes else flow.size
    return LoweredRelation(b.define(select), row, present, size, flow.grouped and size is not None)
