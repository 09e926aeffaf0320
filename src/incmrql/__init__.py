"""Incremental MRQL for Spark: queries whose answers follow their changing input."""

from incmrql.diagnostics import CheckpointError, DataError, InternalError, QueryError

__version__ = "0.1.0"

__all__ = ["CheckpointError", "DataError", "InternalError", "QueryError", "__version__"]
