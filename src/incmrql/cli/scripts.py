"""Which script a command works on: a file, or a text given with `-e`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click


def chosen_script(file: str | None, query: str | None) -> str | Path:
    """The script of a command, `-` being what stands on stdin; wrong usage if there is none."""
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
        near = sorted(p.name for p in path.parent.glob("*.mrql")) if path.parent.is_dir() else []
        beside = f" Scripts there: {', '.join(near[:5])}." if near else ""
        raise click.UsageError(f"There is no file {file}.{beside}")
    return path


def checked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line, which must be UTF-8 text."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise click.UsageError(f"{word!a} is not UTF-8 text.") from None
    return tuple(words)
