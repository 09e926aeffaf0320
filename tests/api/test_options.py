"""The options of a run are declared once: types, commands and docs agree with the declaration."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from incmrql.api.options import StartOptions, UserOptions, declared_options, stream_options
from incmrql.cli.main import commands
from incmrql.errors import DataError
from incmrql.runtime.user_options import kept_input, permissions, seconds
from tests.docs.conftest import DOCS


def alternatives(hint: Any) -> set[Any]:
    """The types that a hint allows; texts and paths stand for what is read from them."""
    given = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {part for part in given if part is not type(None)}


def test_the_keyword_arguments_of_start_are_the_fields() -> None:
    start, fields = get_type_hints(StartOptions), get_type_hints(UserOptions)
    assert start.keys() == fields.keys() == declared_options().keys()
    differing = {n for n in start if not alternatives(fields[n]) <= alternatives(start[n])}
    assert differing == {"forget", "retract"}  # any sequence of texts and paths, there a tuple


def test_commands_have_the_options_that_they_should() -> None:
    known = {param.name: param for param in commands.commands["run"].params}
    wanted = {name for name, about in declared_options().items() if about.on_command_line}
    assert wanted <= known.keys()
    assert not known.keys() & (declared_options().keys() - wanted)
    for name in wanted:
        assert known[name].help == declared_options()[name].help


def test_every_option_is_in_the_docs_of_python() -> None:
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\| (`[^|]*=[^|]*) \|", page, re.MULTILINE))
    assert set(re.findall(r"`(\w+)=", rows)) >= declared_options().keys()


def test_values_are_read_from_texts() -> None:
    given = {"trigger": "500ms", "settle": 2, "keep_input": "3", "checkpoint_mode": "750"}
    options = stream_options({**given, "checkpoint": "ck", "output": Path("out"), "format": None})
    assert (options.trigger, options.settle, options.keep_input) == (0.5, 2.0, 3)
    assert (options.checkpoint_mode, options.checkpoint) == (0o750, Path("ck"))
    assert (options.output, options.format) == ("out", None)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("trigger", "soon", "'soon' is not a time such as 500ms, 1s or 2m"),
        ("settle", True, "True is not a time"),
        ("keep_input", "some", "'some' is not all, none or a number of batches"),
        ("checkpoint_mode", "abc", "'abc' is not permissions such as 700 or 750"),
        ("folder", "x", 'start has no option "folder"'),
    ],
)
def test_what_cannot_be_read_is_refused(name: str, value: object, said: str) -> None:
    with pytest.raises(DataError, match=re.escape(said)) as caught:
        stream_options({name: value})
    assert caught.value.code == "R212"


def test_values_that_are_no_texts_stay() -> None:
    assert [kept_input(setting) for setting in ("all", "none", 4)] == ["all", "none", 4]
    assert permissions(0o770) == 0o770


@pytest.mark.parametrize(
    ("given", "expected"),
    [("500ms", 0.5), ("1s", 1.0), ("2m", 120.0), ("1h", 3600.0), (3, 3.0), (0, 0.0), ("0.5", 0.5)],
)
def test_times(given: str | float, expected: float) -> None:
    assert seconds(given) == expected


@pytest.mark.parametrize("given", [-1, float("nan"), True, "soon", "-1s", "1 day"])
def test_what_is_no_time_is_refused(given: str | float) -> None:
    with pytest.raises(DataError, match="is not a time such as 500ms, 1s or 2m"):
        seconds(given)
