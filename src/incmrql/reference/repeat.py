"""Loops: `repeat x = initial step next limit n`, for several variables at once."""

from __future__ import annotations

from incmrql.diagnostics import DataError
from incmrql.reference.environment import Environment, place
from incmrql.types import typed
from incmrql.values import Value, identical


def repeat(loop: typed.Repeat, env: Environment) -> Value:
    """The variable's value when the loop ends, or the tuple of all variables' values."""
    evaluate = env.world.evaluate
    values = [evaluate(initial, env) for initial in loop.initial]
    limit = None if loop.limit is None else evaluate(loop.limit, env) or 0
    steps, running = 0, True
    while running and (limit is None or steps < limit):
        if limit is None and steps >= env.world.max_steps:
            _too_long(loop, steps)
        row = env.extend({v.number: x for v, x in zip(loop.variables, values, strict=True)})
        stepped = [evaluate(step, row) for step in loop.step]
        fresh = [_rows(x) if f else x for x, f in zip(stepped, loop.flagged, strict=True)]
        running = _goes_on(loop, stepped, fresh, values)
        values, steps = fresh, steps + 1
    return values[0] if len(values) == 1 else tuple(values)


def _rows(flagged: Value) -> Value:
    """The collection of pairs (row, flag) without the flags."""
    return None if flagged is None else type(flagged)([pair and pair[0] for pair in flagged])


def _goes_on(
    loop: typed.Repeat, stepped: list[Value], fresh: list[Value], before: list[Value]
) -> bool:
    if any(loop.flagged):
        flags = [
            pair and pair[1]
            for pairs, flagged in zip(stepped, loop.flagged, strict=True)
            if flagged and pairs is not None
            for pair in pairs
        ]
        return True in flags
    return loop.limit is not None or not identical(fresh, before)


def _too_long(loop: typed.Repeat, steps: int) -> None:
    raise DataError(
        "R202",
        f"the loop still changes after {steps:,} steps",
        place=place(loop.span),
        hint="Give it an end with `limit n`.",
    )
