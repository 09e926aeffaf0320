"""The sign of a row: whether the input says that it is inserted or deleted."""

from __future__ import annotations

from typing import Final

from incmrql.formats.scalars import BLANKS, Unparsable, quoted

_SIGNS: Final = {"+": 1, "-": -1, "1": 1, "+1": 1, "-1": -1, "insert": 1, "delete": -1}


def weight(sign: object, name: str) -> int:
    """+1 or -1, from what the sign column of a row holds."""
    found = _SIGNS.get(str(sign).strip(BLANKS).lower())
    if found is None:
        held = quoted(sign) if isinstance(sign, str) else "null" if sign is None else str(sign)
        raise Unparsable(
            f'sign column "{name}" holds {held}, expected + or -, 1 or -1, insert or delete'
        )
    return found
