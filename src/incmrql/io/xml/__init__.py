"""XML: files, elements and values, row by row.

`files` reads the elements with given tags as rows, selects parts of them by path and converts
them to a declared type.  `values` parses a tree, takes it apart and prints it.

Start with `files`.
"""
