"""The scripts of `examples/`, the data they read, and what they answer as plain Python."""

from __future__ import annotations

import csv
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from incmrql import api
from incmrql.values import Bag, Data, Record, Value

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.mrql"))


def make_data(folder: Path) -> None:
    runpy.run_path(str(EXAMPLES / "make_data.py"))["main"](folder)


def answers(name: str, data: Path) -> list[Any]:
    """What a script prints, in order."""
    return [plain(answer.value) for answer in api.run(EXAMPLES / f"{name}.mrql", [str(data)])]


def plain(value: Value) -> Any:
    """Records as dictionaries, bags as sorted lists, data as pairs; everything else as it is."""
    match value:
        case Record():
            return {name: plain(value[name]) for name in value}
        case Bag():
            return by_text(map(plain, value))
        case list():
            return list(map(plain, value))
        case tuple():
            return tuple(map(plain, value))
        case Data():
            return (value.constructor, plain(value.content))
        case _:
            return value


def by_text(values: Any) -> list[Any]:
    """The values in an order that depends on nothing but how Python writes them."""
    return sorted(values, key=repr)


def near(actual: Any, expected: Any) -> None:
    """Fail unless two values are alike, with floats that may differ in their last digits."""
    if isinstance(expected, float):
        assert type(actual) is float
        assert actual == pytest.approx(expected, rel=1e-9)
    elif isinstance(expected, tuple | list):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            near(one, other)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        near(list(actual.values()), list(expected.values()))
    else:
        assert (type(actual), actual) == (type(expected), expected)


def table(path: Path, *kinds: type) -> list[tuple[Any, ...]]:
    """The lines of a file without a header; an empty field of a number is None."""
    with path.open(newline="") as file:
        return [_row(fields, kinds) for fields in csv.reader(file)]


def rows_after_header(path: Path, *kinds: type) -> list[tuple[Any, ...]]:
    """The lines of a file after its header."""
    with path.open(newline="") as file:
        return [_row(fields, kinds) for fields in list(csv.reader(file))[1:]]


def json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _row(fields: list[str], kinds: tuple[type, ...]) -> tuple[Any, ...]:
    pairs = zip(fields, kinds, strict=True)
    return tuple([kind(text) if text or kind is str else None for text, kind in pairs])
