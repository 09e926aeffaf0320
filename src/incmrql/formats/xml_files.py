"""XML files to rows: the elements with some tags, wherever they stand in a document.

    source(xml, path, {"tag", ...} [, xpath(p)] [, type(T)])

The document is read in pieces, so that only the outermost fragment at hand is in memory.  Where
a document stops being XML, what was complete before is rows, and the rest is one bad row; so it is
with a fragment, a tag or a comment of more bytes than a line may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.parsers import expat

from incmrql.formats.files import MAX_LINE, open_bytes
from incmrql.formats.rows import BadRow, Read, Row
from incmrql.formats.scalars import Unparsable
from incmrql.formats.xml_path import Found, select
from incmrql.formats.xml_typed import typed_xml
from incmrql.formats.xml_values import Builder, Fragment, new_parser, why, xml_text
from incmrql.syntax.ast import Step
from incmrql.types.model import ANY, STRING, XML, Type
from incmrql.values import Data, Value

_PIECE = 1 << 16
_EXCERPT = 100


def read_xml(
    path: Path,
    row: Type,
    tags: Iterable[str],
    steps: tuple[Step, ...],
    longest: int = MAX_LINE,
) -> Iterator[Read]:
    """The rows of one file; without tags, the document itself is the fragment."""
    for item in _fragments(path, frozenset(tags), longest):
        if isinstance(item, BadRow):
            yield item
            continue
        line, fragment = item
        for found in select(fragment, steps) if steps else [fragment]:
            try:
                yield Row(_value(found, row))
            except Unparsable as problem:
                text = xml_text(found) if isinstance(found, Data) else found
                yield BadRow(str(path), line, text, problem.reason)


def _value(found: Found, row: Type) -> Value:
    """What was found as it is, where the row is an XML tree or an attribute's string."""
    if row in (XML, ANY) or (row == STRING and isinstance(found, str)):
        return found
    return typed_xml(found, row)


def _fragments(path: Path, tags: frozenset[str], longest: int) -> Iterator[Fragment | BadRow]:
    builder = Builder(tags, longest)
    parser = new_parser(builder)
    piece, before, reason, line = b"", 0, "", 1
    with open_bytes(path) as stream:
        while not reason:
            before += len(piece)
            # Expat reads an unfinished tag again from its start: each time it gets twice as much.
            unfinished = before - parser.CurrentByteIndex
            piece = stream.read(max(_PIECE, min(unfinished, longest - unfinished)))
            if not piece and not before:
                return
            try:
                parser.Parse(piece, not piece)
                builder.check_size(before + len(piece))
            except expat.ExpatError as problem:
                reason, line = why(problem), problem.lineno
            except Unparsable as problem:
                reason, line = problem.reason, parser.CurrentLineNumber
            except (LookupError, ValueError) as problem:  # an encoding that Python cannot decode
                reason, line = f"not XML: {problem}", parser.CurrentLineNumber
            yield from builder.give_up() if reason else builder.take()
            if not piece:
                break
        if reason:
            at = max(0, min(parser.ErrorByteIndex - before, len(piece)))
            excerpt = piece[max(0, at - _EXCERPT) : at + _EXCERPT]
            yield BadRow(str(path), line, excerpt.decode(errors="replace"), reason)
