"""A version for every operator and every built-in: raise it when its meaning is fixed.

A checkpoint survives an upgrade of incmrql as long as the operators that its program uses mean
what they meant.  When a fix changes an answer, or what a node keeps, raise the version of exactly
what was fixed: programs that use it become different ones and are refused or built again, also
where the operator itself keeps no state, since its results are in the state above it.  All others
resume.  Never lower a version, and never use one again.
"""

from __future__ import annotations

from typing import Final

NODES: Final[dict[str, int]] = {
    "node-input": 1,
    "node-constant": 1,
    "node-given": 1,
    "node-map": 1,
    "node-union": 1,
    "node-join": 1,
    "node-groups": 1,
    "node-order": 1,
    "node-loop": 1,
    "distinct-values": 1,
    "ordered-values": 1,
    "request": 1,
    "monoid": 1,
    "accumulator rows": 1,
    "accumulator count": 1,
    "accumulator sum": 1,
    "accumulator squares": 1,
    "accumulator true": 1,
    "accumulator false": 1,
    "accumulator parts": 1,
    "accumulator sizes": 1,
    "accumulator least": 1,
    "accumulator greatest": 1,
    "accumulator user": 1,
    "reading least": 1,
    "reading greatest": 1,
    "reading between": 1,
    "reading first": 1,
    "reading at": 1,
    "reading slice": 1,
    "reading all": 1,
}
"""What the nodes of a program keep and do."""

TERMS: Final[dict[str, int]] = {
    "picks": 1,
    "scan": 1,
    "values": 1,
    "loop-rows": 1,
    "shared-rows": 1,
    "c-map": 1,
    "group-by": 1,
    "co-group": 1,
    "union": 1,
    "sort": 1,
    "repeat": 1,
}
"""The algebra, inside of loops."""

EXPRESSIONS: Final[dict[str, int]] = {
    "constant": 1,
    "variable-use": 1,
    "global": 1,
    "stored": 1,
    "script-arguments": 1,
    "read": 1,
    "make-tuple": 1,
    "make-record": 1,
    "make-collection": 1,
    "make-data": 1,
    "concat": 1,
    "range": 1,
    "negate": 1,
    "not": 1,
    "exists": 1,
    "widen": 1,
    "cast": 1,
    "field": 1,
    "item": 1,
    "at": 1,
    "look-up": 1,
    "slice": 1,
    "map": 1,
    "if": 1,
    "case": 1,
    "repeat-expr": 1,
    "trace": 1,
    "call": 1,
    "python-call": 1,
    "user-aggregate": 1,
    "fold": 1,
    "select": 1,
    "arithmetic +": 1,
    "arithmetic -": 1,
    "arithmetic *": 1,
    "arithmetic /": 1,
    "arithmetic %": 1,
    "compare =": 1,
    "compare <>": 1,
    "compare <": 1,
    "compare <=": 1,
    "compare >": 1,
    "compare >=": 1,
    "logic and": 1,
    "logic or": 1,
    "combine union": 1,
    "combine intersect": 1,
    "combine except": 1,
    "navigate children": 1,
    "navigate attribute": 1,
    "navigate attributes": 1,
    "navigate member": 1,
    "navigate dynamic": 1,
}
"""Expressions without a name of their own in the language."""

PARTS: Final[dict[str, int]] = {
    "branch": 1,
    "lambda": 1,
    "generator": 1,
    "binding": 1,
    "condition": 1,
    "group": 1,
    "order-key": 1,
    "pattern-bind": 1,
    "pattern-any": 1,
    "pattern-equals": 1,
    "pattern-tuple": 1,
    "pattern-list": 1,
    "pattern-data": 1,
    "pattern-record": 1,
    "pattern-members": 1,
    "pattern-cast": 1,
    "path-step": 1,
    "path-condition": 1,
    "literal": 1,
    "function": 1,
    "aggregation": 1,
    "python-function": 1,
}
"""What expressions are made of, and what a script declares."""

FORMATS: Final[dict[str, int]] = {
    "source line": 1,
    "source json": 1,
    "source xml": 1,
    "source text": 1,
    "source binary": 1,
    "source python": 1,
    "source registered": 1,
}
"""How the rows of a format are read."""

BUILTINS: Final[dict[str, int]] = {
    "builtin abs": 1,
    "builtin sin": 1,
    "builtin cos": 1,
    "builtin tan": 1,
    "builtin asin": 1,
    "builtin acos": 1,
    "builtin atan": 1,
    "builtin sqrt": 1,
    "builtin log": 1,
    "builtin exp": 1,
    "builtin ceil": 1,
    "builtin floor": 1,
    "builtin rint": 1,
    "builtin pow": 1,
    "builtin round": 1,
    "builtin random": 1,
    "builtin min": 1,
    "builtin max": 1,
    "builtin string": 1,
    "builtin contains": 1,
    "builtin startsWith": 1,
    "builtin endsWith": 1,
    "builtin matches": 1,
    "builtin length": 1,
    "builtin substring": 1,
    "builtin replace": 1,
    "builtin replaceAll": 1,
    "builtin replaceFirst": 1,
    "builtin toLowerCase": 1,
    "builtin toUpperCase": 1,
    "builtin trim": 1,
    "builtin split": 1,
    "builtin concat": 1,
    "builtin date": 1,
    "builtin timestamp": 1,
    "builtin year": 1,
    "builtin month": 1,
    "builtin day": 1,
    "builtin hour": 1,
    "builtin minute": 1,
    "builtin second": 1,
    "builtin date_add": 1,
    "builtin date_diff": 1,
    "builtin date_trunc": 1,
    "builtin member": 1,
    "builtin elem": 1,
    "builtin distinct": 1,
    "builtin sort": 1,
    "builtin reverse": 1,
    "builtin flatten": 1,
    "builtin zip": 1,
    "builtin index": 1,
    "builtin range": 1,
    "builtin inv": 1,
    "builtin text": 1,
    "builtin tag": 1,
}
"""Functions of values."""

AGGREGATES: Final[dict[str, int]] = {
    "aggregate count": 1,
    "aggregate sum": 1,
    "aggregate avg": 1,
    "aggregate min": 1,
    "aggregate max": 1,
    "aggregate some": 1,
    "aggregate all": 1,
    "aggregate variance": 1,
    "aggregate stddev": 1,
    "aggregate median": 1,
    "aggregate percentile": 1,
    "aggregate first": 1,
    "aggregate collect": 1,
    "aggregate sum#part": 1,
    "aggregate sum#total": 1,
    "aggregate avg#total": 1,
}
"""Functions of collections."""

TYPES: Final[dict[str, int]] = {
    "basic": 1,
    "decimal": 1,
    "any": 1,
    "nothing": 1,
    "tuple": 1,
    "record": 1,
    "collection": 1,
    "data": 1,
    "function-type": 1,
    "constructor": 1,
    "variable": 1,
}
"""Types: what their values are."""

VERSIONS: Final = {
    **NODES,
    **TERMS,
    **EXPRESSIONS,
    **PARTS,
    **FORMATS,
    **BUILTINS,
    **AGGREGATES,
    **TYPES,
}
"""All versions, by the tag of a class and the name of the operator."""


def version_of(name: str) -> int:
    """The version of an operator: the first one where it is not listed, which a test refuses."""
    return VERSIONS.get(name, 1)
