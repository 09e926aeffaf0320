"""Loops of batch queries on Spark.

`placement` decides whether a loop runs in one task, on the engine, or as steps on Spark, and runs
the first kind.  `steps` runs the second kind, one SQL text per step.  `parts` separates the inputs
that Spark prepares from the loop that a task runs.

Start with `placement`.
"""
