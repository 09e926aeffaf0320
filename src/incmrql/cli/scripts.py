"""Which script a command works on: a file, or a text given with `-e`."""

from __future__ import annotations

from pathlib import Path

import click


def chosen_script(file: str | None, query: str | None) -> str | Path:
    """The script of a command; wrong usage if there is none, or no such file."""
    if query is not None:
        return query
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
