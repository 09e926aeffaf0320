"""Spark's analysed plans as data: the way from a DataFrame or a SQL text to the converter.

* `reader` is the entry point: `analyze_sql` and `read_plan` give a `SparkPlan`.
* `walker` reads a plan in one call, by Java code that is compiled in the driver's JVM; `generic`
  does the same over py4j. `fields` says what both read.
* `settings` are the settings of Spark that a plan's meaning depends on.
* `functions` are functions of Python in plans, by their fingerprints.
* `streams` gives DataFrames that stand for streams of a session.
* `substitution` runs a plan over other rows, put in place of its leaves.
* `problems` turns Spark's errors into ours.
"""

from __future__ import annotations

from incmrql.spark.plans.reader import SparkPlan, analyze_sql, read_plan, sql_frame

__all__ = ["SparkPlan", "analyze_sql", "read_plan", "sql_frame"]
