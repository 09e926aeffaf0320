"""Classes of expressions that are refused, or left to Spark, with the reasons."""

from __future__ import annotations

from typing import Final

from incmrql.catalyst.classes import Support, never, opaque

_NOW: Final = never(
    "its value is the time at which the query runs, so that the answer changes without the data",
    "Put the time into the data, or write it as a constant.",
)
_RANDOM: Final = never("its values depend on how the data are split", "Put them into the data.")
_PARTITION: Final = never(
    "it depends on how the data are split into files and partitions",
    "Put a key or the name of its file into each row.",
)
_SESSION: Final = never(
    "it is a property of the session, not of the data", "Write its value as a constant."
)
_FUNCTION: Final = opaque("a function in another language")
_BITS: Final = opaque("Java computes other last digits than this engine")

REFUSED: Final[dict[str, Support]] = {
    **dict.fromkeys(
        (
            "CurrentTimestamp",
            "Now",
            "CurrentDate",
            "CurrentTime",
            "LocalTimestamp",
            "CurrentTimeZone",
        ),
        _NOW,
    ),
    **dict.fromkeys(("Rand", "Randn", "Uuid", "Shuffle", "RandStr", "Uniform"), _RANDOM),
    **dict.fromkeys(
        (
            "MonotonicallyIncreasingID",
            "SparkPartitionID",
            "DirectShufflePartitionID",
            "InputFileName",
            "InputFileBlockStart",
            "InputFileBlockLength",
        ),
        _PARTITION,
    ),
    **dict.fromkeys(
        ("CurrentUser", "CurrentDatabase", "CurrentCatalog", "VariableReference"), _SESSION
    ),
    **dict.fromkeys(("PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF"), _FUNCTION),
    **dict.fromkeys(
        (
            "Exp", "Log", "Log10", "Log2", "Log1p", "Logarithm", "Expm1", "Pow", "Sin", "Cos",
            "Tan", "Asin", "Acos", "Atan", "Atan2", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh",
            "Atanh", "Cbrt", "Cot", "Sec", "Csc", "Hypot",
        ),
        _BITS,
    ),
}  # fmt: skip
"""Scalar expressions that are not converted."""
