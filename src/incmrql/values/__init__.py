"""What equal, ordered, null, rounded and failed mean."""

from incmrql.values.canonical import canonical, compare, decode, encode, identical, ordered
from incmrql.values.data import UTC, Bag, Data, Record, Value
from incmrql.values.exact import (
    ExactSum,
    average,
    exact_sum,
    stddev,
    sum_floats,
    variance,
)
from incmrql.values.hashing import bucket, hash64
from incmrql.values.notation import show
from incmrql.values.reader import read

__all__ = [
    "UTC",
    "Bag",
    "Data",
    "ExactSum",
    "Record",
    "Value",
    "average",
    "bucket",
    "canonical",
    "compare",
    "decode",
    "encode",
    "exact_sum",
    "hash64",
    "identical",
    "ordered",
    "read",
    "show",
    "stddev",
    "sum_floats",
    "variance",
]
