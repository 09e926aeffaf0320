"""Failures: a query that finds the rows whose arithmetic overflows or divides by zero.

`watches` turns a query into its watches (`failure_watches`): queries for the rows that are used
although an operation on them gave null because it failed.  `conditions` decides from types and
constants which operations can fail at all, and has the condition that one does.  `readers` has
the columns of a query that are read: only these are watched.

Start with `watches`.
"""
