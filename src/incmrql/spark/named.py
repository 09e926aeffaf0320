"""SQL over data frames that the catalog does not know.

A temporary view takes Spark about as long as the analysis of the query that reads it, as it is
made by a command of its own.  Here frames stand in front of a text, as if it began with
`WITH name AS (the frame)`: the catalog stays as it is, and no two queries share a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any as Java
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

_CATALYST: Final = "org.apache.spark.sql.catalyst"
_SESSION: Final = "org.apache.spark.sql.classic.SparkSession"


def sql_over(spark: SparkSession, text: str, frames: Sequence[tuple[str, DataFrame]]) -> DataFrame:
    """The frame of a text that names other frames."""
    if not frames:
        return spark.sql(text)
    java = _java(spark)
    named = [java.named(name, frame._jdf) for name, frame in frames]
    with java.active():
        parsed = java.parser.parsePlan(text)
    whole = java.with_(parsed, java.sequence(named), False)
    return DataFrame(java.rows(java.session, whole), spark)


@dataclass(frozen=True, slots=True)
class _Java:
    """Classes and functions of Spark's, looked up once for a session: each takes a call."""

    session: Java
    sessions: Java
    parser: Java
    rows: Java
    sequence: Java
    with_: Java
    alias: Java
    identifier: Java
    triple: Java
    none: Java

    def named(self, name: str, frame: Java) -> Java:
        """A frame as a named part of a WITH clause."""
        analyzed = frame.queryExecution().analyzed()
        return self.triple(name, self.alias(self.identifier(name), analyzed), self.none)

    @contextmanager
    def active(self) -> Iterator[None]:
        """A block in which Java takes the settings of this session, as the parser needs."""
        before = self.sessions.getActiveSession()
        self.sessions.setActiveSession(self.session)
        try:
            yield
        finally:
            if before.isDefined():
                self.sessions.setActiveSession(before.get())
            else:
                self.sessions.clearActiveSession()


_FOUND: WeakKeyDictionary[SparkSession, _Java] = WeakKeyDictionary()
"""What was looked up for a session."""


def _java(spark: SparkSession) -> _Java:
    found = _FOUND.get(spark)
    if found is None:
        jvm, session = spark._jvm, spark._jsparkSession
        found = _FOUND[spark] = _Java(
            session=session,
            sessions=getattr(jvm, _SESSION),
            parser=session.sessionState().sqlParser(),
            rows=getattr(jvm, "org.apache.spark.sql.classic.Dataset").ofRows,
            sequence=getattr(jvm, "org.apache.spark.api.python.PythonUtils").toSeq,
            with_=getattr(jvm, f"{_CATALYST}.plans.logical.UnresolvedWith"),
            alias=getattr(jvm, f"{_CATALYST}.plans.logical.SubqueryAlias"),
            identifier=getattr(jvm, f"{_CATALYST}.AliasIdentifier"),
            triple=getattr(jvm, "scala.Tuple3"),
            none=getattr(jvm, "scala.Option").empty(),
        )
    return found
