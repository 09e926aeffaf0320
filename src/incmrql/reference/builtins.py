"""Calls of built-in functions.

A null argument gives null, except where a function is about collections (then null is the
empty one).  A result that the type of the call cannot hold is null too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from incmrql.reference.builtins_collections import COLLECTIONS
from incmrql.reference.builtins_dates import DATES
from incmrql.reference.builtins_numbers import NUMBERS
from incmrql.reference.builtins_strings import STRINGS
from incmrql.reference.casts import cast
from incmrql.reference.environment import World, place
from incmrql.reference.navigate import tag_of, text_of
from incmrql.reference.operators import collection, fitted, integers_between
from incmrql.types import typed
from incmrql.types.model import STRING, Collection, Type
from incmrql.values import Value, show

SCALAR: Final[Mapping[str, Callable[..., Any]]] = {
    **NUMBERS,
    **STRINGS,
    **DATES,
    "text": text_of,
}
"""Functions that are not called with null, and whose null means that there is no result."""

OTHER: Final[Mapping[str, Callable[..., Any]]] = {
    **COLLECTIONS,
    "inv": lambda value: value,
    "string": lambda value: cast(value, STRING),
    "tag": tag_of,
}
"""Functions that take null as it is, and may give it."""


def call_builtin(call: typed.Builtin, arguments: list[Value], world: World) -> Value:
    """The result of a built-in function for these arguments."""
    if call.function == "range" and None not in arguments:
        return integers_between(arguments[0], arguments[1], place(call.span))
    if call.function in OTHER:
        return _in_kind(OTHER[call.function](*arguments), call.type)
    if any(argument is None for argument in arguments):
        return None
    if call.function == "random":
        result = world.random.randrange(arguments[0]) if arguments[0] > 0 else None
    else:
        result = SCALAR[call.function](*arguments)
    result = None if result is None else fitted(result, call.type)
    if result is None:
        shown = ", ".join([show(argument, 10) for argument in arguments])
        world.failed(call.span, f"{call.function}({shown}) has no result")
    return result


def _in_kind(result: Value, type_: Type) -> Value:
    """A collection as the bag or list that the type says; anything else as it is."""
    is_collection = isinstance(type_, Collection) and isinstance(result, list)
    return collection(type_, result) if is_collection else result
