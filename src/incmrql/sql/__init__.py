"""Expressions and terms as SQL, for Spark and for DuckDB."""
