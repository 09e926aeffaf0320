"""The types of rows that come from Python."""

from __future__ import annotations

from typing import Any

import pytest

from incmrql.errors import DataError
from incmrql.reference.python import row_type


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": 2}, {"a": 1}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": {"b": 1, "c": 2}}, {"a": {"c": 1}}],
    ],
)
def test_a_field_that_some_rows_lack_is_refused(rows: list[Any]) -> None:
    """It was left out of all rows in silence."""
    with pytest.raises(DataError, match='have the field "b"'):
        row_type(rows, "rows")
