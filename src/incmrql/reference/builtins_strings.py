r"""String built-ins.  Positions count code points.

Regular expressions are those of RE2, run by Arrow, as on every engine.  Null means that there
is no result: an expression that RE2 refuses, a position outside the string, half of a surrogate
pair where text must be UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_BLANKS: Final = "".join(map(chr, range(0x21)))
_MARKED: Final = re.compile(r"\$([0-9])|\\(.)", re.DOTALL)
_LONE: Final = re.compile(r"(?:[^\\]|\\.)*\\", re.DOTALL)
_REFUSED: Final = (pa.ArrowInvalid, UnicodeEncodeError)


def _substring(text: str, begin: int, end: int | None = None) -> str | None:
    last = len(text) if end is None else end
    return text[begin:last] if 0 <= begin <= last <= len(text) else None


def _matches(text: str, pattern: str) -> bool | None:
    r"""Whether the whole text matches.

    The pattern is tried alone first, as `(?:a)(b)` would hide what is wrong with `a)(b`.  The
    second form ends a quotation `\Q...` that the pattern leaves open.
    """
    if _search(text, pattern) is None:
        return None
    whole = _search(text, rf"\A(?:{pattern})\z")
    return _search(text, rf"\A(?:{pattern}\E)\z") if whole is None else whole


def _search(text: str, pattern: str) -> bool | None:
    try:
        found: bool = pc.match_substring_regex(pa.scalar(text), pattern=pattern).as_py()
    except _REFUSED:
        return None
    return found


def _substitute(text: str, pattern: str, replacement: str, most: int | None) -> str | None:
    r"""RE2's own replacement, in which `\1` is a group."""
    try:
        result: str = pc.replace_substring_regex(
            pa.scalar(text), pattern=pattern, replacement=replacement, max_replacements=most
        ).as_py()
    except _REFUSED:
        return None
    return result


def _replace_all(text: str, pattern: str, replacement: str) -> str | None:
    rewritten = _rewrite(replacement)
    return None if rewritten is None else _substitute(text, pattern, rewritten, None)


def _replace_first(text: str, pattern: str, replacement: str) -> str | None:
    rewritten = _rewrite(replacement)
    return None if rewritten is None else _substitute(text, pattern, rewritten, 1)


def _rewrite(replacement: str) -> str | None:
    r"""A replacement as in Java in the notation of RE2.

    `$1` is a group (`\1` to RE2), and a character after a backslash is that character, so that
    `\$` is a dollar sign and `\\` a backslash.  Null if a backslash comes last.
    """
    if _LONE.fullmatch(replacement):
        return None
    return _MARKED.sub(_rewritten, replacement)


def _rewritten(found: re.Match[str]) -> str:
    group, escaped = found.groups()
    if group is not None:
        return f"\\{group}"
    return r"\\" if escaped == "\\" else escaped


def _split(text: str, pattern: str) -> list[str] | None:
    """The pieces between matches, as Java has them: empty ones at the end are dropped.

    Each match is marked in the text and found again by its marks.  (Arrow's own function for
    this does not end if a match is empty.)
    """
    opening, closing = _unused(text)
    marked = _substitute(text, pattern, rf"{opening}\0{closing}", None)
    if marked is None:
        return None
    head, *rest = marked.split(opening)
    if not text or not rest:
        return [text]
    matched, after = zip(*(part.split(closing) for part in rest), strict=True)
    pieces = [head, *after]
    if not head and not matched[0]:
        pieces = pieces[1:]
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces


def _unused(text: str) -> tuple[str, str]:
    """Two characters that a text does not contain."""
    free = (chr(code) for code in range(0xE000, 0x110000) if chr(code) not in text)
    return next(free), next(free)


STRINGS: Final[Mapping[str, Callable[..., Any]]] = {
    "contains": str.__contains__,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "matches": _matches,
    "length": len,
    "substring": _substring,
    "replace": str.replace,
    "replaceAll": _replace_all,
    "replaceFirst": _replace_first,
    "toLowerCase": str.lower,
    "toUpperCase": str.upper,
    "trim": lambda text: text.strip(_BLANKS),
    "split": _split,
    "concat": lambda *texts: "".join(texts),
}
