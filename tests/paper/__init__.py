"""The paper's construction at work, for tests only: what `explain --paper` shows, run over data.

    run         state ⊗ h(ΔS), a(state): start here         terms      monoid inference of terms
    annotated   annotated terms as terms of our algebra     kmaps      pulling kMaps out
    carriers    values as elements of monoids, diffusion    nodes      judgments of a plan's nodes

The constructions themselves are in `incmrql.paper`.
"""
