"""Type inference: one module for each group of constructs.

* `scripts` types declarations and items; `expressions` dispatches to the modules below.
* `queries`, `patterns`, `access`, `operators`, `calls`, `aggregates` and `templates` type the
  expressions that their names say.
* `sources` types sources and streams, and checks their options.

Start with `scripts`, then `expressions`.
"""
