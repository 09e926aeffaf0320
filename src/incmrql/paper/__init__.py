"""The paper's own construction, as pure functions over its normal form (Definition 2).

    form        Definition 2, and what is outside of it
    annotated   terms with lineage: sMap1-3, swap, mix, kMap, and T_q, T_e, T_c
    inference   monoids of functions and of annotated terms
    construct   h, ⊗ and a of a query, F over its homomorphic parts
    show        all of it as text

`explain --paper` shows it and nothing else loads it.  A stream is run with the program of changes
(`plan.planner`), which is exact where the paper is not.  `tests/paper` runs the construction.
"""

from incmrql.paper.show import show_paper

__all__ = ["show_paper"]
