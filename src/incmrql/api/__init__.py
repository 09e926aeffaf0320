"""What front ends use: scripts, sessions, runs, options and checkpoints.

* `scripts` checks, explains and evaluates a script without Spark; its functions are here by name.
* `session` has `Session`, for queries on Spark.
* `runs` has `Run`, a program that follows its streams, and the only owner of a driver.
* `streams` has the streams that Python pushes rows to; `options` what `start()` takes.
* `checkpoints` opens what a run has left.

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
    """A name of `scripts` when it is asked for: the command line needs options only to begin."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("incmrql.api.scripts"), name)
