"""From a query in normal form to a program of changes: what is kept, merged and answered."""

from incmrql.incremental.changes import Weighted
from incmrql.incremental.nodes import Plan
from incmrql.incremental.plan import plan_of, plan_query
from incmrql.incremental.streams import Output, Program, Stream, program_of

__all__ = [
    "Output",
    "Plan",
    "Program",
    "Stream",
    "Weighted",
    "plan_of",
    "plan_query",
    "program_of",
]
