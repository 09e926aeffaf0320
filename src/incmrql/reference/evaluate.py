"""The value of an expression: one rule per construct, and nothing clever.

    evaluate(typed tree, environment) -> value

Operations are total: a null operand gives null, and so does an operation without a result
(unless the world is set to fail).  A null collection counts as empty wherever elements are
needed.  Rules without recursion are functions of values in `operators.py`,
`navigate.py`, `casts.py`, `aggregates.py` and the modules of built-ins.
"""

from __future__ import annotations

from typing import assert_never

from incmrql.reference.aggregates import aggregate
from incmrql.reference.builtins import call_builtin
from incmrql.reference.calls import call_function, call_python, fold, user_aggregate
from incmrql.reference.casts import cast, widen
from incmrql.reference.environment import Environment, place
from incmrql.reference.navigate import element_at, look_up, make_data, navigate, slice_of
from incmrql.reference.operators import (
    arithmetic,
    collection,
    combine,
    compare,
    conjunction,
    disjunction,
    elements,
    integers_between,
    negate,
    negation,
)
from incmrql.reference.queries import match_pattern, repeat, select
from incmrql.types import typed
from incmrql.types.model import Collection, Record
from incmrql.values import Bag, Value, encode, show
from incmrql.values import Record as RecordValue


def evaluate(expr: typed.Expr, env: Environment) -> Value:
    """The value of an expression."""
    match expr:
        case typed.Const(value):
            return value
        case typed.Var(variable):
            return env.values[variable.number]
        case typed.Global(key):
            return evaluate(env.world.script.queries[key], env.outermost())
        case typed.Stored(key):
            return env.world.stored[key]
        case typed.ScriptArguments():
            return list(env.world.arguments)
        case typed.Read(source):
            return rows_of(source, env)
        case typed.MakeTuple(items):
            return tuple(_evaluate_all(items, env))
        case typed.MakeRecord(items):
            return _record(expr, env)
        case typed.MakeCollection(items):
            return collection(expr.type, _evaluate_all(items, env))
        case typed.MakeData(constructor, content):
            return make_data(constructor, evaluate(content, env))
        case typed.Concat(parts):
            return [element for part in _evaluate_all(parts, env) for element in elements(part)]
        case typed.RangeOf(first, last):
            return _range(expr, env)
        case typed.Arithmetic():
            return _arithmetic(expr, env)
        case typed.Negate():
            return _negate(expr, env)
        case typed.Compare(op, left, right):
            return compare(op, evaluate(left, env), evaluate(right, env))
        case typed.Logic():
            return _logic(expr, env)
        case typed.Not(operand):
            return negation(evaluate(operand, env))
        case typed.IsNull(operand):
            return evaluate(operand, env) is None
        case typed.Exists(operand):
            return len(elements(evaluate(operand, env))) > 0
        case typed.Combine(op, left, right):
            return combine(op, evaluate(left, env), evaluate(right, env))
        case typed.Widen(operand):
            return widen(evaluate(operand, env), expr.type)
        case typed.Cast():
            return _cast(expr, env)
        case typed.Field(subject, name):
            record = evaluate(subject, env)
            return None if record is None else record[name]
        case typed.Item(subject, index):
            components = evaluate(subject, env)
            return None if components is None else components[index]
        case typed.Navigate(kind, subject, name):
            return navigate(kind, evaluate(subject, env), name)
        case typed.At(subject, key) | typed.LookUp(subject, key):
            return _element(expr, evaluate(subject, env), evaluate(key, env), env)
        case typed.SliceOf(subject, first, last):
            return slice_of(evaluate(subject, env), evaluate(first, env), evaluate(last, env))
        case typed.MapOver():
            return _map(expr, env)
        case typed.If(condition, then, otherwise):
            holds = evaluate(condition, env)
            return evaluate(then if holds else otherwise, env)
        case typed.Case():
            return _case(expr, env)
        case typed.Repeat():
            return repeat(expr, env)
        case typed.Trace(operand, text):
            value = evaluate(operand, env)
            env.world.on_trace(text, value)
            return value
        case typed.Call():
            return call_function(expr, env)
        case typed.PythonCall():
            return call_python(expr, env)
        case typed.Builtin(_, arguments):
            return call_builtin(expr, _evaluate_all(arguments, env), env.world)
        case typed.Aggregate():
            return _aggregate(expr, env)
        case typed.UserAggregate():
            return user_aggregate(expr, env)
        case typed.Fold():
            return fold(expr, env)
        case typed.Select() | typed.Window():
            return _query(expr, env)
        case _:
            assert_never(expr)


