"""Files to rows, one by one: the reader that says what a file means.

The reference evaluator uses it for everything; batch queries and streams only for what
`io.vectorised` leaves to it, and they must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from incmrql.errors import DataError, InternalError
from incmrql.io.files import ANYWHERE, Paths, open_text
from incmrql.io.json.files import read_json
from incmrql.io.line import LineOptions, read_lines, read_text
from incmrql.io.parquet import read_parquet
from incmrql.io.rows import BadRow, Read
from incmrql.io.spec import FileSplit, ReadSpec
from incmrql.io.xml.files import read_xml


def list_files(spec: ReadSpec, path: str | Path, paths: Paths = ANYWHERE) -> list[Path]:
    """The files that a source reads; refuses options that its format does not have."""
    files = paths.expand(path)
    kind = spec.source.format
    if kind in ("xml", "text") and "sign" in spec.options:
        hint = "Use line, json or binary, or a second folder with deletes."
        raise DataError("R112", f"a source of {kind} has no columns to take a sign from", hint=hint)
    return files


def read(spec: ReadSpec, path: str | Path, paths: Paths = ANYWHERE) -> Iterator[Read]:
    """The rows of all files of a path, in order.

    A path without a file is an error at once, anything else when its row is reached.
    """
    files = list_files(spec, path, paths)
    return chain.from_iterable(_read_file(spec, file, paths) for file in files)


def _read_file(spec: ReadSpec, file: Path, paths: Paths) -> Iterator[Read]:
    paths.check(file)  # again: it may have become a link since the files were listed
    source, name = spec.source, str(file)
    match source.format:
        case "line":
            options = LineOptions.of(source.delimiter, spec.options)
            return read_lines(open_text(file, spec.longest), name, source.row, options)
        case "json":
            return read_json(open_text(file, spec.longest), name, spec)
        case "xml":
            return read_xml(file, source.row, source.keys, source.steps, spec.longest)
        case "text":
            return read_text(open_text(file, spec.longest), name)
        case "binary":
            return read_parquet(file, source.row, spec.options.get("sign", ""))
        case _:
            raise InternalError(f"no file has format {source.format!r}")


def read_rows(spec: ReadSpec, split: FileSplit) -> Iterator[Read]:
    """The rows of a whole file."""
    return with_display_path(read(spec, split.path), split)


def with_display_path(rows: Iterator[Read], split: FileSplit) -> Iterator[Read]:
    """The rows of a file; bad ones name it as messages do."""
    if split.display_path == split.path:
        yield from rows
        return
    for row in rows:
        if isinstance(row, BadRow) and row.path == split.path:
            yield replace(row, path=split.display_path)
        else:
            yield row
