"""A type as text that stands in the metadata of a file, and back.

    read_type(write_type(t)) == t

The text is that of the language; names that it does not know are those of data types.
"""

from __future__ import annotations

import re

from incmrql.diagnostics import QueryError, Source
from incmrql.syntax import parse_type_text
from incmrql.types import resolve_type_tree
from incmrql.types.model import BASIC_NAMES, Type

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|(\w+)(?!\s*:)')
_KNOWN = {*BASIC_NAMES, "decimal", "any", "null"}


def write_type(type_: Type) -> str:
    """The text of a type."""
    return str(type_)


def read_type(text: str) -> Type:
    """The type that a text stands for; raises a ValueError if it stands for none."""
    data = {word for word in _WORD.findall(text) if word} - _KNOWN
    try:
        return resolve_type_tree(parse_type_text(Source(text, "<type>")), data)
    except QueryError as error:
        raise ValueError(f"{text!r} is not a type: {error.message}") from None
