"""JSON: files, documents and values, row by row.

`files` reads the rows of a source, of any or of a declared type.  `documents` cuts a file into
documents in linear time and bounded memory; `values` parses a document and prints one.

Start with `files`.
"""
