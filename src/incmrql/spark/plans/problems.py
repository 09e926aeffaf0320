"""Problems of queries that Spark analyses: Spark's own words, in our form."""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import PySparkException

from incmrql.errors import Diagnostic, SourceText, Span

_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_SQL: Final = re.compile(r"\s*== SQL.*", re.DOTALL)
_PLACE: Final = re.compile(r"line (\d+),? pos (\d+)")
_HINTS: Final = ("Did you mean", "If you did not", "If necessary", "To tolerate", "Use ")
"""How a sentence of Spark begins that says what to do."""
_COMMAND_HINT: Final = "Give the query alone: run the command yourself, or write a SELECT."


def spark_problem(problem: PySparkException, text: str, name: str) -> Diagnostic:
    """What Spark says of a query that it refuses, with its condition, at its place."""
    condition = problem.getCondition() or type(problem).__name__
    message, hint = _message_and_hint(problem)
    return Diagnostic("C001", f"[{condition}] {message}", _place(problem, text, name), hint=hint)


def command_problem(command: str, text: str, name: str, *, has_run: bool = False) -> Diagnostic:
    """A command where a query is expected."""
    said = "has already run" if has_run else "was not run"
    message = f"this is a command ({command}), not a query; it {said}"
    return Diagnostic("C002", message, _whole(text, name), hint=_COMMAND_HINT)


def connect_problem(value: object) -> Diagnostic:
    """A frame or session of Spark Connect, or no frame at all."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if ".connect." in kind:
        message = f"{kind} is of Spark Connect, whose client does not have the analysed plan"
        hint = "Use a classic session: SparkSession.builder.master(...) without remote(...)."
    else:
        message = f"{kind} is no DataFrame or session of Spark"
        hint = "Give a pyspark.sql.DataFrame."
    return Diagnostic("C003", message, _whole("", "<DataFrame>"), hint=hint)


def streaming_problem(text: str, name: str) -> Diagnostic:
    """A query over streams of Spark's own Structured Streaming."""
    message = "the query reads a stream of Spark's Structured Streaming"
    hint = "Read with spark.read instead of spark.readStream: files that appear later are followed."
    return Diagnostic("C004", message, _whole(text, name), hint=hint)


def no_plan_problem(problem: BaseException, text: str, name: str) -> Diagnostic:
    """A build of Spark that does not show its analysed plans."""
    words = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
    message = f"this build of Spark does not show its analysed plans: {words}"
    hint = "Use open-source Spark 4.0 to 4.3."
    return Diagnostic("C005", message, _whole(text, name), hint=hint)


def _message_and_hint(problem: PySparkException) -> tuple[str, str]:
    """The sentences that say what is wrong, and those that say what to do."""
    words = problem.getMessage() or str(problem)
    words = _SQL.sub("", _STATE.sub("", words))
    words = re.sub(r"^\[[\w.]+\]\s*", "", words).strip()
    sentences = [part.strip() for part in re.split(r"\n|(?<=[.?]) (?=[A-Z])", words)]
    sentences = [sentence for sentence in sentences if sentence]
    first = next(
        (n for n, sentence in enumerate(sentences) if n and sentence.startswith(_HINTS)),
        len(sentences),
    )
    hints = [part for part in sentences[first:] if not part.startswith("To tolerate")]
    return " ".join(sentences[:first]), " ".join(hints)


def _place(problem: PySparkException, text: str, name: str) -> Span:
    """The place that Spark names, or else the whole text."""
    source = SourceText(text, name)
    for context in problem.getQueryContext() or []:
        start, stop = _indices(context)
        if 0 <= start <= stop < len(text):
            return Span(source, start, stop + 1)
    named = _PLACE.search(str(problem).partition("JVM stacktrace")[0])
    if named is not None and text:
        start = _offset(text, int(named[1]), int(named[2]))
        word = re.compile(r"\w+|\S|$").search(text, start)
        return Span(source, start, max(start + 1, word.end() if word else start + 1))
    return _whole(text, name)


def _indices(context: object) -> tuple[int, int]:
    """The first and the last character of a place; (0, -1) of a place outside of SQL texts."""
    try:
        return context.startIndex(), context.stopIndex()  # type: ignore[attr-defined]
    except Exception:  # a call of Python has no indices, and Spark raises to say so
        return 0, -1


def _offset(text: str, line: int, column: int) -> int:
    lines = text.splitlines(keepends=True)
    return min(len(text), sum(map(len, lines[: line - 1])) + column)


def _whole(text: str, name: str) -> Span:
    """The text without the blanks around it."""
    start = len(text) - len(text.lstrip())
    return Span(SourceText(text, name), start, max(start, len(text.rstrip())))
