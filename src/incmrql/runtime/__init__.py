"""The runtime: sources at work, the loop over batches, commit and recovery, outputs.

* `driver` runs a batch from the poll of its sources to the commit; `loop` repeats that.
* `checkpoint` is the directory from which a killed program resumes.
* `feeds` turn whatever arrives into files that do not change; `sinks` publish answers.
* `verify` compares an answer with what is `expected` by all `ingested` rows (`replay`).
* `options` and `user_options` say how a program runs, `report` and `history` how it ran, `progress`
  how it goes.

Start with `driver`, then `checkpoint.manifests`.
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
    """Imports a class on first access: the options of users need none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
