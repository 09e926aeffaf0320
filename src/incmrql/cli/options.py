"""Options and arguments that several commands share, and the stream options of `incmrql run`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import click

from incmrql.api.options import About, UserOptions, declared_options
from incmrql.errors import DataError

if TYPE_CHECKING:
    from incmrql.api.scripts import Strict


# --- `--strict` ---


_Command = TypeVar("_Command", bound=Callable[..., Any])

_BARE = "tables"


class StrictCommand(click.Command):
    """A command whose option `--strict` may be given without a value.

    Click would take the next argument as the value, and that may be the script.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the default value to a bare `--strict`."""
        end = args.index("--") if "--" in args else len(args)
        options = [f"--strict={_BARE}" if arg == "--strict" else arg for arg in args[:end]]
        return super().parse_args(ctx, options + args[end:])


def _strict(_: click.Context, __: click.Parameter, value: str | None) -> Strict:
    return "groups" if value == "groups" else value is not None


def strict_option(text: str) -> Callable[[_Command], _Command]:
    """The `--strict` option of a `StrictCommand`; its value is False, True or "groups"."""
    return click.option(
        "--strict",
        type=click.Choice([_BARE, "groups"]),
        metavar="[=groups]",
        callback=_strict,
        help=text,
    )


# --- Settings, modules and paths ---


def spark_settings(given: tuple[str, ...]) -> dict[str, str]:
    """Parse Spark settings of the form `K=V`."""
    settings = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{word!r} is not of the form K=V", param_hint="--conf")
        settings[name] = value
    return settings


allow_import = click.option(
    "--allow-import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Python module that may be imported. May be repeated.",
)
"""For commands that import no Python module unless the user allows it."""

allow_path = click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="Let the script read and write only this file or directory. May be repeated.",
)
"""For commands that read what a script names."""


# --- The script ---


def chosen_script(file: str | None, query: str | None) -> str | Path:
    """The script that a command is given: a path, a query text, or stdin for `-`."""
    if query is not None:
        return checked_words((query,))[0]
    if file == "-":
        return sys.stdin.read()
    if file is None:
        raise click.UsageError("Give a script file, or a query with -e 'query'.")
    path = Path(file)
    if path.is_dir():
        raise click.UsageError(f"{file} is a folder; give a script file.")
    if not path.exists():
        beside_it = path.parent.iterdir() if path.parent.is_dir() else ()
        near = sorted(p.name for p in beside_it if p.suffix in (".mrql", ".sql"))
        beside = f" Scripts there: {', '.join(near[:5])}." if near else ""
        raise click.UsageError(f"There is no file {file}.{beside}")
    return path


def is_sql(script: str | Path) -> bool:
    """Whether a script is a file of Spark SQL."""
    return isinstance(script, Path) and script.suffix == ".sql"


def checked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line, refused if they are not UTF-8."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise click.UsageError(f"{word!a} is not UTF-8 text.") from None
    return tuple(words)


# --- Streams ---


CONSOLE = "console"


class Parsed(click.ParamType[Any]):
    """The type of an option that parses its own text."""

    def __init__(self, about: About) -> None:
        assert about.read is not None
        self.name, self._read = about.metavar or "value", about.read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text; a `DataError` becomes a usage error."""
        try:
            return self._read(value)
        except DataError as problem:
            self.fail(problem.message, param, ctx)


class StreamCommand(StrictCommand):
    """A command that lists its stream options under their own heading in `--help`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two groups."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "Stream options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                is_stream = param.name in _STREAM_OPTIONS
                groups["Stream options" if is_stream else "Options"].append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def field_option(name: str) -> Callable[[Any], Any]:
    """The command-line option for a field of `UserOptions`, derived from its declaration."""
    about, default = declared_options()[name], UserOptions.__dataclass_fields__[name].default
    hint = get_type_hints(UserOptions)[name]
    values = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    type_ = next(value for value in values if value is not type(None))
    shown: dict[str, Any] = {"help": about.help, "default": default, "metavar": about.metavar}
    if type_ is bool:
        shown["is_flag"] = True
    elif get_origin(type_) is tuple:
        shown["multiple"] = True
    elif type_ is Path:
        shown["type"] = click.Path(file_okay=False, path_type=Path)
    elif about.read is not None:
        shown["type"] = Parsed(about)
    elif get_origin(type_) is Literal:
        shown["type"] = click.Choice(get_args(type_))
    elif about.above is not None:
        shown["type"] = click.FloatRange(min=about.above, min_open=True)
    elif about.least is not None:
        shown["type"] = click.IntRange(min=about.least)
    return click.option(f"--{name.replace('_', '-')}", **shown)


_FIELDS: Final = tuple(
    name
    for name, about in declared_options().items()
    if about.on_command_line and name != "on_arithmetic"  # which also applies to batch queries
)
_STREAM_OPTIONS: Final = (*_FIELDS, "strict")


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the stream options to a command."""
    command = strict_option(
        "Refuse a query whose batches may read all rows of a table; "
        "with =groups, also one whose batches may read whole groups."
    )(command)
    for name in reversed(_FIELDS):
        command = field_option(name)(command)
    return command
