"""The plugin that users name in a conftest of theirs."""

from incmrql.testing.plugin import incmrql_session

__all__ = ["incmrql_session"]
