"""Lowering: expressions and terms become SQL, for Spark and for DuckDB.

* `tree` prints SQL of a dialect, `context` holds what one lowering shares.
* `expressions` lowers what is computed inside a row, `builtins` and `conversions` their leaves.
* `relations` lowers terms: each step is a named relation, and a query is one text.
* `sums` has exact sums in SQL.

Start with `relations.statements`, then `expressions.dispatch`.
"""
