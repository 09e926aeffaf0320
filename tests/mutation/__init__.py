"""Mutants of the engine, of what runs on Spark, and of the commit, drawn by seed."""
