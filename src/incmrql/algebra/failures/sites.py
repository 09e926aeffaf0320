"""Operations that may fail, as a program carries them: workers need no more of watches."""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.errors import Span


@dataclass(frozen=True, slots=True)
class Site:
    """An operation that may fail, and what failing means for it."""

    span: Span
    text: str
    """The operation as the query writes it."""
    fault: str
