"""Incremental MRQL for Spark: queries whose answers follow their changing input.

`materialize` keeps the answer of a DataFrame up to date, and `explain` says how.  `Session` runs
queries of MRQL and of Spark; `Run` is a query that is kept up to date, and
incmrql.open reads its answer from its checkpoint.  Data and query problems are
errors of `errors`.

Start with `compiler.compiled` to follow a query from its text to what runs.
"""

from typing import TYPE_CHECKING, Any

from incmrql.errors import (
    CheckpointError,
    DataError,
    DifferenceFound,
    IncmrqlWarning,
    InternalError,
    QueryError,
)

if TYPE_CHECKING:
    from incmrql.api.checkpoints import open_checkpoint as open  # noqa: A004 - incmrql.open
    from incmrql.api.frames import explain, materialize
    from incmrql.api.runs import Run
    from incmrql.api.session import Session
    from incmrql.runtime.report import Batch


__version__ = "0.1.0"

__all__ = [
    "Batch",
    "CheckpointError",
    "DataError",
    "DifferenceFound",
    "IncmrqlWarning",
    "InternalError",
    "QueryError",
    "Run",
    "Session",
    "__version__",
    "explain",
    "materialize",
    "open",
]


def __dir__() -> list[str]:
    """What there is to use."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """A name of `api` when it is asked for: most commands need none of them."""
    if name == "Session":
        from incmrql.api.session import Session

        return Session
    if name in ("explain", "materialize"):
        from incmrql.api import frames

        return getattr(frames, name)
    if name == "open":
        from incmrql.api.checkpoints import open_checkpoint

        return open_checkpoint
    if name in ("Run", "Batch"):
        from incmrql.api import runs

        return getattr(runs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
