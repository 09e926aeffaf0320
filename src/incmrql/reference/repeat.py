"""Loops: `repeat x = initial step next limit n`, for several variables at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from incmrql.diagnostics import DataError
from incmrql.reference.environment import Environment, place
from incmrql.types import typed
from incmrql.values import Value, identical


@dataclass(frozen=True, slots=True)
class Ending:
    """When a loop ends: which variables carry flags, after how many steps, and at the latest."""

    flagged: tuple[bool, ...]
    limit: int | None
    most: int
    where: str = ""


def repeat(loop: typed.Repeat, env: Environment) -> Value:
    """The variable's value when the loop ends, or the tuple of all variables' values."""
    evaluate = env.world.evaluate
    limit = None if loop.limit is None else evaluate(loop.limit, env) or 0
    ending = Ending(loop.flagged, limit, env.world.max_steps, place(loop.span))

    def step(values: list[Value]) -> list[Value]:
        row = env.extend({v.number: x for v, x in zip(loop.variables, values, strict=True)})
        return [evaluate(each, row) for each in loop.step]

    values = iterate([evaluate(initial, env) for initial in loop.initial], step, ending)
    return values[0] if len(values) == 1 else tuple(values)


def iterate(
    values: list[Value], step: Callable[[list[Value]], list[Value]], ending: Ending
) -> list[Value]:
    """The values of a loop's variables when it ends."""
    steps, running = 0, True
    while running and (ending.limit is None or steps < ending.limit):
        if ending.limit is None and steps >= ending.most:
            raise too_long(steps, ending.where)
        stepped = step(values)
        fresh = [_rows(x) if f else x for x, f in zip(stepped, ending.flagged, strict=True)]
        running = _goes_on(ending, stepped, fresh, values)
        values, steps = fresh, steps + 1
    return values


def _rows(flagged: Value) -> Value:
    """The collection of pairs (row, flag) without the flags."""
    return None if flagged is None else type(flagged)([pair and pair[0] for pair in flagged])


def _goes_on(ending: Ending, stepped: list[Value], fresh: list[Value], before: list[Value]) -> bool:
    if any(ending.flagged):
        flags = [
            pair and pair[1]
            for pairs, flagged in zip(stepped, ending.flagged, strict=True)
            if flagged and pairs is not None
            for pair in pairs
        ]
        return True in flags
    return ending.limit is not None or not identical(fresh, before)


def too_long(steps: int, where: str = "") -> DataError:
    """What is wrong with a loop that does not end."""
    message = f"the loop still changes after {steps:,} steps"
    return DataError("R202", message, place=where, hint="Give it an end with `limit n`.")
