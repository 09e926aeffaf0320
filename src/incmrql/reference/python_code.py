"""Running code of the user: Python functions, parsers, modules that are imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def user_code() -> Iterator[None]:
    """What the code prints goes to stderr, as stdout has the answers and nothing else."""
    with redirect_stdout(sys.stderr):
        yield


def raised(problem: BaseException) -> str:
    """`raised KeyError: 3`, on one line."""
    text = " ".join(str(problem).split())
    return f"raised {type(problem).__name__}" + (f": {text}" if text else "")
