"""A loop kept by diffusion: an approximation, with what is known of its error after each batch.

What is approximated is X_n, the loop's own result over all the data so far.  The result that is
kept moves by the differences that a batch makes; what it does not touch is not looked at.  The
error is stated as

    bound            not less than |X^ - X_n|, the sum of the sizes of all differences of values
                     (so no single value is further off either); a row that is not there is a 0
    residual         a figure without a promise: how far one more step would move the result, or
                     how far centroids have moved
    resynchronised   the loop was run again: the result is its own
"""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.diagnostics import NOWHERE, Diagnostic, QueryError, Span
from incmrql.incremental.diffuse_shape import Diffusion, Refused, diffusion
from incmrql.incremental.nodes import Edge, Repeated
from incmrql.types import typed
from incmrql.types.walk import nodes


class UnmeasuredError(Exception):
    """Values that are no numbers, or rows of one label that are not the same."""


def diffused(
    node: Repeated, script: typed.Script, edges: Sequence[Edge] | None = None
) -> Diffusion:
    """How a loop is diffused; raises `QueryError` if it is not."""
    found = diffusion(node, script, edges)
    if isinstance(found, Refused):
        raise QueryError(Diagnostic(found.code, found.message, _span(script), hint=found.hint))
    return found


def _span(script: typed.Script) -> Span:
    """The place of the first loop of a script."""
    every = (each for item in script.items for each in nodes(item.expr))
    return next((each.span for each in every if isinstance(each, typed.Repeat)), NOWHERE)
