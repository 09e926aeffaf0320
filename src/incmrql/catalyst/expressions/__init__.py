"""Scalar expressions of Spark's plans as typed expressions, class by class.

* `dispatch` finds the rule of a class and checks its fields; `rules` is what rules share.
* `conditions`, `arithmetic`, `conversions`, `strings`, `times`, `collections` and `values` have
  the rules, and `refused` the classes that have none, with the reasons.

Start with `dispatch`.
"""

from __future__ import annotations

from incmrql.catalyst.expressions.dispatch import SCALARS, convert_expression, is_deterministic

__all__ = ["SCALARS", "convert_expression", "is_deterministic"]
