"""Spark: the first layer that imports pyspark.

* `session` starts Spark or uses the user's; `internals` has every private Spark API that we use.
* `batch` runs queries over all data; `sources` reads their rows.
* `plans` reads analysed plans; `opaque` evaluates parts of them over the rows of new files.
* `stream_job` runs one batch of a stream as one job; `stream_tasks` has the code of its tasks.
* `loops` decides whether a loop runs in one task or as steps on Spark, and runs it.
* `values` converts values to Spark and back; `packing` sends Python objects to workers.
* `clusters` and `probe` check a cluster and its storage, and explain what is wrong with them.

Start with `batch.queries` and `stream_job`.
"""
