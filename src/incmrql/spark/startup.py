"""A Spark that does not start, as one error that says why and what to do.

Java and Spark write what went wrong to stderr before Python knows of it.  That text is collected,
and the lines that give the reason become part of the error; the stack trace does not.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError

from incmrql.diagnostics import DataError
from incmrql.java import Java, JavaNotFound, find_java, is_gone

_EXCEPTION: Final = re.compile(
    r'^(?:Exception in thread "[^"]*" |Caused by: |: )?'
    r"(?:[a-z][\w$]*\.)+(?P<kind>\w*(?:Exception|Error)): (?P<message>\S.*)$"
)
_OF_JAVA: Final = re.compile(r"^(?:Error|Invalid|Too small|Unrecognized|OpenJDK .*error|java:)")
_NOT_SAID: Final = ("Could not create the Java Virtual Machine", "A fatal exception has occurred",
                    "Error occurred during initialization of VM")  # fmt: skip
_PLAIN: Final = ("SparkException", "IllegalArgumentException", "SparkIllegalArgumentException")
"""Exceptions whose message alone says what is wrong."""
_MOST: Final = 4_000
_FRAMES: Final = 500


def usable_java(environ: Mapping[str, str]) -> Java:
    """The Java to run Spark on; a `DataError` if there is none."""
    try:
        return find_java(environ)
    except JavaNotFound as problem:
        what, _, hint = str(problem).partition("): ")
        raise DataError("R240", f"{what})", hint=f"{hint[:1].upper()}{hint[1:]}") from None
    except OSError as cause:  # the launcher of a Java that lacks a module cannot be written
        raise DataError("R240", f"Java cannot be prepared: {cause}") from None


@contextmanager
def starting_spark(master: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Start Spark inside, with its greetings kept back; a failure is a `DataError`."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    before = [(number, os.dup(number)) for number in (1, 2)]  # some errors of Java go to stdout
    with tempfile.TemporaryFile() as log, _shallow():
        for number, _ in before:
            os.dup2(log.fileno(), number)
        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as problem:
            log.seek(0)
            text = log.read().decode(errors="replace")
            raise _not_started(problem, text, master, settings) from problem
        finally:
            for number, copy in before:
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def _shallow() -> Iterator[None]:
    """Allow few Python frames inside.

    PySpark asks Spark's SQL settings how to print an exception.  Where these are wrong, that is an
    exception too, and so on: it takes minutes to reach the limit under which queries run.
    """
    limit, depth = sys.getrecursionlimit(), 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(min(limit, depth + _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _not_started(
    problem: Exception, log: str, master: str, settings: Mapping[str, str]
) -> DataError:
    ended = isinstance(problem, PySparkRuntimeError) or is_gone(problem)
    reason = _reason(log if ended else str(problem))
    given = "".join(f" --conf {name}=..." for name in settings)  # a value may be a password
    place = f"--master {master}{given}"
    if ended and not reason:
        hint = "Most often something ended it for want of memory. Look at the system's log."
        return DataError("R241", "Java ended while Spark was starting", place=place, hint=hint)
    what = reason or (str(problem).strip().splitlines() or [type(problem).__name__])[0][:500]
    hint = "Look at --master and --conf, or at what the Session was given."
    return DataError("R241", f"Spark does not start: {what}", place=place, hint=hint)


def _reason(text: str) -> str:
    """What the last exception of Java says, or Java itself; empty if nothing does."""
    lines = text[-_MOST:].splitlines()
    found = [match for match in map(_EXCEPTION.match, lines) if match is not None]
    if found:
        kind, message = found[0]["kind"], found[0]["message"].strip()[:500]
        return message if kind in _PLAIN else f"{kind}: {message}"
    own = [line for line in lines if _OF_JAVA.match(line)]
    said = [line.removeprefix("Error: ") for line in own if not any(n in line for n in _NOT_SAID)]
    return "; ".join(said)[:500]
