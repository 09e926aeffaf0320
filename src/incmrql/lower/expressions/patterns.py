"""Patterns: the tests that a value must pass, and the variables bound to its parts."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from incmrql.lower import literals, tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays
from incmrql.lower.shapes import Cell, Env, NotNative, Parts, Shape
from incmrql.types import typed
from incmrql.types.model import Collection, Record


def match_pattern(
    pattern: typed.Pattern, subject: Shape, env: Env, ctx: Context
) -> tuple[list[exp.Expression], Env]:
    """The tests, and the environment with the pattern's variables."""
    tests: list[exp.Expression] = []
    return tests, _match(pattern, subject, env, ctx, tests)


def _match(
    pattern: typed.Pattern, subject: Shape, env: Env, ctx: Context, tests: list[exp.Expression]
) -> Env:
    match pattern:
        case typed.Bind(variable):
            return env.bind(variable, subject)
        case typed.Anything():
            return env
        case typed.Equals(value, _):
            constant = literals.constant(value, subject.type, ctx.dialect)
            own = arrays.canonical(ctx.whole(subject), subject.type, ctx)
            tests.append(tree.binary(exp.NullSafeEQ, own, constant))
            return env
        case typed.TupleOf(items):
            _require_present(subject, ctx, tests)
            for index, item in enumerate(items):
                env = _match(item, ctx.part(subject, index), env, ctx, tests)
            return env
        case typed.Fields(fields):
            _require_present(subject, ctx, tests)
            names = subject.type.names if isinstance(subject.type, Record) else ()
            for name, inner in fields:
                env = _match(inner, ctx.part(subject, names.index(name)), env, ctx, tests)
            return env
        case typed.ListOf(items):
            return _match_list(items, subject, env, ctx, tests)
        case typed.DataOf(constructor):
            raise NotNative(f"a pattern of data type {constructor.owner}")
        case typed.Members() | typed.ReadAs():
            raise NotNative("a pattern that looks into a tree")
        case _:
            assert_never(pattern)


def _require_present(subject: Shape, ctx: Context, tests: list[exp.Expression]) -> None:
    if not isinstance(subject, Parts):
        tests.append(tree.not_null(ctx.whole(subject)))


def _match_list(
    items: tuple[typed.Pattern, ...],
    subject: Shape,
    env: Env,
    ctx: Context,
    tests: list[exp.Expression],
) -> Env:
    if not isinstance(subject.type, Collection):
        raise NotNative("a pattern that looks into a tree")
    array, element = ctx.whole(subject), subject.type.element
    length = tree.binary(exp.EQ, arrays.size(array, ctx), tree.number(len(items)))
    tests.append(tree.call("coalesce", length, tree.boolean(False)))
    for index, item in enumerate(items):
        element_cell = Cell(arrays.at(array, tree.number(index), ctx), element)
        env = _match(item, element_cell, env, ctx, tests)
    return env
