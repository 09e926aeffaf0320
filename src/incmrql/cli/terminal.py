r"""What is printed: text of others must not steer the terminal, nor forge lines of a log.

Names of files, fields and modules, bad lines and messages of other programs may hold escape
sequences.  On stderr, and on stdout if it is a terminal, control characters are shown as `\x1b`.
Answers in a pipe or file stay as they are: in strings of the notation these are escaped anyway.
"""

from __future__ import annotations

import re
import sys
from typing import Final

import click

_STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but line feed and tab, line separators, marks of direction, surrogates."""


def visible(text: str) -> str:
    """A text in which nothing steers a terminal."""
    return _STEERING.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def tell(text: str) -> None:
    """Print something about the run on stderr."""
    click.echo(visible(text), err=True)


def answer(text: str) -> None:
    """Print an answer on stdout."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(text) if on_terminal else text)
