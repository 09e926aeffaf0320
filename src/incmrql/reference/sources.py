"""The current rows of a source.

For a stream these are the rows of all files in its directory, minus the rows that its deletes and
its sign column delete, by identity.
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
from incmrql.io.spec import ReadSpec, element_of, nullable_fields
from incmrql.reference.environment import Environment, World, place
from incmrql.reference.python import describe_exception, from_python, user_code
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Type
from incmrql.values import Bag, Value, encode, hash64, show

_MOST_SHOWN = 3
_LONGEST_TAIL = 40
"""Characters of a path in the name of its quarantine file."""


def read_source(source: typed.Source, env: Environment) -> Bag:
    """The rows of a source, with duplicates."""
    if source.host is not None:
        raise socket_error()
    if source.format == "registered":
        return _registered_rows(source, env)
    path = None if source.path is None else env.world.evaluate(source.path, env)
    if path is None:
        raise null_path_error(source, env)
    check_paths(source, path, env.world)
    options = dict(source.options)
    rows = _collect_rows(source, path, options, env)
    if "deletes" in options:
        plain = {name: value for name, value in options.items() if name not in ("deletes", "sign")}
        deleted = _collect_rows(source, options["deletes"], plain, env)
        rows = [*rows, *[Row(row.value, -row.weight) for row in deleted]]
    return _without_deleted(rows, path, trusted=bool(options.get("trusted_deletes")))


def check_paths(source: typed.Source, path: str, world: World) -> None:
    """Raise if the script may not read the files of a source."""
    where = place(source.path.span) if source.path is not None else ""
    for path_ in (path, dict(source.options).get("deletes")):
        if path_ is not None:
            world.paths.check(path_, where)


def socket_error() -> DataError:
    """The error for a batch query over a socket."""
    hint = "Run the query as a stream, or read a folder."
    return DataError("R206", "a socket can only be read by a stream that runs on Spark", hint=hint)


def null_path_error(source: typed.Source, env: Environment) -> DataError:
    """The error for a source whose path is null."""
    count = len(env.world.arguments)
    words = "1 argument was" if count == 1 else f"{count} arguments were"
    span = source.path.span if source.path is not None else NOWHERE
    expression = span.text if "args" in span.text else "args[i]"
    hint = f"{expression} is null where there is no such argument: {words} given."
    return DataError("R207", "the path of a source is null", place=place(span), hint=hint)


def _registered_rows(source: typed.Source, env: Environment) -> Bag:
    registered = env.world.registered
    if source.name not in registered:
        hint = nearest(source.name, registered)
        raise DataError("R208", f'nothing is registered as "{source.name}"', hint=hint)
    data = registered[source.name]
    rows = data.to_pylist() if hasattr(data, "to_pylist") else data
    try:
        return Bag([from_python(row, source.row) for row in rows])
    except ValueError as problem:
        raise DataError("R208", str(problem), place=source.name) from None


def _collect_rows(
    source: typed.Source, path: str, options: dict[str, Any], env: Environment
) -> list[Row]:
    """All rows of the files of a path; invalid lines are reported."""
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
    directory = env.world.quarantine
    destination = (
        None if directory is None else Quarantine(directory, quarantine_name(source, path, options))
    )
    collected = collect(rows, policy, destination)
    report = replace(collected.report, notices=_notices(source, path, collected, env.world.paths))
    if report.bad or report.notices:
        env.world.on_report(report, policy)
    return collected.rows


def _notices(
    source: typed.Source, path: str, collected: Collected, paths: Paths
) -> tuple[Notice, ...]:
    """Notices about suspicious data in a source that was read."""
    report, fields = collected.report, nullable_fields(source, source.row)
    facts = SourceFacts(bad=report.bad, first=list(report.first))
    facts.add_rows(collected.rows, fields)
    if fields:
        for file in paths.expand(path):
            facts.look_up_names(file, source, fields)
    return notices(source, path, facts)


def quarantine_name(source: typed.Source, path: str, options: dict[str, Any]) -> str:
    """The file name for invalid lines of a source: the end of its path, and a hash.

    The hash covers all settings that decide which lines are invalid, so that sources with
    different settings never share a file.  The underscore prevents a source that reads a
    directory around the quarantine from reading it.
    """
    settings = sorted((name, repr(value)) for name, value in options.items() if name != "on_error")
    kind = source.format, source.parser, source.delimiter, source.keys, repr(source.steps)
    text = repr((path, str(source.row), kind, settings))
    tail = re.sub(r"[^\w.-]+", "_", path)[-_LONGEST_TAIL:].strip("._-") or "source"
    return f"_{tail}-{hash64(text.encode()) >> 32:08x}.jsonl"


def parser_rows(
    parser: Any, source: typed.Source, path: str, policy: Policy, paths: Paths = ANYWHERE
) -> Iterator[Read]:
    """The rows that a Python parser returns for each file; all or none of a file's rows."""
    for file in paths.expand(path):
        lines = list(open_text(file, dict(source.options).get("max_line", MAX_LINE)))
        for line in lines:
            if line.problem:
                yield BadRow(str(file), line.number, line.text, line.problem)
        text = "".join([line.text + line.end for line in lines if not line.problem])
        try:
            with user_code():
                instance = parser() if isinstance(parser, type) else parser
                values = list(instance.parse(text))
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


def _without_deleted(rows: list[Row], path: str, *, trusted: bool) -> Bag:
    """The inserted rows minus the deleted ones; trusted deletions are not checked."""
    deleted = Counter([encode(row.value) for row in rows if row.weight < 0])
    remaining = Bag()
    for row in rows:
        key = encode(row.value)
        if row.weight > 0 and deleted[key] > 0:
            deleted[key] -= 1
        elif row.weight > 0:
            remaining.append(row.value)
    missing = [row.value for row in rows if row.weight < 0 and deleted[encode(row.value)] > 0]
    if missing and not trusted:
        raise missing_rows_error(missing, path)
    return remaining


def missing_rows_error(missing: list[Value], path: str) -> DataError:
    """The error for deletions of rows that do not exist."""
    values = ", ".join([show(value, 10) for value in missing[:_MOST_SHOWN]])
    more = f" and {len(missing) - _MOST_SHOWN} more" if len(missing) > _MOST_SHOWN else ""
    return DataError("R205", f"rows are deleted that are not there: {values}{more}", place=path)
