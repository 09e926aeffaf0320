"""Rewrite rules, one module for each kind of simplification.

* `expressions` simplifies inside a row, and cMap and union; `filters` moves conditions down.
* `groups` narrows groups, `grouping` shares them and whatever else a query computes twice.
* `aggregates` sums up the sides of a join before they meet; `selfjoins` groups a self-join once.
* `inrow` puts a tiny collection into every row, as loops need it; `joins` says what a join is.

Start with `filters`.
"""
