"""The settings of Spark that the meaning of an analysed plan depends on.

Most settings are in the plan once it is analysed: an expression carries its evaluation mode and
time zone.  These are read when Spark evaluates the plan or reads a file for it.  They are kept with
the plan and belong to the identity of a program.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

DEFAULTS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.cteRecursionLevelLimit": "100",
    "spark.sql.cteRecursionRowLimit": "1000000",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.codingErrorAction": "false",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.javaCharsets": "false",
    "spark.sql.legacy.nullInEmptyListBehavior": "",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""By name, the value that stands for a version of Spark that does not have the setting."""


def captured_settings(spark: SparkSession) -> dict[str, str]:
    """The values that these settings have in a session."""
    return {
        name: (spark.conf.get(name) or "") if spark.conf.isModifiable(name) else default
        for name, default in DEFAULTS.items()
    }
