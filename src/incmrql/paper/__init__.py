"""The paper's own construction, as pure functions over its normal form (Definition 2).

* `form` has Definition 2 and what is outside of it.
* `annotated` has terms with lineage: sMap1-3, swap, mix, kMap, and T_q, T_e, T_c.
* `inference` has the monoids of functions and of annotated terms.
* `construct` has h, ⊗ and a of a query, and F over its homomorphic parts; `show` prints it all.

Only `explain --paper` loads it: a stream runs the program of changes (`plan.planner`), which is
exact where the paper is not.  `tests/paper` runs the construction.  Start with `form`.
"""

from incmrql.paper.show import show_paper

__all__ = ["show_paper"]
