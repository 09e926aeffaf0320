"""Incremental MRQL for Spark: queries whose answers follow their changing input."""

from typing import TYPE_CHECKING, Any

from incmrql.diagnostics import CheckpointError, DataError, InternalError, QueryError

if TYPE_CHECKING:
    from incmrql.session import Session

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "DataError",
    "InternalError",
    "QueryError",
    "Session",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """`Session` when it is asked for: most commands need no part of what it imports."""
    if name == "Session":
        from incmrql.session import Session

        return Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
