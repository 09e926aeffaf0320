"""Streams, files and rows for the tests of feeds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.engine.columns.layouts import of_rows
from incmrql.engine.columns.rows import from_table, to_values
from incmrql.engine.inputs import InputFile, checksum, read_file
from incmrql.errors import SourceText
from incmrql.plan.assembly import program_of
from incmrql.plan.program import Stream
from incmrql.runtime.feeds import Feed
from incmrql.types import typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.values import encode


@lru_cache
def stream_of(source: str) -> Stream:
    """The stream that `stream(…)` or `source(…)` describes."""
    text = SourceText(f"incr select x from x in {source};")
    script = compile_script(text, catalog_for(text, ()), read_include).typed
    (stream,) = program_of(script.items, script).streams
    return stream


def push_stream(row: str, **options: Any) -> Stream:
    """A stream of rows of a type that are pushed."""
    type_ = type_from_text(row)
    given = tuple(options.items())
    source = typed.Source("registered", True, None, type_, name="rows", options=given)
    return Stream(7, "rows", source, type_, True, True)


def put(path: Path, text: str, seconds: float) -> Path:
    """Write a file with a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


def content(stream: Stream, files: Sequence[InputFile]) -> Counter[bytes]:
    """The rows of files with their weights added up."""
    total: Counter[bytes] = Counter()
    layout = of_rows(stream.element, packed=stream.packed)
    for file in files:
        for chunk in read_file(stream, {}, file):
            for value, weight in to_values(from_table(chunk.table), layout):
                total[encode(value)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def rows(*values: Any) -> Counter[bytes]:
    """What `content` is of these rows, each once."""
    return Counter(map(encode, values))


def with_checksums(files: Sequence[InputFile]) -> list[tuple[InputFile, str]]:
    """Files with their checksums, as a commit has them."""
    return [(file, checksum(file)) for file in files]


def take(feed: Feed, now: float = 1e10) -> tuple[InputFile, ...]:
    """Look, and commit what is there."""
    files = feed.poll(now).files
    feed.acknowledge(with_checksums(files))
    return files


def ingest(feed: Feed, stream: Stream) -> Counter[bytes]:
    """The rows of a batch that ingests all that has arrived."""
    files = feed.poll(1e10).files
    rows = content(stream, files)
    feed.acknowledge(with_checksums(files))
    return rows


def names(files: Sequence[InputFile]) -> list[str]:
    return [Path(file.path).name for file in files]
