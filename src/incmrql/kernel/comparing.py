"""State tables compared: what one has more of than the other.

Tables only add up, so that the difference of two is the sum of one and of the other turned round.
"""

from __future__ import annotations

from dataclasses import replace

from incmrql.kernel.accumulators import tidy
from incmrql.kernel.content import Content, concat, consolidated
from incmrql.kernel.layouts import values_of
from incmrql.kernel.table import Reader, Table, scan
from incmrql.values import Value


def difference(one: tuple[Table, Reader], other: tuple[Table, Reader], bucket: int) -> Content:
    """The rows of a bucket in which two tables differ, with how much they differ."""
    mine, yours = (_unlimited(scan(table, reader, bucket)) for table, reader in (one, other))
    parts = {name: -column for name, column in yours.parts.items()}
    return consolidated(concat([mine, replace(yours, weights=-yours.weights, parts=parts)]))


def _unlimited(content: Content) -> Content:
    """The same rows in a form that keeps all of them."""
    form = replace(content.form, most=None)
    return replace(content, form=form, parts=tidy(content.parts), before=None)


def rows_of(content: Content, most: int) -> list[tuple[Value, ...]]:
    """The first rows of a content: the values of their columns."""
    first = content.slice(0, most)
    types = (*first.form.keys, *first.form.rest)
    columns = [values_of(c, t) for c, t in zip(first.columns, types, strict=True)]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(len(first))]
