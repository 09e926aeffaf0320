"""Loops of batch queries on Spark.

`placement` decides whether a loop runs inside one task, on the engine, or as steps on Spark, and
runs those of the first kind.  `steps` runs the others: one text for each step.  `parts` separates
what Spark prepares for a loop in a task.

Start with `placement`.
"""
