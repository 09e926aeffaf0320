"""Sessions in other time zones than UTC: answers are those of plain Spark, when clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's documentation has it

import incmrql
from incmrql.spark.internals import in_session
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHANGES: Final = {
    "Europe/Paris": ("2024-03-31T01:00", "2024-10-27T01:00"),
    "America/New_York": ("2024-03-10T07:00", "2024-11-03T06:00"),
    "Australia/Lord_Howe": ("2024-10-05T15:30", "2024-04-06T15:00"),
    "America/Sao_Paulo": ("2018-11-04T03:00", "2018-02-18T02:00"),
    "-03:30": ("2024-01-01T00:00", "1900-01-01T00:00"),
}
"""Moments at which the offset of a zone changes."""
EXPRESSIONS: Final = (
    "cast(at as string)",
    "cast(at as date)",
    "cast(at as timestamp_ntz)",
    "cast(cast(at as timestamp_ntz) as timestamp)",
    "cast(cast(at as date) as timestamp)",
    "cast(word as timestamp)",
    "try_cast(concat(word, 'x') as timestamp)",
    "cast(array(at) as array<string>)",
    "hour(at)", "minute(at)", "second(at)", "year(at)", "dayofyear(at)",
    "date_trunc('year', at)", "date_trunc('week', at)", "date_trunc('day', at)",
    "date_trunc('hour', at)", "date_trunc('minute', at)", "date_trunc('second', at)",
    "date_format(at, 'yyyy-MM-dd HH:mm:ss')",
    "from_unixtime(unix_timestamp(at))",
    "unix_timestamp(cast(at as date))",
    "at + interval 1 day", "at - interval 1 day", "at + interval 1 month", "at - interval 7 months",
    "at + interval 1 day 90 minutes", "at + interval '1 02:03:04' day to second",
    "at - interval '23' hour", "at + interval '49' hour", "at + interval '1-1' year to month",
    "timestampadd(MONTH, 1, at)", "timestampadd(DAY, -1, at)", "timestampadd(HOUR, 25, at)",
    "timestampadd(MINUTE, 90, at)",
    "timestampdiff(HOUR, at, later)", "timestampdiff(DAY, at, later)",
    "timestampdiff(MONTH, at, later)",
    "months_between(later, at)",
    "cast((later - at) as bigint)",
    "make_timestamp(year(at), month(at), day(at), 2, 30, 1.5)",
    "from_utc_timestamp(at, 'Asia/Tokyo')", "to_utc_timestamp(at, 'Europe/Paris')",
)  # fmt: skip


def write_times(folder: Path, zone: str) -> None:
    """Times around the changes of a zone, local times as strings, and later times."""
    rows = []
    for change in CHANGES[zone]:
        start = datetime.fromisoformat(f"{change}:00+00:00")
        for hours in (-48, -26, -25, -24, -23, -2, -1, -0.75, -0.25, 0, 0.25, 0.75, 1, 2, 23, 24):
            at = start + timedelta(hours=hours, seconds=1.25)
            word = (start + timedelta(hours=hours / 4)).strftime("%Y-%m-%d %H:%M:%S.5")
            rows.append({"at": at, "later": at + timedelta(days=31, hours=1), "word": word})
    stamp = pa.timestamp("us", tz="UTC")
    schema = pa.schema({"at": stamp, "later": stamp, "word": pa.string()})
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "1.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("zone", sample(list(CHANGES), 2))
def test_times_are_those_of_plain_spark(zone: str, spark: SparkSession, tmp_path: Path) -> None:
    write_times(tmp_path / "times", zone)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", "true")
    times = session.read.parquet(str(tmp_path / "times"))
    named = [f"{text} as x{number}" for number, text in enumerate(EXPRESSIONS)]
    query = times.selectExpr("at", *named)
    with incmrql.materialize(query, settle=0) as run:
        run.step()
        columns = ["at", *(f"cast(x{n} as string) as x{n}" for n in range(len(EXPRESSIONS)))]
        frames = query, in_session(session, run.answer_df())
        expected, answered = (
            {row[0]: row for row in frame.selectExpr(*columns).collect()} for frame in frames
        )
        wrong = [
            f"{EXPRESSIONS[place]} at {at}: {answered[at][place + 1]}, and not {row[place + 1]}"
            for at, row in expected.items()
            for place in range(len(EXPRESSIONS))
            if answered[at][place + 1] != row[place + 1]
        ]
        assert not wrong, "\n".join(wrong)
        assert expected.keys() == answered.keys()
        run.verify()


def test_a_zone_that_is_not_known_is_left_to_spark_or_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_times(tmp_path / "times", "Europe/Paris")
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "PST")
    times = session.read.parquet(str(tmp_path / "times"))
    assert "hour(at) is opaque" in incmrql.explain(times.selectExpr("hour(at) as h")).lower()
    shown = incmrql.explain(times.groupBy().agg(F.max("at").alias("at")).selectExpr("hour(at)"))
    assert "computes in the time zone PST, which is not known here" in shown
