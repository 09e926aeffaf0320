"""The rows of a source as they are now.

A stream is read as far as it has come: all files of its folder, less the rows that its deletes
and its sign column take away, by identity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from incmrql.errors import NOWHERE, DataError, nearest
from incmrql.io.files import ANYWHERE, MAX_LINE, Paths, open_text
from incmrql.io.notices import SourceFacts, notices
from incmrql.io.reader import read
from incmrql.io.rows import BadRow, Collected, Notice, Policy, Quarantine, Read, Row, collect
from incmrql.io.spec import ReadSpec, element_of, watched_fields
from incmrql.reference.environment import Environment, World, place
from incmrql.reference.python import describe_exception, from_python, user_code
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Type
from incmrql.values import Bag, Value, encode, hash64, show

_MOST_NAMED = 3
_LONGEST_TAIL = 40
"""Characters of a path in the name of its quarantine file."""


def read_source(source: typed.Source, env: Environment) -> Bag:
    """The rows of a source, as many times as they are there."""
    if source.host is not None:
        raise no_socket()
    if source.format == "registered":
        return _registered(source, env)
    path = None if source.path is None else env.world.evaluate(source.path, env)
    if path is None:
        raise no_path(source, env)
    check_paths(source, path, env.world)
    options = dict(source.options)
    rows = _collected(source, path, options, env)
    if "deletes" in options:
        plain = {name: value for name, value in options.items() if name not in ("deletes", "sign")}
        deleted = _collected(source, options["deletes"], plain, env)
        rows = [*rows, *[Row(row.value, -row.weight) for row in deleted]]
    return _remaining(rows, path, trusted=bool(options.get("trusted_deletes")))


def check_paths(source: typed.Source, path: str, world: World) -> None:
    """Refuse a source whose files the script may not read."""
    named = place(source.path.span) if source.path is not None else ""
    for each in (path, dict(source.options).get("deletes")):
        if each is not None:
            world.paths.check(each, named)


def no_socket() -> DataError:
    """The error for a batch query over a socket."""
    hint = "Run the query as a stream, or read a folder."
    return DataError("R206", "a socket can only be read by a stream that runs on Spark", hint=hint)


def no_path(source: typed.Source, env: Environment) -> DataError:
    """The error for a source whose path is null."""
    given = len(env.world.arguments)
    words = "1 argument was" if given == 1 else f"{given} arguments were"
    span = source.path.span if source.path is not None else NOWHERE
    shown = span.text if "args" in span.text else "args[i]"
    hint = f"{shown} is null where there is no such argument: {words} given."
    return DataError("R207", "the path of a source is null", place=place(span), hint=hint)


def _registered(source: typed.Source, env: Environment) -> Bag:
    registered = env.world.registered
    if source.name not in registered:
        hint = nearest(source.name, registered)
        raise DataError("R208", f'nothing is registered as "{source.name}"', hint=hint)
    given = registered[source.name]
    rows = given.to_pylist() if hasattr(given, "to_pylist") else given
    try:
        return Bag([from_python(row, source.row) for row in rows])
    except ValueError as problem:
        raise DataError("R208", str(problem), place=source.name) from None


def _collected(
    source: typed.Source, path: str, options: dict[str, Any], env: Environment
) -> list[Row]:
    """All rows of the files of a path; lines that are none are reported."""
    policy = options.get("on_error", "quarantine")
    if source.format == "python":
        rows = parser_rows(
            env.world.script.parsers[source.parser], source, path, policy, env.world.paths
        )
    else:
        rows = read(
            ReadSpec(source, element_of(source), options, env.world.script.data or PREDEFINED),
            path,
            env.world.paths,
        )
    folder = env.world.quarantine
    kept = None if folder is None else Quarantine(folder, quarantine_name(source, path, options))
    collected = collect(rows, policy, kept)
    report = replace(collected.report, notices=_notices(source, path, collected, env.world.paths))
    if report.bad or report.notices:
        env.world.on_report(report, policy)
    return collected.rows


def _notices(
    source: typed.Source, path: str, collected: Collected, paths: Paths
) -> tuple[Notice, ...]:
    """What is odd about a source that was read."""
    report, watched = collected.report, watched_fields(source, source.row)
    noticed = SourceFacts(bad=report.bad, first=list(report.first))
    noticed.add_rows(collected.rows, watched)
    if watched:
        for file in paths.expand(path):
            noticed.look_up_names(file, source, watched)
    return notices(source, path, noticed)


def quarantine_name(source: typed.Source, path: str, options: dict[str, Any]) -> str:
    """The file for lines of a source that are no rows: the end of its path, and a hash.

    The hash is of all that decides which lines these are, so that no two readings share a file.
    The underscore keeps a source that reads a folder around the quarantine from reading it.
    """
    how = sorted((name, repr(value)) for name, value in options.items() if name != "on_error")
    kind = source.format, source.parser, source.delimiter, source.keys, repr(source.steps)
    text = repr((path, str(source.row), kind, how))
    tail = re.sub(r"[^\w.-]+", "_", path)[-_LONGEST_TAIL:].strip("._-") or "source"
    return f"_{tail}-{hash64(text.encode()) >> 32:08x}.jsonl"


def parser_rows(
    parser: Any, source: typed.Source, path: str, policy: Policy, paths: Paths = ANYWHERE
) -> Iterator[Read]:
    """What a Python parser makes of the text of each file; all or nothing of one file."""
    for file in paths.expand(path):
        lines = list(open_text(file, dict(source.options).get("max_line", MAX_LINE)))
        for line in lines:
            if line.problem:
                yield BadRow(str(file), line.number, line.text, line.problem)
        text = "".join([line.text + line.end for line in lines if not line.problem])
        try:
            with user_code():
                made = parser() if isinstance(parser, type) else parser
                values = list(made.parse(text))
        except (Exception, SystemExit) as problem:
            message = f'parser "{source.parser}" {describe_exception(problem)}'
            if policy == "fail":
                raise DataError("R204", message, place=str(file)) from problem
            yield BadRow(str(file), 0, text, message)
            continue
        for value in values:
            yield _parsed_row(value, source.row, str(file))


def _parsed_row(value: Any, row: Type, file: str) -> Read:
    try:
        return Row(from_python(value, row))
    except ValueError as problem:
        return BadRow(file, 0, repr(value), str(problem))


def _remaining(rows: list[Row], path: str, *, trusted: bool) -> Bag:
    """The inserted rows without the deleted ones; trusted deletions are not checked."""
    deleted = Counter([encode(row.value) for row in rows if row.weight < 0])
    kept = Bag()
    for row in rows:
        key = encode(row.value)
        if row.weight > 0 and deleted[key] > 0:
            deleted[key] -= 1
        elif row.weight > 0:
            kept.append(row.value)
    missing = [row.value for row in rows if row.weight < 0 and deleted[encode(row.value)] > 0]
    if missing and not trusted:
        raise no_such_rows(missing, path)
    return kept


def no_such_rows(missing: list[Value], path: str) -> DataError:
    """The error for deletions of rows that are not there."""
    shown = ", ".join([show(value, 10) for value in missing[:_MOST_NAMED]])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return DataError("R205", f"rows are deleted that are not there: {shown}{more}", place=path)
