"""Functions of strings as Spark defines them; positions count code points, from 1."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import zlib
from functools import lru_cache
from typing import Final

_LARGEST_INT: Final = 2**31 - 1
_NEWLY_CASED: Final = frozenset("\u019b\u0264")
"""Characters that got another case after Unicode 15."""
_MOST_PATTERNS: Final = 1_024
_MOST_CHARACTERS: Final = 100_000_000
"""A longer text is a failure: it would not fit in memory."""


def like(text: str, pattern: str, escape: str) -> bool | None:
    """Whether a pattern matches a whole text; null if an escape has nothing to escape."""
    compiled = like_pattern(pattern, escape)
    return None if compiled is None else compiled.fullmatch(text) is not None


@lru_cache(_MOST_PATTERNS)
def like_pattern(pattern: str, escape: str) -> re.Pattern[str] | None:
    """`_` is any character, `%` any text; None if the pattern is not valid."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("_", "%", escape):
                return None
            parts.append(re.escape(escaped))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def substring(text: str, position: int, length: int) -> str:
    """So many characters from a position, which counts from the end if it is negative."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    stop = min(start + length, _LARGEST_INT)
    return text[max(start, 0) : max(stop, 0)] if stop > start else ""


def upper(text: str) -> str | None:
    """The text in upper case; null with characters that Python's Unicode does not know."""
    return None if _has_new_characters(text) else text.upper()


def lower(text: str) -> str | None:
    """The text in lower case; null with characters that Python's Unicode does not know."""
    return None if _has_new_characters(text) else text.lower()


def _has_new_characters(text: str) -> bool:
    """Whether newer versions of Unicode may give a character another case than Python does."""
    return not text.isascii() and any(map(_is_new, text))


def _is_new(character_: str) -> bool:
    if character_ in _NEWLY_CASED:
        return True
    code = ord(character_)
    is_never_assigned = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code < 0xFDF0
    return unicodedata.category(character_) == "Cn" and not is_never_assigned


def trim(text: str, characters: str) -> str:
    """The text without any of these characters at both ends."""
    return text.strip(characters) if characters else text


def trim_left(text: str, characters: str) -> str:
    """The text without any of these characters at its start."""
    return text.lstrip(characters) if characters else text


def trim_right(text: str, characters: str) -> str:
    """The text without any of these characters at its end."""
    return text.rstrip(characters) if characters else text


def pad_left(text: str, length: int, pad: str) -> str | None:
    """A text of so many characters: cut, or with others repeated before it."""
    return None if _is_too_long(length) else _padding(text, length, pad) + text[: max(length, 0)]


def pad_right(text: str, length: int, pad: str) -> str | None:
    """A text of so many characters: cut, or with others repeated after it."""
    return None if _is_too_long(length) else text[: max(length, 0)] + _padding(text, length, pad)


def _is_too_long(length: int) -> bool:
    """Whether a text is longer than fits in memory; Java also takes very negative ones for that."""
    return not -_MOST_CHARACTERS < length < _MOST_CHARACTERS


def _padding(text: str, length: int, pad: str) -> str:
    missing = length - len(text)
    if missing <= 0 or not pad:
        return ""
    return (pad * (missing // len(pad) + 1))[:missing]


def repeat(text: str, times: int) -> str | None:
    """A text so many times."""
    return None if len(text) * times > _MOST_CHARACTERS else text * max(times, 0)


def replace(text: str, old: str, new: str) -> str:
    """The text with every occurrence replaced; an empty text occurs nowhere."""
    return text.replace(old, new) if old else text


def locate(part: str, text: str, start: int) -> int:
    """The position of a part from a position on; 0 if it is not there."""
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def substring_index(text: str, delimiter: str, count: int) -> str:
    """What stands before the count-th delimiter, or after it, counted from the end."""
    if not delimiter or not count:
        return ""
    if count > 0:
        place = -1
        for _ in range(count):
            place = text.find(delimiter, place + 1)
            if place < 0:
                return text
        return text[:place]
    place = len(text) - len(delimiter) + 1
    for _ in range(-count):
        place = text.rfind(delimiter, 0, place - 1 + len(delimiter)) if place > 0 else -1
        if place < 0:
            return text
    return text[place + len(delimiter) :]


def code_point(text: str) -> int:
    """The code point of the first character; 0 of an empty text."""
    return ord(text[0]) if text else 0


def character(code: int) -> str:
    """The character of the lowest eight bits of a code; none of a negative one."""
    return chr(code & 0xFF) if code >= 0 else ""


def translate(text: str, old: str, new: str) -> str:
    """The text with each character of `old` replaced by that of `new` in its place, or dropped."""
    table: dict[int, str] = {}
    for place, character_ in enumerate(old):
        table.setdefault(ord(character_), new[place : place + 1])
    return text.translate(table)


def split_at(text: str, delimiter: str) -> list[str]:
    """The parts between delimiters; the whole text if the delimiter is empty."""
    return text.split(delimiter) if delimiter else [text]


def sha2(text: str, bits: int) -> str | None:
    """The digest with so many bits of the bytes of a text; 0 is 256."""
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, text.encode()).hexdigest()


def md5(text: str) -> str:
    """The digest of the bytes of a text."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    """The digest of the bytes of a text."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def crc32(text: str) -> int:
    """The checksum of the bytes of a text."""
    return zlib.crc32(text.encode())


def pad_char(text: str, length: int) -> str:
    """A value of type char(length), as it is read: with blanks up to its length."""
    return text.ljust(length)


def hex_of_text(text: str) -> str:
    """The bytes of a text as hexadecimal digits."""
    return text.encode().hex().upper()


def hex_of_number(number: int) -> str:
    """The 64 bits of a number as hexadecimal digits, without leading zeros."""
    return f"{number % 2**64:X}"


def binary_digits(number: int) -> str:
    """The 64 bits of a number, without leading zeros."""
    return f"{number % 2**64:b}"


def overlay(text: str, part: str, position: int, length: int) -> str:
    """A text with a part in the place of so many characters; of as many as it has, if negative."""
    length = len(part) if length < 0 else length
    before = substring(text, 1, position - 1)
    return before + part + substring(text, position + length, _LARGEST_INT)


def levenshtein(left: str, right: str) -> int:
    """The least number of characters to insert, delete or replace from one text to the other."""
    row = list(range(len(right) + 1))
    for n, one in enumerate(left, 1):
        above, row[0] = row[0], n
        for m, other in enumerate(right, 1):
            above, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, above + (one != other))
    return row[-1]


def levenshtein_within(left: str, right: str, most: int) -> int:
    """The same, or -1 if it is more than a number."""
    distance = levenshtein(left, right)
    return distance if distance <= most else -1


def place_in_list(text: str, parts: str) -> int:
    """The place of a text between the commas of another; 0 if it is not there."""
    items = parts.split(",")
    return items.index(text) + 1 if text in items else 0


def byte_length(text: str) -> int:
    """The number of bytes in UTF-8."""
    return len(text.encode())


def spaces(count: int) -> str | None:
    """So many blanks."""
    return " " * max(count, 0) if count <= _MOST_CHARACTERS else None
