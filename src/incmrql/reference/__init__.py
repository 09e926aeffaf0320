"""The reference evaluator defines what the language means; every other engine is compared with it.

It is kept as simple as possible and knows nothing of plans, deltas or Spark.

* `evaluate` gives the value of a typed expression; `queries`, `operators`, `casts`, `builtins` and
  `aggregates` are its rules; `environment` has the variables and the state of a run.  `joins` is
  its one optimisation.
* `script` runs the items of a script; `sources` reads their rows; `python` calls the user's code.
* `laws` checks on random values whether a user aggregation is a monoid.

Start with `evaluate`.
"""

from incmrql.reference.environment import Environment, World
from incmrql.reference.evaluate import evaluate
from incmrql.reference.laws import check_aggregation
from incmrql.reference.python import arrow_table, from_python
from incmrql.reference.script import new_world
from incmrql.reference.sources import read_source

__all__ = [
    "Environment",
    "World",
    "arrow_table",
    "check_aggregation",
    "evaluate",
    "from_python",
    "new_world",
    "read_source",
]
