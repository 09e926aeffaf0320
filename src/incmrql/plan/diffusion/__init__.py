"""Loops that may be approximated: which ones, and with which error.

* `shape` recognises affine loops and loops over centroids, and decides what is diffused.
* `ways` has the ways a loop is diffused, as data.
* `matrix` sees one step of a loop as a matrix; `slopes` finds the slope of an expression.

Start with `shape`.
"""
