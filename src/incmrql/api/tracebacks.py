"""Short tracebacks: of an error that is for users, their own line and the message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from incmrql.errors import IncmrqlError, InternalError

_DEBUG: Final = "INCMRQL_DEBUG"
"""The environment variable with which tracebacks stay whole."""
_OURS: Final = str(Path(__file__).parents[1]) + os.sep
_INTERNAL: Final = (
    _OURS,
    *(str(Path(folder, name)) + os.sep for folder in sys.path for name in ("pyspark", "py4j")),
)
"""Directories of code that is not the user's."""

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def short_traceback(function: Function) -> Function:
    """A function whose errors for users do not show what it called."""

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except InternalError:  # is reported to us, with all of it
            raise
        except IncmrqlError as error:
            if os.environ.get(_DEBUG):
                raise
            _cut(error)
            raise

    return called  # type: ignore[return-value]


def _cut(error: BaseException) -> None:
    """Remove our frames, and those of PySpark, from the traceback of an error and of its causes."""
    problem: BaseException | None = error
    while problem is not None:
        problem.__traceback__ = _of_users(problem.__traceback__)
        problem.__suppress_context__ = True
        problem = problem.__cause__


def _of_users(traceback: TracebackType | None) -> TracebackType | None:
    """The entries of a traceback that are neither ours nor PySpark's."""
    if traceback is None:
        return None
    rest = _of_users(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_INTERNAL):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def short_tracebacks(class_: Class) -> Class:
    """A class whose public methods and properties have short tracebacks."""
    for name, member in vars(class_).copy().items():
        if name.startswith("_"):
            continue
        if isfunction(member):
            setattr(class_, name, short_traceback(member))
        elif isinstance(member, property) and member.fget is not None:
            setattr(class_, name, member.getter(short_traceback(member.fget)))
    return class_


__all__ = ["short_traceback", "short_tracebacks"]
