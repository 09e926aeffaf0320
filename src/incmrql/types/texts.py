"""Types that are spelled in a text of their own, as in Python annotations."""

from __future__ import annotations

from incmrql.diagnostics import DataError, QueryError, Source
from incmrql.syntax import parse_type_text
from incmrql.types.infer_script import resolve_type_tree
from incmrql.types.model import Type


def type_from_text(text: str) -> Type:
    """The type that a text spells."""
    source = Source(text, "<type>")
    try:
        return resolve_type_tree(parse_type_text(source))
    except QueryError as error:
        raise DataError("T606", f'"{text}" is not a type: {error.message}') from None
