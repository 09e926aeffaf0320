"""Sessions: ours beside the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from incmrql.spark.session import PRIVATE, private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


def test_a_private_session_leaves_the_users_settings_alone(spark: SparkSession) -> None:
    users = spark.newSession()
    users.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    users.conf.set("spark.sql.ansi.enabled", "true")
    own = private(users)
    assert {name: own.conf.get(name) for name in PRIVATE} == PRIVATE
    assert users.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    assert users.conf.get("spark.sql.ansi.enabled") == "true"
    own.range(1).createOrReplaceTempView("incmrql_view")
    assert not users.catalog.tableExists("incmrql_view")
