"""The DataFrame that a Python file builds."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.errors import DataError, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of_file(path: Path, name: str, spark: SparkSession) -> DataFrame:
    """The DataFrame that a Python file builds, or the only one if no name is given.

    The file sees `spark`.  The name is that of a DataFrame, or of a function that returns one; the
    function may take the Spark session.  `spark.stop()` has no effect in the file.
    """
    names = _names_after(path, spark)
    if name:
        return _frame_of_job(path, name, names, spark)
    frames = {key: value for key, value in names.items() if _is_frame(value)}
    if len(frames) == 1:
        frame: DataFrame = next(iter(frames.values()))
        return frame
    if not frames:
        hint = f"Give the name of a function that returns one: {path.name}:build."
        raise DataError("R316", f"{path} builds no DataFrame", hint=hint)
    message = f"{path} builds {len(frames)} DataFrames: {', '.join(frames)}"
    last = list(frames)[-1]
    raise DataError("R316", message, hint=f"Say which one, as in {path.name}:{last}.")


def _names_after(path: Path, spark: SparkSession) -> dict[str, Any]:
    """What the names of a Python file stand for after it has run."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path), "spark": spark}
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None)
        what = f"{type(problem).__name__}: {getattr(problem, 'msg', problem)}"
        place = str(path) if line is None else f"{path}:{line}"
        raise DataError("R316", f"{path} is not a Python file: {what}", place=place) from None
    with _as_script(path), _failures(path):
        exec(code, names)
    return names


def _frame_of_job(
    path: Path, name: str, names: Mapping[str, Any], spark: SparkSession
) -> DataFrame:
    if name not in names:
        known = [key for key, value in names.items() if _is_frame(value) or _is_own(value)]
        hint = nearest(name, known) or (f"There are {', '.join(known)}." if known else "")
        raise DataError("R316", f'{path} has no "{name}"', hint=hint)
    value = names[name]
    if not _is_frame(value) and callable(value):
        with _as_script(path), _failures(path):
            value = value(spark) if _takes_session(value) else value()
    if not _is_frame(value):
        message = f'"{name}" of {path} is a {type(value).__name__}, not a DataFrame'
        raise DataError("R316", message)
    frame: DataFrame = value
    return frame


def _is_frame(value: object) -> bool:
    from pyspark.sql import DataFrame

    return isinstance(value, DataFrame)


def _is_own(value: object) -> bool:
    """Whether a value is a function that the file itself defines."""
    return callable(value) and getattr(value, "__module__", None) == "__main__"


def _takes_session(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount - len(function.__defaults__ or ()) > 0


@contextmanager
def _as_script(path: Path) -> Iterator[None]:
    """Run what is inside as Python runs a file; Spark cannot be stopped there."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    replaced: list[tuple[Any, str, Any]] = [
        (sys, "argv", [str(path)]),
        (sys, "path", [str(path.parent.absolute()), *sys.path]),
        (SparkSession, "stop", lambda _: None),
        (SparkContext, "stop", lambda _: None),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    logger = logging.getLogger("DataFrameQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what Spark refuses is reported once, without Java's stack
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        logger.setLevel(level)


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Report an exception of the user's file with its place there."""
    try:
        yield
    except SystemExit as end:
        if end.code not in (None, 0):
            message = f"{path} ended with the exit code {end.code}"
            raise DataError("R316", message) from None
    except Exception as problem:
        own = [
            frame for frame in traceback.extract_tb(problem.__traceback__)
            if frame.filename == str(path)
        ]  # fmt: skip
        place = f"{path}:{own[-1].lineno}" if own else str(path)
        words = re.sub(r"\s*SQLSTATE: .*", "", str(problem), flags=re.DOTALL).strip()
        said = (words.splitlines() or [""])[0][:500]
        message = f"{path} raised {type(problem).__name__}{': ' if said else ''}{said}"
        raise DataError("R316", message, place=place) from problem


__all__ = ["frame_of_file"]
