"""What readers notice about a source as a whole, and how its user is told.

Every reader counts a few facts (`SourceFacts`) while it reads; facts of files and tasks add up.
When a source has been read, `notices` turns them into warnings: no line could be read (W201), lines
have more columns than are declared (W202), a declared field of JSON or XML is in no row (W203).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from incmrql.errors import IncmrqlWarning, nearest
from incmrql.io.files import open_text
from incmrql.io.json.files import read_raw
from incmrql.io.rows import MOST_REMEMBERED, BadRow, Notice, Policy, Read, ReadReport, Row
from incmrql.io.spec import INSIDE, nullable_fields
from incmrql.io.xml.files import read_xml
from incmrql.io.xml.values import attributes, children, tag_of
from incmrql.types import typed
from incmrql.types.model import XML, Type, column_types
from incmrql.values import Data, Value

_DELIMITERS: Final = (",", ";", "\t", "|", ":", " ")
_SAMPLE: Final = 100
"""Documents in which the names of members are looked up."""
_MOST_NAMES: Final = 50
_LONGEST: Final = 1_000
"""Characters of a bad row that are kept to guess its delimiter."""


@dataclass(slots=True)
class SourceFacts:
    """Facts about the rows of a source, or of one of its files."""

    rows: int = 0
    bad: int = 0
    beyond: int = 0
    """Lines with columns beyond the declared ones."""
    present: set[str] = field(default_factory=set)
    """Paths of declared fields that a row has."""
    names: set[str] = field(default_factory=set)
    """Paths that documents have, if a declared field was null in every row of a file."""
    first: list[BadRow] = field(default_factory=list)

    def add(self, other: SourceFacts) -> None:
        """Put in what was noticed of other rows of the source."""
        self.rows += other.rows
        self.bad += other.bad
        self.beyond += other.beyond
        self.present |= other.present
        self.names = set(sorted(self.names | other.names)[:_MOST_NAMES])
        self.first = [*self.first, *other.first][:MOST_REMEMBERED]

    def as_json(self) -> dict[str, Any]:
        """The facts as text can hold them."""
        return {
            **{name: getattr(self, name) for name in ("rows", "bad", "beyond")},
            "present": sorted(self.present),
            "names": sorted(self.names),
            "first": [asdict(replace(bad, text=bad.text[:_LONGEST])) for bad in self.first],
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> SourceFacts:
        """The facts that a text holds."""
        sets = {name: set(data[name]) for name in ("present", "names")}
        first = [BadRow(**row) for row in data["first"]]
        return SourceFacts(**{**data, **sets, "first": first})

    def add_rows(self, rows: Sequence[Row], fields: Iterable[str]) -> None:
        """Count rows; `fields` are the fields that may be in none of them."""
        self.rows += len(rows)
        self.beyond += sum(row.beyond for row in rows)
        for name in set(fields) - self.present:
            if any(_has(row.value, name) for row in rows):
                self.present.add(name)

    def look_up_names(self, path: str | Path, source: typed.Source, fields: Iterable[str]) -> None:
        """Where a field is null in every row of a file, see which names its documents have."""
        absent = set(fields) - self.present
        if not self.rows or not absent:
            return
        documents = _documents(Path(path), source)
        parents = {path.rpartition(INSIDE)[0] for path in fields}
        for row in islice(documents, _SAMPLE):
            if isinstance(row, Row):
                self.names.update(
                    path for parent in parents for path in _members(row.value, parent)
                )
        self.present |= absent & self.names


def _documents(path: Path, source: typed.Source) -> Iterator[Read]:
    """The rows of a file before they are brought to their type."""
    if source.format == "xml":
        return read_xml(path, XML, source.keys, source.steps)
    return read_raw(open_text(path), str(path), source.keys)


def _members(document: Any, parent: str) -> Iterator[str]:
    """The paths of the members of an object in a document; `parent` is the object's own path."""
    members = _members_of(document)
    for name in parent.split(INSIDE) if parent else ():
        members = _members_of(members.get(name))
    yield from (f"{parent}{INSIDE}{name}" if parent else name for name in members)


def _members_of(document: Any) -> Mapping[str, Any]:
    """The members of a JSON object, or attributes and child elements of an XML element."""
    match document:
        case dict():
            return document
        case Data() if document.constructor == "Node":
            inner = {str(tag_of(child)): child for child in children(document)}
            return {**dict(attributes(document)), **inner}
        case _:
            return {}


def _has(value: Value, path: str) -> bool:
    for name in path.split(INSIDE):
        value = None if value is None else value[name]
    return value is not None


def notices(
    source: typed.Source, path: str, facts: SourceFacts, element: Type | None = None
) -> tuple[Notice, ...]:
    """The warnings about a source; `element` is its row as far as the query reads it."""
    warnings: list[Notice] = []
    if facts.bad and not facts.rows:
        warnings.append(_no_rows_notice(source, path, facts))
    if facts.beyond:
        width = len(column_types(source.row) or ())
        lines = "1 line" if facts.beyond == 1 else f"{facts.beyond} lines"
        verb = "has" if facts.beyond == 1 else "have"
        columns = "1 column" if width == 1 else f"{width} columns"
        message = f"{lines} of {path} {verb} more than the {columns} declared; the rest is ignored"
        hint = "Declare the others as any to skip them without this warning."
        warnings.append(Notice("W202", message, hint=hint))
    for field_path in nullable_fields(source, element or source.row):
        parent, _, name = field_path.rpartition(INSIDE)
        siblings = {
            other for above, _, other in (path.rpartition(INSIDE) for path in facts.names)
            if above == parent
        }  # fmt: skip
        # Where no row has the parent, that is all there is to say.
        if siblings and field_path not in facts.present and parent in {"", *facts.present}:
            shown, owner = field_path.replace(INSIDE, "."), parent.replace(INSIDE, ".")
            message = f'no row of {path} has the field "{shown}": it is null everywhere'
            has = "Rows have" if not parent else f'"{owner}" has'
            hint = f"{nearest(name, siblings)} {has}: {', '.join(sorted(siblings)[:10])}.".strip()
            warnings.append(Notice("W203", message, hint=hint))
    return tuple(warnings)


def warn(report: ReadReport, _policy: Policy = "quarantine") -> None:
    """Give the warnings of a report the way Python does."""
    for notice in report.notices:
        warnings.warn(notice.render(), IncmrqlWarning, stacklevel=2)


def _no_rows_notice(source: typed.Source, path: str, facts: SourceFacts) -> Notice:
    count, first = facts.bad, facts.first
    noun = "line" if source.format in ("line", "text") else "row"
    which = f"the only {noun}" if count == 1 else f"none of the {count} {noun}s"
    verb = "could not be read" if count == 1 else "could be read"
    message = f"{which} of {path} {verb}: the source is empty"
    hint = _delimiter_hint(source, [bad.text for bad in first])
    if not hint and first:
        hint = f"The first: {first[0].sentence}."
    return Notice("W201", message, first[0].place if first else "", hint)


def _delimiter_hint(source: typed.Source, texts: Sequence[str]) -> str:
    """Which delimiter would cut all of these lines into the declared columns."""
    width = len(column_types(source.row) or ())
    if source.format != "line" or not texts or width < 2:
        return ""
    for delimiter in _DELIMITERS:
        fits = all(width <= text.rstrip(delimiter).count(delimiter) + 1 for text in texts)
        if delimiter != source.delimiter and fits:
            name = "a tab" if delimiter == "\t" else f'"{delimiter}"'
            return f'The lines look delimited by {name}, and the source says "{source.delimiter}".'
    return ""
