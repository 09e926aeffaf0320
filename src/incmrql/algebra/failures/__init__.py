"""Failures: a query that finds the rows whose arithmetic overflows or divides by zero.

`watches` turns a query into its watches: queries for the rows that are used although an operation
on them gave null because it failed.  `sites` has the places that are watched.  `conditions` has
the conditions that an operation fails, and decides from types and constants which can fail at all.

Start with `watches`.
"""
