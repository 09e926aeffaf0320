"""Batch queries on Spark: queries over all data.

* `queries` runs one query: SQL text for its terms, and the rest over small results.
* `scripts` runs the items of a script in order; `outputs` writes what they store and dump.
* `functions` registers what stays in Python as functions over Arrow columns.

Start with `queries`.
"""
