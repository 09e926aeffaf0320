"""Text files a block of lines at a time: lines of a strict form by Arrow, the others row by row.

A parser has a regular expression for lines and turns all lines that match into columns at once.
The expression is strict enough that Arrow surely makes of a line what the row-by-row reader makes
of it: anything odd does not match.  Odd lines go to the row-by-row reader, together, if each of
them stands alone.  Where a line may go on in the next one (a quote that is not closed, a document
over several lines) that reader gets it and all lines after it.

`reader` says which files are read in this way; `parser` is what the formats have in common.
`spark_parquet` reads Parquet files by a schema of Spark's.
"""
