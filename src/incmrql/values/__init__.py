"""Values: what equal, ordered, null, rounded and failed mean, for every engine.

* `data` has the classes; `canonical` identity, order and canonical bytes; `encoding` the bytes.
* `exact` adds doubles exactly: `exact.scalar` one by one, `exact.sums` whole columns.
* `numbers` has arithmetic that never raises; `elementary` has exp, log and the like, with the
  same bits on every machine; `spans` writes intervals.
* `hashing` has the only hash function of the package; `notation` prints values and reads them back.

Start with `data`, then `canonical`.
"""

from incmrql.values.canonical import (
    canonical,
    compare,
    decode,
    encode,
    identical,
    shown_order,
    sort_values,
)
from incmrql.values.data import UTC, Bag, Data, LocalTime, Map, Months, OrderedBag, Record, Value
from incmrql.values.exact import ExactSum, average, exact_sum, stddev, sum_floats, variance
from incmrql.values.hashing.scalar import bucket, hash64
from incmrql.values.notation import read, show

__all__ = [
    "UTC",
    "Bag",
    "Data",
    "ExactSum",
    "LocalTime",
    "Map",
    "Months",
    "OrderedBag",
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
    "read",
    "show",
    "shown_order",
    "sort_values",
    "stddev",
    "sum_floats",
    "variance",
]
