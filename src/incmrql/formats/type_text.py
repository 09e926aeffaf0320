"""A type as text that stands in the metadata of a file, and back.

    read_type(write_type(t)) == t

The text is that of the language, with field names in quotes where they are not names of it.
"""

from __future__ import annotations

import json
import re
from typing import Final

from incmrql.types.model import (
    ANY,
    BASIC_NAMES,
    NOTHING,
    Basic,
    Collection,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_0-9]+|[][(){}<>,:])')


def write_type(type_: Type) -> str:
    """The text of a type."""
    match type_:
        case Record(fields):
            inner = ", ".join(f"{_written(name)}: {write_type(field)}" for name, field in fields)
            return f"< {inner} >"
        case Tuple(items):
            return f"({', '.join(map(write_type, items))})"
        case Collection(kind, element):
            text = write_type(element)
            return f"{{{text}}}" if kind == "bag" else f"[{text}]"
        case _:
            return str(type_)


def read_type(text: str) -> Type:
    """The type that a text stands for; raises a ValueError if it stands for none."""
    words = _WORD.findall(text)
    words.reverse()
    try:
        type_ = _type(words)
    except IndexError:
        raise ValueError(f"the type ends too early: {text!r}") from None
    if words:
        raise ValueError(f"text follows the type: {text!r}")
    return type_


def _written(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name)


def _type(words: list[str]) -> Type:
    word = words.pop()
    match word:
        case "<":
            return _record(words)
        case "(":
            return Tuple(_items(words, ")"))
        case "{" | "[":
            (element,) = _items(words, "}" if word == "{" else "]")
            return Collection("bag" if word == "{" else "list", element)
        case "any":
            return ANY
        case "null":
            return NOTHING
        case "decimal":
            _, precision, _, scale, _ = (words.pop() for _ in range(5))
            return Decimal(int(precision), int(scale))
        case _ if word in BASIC_NAMES:
            return Basic(word)
        case _ if _NAME.fullmatch(word):
            return Data(word)
        case _:
            raise ValueError(f"{word!r} is not a type")


def _items(words: list[str], closing: str) -> tuple[Type, ...]:
    items: list[Type] = []
    while words[-1] != closing:
        if items:
            _expect(words, ",")
        items.append(_type(words))
    words.pop()
    return tuple(items)


def _record(words: list[str]) -> Type:
    fields: list[tuple[str, Type]] = []
    while words[-1] != ">":
        if fields:
            _expect(words, ",")
        name = words.pop()
        _expect(words, ":")
        fields.append((json.loads(name) if name.startswith('"') else name, _type(words)))
    words.pop()
    return Record(tuple(fields))


def _expect(words: list[str], sign: str) -> None:
    if (word := words.pop()) != sign:
        raise ValueError(f"expected {sign!r}, found {word!r}")
