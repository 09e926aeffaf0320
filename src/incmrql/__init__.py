"""Incremental MRQL for Spark: queries whose answers follow their changing input."""

__version__ = "0.1.0"
