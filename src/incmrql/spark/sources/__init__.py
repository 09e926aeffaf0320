"""Sources on Spark: the rows of files and registered data as data frames.

* `frames` is the entry point (`read`); `native` says which Parquet files Spark may read itself.
* `files` plans the scan of a path, `splits` cuts large files, `scan` is what tasks get and report.
* `parts` reads files in tasks; `picks` makes columns of what a query uses of a tree.
* `columns` casts columns to declared types; `registered` has data that Python registered.
* `context` collects bad rows and errors until the query's job is done.

Start with `frames`.
"""
