"""Exact sums of doubles: an abelian group whose elements round to doubles once, at the end.

Every finite double is an integer multiple of 2**-1074, so a sum of doubles is an integer,
and adding, subtracting and regrouping cannot change a bit of the result.  Infinities and NaN
have counts of their own; these may be negative for a while, and cancel.  An integer has one form
as limbs and one in bytes, so that equal sums are equal columns.

* `scalar` holds a sum as a Python integer, the plainest form of this fixed-point number.
* `sums` holds many sums in columns: several integers of 64 bits (limbs) for each.
* `packed` holds a sum in bytes, for a column that one node passes to another and for files.
"""

from incmrql.values.exact.scalar import (
    ExactSum,
    average,
    exact_sum,
    nearest_double,
    square,
    stddev,
    sum_floats,
    variance,
    variance_of,
)

__all__ = [
    "ExactSum",
    "average",
    "exact_sum",
    "nearest_double",
    "square",
    "stddev",
    "sum_floats",
    "variance",
    "variance_of",
]
