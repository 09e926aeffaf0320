"""Incremental MRQL for Spark: queries whose answers follow their changing input.

`Session` runs queries on Spark; `Run` is a query over streams that is kept up to date.  Data and
query problems are errors of `errors`.

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
]


def __getattr__(name: str) -> Any:
    """`Session` and `Run` when they are asked for: most commands need no part of either."""
    if name == "Session":
        from incmrql.api.session import Session

        return Session
    if name in ("Run", "Batch"):
        from incmrql.api import runs

        return getattr(runs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
