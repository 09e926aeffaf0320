"""What the algebra refuses: a loop or a fold over sources inside a row has no term."""

from __future__ import annotations

from typing import NoReturn

from hypothesis import reject

from incmrql.errors import QueryError


def reject_if_refused(error: QueryError) -> NoReturn:
    """Leave a random query out if it was refused with a code, and only then."""
    if error.code not in ("A001", "A002"):
        raise error
    reject()
