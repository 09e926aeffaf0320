"""The option `--strict`: alone, or as `--strict=groups`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from incmrql.api.scripts import Strict

_Command = TypeVar("_Command", bound=Callable[..., Any])

_ALONE = "tables"


class StrictCommand(click.Command):
    """A command in which `--strict` may stand without a value.

    Click would take the next argument as the value, which may be the script.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a `--strict` that stands alone its value."""
        end = args.index("--") if "--" in args else len(args)
        options = [f"--strict={_ALONE}" if each == "--strict" else each for each in args[:end]]
        return super().parse_args(ctx, options + args[end:])


def _strict(_: click.Context, __: click.Parameter, value: str | None) -> Strict:
    return "groups" if value == "groups" else value is not None


def strict_option(text: str) -> Callable[[_Command], _Command]:
    """The option for a `StrictCommand`; its value is False, True or "groups"."""
    return click.option(
        "--strict",
        type=click.Choice([_ALONE, "groups"]),
        metavar="[=groups]",
        callback=_strict,
        help=text,
    )
