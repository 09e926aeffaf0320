"""What Spark's expressions mean, where the language means something else.

* `arithmetic` has numbers in Spark's evaluation modes, `casts` conversions of scalars.
* `parsing` reads numbers and times from strings as Spark does, `printing` writes them.
* `strings`, `numbers` and `times` have functions, `statistics` those of exact sums, and `builtins`
  the tables of all of them.

Start with `casts`.
"""
