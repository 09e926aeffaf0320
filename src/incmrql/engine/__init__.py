"""The engine: one batch of a program over Arrow tables and files of state, without a JVM.

* `compile` turns a program into operators, linear pipelines and schemas of state tables.
* `operators` has the operators at work, `loops` the loops.
* `store` has state tables: sorted segments, found by binary search and merged by adding.
* `columns` has values as columns: layouts, keys, accumulators, pinned functions.
* `batch` runs a whole batch in one task, `stages` the same in several; `messages` travel to tasks
  and back, `progress` on the way; `replacement` takes readers to the answer of another program.
* `snapshots` has whole answers as tables, for the driver.

Start with `batch`, then `program`.
"""
