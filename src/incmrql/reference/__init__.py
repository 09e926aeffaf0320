"""What the language means: an evaluator of typed trees over Python values, the judge of all others.

It is as plain as can be and knows nothing of plans, changes or Spark.
"""

from incmrql.reference.environment import Environment, World
from incmrql.reference.evaluate import evaluate
from incmrql.reference.laws import check_aggregation
from incmrql.reference.python_values import from_python
from incmrql.reference.script import new_world
from incmrql.reference.sources import read_source

__all__ = [
    "Environment",
    "World",
    "check_aggregation",
    "evaluate",
    "from_python",
    "new_world",
    "read_source",
]
