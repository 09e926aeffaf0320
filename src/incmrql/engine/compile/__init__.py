"""Compilation: a program of changes becomes operators that run over Arrow tables.

* `program` compiles every node and is the entry point; `groups` and `loops` do the hard ones.
* `pipelines` compiles a map to picked columns, a DuckDB text or row-by-row evaluation.
* `single_rows` finds what one row of a group contributes to an aggregate.
* `physical` has the result: operators, their parts and answers.

Start with `physical`, then `program`.
"""
