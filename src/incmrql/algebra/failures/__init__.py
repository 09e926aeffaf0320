"""Failures: a query that finds the rows whose arithmetic overflows or divides by zero.

`watches` turns a query into its watches: queries for the rows that are used although an operation
on them gave null because it failed; a place is one of `sites`.  `conditions` has the conditions that an operation fails, and
decides from types and constants which operations can fail at all.

Start with `watches`.
"""
