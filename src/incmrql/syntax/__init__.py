"""Syntax: text to a tree, and the tree back to text.

* `ast` has the nodes; every node has its span in the text.
* `parser` turns text into a tree (`parse_script`, `parse_query`).
* `printer` turns a tree into text: parsing what it prints gives an equal tree.
* `depth` raises Python's recursion limit for deep trees.

Start with `ast`, then `parser.scripts`.
"""
