"""The paper's own construction, as pure functions over its normal form (Definition 2).

    form        Definition 2, and what is outside of it
    judgments   monoid inference inside of functions        terms      and of whole terms
    annotated   sMap1-3, swap, mix, kMap as terms           transform  T_q, T_e, T_c
    lemma       the monoids of annotated terms              split      F over homomorphic parts
    construct   h, ⊗ and a of a query                       run        state ⊗ h(ΔS), a(state)
    carriers    diffusion and diminisher                    kmaps      pulling kMaps out
    lineage     θ for each node of a plan                   show       all of it as text

What a stream is run with is not this but the program of changes (`incremental.plan`), which is
exact where the paper is not; the tests of this package show where.
"""

from incmrql.incremental.paper.lineage import lineage_of
from incmrql.incremental.paper.nodes import node_judgments
from incmrql.incremental.paper.show import show_paper

__all__ = ["lineage_of", "node_judgments", "show_paper"]
