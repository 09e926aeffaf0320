"""Calls: functions of the script, Python functions, user aggregations, folds."""

from __future__ import annotations

from incmrql.errors import DataError
from incmrql.reference.environment import Environment, place
from incmrql.reference.operators import ordered_elements
from incmrql.reference.python import describe_exception, from_python, user_code
from incmrql.types import typed
from incmrql.values import Value, show


def call_function(call: typed.Call, env: Environment) -> Value:
    """A function's body with its parameters bound, and no other variables."""
    world = env.world
    function = world.script.functions[call.function]
    arguments = [world.evaluate(argument, env) for argument in call.arguments]
    if world.calls >= world.max_calls:
        raise _too_deep(call, world.calls)
    world.calls += 1
    try:
        return apply(typed.Lambda(function.parameters, function.body), arguments, env.outermost())
    except RecursionError:
        raise _too_deep(call, world.calls) from None
    finally:
        world.calls -= 1


def apply(function: typed.Lambda, arguments: list[Value], env: Environment) -> Value:
    """The value of a function for these arguments."""
    parameters = [parameter.number for parameter in function.parameters]
    return env.world.evaluate(
        function.body, env.extend(dict(zip(parameters, arguments, strict=True)))
    )


def call_python(call: typed.PythonCall, env: Environment) -> Value:
    """The result of a Python function, in its declared type; null if an argument is null."""
    function = env.world.script.python[call.function]
    arguments = [env.world.evaluate(argument, env) for argument in call.arguments]
    if any(argument is None for argument in arguments):
        return None
    try:
        with user_code():
            return from_python(function.call(*arguments), function.result)
    except (Exception, SystemExit) as problem:
        values = ", ".join([show(argument, 10) for argument in arguments])
        message = f"{function.name}({values}) {describe_exception(problem)}"
        raise DataError("R204", message, place=place(call.span)) from problem


def user_aggregate(expr: typed.UserAggregate, env: Environment) -> Value:
    """merge(… merge(zero, unit(x1)) …, unit(xn)) over the elements that are not null."""
    world = env.world
    aggregation = world.script.aggregations[expr.aggregation]
    outer = env.outermost()
    total = world.evaluate(aggregation.zero, outer)
    for element in ordered_elements(world.evaluate(expr.operand, env)):
        if element is not None:
            unit = aggregation.unit
            accumulator = element if unit is None else apply(unit, [element], outer)
            total = apply(aggregation.merge, [total, accumulator], outer)
    return total


def fold(expr: typed.Fold, env: Environment) -> Value:
    """function(… function(zero, x1) …, xn) over all elements."""
    total = env.world.evaluate(expr.zero, env)
    for element in ordered_elements(env.world.evaluate(expr.operand, env)):
        total = apply(expr.function, [total, element], env)
    return total


def _too_deep(call: typed.Call, depth: int) -> DataError:
    return DataError(
        "R203",
        f'"{call.function}" calls itself more than {depth:,} deep',
        place=place(call.span),
        hint="Check that the recursion ends, or use `repeat`.",
    )
