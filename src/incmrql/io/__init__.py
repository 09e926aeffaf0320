"""Reading files fast: text and Parquet to chunks of Arrow columns.

`read_chunks(spec, part)` reads a file, or a piece of one, for batch queries on Spark and for the
tasks of a stream alike.  Its rows, weights and bad rows are those of `formats.read`, the
row-by-row reader, which the reference evaluator uses and which reads here what is odd.

Start with `chunks`, which decides who reads what; `vectorised` has a parser for each text format.
"""

from __future__ import annotations

from incmrql.io.chunks import Chunk, read_chunks, row_chunks
from incmrql.io.spec import CHUNK_ROWS, Part, ReadSpec, read_rows, renamed
from incmrql.io.vectorised.reader import VectorReader, vector_reader

__all__ = [
    "CHUNK_ROWS",
    "Chunk",
    "Part",
    "ReadSpec",
    "VectorReader",
    "read_chunks",
    "read_rows",
    "renamed",
    "row_chunks",
    "vector_reader",
]