def _query(expr: typed.Select | typed.Window, env: Environment) -> Value:
    if isinstance(expr, typed.Select):
        return select(expr, env)
    from incmrql.reference.windows import window  # workers do without

    return window(expr, env)


def rows_of(source: typed.Source, env: Environment) -> Bag:
    """The rows of a source, read once for each item of a script."""
    snapshots = env.world.snapshots
    address = [part for part in (source.path, source.host, source.port) if part is not None]
    key = repr(source), tuple([encode(value) for value in _evaluate_all(address, env)])
    if key not in snapshots:
        snapshots[key] = env.world.read(source, env)
    return snapshots[key]


def _evaluate_all(
    exprs: tuple[typed.Expr, ...] | list[typed.Expr], env: Environment
) -> list[Value]:
    return [evaluate(expr, env) for expr in exprs]


def _record(expr: typed.MakeRecord, env: Environment) -> RecordValue:
    names = expr.type.names if isinstance(expr.type, Record) else ()
    return RecordValue.of(names, _evaluate_all(expr.items, env))


def _range(expr: typed.RangeOf, env: Environment) -> Value:
    first, last = _evaluate_all([expr.first, expr.last], env)
    if first is None or last is None:
        return None
    return collection(expr.type, integers_between(first, last, place(expr.span)))


def _arithmetic(expr: typed.Arithmetic, env: Environment) -> Value:
    left, right = evaluate(expr.left, env), evaluate(expr.right, env)
    if left is None or right is None:
        return None
    if expr.mode == "total":
        result = arithmetic(expr.op, expr.type, left, right)
    else:
        from incmrql.reference.spark.arithmetic import arithmetic_in_mode  # workers do without

        result = arithmetic_in_mode(expr.op, expr.type, left, right, expr.mode)
    if result is None and expr.mode in ("total", "ansi"):
        env.world.fail(expr.span, f"{left} {expr.op} {right} has no result of type {expr.type}")
    return result


def _negate(expr: typed.Negate, env: Environment) -> Value:
    operand = evaluate(expr.operand, env)
    if operand is None:
        return None
    if expr.mode == "total":
        result = negate(expr.type, operand)
    else:
        from incmrql.reference.spark.arithmetic import negate_in_mode  # workers do without

        result = negate_in_mode(expr.type, operand, expr.mode)
    if result is None and expr.mode in ("total", "ansi"):
        env.world.fail(expr.span, f"-({operand}) has no result of type {expr.type}")
    return result


def _logic(expr: typed.Logic, env: Environment) -> bool | None:
    """Three-valued logic; the right side is not evaluated if the left one decides."""
    left = evaluate(expr.left, env)
    if left is (expr.op == "or"):
        return left
    right = evaluate(expr.right, env)
    return conjunction(left, right) if expr.op == "and" else disjunction(left, right)


def _cast(expr: typed.Cast, env: Environment) -> Value:
    def fail(message: str) -> None:
        env.world.fail(expr.span, message)

    value = evaluate(expr.operand, env)
    if expr.mode != "total":
        from incmrql.reference.spark.casts import cast_in_mode  # workers do without

        result = cast_in_mode(value, expr.operand.type, expr.type, expr.mode)
        if result is None and value is not None and expr.mode == "ansi":
            fail(f"{show(value, 10)} has no form of type {expr.type}")
        return result
    return cast(value, expr.type, fail)


def _element(expr: typed.At | typed.LookUp, subject: Value, key: Value, env: Environment) -> Value:
    def fail(message: str) -> None:
        env.world.fail(expr.span, message)

    element_of = element_at if isinstance(expr, typed.At) else look_up
    return element_of(subject, key, fail)


def _map(expr: typed.MapOver, env: Environment) -> Value:
    subject = evaluate(expr.subject, env)
    if subject is None:
        return None
    results = [evaluate(expr.body, env.bind(expr.variable, e)) for e in elements(subject)]
    if expr.flatten:
        results = [element for body in results for element in elements(body)]
    kind = expr.type if isinstance(expr.type, Collection) else expr.subject.type
    return collection(kind, results)


def _case(expr: typed.Case, env: Environment) -> Value:
    subject = evaluate(expr.subject, env)
    for branch in expr.branches:
        bindings = match_pattern(branch.pattern, subject)
        if bindings is not None:
            return evaluate(branch.body, env.extend(bindings))
    return None


def _aggregate(expr: typed.Aggregate, env: Environment) -> Value:
    operand = evaluate(expr.operand, env)
    extra = None if expr.extra is None else evaluate(expr.extra, env)

    def fail(message: str) -> None:
        env.world.fail(expr.span, message)

    return aggregate(expr.function, operand, expr.type, extra, fail)
