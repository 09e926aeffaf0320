"""Queries on Spark: the first layer that imports pyspark."""
