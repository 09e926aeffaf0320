"""Sources on Spark: the rows of files and registered data as data frames.

* `frames` is the entry point (`read`); `native` says which Parquet files Spark may read itself.
* `files` plans the scan of a path; `splits` divides large files.
* `scan` has what tasks get and report.
* `parts` reads files in tasks; `picks` makes columns of what a query uses of a tree.
* `columns` casts columns to declared types; `registered` reads data that Python registered.
* `spools` has Spark read new files of a stream by the user's reader, and keeps their rows.
* `context` collects bad rows and errors until the query's job is done.

Start with `frames`.
"""
