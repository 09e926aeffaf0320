"""Syntax: text to a tree, and the tree back to text.

* `ast` has the nodes; every node knows its place in the text.
* `parser` is the way in (`parse_script`, `parse_items`, `parse_query`, `parse_type_text`).
* `printer` is the way back: parsing what it prints gives an equal tree.
* `depth` makes room on Python's stack for deep trees.

Start with `ast`, then `parser.expressions`.
"""
