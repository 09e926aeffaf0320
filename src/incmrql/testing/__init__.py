"""Tests of queries that follow streams: small tables as text, and batches cut in many ways.

* `incremental` has `assert_incremental`, which compares every batch with the query over all data.
* `plugin` has a fixture of pytest: a session on the local engine.

Start with `incremental`.
"""

from incmrql.api.text_tables import TextTable, text_table
from incmrql.testing.incremental import assert_incremental

__all__ = ["TextTable", "assert_incremental", "text_table"]
