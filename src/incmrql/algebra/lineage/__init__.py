"""Lineage: a query becomes one whose rows carry a note of what they were made from.

* `queries` rewrites any expression (`annotate`), `selects` the rows of a select.
* `notes` has the two kinds of notes: leaves for `lineage q`, trees for `debug q`.
* `shapes` builds collections whose elements have notes beside them.

Start with `notes`, then `queries`.
"""
