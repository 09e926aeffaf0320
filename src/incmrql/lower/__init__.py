"""Lowering: translates expressions and terms to SQL, for Spark and for DuckDB.

* `tree` builds and prints SQL of a dialect, `context` has the state of one lowering.
* `expressions` lowers computations inside a row; `builtins` and `conversions` are its leaves.
* `relations` lowers terms: each step is a named relation, and a query is one SQL text.
* `sums` has exact sums in SQL.

Start with `relations.statements`, then `expressions.dispatch`.
"""
