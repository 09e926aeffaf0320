"""What the language means: an evaluator of typed trees over Python values, the judge of all others.

It is as plain as can be and knows nothing of plans, changes or Spark.
"""

from incmrql.reference.environment import Environment, World
from incmrql.reference.evaluate import evaluate
from incmrql.reference.laws import check_aggregation
from incmrql.reference.lineage import debug, lineage
from incmrql.reference.python_values import from_python
from incmrql.reference.script import new_world, run_item, run_script
from incmrql.reference.sources import read_source

__all__ = [
    "Environment",
    "World",
    "check_aggregation",
    "debug",
    "evaluate",
    "from_python",
    "lineage",
    "new_world",
    "read_source",
    "run_item",
    "run_script",
]
