"""The rows of the table of support for everything but scalar expressions."""

from __future__ import annotations

from typing import Final

from incmrql.catalyst.classes import Support, converted, never, not_yet
from incmrql.catalyst.nodes import PlanNode

_BY_PARTITION: Final = "it depends on how the data are split into partitions"
_GROUPED: Final = "Aggregate with groupBy().agg(…), or ask the question in SQL."
_STREAM: Final = "it is a plan of Structured Streaming, which follows its inputs itself"

LEAVES: Final[dict[str, Support]] = {
    name: Support("converted")
    for name in (
        "LogicalRelation",
        "HiveTableRelation",
        "DataSourceV2Relation",
        "LogicalRDD",
        "LocalRelation",
        "Range",
        "OneRowRelation",
    )
}
"""Leaves; what they read is decided where they are turned into sources."""

OPERATORS: Final[dict[str, Support]] = {
    "Project": converted("projectList", "child"),
    "Filter": converted("condition", "child"),
    "SubqueryAlias": converted("identifier", "child"),
    "View": converted("desc", "child", ignores=("isTempView", "options")),
    "WithCTE": converted("plan", "cteDefs"),
    "CTERelationDef": converted("child", "id", ignores=("underSubquery", "maxDepth")),
    "CTERelationRef": converted(
        "cteId", "output", ignores=("_resolved", "statsOpt", "maxRows", "isUnlimitedRecursion")
    ),
    "Join": converted("left", "right", "joinType", "condition", ignores=("hint",)),
    "LateralJoin": converted("left", "right", "joinType", "condition"),
    "Aggregate": converted(
        "groupingExpressions", "aggregateExpressions", "child", ignores=("hint",)
    ),
    "Distinct": converted("child"),
    "Deduplicate": converted("keys", "child"),
    "Union": converted("children", ignores=("allowMissingCol",)),
    "Except": converted("left", "right", "isAll"),
    "Intersect": converted("left", "right", "isAll"),
    "Sort": converted("order", "global", "child", ignores=("hint",)),
    "GlobalLimit": converted("limitExpr", "child"),
    "LocalLimit": converted("limitExpr", "child"),
    "Offset": converted("offsetExpr", "child"),
    "Expand": converted("projections", "output", "child"),
    "Generate": converted(
        "generator",
        "outer",
        "generatorOutput",
        "child",
        ignores=("qualifier", "unrequiredChildIndex"),
    ),
    "ResolvedHint": converted("child", ignores=("hints",)),
    "Repartition": converted("child", ignores=("numPartitions", "shuffle")),
    "RepartitionByExpression": converted(
        "child", ignores=("partitionExpressions", "optNumPartitions", "optAdvisoryPartitionSize")
    ),
    "RebalancePartitions": converted(
        "child",
        ignores=("partitionExpressions", "optNumPartitions", "optAdvisoryPartitionSize"),
    ),
    "CollectMetrics": converted("child", ignores=("name", "metrics", "dataframeId")),
    "PipeOperator": converted("child"),
    "SQLFunctionNode": converted("child", ignores=("function",)),
    "Window": converted(
        "windowExpressions", "partitionSpec", "orderSpec", "child", ignores=("hint",)
    ),
    "UnionLoop": not_yet(
        "recursive queries are not converted yet", "Write the loop in MRQL: repeat x = … step … ."
    ),
    "UnionLoopRef": not_yet("recursive queries are not converted yet"),
    "AsOfJoin": not_yet("as-of joins are not converted yet"),
    "NearestByJoin": not_yet("nearest-by joins are not converted yet"),
    "FlatMapGroupsInPandas": not_yet("functions of groups are not converted yet", _GROUPED),
    "FlatMapGroupsInArrow": not_yet("functions of groups are not converted yet", _GROUPED),
    "FlatMapCoGroupsInPandas": not_yet("functions of groups are not converted yet", _GROUPED),
    "FlatMapCoGroupsInArrow": not_yet("functions of groups are not converted yet", _GROUPED),
    "Sample": never(
        "a sample depends on a seed and on how the data are split",
        "Keep the rows of some hash values: where(xxhash64(key) % 10 = 0).",
    ),
    "Tail": never(
        "the last rows depend on how the data are split",
        "Sort in the opposite order, and take the first rows.",
    ),
    "MapInPandas": never(_BY_PARTITION, "Use a function of one row, or of a group."),
    "MapInArrow": never(_BY_PARTITION, "Use a function of one row, or of a group."),
    "ScriptTransformation": never(_BY_PARTITION, "Use a function of one row, or of a group."),
    "AttachDistributedSequence": never(
        "the numbers depend on the order of the data", "Give the rows a key of their own."
    ),
    "Transpose": never(
        "its columns were made of the data when the DataFrame was built",
        "Name the columns: groupBy().pivot(column, values), or unpivot.",
    ),
    "EventTimeWatermark": never(_STREAM),
    "DeduplicateWithinWatermark": never(_STREAM, "Use dropDuplicates without a watermark."),
    "StreamingRelation": never(_STREAM, "Read the same data with spark.read."),
    "StreamingRelationV2": never(_STREAM, "Read the same data with spark.read."),
}
"""Operators with children, and leaves that are refused."""

_SPREAD: Final = converted("child", "nullOnDivideByZero")

_PAIR: Final = converted("left", "right", "nullOnDivideByZero")
_OFFSETS: Final = ("mutableAggBufferOffset", "inputAggBufferOffset")
_COLLECTION: Final = converted("child", "ignoreNulls", ignores=_OFFSETS)

