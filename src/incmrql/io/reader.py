"""Files to values and values to files, the one way of reading that every engine agrees with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, Unpack

from incmrql.errors import DataError, InternalError
from incmrql.io.files import ANYWHERE, MAX_LINE, Paths, expand, open_text
from incmrql.io.json.files import read_json, to_typed
from incmrql.io.json.values import dump_json, parse_json, to_json
from incmrql.io.line import LineOptions, read_lines, read_text
from incmrql.io.parquet import read_parquet, schema_type
from incmrql.io.rows import BadRow, Collected, Policy, Quarantine, Read, ReadReport, Row, collect
from incmrql.io.scalars import Unparsable, parse_scalar
from incmrql.io.writers import dump, store
from incmrql.io.xml.files import read_xml, select
from incmrql.io.xml.values import parse_xml, xml_text
from incmrql.syntax.ast import Step
from incmrql.types.columns import element_type
from incmrql.types.model import PREDEFINED, Constructor, Type


class Settings(TypedDict, total=False):
    """What a source says beside its format, path and type."""

    delimiter: str
    keys: tuple[str, ...]
    steps: tuple[Step, ...]
    options: Mapping[str, Any] | tuple[tuple[str, Any], ...]
    data: Mapping[str, tuple[Constructor, ...]]
    """The data types that rows may hold."""
    paths: Paths
    """Which files may be read."""


def read(kind: str, path: str | Path, row: Type, **settings: Unpack[Settings]) -> Iterator[Read]:
    """The rows of all files of a path, in order.

    `kind` is line (or csv), json, xml, text or binary (or parquet); `row` is the type of a row
    of the file, of which `element_type` is what comes out.  A path without a file is noticed
    at once, anything else when its row is reached.
    """
    files = settings.get("paths", ANYWHERE).expand(path)
    options = dict(settings.get("options", ()))
    if kind in ("xml", "text") and "sign" in options:
        hint = "Use line, json or binary, or a second folder with deletes."
        raise DataError("R112", f"a source of {kind} has no columns to take a sign from", hint=hint)
    return chain.from_iterable(_read_file(kind, file, row, settings, options) for file in files)


def _read_file(
    kind: str, file: Path, row: Type, settings: Settings, options: dict[str, Any]
) -> Iterator[Read]:
    settings.get("paths", ANYWHERE).check(file)
    longest = options.get("max_line", MAX_LINE)
    match kind:
        case "line" | "csv":
            how = LineOptions.of(settings.get("delimiter", ","), options)
            return read_lines(open_text(file, longest), str(file), row, how)
        case "json":
            keys, data = settings.get("keys", ()), settings.get("data", PREDEFINED)
            return read_json(open_text(file, longest), str(file), row, keys, options, data)
        case "xml":
            keys, steps = settings.get("keys", ()), settings.get("steps", ())
            return read_xml(file, row, keys, steps, longest)
        case "text":
            return read_text(open_text(file, longest), str(file))
        case "binary" | "parquet":
            return read_parquet(file, row, options.get("sign", ""))
        case _:
            raise InternalError(f"no file has format {kind!r}")


__all__ = [
    "ANYWHERE",
    "BadRow",
    "Collected",
    "Paths",
    "Policy",
    "Quarantine",
    "Read",
    "ReadReport",
    "Row",
    "Unparsable",
    "collect",
    "dump",
    "dump_json",
    "element_type",
    "expand",
    "parse_json",
    "parse_scalar",
    "parse_xml",
    "read",
    "schema_type",
    "select",
    "store",
    "to_json",
    "to_typed",
    "xml_text",
]
