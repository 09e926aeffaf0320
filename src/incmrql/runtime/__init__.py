"""Streams at work: folders, the loop over batches, commit and recovery, sinks.

A `Driver` runs a program on its checkpoint, batch by batch, as `StreamOptions` say, and reports
each as a `BatchReport`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from incmrql.runtime.driver import Driver
    from incmrql.runtime.options import StreamOptions
    from incmrql.runtime.report import BatchReport

__all__ = ["BatchReport", "Driver", "StreamOptions"]

_MODULES = {"Driver": "driver", "StreamOptions": "options", "BatchReport": "report"}


def __getattr__(name: str) -> Any:
    """A class of the list above when it is asked for: the options of users need none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
