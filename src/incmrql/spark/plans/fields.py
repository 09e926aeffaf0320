"""Which of Spark's rules normalise a plan, and what is read of an object of a plan.

Both ways of reading a plan (`walker`) use these tables.  Of a case class they read the fields of
its constructor by name, whatever they are, so that a field that a new version of Spark adds is in
the data and the converter can refuse it.  The table has the exceptions.
"""

from __future__ import annotations

from typing import Final

_OPTIMIZER: Final = "org.apache.spark.sql.catalyst.optimizer"

RULES: Final = (
    f"{_OPTIMIZER}.ReplaceExpressions",
    f"{_OPTIMIZER}.PullOutGroupingExpressions",
    f"{_OPTIMIZER}.RewriteWithExpression",
)
"""Rules of Spark's optimiser that do not depend on statistics or settings.

They replace expressions that Spark defines by others, group by columns only, and compute
expressions that occur twice in a projection below.  They do not enter the plans of sub-queries:
the walker applies them to each.  The batch that has them in Spark also freezes the current time, so
it cannot be used whole.
"""

MOST_ROUNDS: Final = 20
"""The rules are applied until nothing changes, at most this often."""

FIELDS: Final = """\
Alias +exprId +qualifier +explicitMetadata +nonInheritableMetadataKeys
AttributeReference +exprId +qualifier
NamedLambdaVariable -value
CTERelationDef #id
CTERelationRef #cteId
UnionLoop #id
UnionLoopRef #loopId
CommonExpressionId #id
LogicalRDD =output =isStreaming
HadoopFsRelation =location =partitionSchema =dataSchema =bucketSpec =fileFormat =options
CatalogTable =identifier =tableType =provider =storage =schema =partitionColumnNames
CatalogStorageFormat =locationUri =serde =properties
SQLFunction =name
SimplePythonFunction =command =pythonVer
VariantVal =getValue =getMetadata
org.apache.spark.sql.execution.datasources.FileIndex =rootPaths
org.apache.spark.sql.sources.DataSourceRegister =shortName
org.apache.spark.sql.connector.catalog.Table =name
org.apache.spark.sql.connector.catalog.CatalogPlugin =name
org.apache.spark.sql.connector.catalog.Identifier =namespace =name
org.apache.spark.sql.sources.BaseRelation
org.apache.spark.sql.catalyst.encoders.AgnosticEncoder
org.apache.spark.sql.catalyst.encoders.ExpressionEncoder"""
"""By class, what is read instead of or beside the fields of its constructor.

| written | read |
|---|---|
| `=x` | this and no field of the constructor, which has more than a plan means: sessions, times |
| `+x` | this too: a parameter of the second list of a constructor |
| `-x` | all but this field |
| `#x` | this field, an id that differs from run to run, as a number counted from 1 |

A name with dots is that of an interface or base class, for all classes below it; the data then have
the full name of the class too (`$java`).  An object of any other class that is no case class of
Catalyst has `$java` alone.
"""
