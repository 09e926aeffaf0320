"""The second front end: Spark's analysed plans, converted to the typed tree that MRQL uses too.

* `nodes` is a plan as plain data: what the layer `spark` reads from the JVM, and its form as JSON.
* `convert` makes a script of plans: `operators` become relations, `expressions` typed expressions.
* `classes` says what is done with a class, `refusals` why a query is not converted.
* `opaque` makes what is not converted a column of an input: `computed` says how a leaf has it,
  `light` how it passes common table expressions.
* `leaves` says what the inputs are: sources, or constants; `types` has the types of columns.
* `relation` is the rows of an operator, `scope` what an expression may refer to.

Nothing here knows py4j or PySpark, so tests need no JVM.  Start with `nodes`, then `convert`.
"""

from __future__ import annotations

from incmrql.catalyst.nodes import (
    AnalyzedPlan,
    PlanNode,
    PlanValue,
    analyzed_from_json,
    analyzed_to_json,
    plan_from_json,
    plan_to_json,
)

__all__ = [
    "AnalyzedPlan",
    "PlanNode",
    "PlanValue",
    "analyzed_from_json",
    "analyzed_to_json",
    "plan_from_json",
    "plan_to_json",
]
