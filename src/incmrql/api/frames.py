"""The short way for DataFrames: keep their answers up to date, and say how that is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from incmrql.api.options import InputChoices, StartOptions
from incmrql.api.session import Session
from incmrql.api.tracebacks import short_traceback
from incmrql.errors import DataError, QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from incmrql.api.runs import Run


class Choices(InputChoices, StartOptions, total=False):
    """The keyword arguments of `materialize`: those of `query` and of `start`."""


@short_traceback
def materialize(df: DataFrame | Mapping[str, DataFrame], **options: Unpack[Choices]) -> Run:
    """Keep the answer of a DataFrame up to date while its inputs change.

    The same as `Session(spark=df.sparkSession).query(df, ...).start(...)`: `static`, `inputs` and
    `on_modified` say how its inputs are followed, and all other options are those of `start`.
    Several DataFrames, by name, are followed in one run: `Session.start` of their queries.
    """
    given: dict[str, Any] = dict(options)
    inputs = {name: given.pop(name) for name in InputChoices.__annotations__ if name in given}
    if not isinstance(df, Mapping):
        return _session(df).query(df, **inputs).start(**given)
    if not df:
        raise DataError("R212", "there is no DataFrame to follow")
    session = _session(next(iter(df.values())))
    return session.start(
        {name: session.query(each, **inputs) for name, each in df.items()}, **given
    )


@short_traceback
def explain(df: DataFrame, **inputs: Unpack[InputChoices]) -> str:
    """What of a DataFrame is incremental and what is kept, or every reason why it is refused."""
    try:
        return _session(df).query(df, **inputs).explain("incremental")
    except (DataError, QueryError) as refusal:
        return str(refusal)


def _session(df: object) -> Session:
    """A session on the Spark that a frame is of."""
    if isinstance(df, str):
        hint = "Texts are for a session: incmrql.Session().sql(text), or .query(text) for MRQL."
        raise DataError("R212", "a DataFrame is expected, not a text", hint=hint)
    return Session(spark=getattr(df, "sparkSession", None))


__all__ = ["explain", "materialize"]
