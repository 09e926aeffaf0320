"""Files by the row-by-row reader, without a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from incmrql.io import ReadSpec, reader
from incmrql.io.rows import Read
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Type


def read(kind: str, path: str | Path, row: Type, **settings: Any) -> Iterator[Read]:
    """The rows of all files of a path; settings are `options`, `data` and fields of a source."""
    options, data = dict(settings.pop("options", ())), settings.pop("data", PREDEFINED)
    source = typed.Source(kind, streaming=False, path=None, row=row, **settings)
    return reader.read(ReadSpec(source, row, options, data), path)
