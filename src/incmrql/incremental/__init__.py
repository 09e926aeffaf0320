"""From a query in normal form to a program of changes: what is kept, merged and answered."""

from incmrql.incremental.changes import Weighted
from incmrql.incremental.derive import derive, program_of
from incmrql.incremental.explain import show_plan
from incmrql.incremental.nodes import Plan
from incmrql.incremental.plan import plan_of, plan_query
from incmrql.incremental.program import (
    Accumulator,
    Aggregate,
    Answer,
    Fold,
    Linear,
    Program,
    Stream,
)
from incmrql.incremental.show import show_program
from incmrql.incremental.stepper import Stepper

__all__ = [
    "Accumulator",
    "Aggregate",
    "Answer",
    "Fold",
    "Linear",
    "Plan",
    "Program",
    "Stepper",
    "Stream",
    "Weighted",
    "derive",
    "plan_of",
    "plan_query",
    "program_of",
    "show_plan",
    "show_program",
]
