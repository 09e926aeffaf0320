"""Files to values and values to files.

* `line`, `json`, `xml` and `parquet` read row by row and say what a file means (`reader`).
* `vectorised` reads the same files as columns, for batch queries and streams (`chunks`).
* `files` finds and opens files, `spark_files` finds them as Spark does; `rows` has the policy for
  bad rows, `spec` what a reader needs.
* `scalars` reads one value of a basic type, `arrow` maps types and values to Arrow and back.
* `writers` writes answers, `spools` keeps rows that were pushed or read by Spark.

Start with `rows`, then `line`.
"""

from __future__ import annotations

from incmrql.io.chunks import Chunk, read_chunks, row_chunks
from incmrql.io.reader import list_files, read, read_rows, with_display_path
from incmrql.io.spec import CHUNK_ROWS, FileSplit, ReadSpec, element_of
from incmrql.io.vectorised.reader import VectorReader, vector_reader

__all__ = [
    "CHUNK_ROWS",
    "Chunk",
    "FileSplit",
    "ReadSpec",
    "VectorReader",
    "element_of",
    "list_files",
    "read",
    "read_chunks",
    "read_rows",
    "row_chunks",
    "vector_reader",
    "with_display_path",
]
