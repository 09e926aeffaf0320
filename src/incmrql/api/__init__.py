"""The interface for front ends: scripts, sessions, runs, options and checkpoints.

* `scripts` checks, explains and evaluates a script without Spark; its functions are exported here.
* `session` has `Session`, `results` a query that has not run; `frames` is the short way for both.
* `plans` has what Spark analyses, `programs` several queries as one; `named` and `html` show rows.
* `runs` has `Run`, a program that follows its streams; `drivers` creates the drivers of all runs.
* `streams` has streams of pushed rows and of DataFrames; `options` the arguments of `start()`.
* `checkpoints` opens the checkpoint of a run, `saved_answers` has its answer, `health` its health.
* `trial` tries a query on the user's own data; `tracebacks` keeps tracebacks short.

Start with `session`, then `runs`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from incmrql.api.scripts import (
        Answer,
        Settings,
        check,
        compiled,
        explain,
        explain_as_the_paper,
        explain_data,
        load,
        run,
    )


__all__ = [
    "Answer",
    "Settings",
    "check",
    "compiled",
    "explain",
    "explain_as_the_paper",
    "explain_data",
    "load",
    "run",
]


def __getattr__(name: str) -> Any:
    """Imports a name of `scripts` on first access: `incmrql --help` needs only the options."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("incmrql.api.scripts"), name)
