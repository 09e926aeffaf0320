"""The oracle: an independent engine that runs plans over dictionaries, for tests only.

It follows the calculus of changes rule by rule, and tests compare the engine with it batch by
batch.  What both build on is in `incmrql.plan`: plans, monoids, weighted bags, and the
order in which the steps of a loop are run.

    stepper     Stepper: start here; processes a batch and returns the change of the answer
    states      State: what one node remembers, and what it does with changes
    diffusion   DiffusedState: a loop kept by diffusion, with its error
    lineage     what each row of an answer was made from, by an evaluation that remembers
    ledgers     Ledgers: which rows the streams have, to refuse a batch
    changes, sums, tables, ranked, plain    helpers of these
"""

from tests.oracle.stepper import Stepper

__all__ = ["Stepper"]
