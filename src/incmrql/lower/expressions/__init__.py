"""Expressions inside a row as SQL.

* `dispatch` has one rule for each construct and is the entry point (`lower`).
* `collections`, `arrays`, `linear` and `ranking` lower queries over collections inside a row.
* `aggregates` lowers aggregates over groups and collections, `access` element access.
* `patterns` lowers pattern matching.

Start with `dispatch`.
"""