AGGREGATES: Final[dict[str, Support]] = {
    "AggregateExpression": converted(
        "aggregateFunction", "isDistinct", "filter",
        ignores=("resultId",), mode=PlanNode("Complete"),
    ),
    "Count": converted("children"),
    "Sum": converted("child", "evalContext", "evalMode"),
    "Average": converted("child", "evalContext", "evalMode"),
    "Min": converted("child"),
    "Max": converted("child"),
    "StddevSamp": _SPREAD,
    "StddevPop": _SPREAD,
    "VarianceSamp": _SPREAD,
    "VariancePop": _SPREAD,
    "MaxBy": converted("valueExpr", "orderingExpr"),
    "MinBy": converted("valueExpr", "orderingExpr"),
    "CollectList": _COLLECTION,
    "CollectSet": _COLLECTION,
    "PivotFirst": converted(
        "pivotColumn", "valueColumn", "pivotColumnValues",
        ignores=_OFFSETS,
    ),
    "First": converted("child", "ignoreNulls"),
    "Last": converted("child", "ignoreNulls"),
    "Mode": converted("child", "reverseOpt", ignores=_OFFSETS),
    "Percentile": converted(
        "child", "percentageExpression", "frequencyExpression", "reverse", ignores=_OFFSETS
    ),
    "PercentileDisc": converted("child", "percentageExpression", "reverse", ignores=_OFFSETS),
    "ListAgg": converted("child", "delimiter", "orderExpressions", ignores=_OFFSETS),
    "MaxMinByK": converted("valueExpr", "orderingExpr", "kExpr", "reverse", ignores=_OFFSETS),
    "BitAndAgg": converted("child"),
    "BitOrAgg": converted("child"),
    "BitXorAgg": converted("child"),
    "Product": converted("child"),
    "CovPopulation": _PAIR,
    "CovSample": _PAIR,
    "Corr": converted("x", "y", "nullOnDivideByZero"),
    "RegrR2": converted("x", "y"),
    "RegrSXY": converted("x", "y"),
    "RegrSlope": _PAIR,
    "RegrIntercept": _PAIR,
    "RegrReplacement": _SPREAD,
    "Skewness": _SPREAD,
    "Kurtosis": _SPREAD,
    "PythonUDAF": not_yet(
        "Python functions of groups are not converted yet",
        "Use an aggregate function of Spark, or a fold: aggregate(collect_list(x), …).",
    ),
    "HyperLogLogPlusPlus": never(
        "an approximate count is a sketch, which cannot take a deleted row back",
        "Use count(DISTINCT x), which is exact and kept with each change.",
    ),
    "HistogramNumeric": never(
        "its bins depend on the order of the data",
        "Group by width_bucket or by a rounded value, and count.",
    ),
    "ApproximatePercentile": never(
        "an approximate percentile depends on the order of the data",
        "Use percentile, which is exact.",
    ),
    "CountMinSketchAgg": never("a sketch cannot take a deleted row back"),
}  # fmt: skip
"""Aggregate functions, and the expression that carries them."""

GENERATORS: Final[dict[str, Support]] = {
    "Explode": converted("child"),
    "PosExplode": converted("child"),
    "Inline": converted("child"),
    "Stack": converted("children"),
    "JsonTuple": not_yet("json_tuple is not converted yet", "Use get_json_object."),
    "UserDefinedPythonTableFunction": not_yet("Python table functions are not converted yet"),
    "PythonUDTF": not_yet("Python table functions are not converted yet"),
    "VariantExplode": not_yet("variants are not converted yet"),
}
"""What `Generate` makes rows with."""

_SUBQUERY_PARTS: Final = ("outerAttrs", "exprId", "hint", "mayHaveCountBug", "needSingleJoin")

SUBQUERIES: Final[dict[str, Support]] = {
    "ScalarSubquery": converted("plan", ignores=_SUBQUERY_PARTS),
    "Exists": converted("plan", ignores=_SUBQUERY_PARTS),
    "ListQuery": converted("plan", ignores=(*_SUBQUERY_PARTS, "numCols", "childOutputs")),
    "InSubquery": converted("values", "query"),
    "LateralSubquery": converted("plan", ignores=_SUBQUERY_PARTS),
}
"""Sub-queries in expressions."""

WINDOWS: Final[dict[str, Support]] = {
    "WindowExpression": converted("windowFunction", "windowSpec"),
    "WindowSpecDefinition": converted("frameSpecification", ignores=("partitionSpec", "orderSpec")),
    "SpecifiedWindowFrame": converted("frameType", "lower", "upper"),
    "RowNumber": converted(),
    "Rank": converted(ignores=("children",)),
    "DenseRank": converted(ignores=("children",)),
    "PercentRank": converted(ignores=("children",)),
    "CumeDist": converted(),
    "NTile": converted("buckets"),
    "Lag": converted("input", "default", "ignoreNulls", ignores=("inputOffset",)),
    "Lead": converted("input", "default", "ignoreNulls", ignores=("offset",)),
    "NthValue": converted("input", "offset", "ignoreNulls"),
}
"""What stands in `Window`, besides the aggregates of `Aggregate`."""

STRUCTURAL: Final[dict[str, Support]] = {
    **LEAVES,
    **OPERATORS,
    **AGGREGATES,
    **GENERATORS,
    **SUBQUERIES,
    **WINDOWS,
    "SortOrder": converted("child", "direction", "nullOrdering", ignores=("sameOrderExpressions",)),
}
"""Everything but scalar expressions."""
