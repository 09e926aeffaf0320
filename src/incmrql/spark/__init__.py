"""Spark: the first layer that imports pyspark.

* `session` starts or borrows a Spark; `internals` has every private API of Spark that we use.
* `batch` runs queries over all data, `sources` reads their rows.
* `stream_job` runs one batch of a stream as one job, `stream_tasks` is what its tasks do; `loops`
  places loops in a task or in stages.
* `values` converts values to Spark and back; `packing` sends Python objects to workers.
* `clusters` and `probe` say what is wrong with a cluster or its storage.

Start with `batch.queries` and `stream_job`.
"""
