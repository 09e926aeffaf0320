"""The options of `incmrql run` that are about streams, made from the fields of `UserOptions`."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import click

from incmrql.api.options import About, UserOptions, declared
from incmrql.cli.strictness import StrictCommand, strict_option
from incmrql.diagnostics import DataError

CONSOLE = "console"


class Given(click.ParamType[Any]):
    """A value that an option reads from its text."""

    def __init__(self, about: About) -> None:
        assert about.read is not None
        self.name, self._read = about.metavar or "value", about.read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        try:
            return self._read(value)
        except DataError as problem:
            self.fail(problem.message, param, ctx)


class Grouped(StrictCommand):
    """A command whose options of streams stand under a heading of their own in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two groups."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "Options of streams": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_stream = param.name in _OF_STREAMS
                groups["Options of streams" if is_stream else "Options"].append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def field_option(name: str) -> Callable[[Any], Any]:
    """The option of a command that sets a field of `UserOptions`."""
    about, default = declared()[name], UserOptions.__dataclass_fields__[name].default
    hint = get_type_hints(UserOptions)[name]
    values = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    type_ = next(each for each in values if each is not type(None))
    shown: dict[str, Any] = {"help": about.help, "default": default, "metavar": about.metavar}
    if type_ is bool:
        shown["is_flag"] = True
    elif about.read is not None:
        shown["type"] = Given(about)
    elif get_origin(type_) is Literal:
        shown["type"] = click.Choice(get_args(type_))
    elif get_origin(type_) is tuple:
        shown["multiple"] = True
    elif type_ is Path:
        shown["type"] = click.Path(file_okay=False, path_type=Path)
    elif about.above is not None:
        shown["type"] = click.FloatRange(min=about.above, min_open=True)
    elif about.least is not None:
        shown["type"] = click.IntRange(min=about.least)
    return click.option(f"--{name.replace('_', '-')}", **shown)


_FIELDS: Final = tuple(
    name
    for name, about in declared().items()
    if about.on_command_line and name != "on_arithmetic"  # which is about batch queries too
)
_OF_STREAMS: Final = (*_FIELDS, "strict")


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of streams to a command."""
    command = strict_option(
        "Refuse a query of which a batch may read all rows of a table; "
        "with =groups, also one of which it may read whole groups."
    )(command)
    for name in reversed(_FIELDS):
        command = field_option(name)(command)
    return command
