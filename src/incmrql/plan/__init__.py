"""Plans: a query in normal form becomes a program of operators over changes.

* `nodes` has the operators of a plan, `planner` makes them, one for each term.
* `additivity`, `factoring` and `monoids` decide what a group keeps and how it is merged.
* `program` is what a script's items become; `assembly` makes it, over shared sources.
* `loops` and `diffusion` plan loops; `access` says what an operator may read in a batch.
* `identity` digests a program, so that a checkpoint recognises it; `explain` shows a plan.

Start with `nodes`, then `planner`.
"""
