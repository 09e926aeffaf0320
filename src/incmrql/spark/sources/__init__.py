"""Sources on Spark: the rows of files and registered data as data frames.

* `frames` is the entry point (`read`); `files` says which files Spark may read natively.
* `parts` reads files in tasks, `pieces` cuts large ones, `plan` is what tasks are told.
* `picked` makes columns of what a query asks of a tree; `columns` casts to a declared type.
* `registered` has data that Python registered; `context` collects bad rows and errors.

Start with `frames`.
"""
