"""Operators: each turns the deltas of its inputs into its own delta.

* `base` has the protocol (`Operator`, and `StatefulOp` with gather and meet) and simple operators.
* `source`, `joins` and `groups` have the operators for sources, joins and groups.
* `requests` computes what the answers of groups ask of the affected keys.
* `answers` turns the deltas of nodes into changes of an item's answer.

Start with `base`, then `joins`.
"""
