"""From a query in normal form to a program of changes: what is kept, merged and answered."""

from incmrql.incremental.derive import derive, program_of
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

__all__ = [
    "Accumulator",
    "Aggregate",
    "Answer",
    "Fold",
    "Linear",
    "Program",
    "Stream",
    "derive",
    "program_of",
    "show_program",
]
