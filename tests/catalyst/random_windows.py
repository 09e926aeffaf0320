"""Random queries with windows, as plans and as the texts that Spark would make such plans of.

Functions, frames, ties and nulls; several windows in one query, windows over aggregates, aggregates
and windows over windows, and filters on ranks.  With `total` the order of each window decides all
that a row's values depend on, so that every engine has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any, Final, TypeAlias

from incmrql.catalyst.nodes import AnalyzedPlan, PlanNode, PlanValue

Fields: TypeAlias = dict[str, PlanValue]

TABLE: Final = "r"
COLUMNS: Final = {"k": "int", "a": "bigint", "b": "int", "s": "string", "d": "decimal(10,2)",
                  "e": "double"}  # fmt: skip
_TYPES: Final = {
    "int": PlanNode("IntegerType"),
    "bigint": PlanNode("LongType"),
    "string": PlanNode("StringType"),
    "double": PlanNode("DoubleType"),
    "boolean": PlanNode("BooleanType"),
    "decimal(10,2)": PlanNode("DecimalType", {"precision": 10, "scale": 2}),
    "decimal(20,2)": PlanNode("DecimalType", {"precision": 20, "scale": 2}),
    "decimal(14,6)": PlanNode("DecimalType", {"precision": 14, "scale": 6}),
}
_VALUES: Final[dict[str, Sequence[Any]]] = {
    "k": (1, 1, 2, 3),
    "a": (0, 1, 2, 5, -3),
    "b": (0, 1, 2, 3),
    "s": ("x", "y", "z"),
    "d": tuple(map(Decimal, ("0.00", "0.50", "1.25", "-2.00"))),
    "e": (0.0, 1.5, -2.0, 0.25),
}
_HARD: Final[dict[str, Sequence[Any]]] = {
    "a": (2**62, 2**62, -(2**62), 1, 0, -3),
    "e": (1e16, 1.0, -1e16, nan, inf, -inf, 5e-324, 0.1, 1e308, -0.0),
}
"""Sums of these overflow, or are rounded as the order will have it."""
_NUMBERS: Final = ("int", "bigint", "double", "decimal(10,2)")


def random_rows(chance: Random, most: int, *, hard: bool = False) -> list[tuple[Any, ...]]:
    """Rows of the table, with few values of each column, some of them null, or hard to add up."""
    values = _VALUES | _HARD if hard else _VALUES
    return [
        tuple(None if chance.random() < 1 / 7 else chance.choice(values[c]) for c in COLUMNS)
        for _ in range(chance.randint(0, most))
    ]


# --- Queries under construction ---


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, type and expression id."""

    name: str
    kind: str
    id: int

    @property
    def node(self) -> PlanNode:
        """The column as an expression."""
        fields = {"name": self.name, "exprId": self.id, "dataType": _TYPES[self.kind]}
        return _node_of_kind("AttributeReference", self.kind, **fields)


@dataclass(frozen=True, slots=True)
class RandomQuery:
    """A query: its plan, its text, its columns, and the features that it has."""

    plan: PlanNode
    text: str
    columns: tuple[Column, ...]
    features: frozenset[str]

    @property
    def analyzed(self) -> AnalyzedPlan:
        """The analysed plan."""
        fields = tuple(
            PlanNode("StructField", {"name": c.name, "dataType": _TYPES[c.kind], "nullable": True})
            for c in self.columns
        )
        settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
        return AnalyzedPlan(self.plan, PlanNode("StructType", {"fields": fields}), settings)


def _node_of_kind(node: str, kind: str, **fields: Any) -> PlanNode:
    return PlanNode(node, {**fields, "$type": _TYPES[kind]})


def _literal(value: Any, kind: str = "int") -> PlanNode:
    return _node_of_kind("Literal", kind, value=value, dataType=_TYPES[kind])


def random_query(chance: Random, *, total: bool = False) -> RandomQuery:
    """A random query."""
    return _Maker(chance, total=total).query()


@dataclass(slots=True)
class _Function:
    """A call of a window function: its node, frame, text and the type of its values."""

    node: PlanNode
    text: str
    kind: str


class _Maker:
    def __init__(self, chance: Random, *, total: bool) -> None:
        self.chance, self.total = chance, total
        self.features: set[str] = set()
        self.last_id = 0
        self.by_values = False
        """Whether functions must have one value for all rows with equal sort keys."""

    def column(self, name: str, kind: str) -> Column:
        """A new column."""
        self.last_id += 1
        return Column(name, kind, self.last_id)

    def maybe(self, share: float, feature: str) -> bool:
        """True in a share of all cases, which is noted."""
        if self.chance.random() >= share:
            return False
        self.features.add(feature)
        return True

    # --- Operators ---

    def query(self) -> RandomQuery:
        """A query of some levels."""
        below = self.table()
        if self.maybe(0.15, "over aggregates"):
            below = self.group_by(below, "t")
        if self.maybe(0.1, "over a filter"):
            below = self.filter_rows(below, below.columns, self.chance.choice((0, 1)))
        below = self.add_windows(below, "x")
        if self.maybe(0.35, "filter"):
            new = [c for c in below.columns if c.name.startswith("x")]
            below = self.filter_rows(below, new, None)
        if self.maybe(0.2, "over windows"):
            below = self.add_windows(below, "y")
        if self.maybe(0.15, "aggregates over"):
            below = self.group_by(below, "z")
        elif self.maybe(0.4, "some columns"):
            below = self.project(below)
        return RandomQuery(below.plan, below.text, below.columns, frozenset(self.features))

    def table(self) -> RandomQuery:
        """The rows of the table."""
        columns = tuple(self.column(name, kind) for name, kind in COLUMNS.items())
        location = PlanNode("InMemoryFileIndex", {"rootPaths": (f"file:/tables/{TABLE}",)})
        relation = PlanNode("HadoopFsRelation", {"location": location})
        fields: Fields = {"relation": relation, "output": tuple(c.node for c in columns)}
        return RandomQuery(
            PlanNode("LogicalRelation", fields), f"select * from {TABLE}", columns, frozenset()
        )

    def project(self, below: RandomQuery) -> RandomQuery:
        """Some of the columns."""
        count = self.chance.randint(1, len(below.columns))
        columns = tuple(sorted(self.chance.sample(below.columns, count), key=lambda c: c.id))
        names = ", ".join(c.name for c in columns)
        fields: Fields = {"projectList": tuple(c.node for c in columns), "child": below.plan}
        text = f"select {names} from ({below.text})"
        return RandomQuery(PlanNode("Project", fields), text, columns, frozenset())

    def filter_rows(
        self, below: RandomQuery, columns: Sequence[Column], bound: int | None
    ) -> RandomQuery:
        """The rows in which a number is below a bound, or equal to it."""
        numbers = [c for c in columns if c.kind in ("int", "bigint")]
        if not numbers:
            return below
        column = self.chance.choice(numbers)
        name, sign = self.chance.choice(
            (("LessThanOrEqual", "<="), ("EqualTo", "="), ("LessThan", "<"), ("GreaterThan", ">"))
        )
        limit = self.chance.randint(1, 3) if bound is None else bound
        literal = _literal(limit, column.kind)
        condition = _node_of_kind(name, "boolean", left=column.node, right=literal)
        text = f"{column.name} {sign} {limit}"
        if self.maybe(0.2, "bound on the left"):
            mirrored = _MIRRORED.get(name, (name, sign))
            condition = _node_of_kind(mirrored[0], "boolean", left=literal, right=column.node)
            text = f"{limit} {mirrored[1]} {column.name}"
        fields = {"condition": condition, "child": below.plan}
        return RandomQuery(
            PlanNode("Filter", fields),
            f"select * from ({below.text}) where {text}",
            below.columns,
            frozenset(),
        )

    def group_by(self, below: RandomQuery, prefix: str) -> RandomQuery:
        """Groups by one or two columns, with aggregates."""
        keys = self.chance.sample(below.columns, self.chance.randint(1, 2))
        plain = [c for c in below.columns if c.kind in ("int", "bigint")]
        heads = [(c, c.node, c.name) for c in keys]
        for number in range(self.chance.randint(1, 2)):
            argument = self.chance.choice(plain)
            name, kind = self.chance.choice((("Max", argument.kind), ("Count", "bigint")))
            fields = {"children": (argument.node,)} if name == "Count" else {"child": argument.node}
            column = self.column(f"{prefix}{number}", kind)
            node = _alias(column, _aggregate(_node_of_kind(name, kind, **fields), kind))
            heads.append((column, node, f"{name.lower()}({argument.name}) as {column.name}"))
        plan = PlanNode(
            "Aggregate",
            {
                "groupingExpressions": tuple(c.node for c in keys),
                "aggregateExpressions": tuple(node for _, node, _ in heads),
                "child": below.plan,
                "hint": None,
            },
        )
        texts = ", ".join(text for _, _, text in heads)
        group = ", ".join(c.name for c in keys)
        return RandomQuery(
            plan,
            f"select {texts} from ({below.text}) group by {group}",
            tuple(column for column, _, _ in heads),
            frozenset(),
        )

    def add_windows(self, below: RandomQuery, prefix: str) -> RandomQuery:
        """One or two windows, each with some functions."""
        number = 0
        base = below
        for index in range(2):
            if index and not self.maybe(0.3, "several windows"):
                break
            keys = [
                c for c in self.chance.sample(base.columns, min(2, len(base.columns)))
                if self.chance.random() < 0.5
            ] or [base.columns[0]]  # fmt: skip
            if self.maybe(0.12, "no partition"):
                keys = []
            order = self.order(base, keys)
            new: list[tuple[Column, PlanNode, str]] = []
            partition = f"partition by {', '.join(c.name for c in keys)} " if keys else ""
            sorting = f"order by {', '.join(text for _, _, text in order)}" if order else ""
            for _ in range(self.chance.randint(1, 2)):
                function, bounds, frame_text = self.function(below, order)
                column = self.column(f"{prefix}{number}", function.kind)
                number += 1
                specification = PlanNode(
                    "WindowSpecDefinition",
                    {
                        "partitionSpec": tuple(c.node for c in keys),
                        "orderSpec": tuple(node for _, node, _ in order),
                        "frameSpecification": bounds,
                    },
                )
                expression = _node_of_kind(
                    "WindowExpression", function.kind,
                    windowFunction=function.node, windowSpec=specification,
                )  # fmt: skip
                over = f"over ({partition}{sorting}{frame_text})"
                text = f"{function.text} {over} as {column.name}"
                new.append((column, _alias(column, expression), text))
            plan = PlanNode(
                "Window",
                {
                    "windowExpressions": tuple(node for _, node, _ in new),
                    "partitionSpec": tuple(c.node for c in keys),
                    "orderSpec": tuple(node for _, node, _ in order),
                    "child": below.plan,
                    "hint": None,
                },
            )
            below = RandomQuery(
                plan,
                f"select *, {', '.join(text for _, _, text in new)} from ({below.text})",
                (*below.columns, *(column for column, _, _ in new)),
                frozenset(),
            )
        return below

    # --- Orders ---

    def order(
        self, base: RandomQuery, keys: Sequence[Column]
    ) -> list[tuple[Column, PlanNode, str]]:
        """The sort keys of a window."""
        if self.chance.random() < 0.15:
            self.features.add("no order")
            self.by_values = self.total
            return []
        rest = [c for c in base.columns if c not in keys] or list(base.columns)
        chosen = self.chance.sample(rest, min(self.chance.choice((1, 1, 2)), len(rest)))
        self.by_values = self.total and self.chance.random() < 0.4
        if self.total and not self.by_values:
            chosen += [c for c in base.columns if c not in chosen]
        return [self.sort_key(column) for column in chosen]

    def sort_key(self, column: Column) -> tuple[Column, PlanNode, str]:
        descending = self.chance.random() < 0.4
        first = not descending
        if self.maybe(0.2, "nulls elsewhere"):
            first = not first
        node = PlanNode(
            "SortOrder",
            {
                "child": column.node,
                "direction": PlanNode("Descending" if descending else "Ascending"),
                "nullOrdering": PlanNode("NullsFirst" if first else "NullsLast"),
                "sameOrderExpressions": (),
            },
        )
        text = (
            f"{column.name} {'desc' if descending else 'asc'} nulls {'first' if first else 'last'}"
        )
        return column, node, text

    # --- Functions ---

    def function(
        self, below: RandomQuery, order: list[tuple[Column, PlanNode, str]]
    ) -> tuple[_Function, PlanNode, str]:
        """A function, its frame, and the text of that."""
        kind = self.chance.choice(("rank", "rank", "neighbour", "end", "aggregate", "aggregate"))
        if not order and kind in ("rank", "neighbour"):
            kind = "aggregate"
        if self.by_values and kind in ("neighbour", "end"):
            kind = "aggregate"
        running = _frame("RowFrame", PlanNode("UnboundedPreceding"), PlanNode("CurrentRow"))
        match kind:
            case "rank":
                return self.rank(order), running, ""
            case "neighbour":
                return self.neighbour(below)
            case "end":
                bounds, text = self.frame(order)
                return self.end(below), bounds, text
            case _:
                bounds, text = self.frame(order)
                return self.aggregate(below), bounds, text

    def rank(self, order: list[tuple[Column, PlanNode, str]]) -> _Function:
        names = ("rank", "dense_rank", "percent_rank", "cume_dist", "row_number", "ntile")
        name = self.chance.choice(names[:4] if self.by_values else names)
        self.features.add(name)
        children = {"children": tuple(column.node for column, _, _ in order)}
        match name:
            case "row_number":
                return _Function(_node_of_kind("RowNumber", "int"), "row_number()", "int")
            case "ntile":
                n = self.chance.randint(1, 4)
                node = _node_of_kind("NTile", "int", buckets=_literal(n))
                return _Function(node, f"ntile({n})", "int")
            case "cume_dist":
                return _Function(_node_of_kind("CumeDist", "double"), "cume_dist()", "double")
            case "percent_rank":
                node = _node_of_kind("PercentRank", "double", **children)
                return _Function(node, "percent_rank()", "double")
            case "rank":
                return _Function(_node_of_kind("Rank", "int", **children), "rank()", "int")
            case _:
                return _Function(
                    _node_of_kind("DenseRank", "int", **children), "dense_rank()", "int"
                )

    def neighbour(self, below: RandomQuery) -> tuple[_Function, PlanNode, str]:
        column = self.chance.choice(below.columns)
        name = self.chance.choice(("Lag", "Lead"))
        self.features.add(name.lower())
        distance = self.chance.choice((1, 1, 2, 3))
        nulls = self.maybe(0.25, "neighbours that are not null")
        default, default_text = _literal(None, column.kind), ""
        if column.kind in ("int", "bigint") and self.maybe(0.3, "default"):
            default, default_text = _literal(7, column.kind), ", 7"
        offset = -distance if name == "Lag" else distance
        fields = {
            "input": column.node,
            "default": default,
            "ignoreNulls": nulls,
            "inputOffset" if name == "Lag" else "offset": _literal(distance),
        }
        text = f"{name.lower()}({column.name}, {distance}{default_text})"
        text += " ignore nulls" if nulls else ""
        bounds = _frame("RowFrame", _literal(offset), _literal(offset))
        return _Function(_node_of_kind(name, column.kind, **fields), text, column.kind), bounds, ""

    def end(self, below: RandomQuery) -> _Function:
        column = self.chance.choice(below.columns)
        nulls = self.maybe(0.3, "ends that are not null")
        name = self.chance.choice(("First", "Last", "NthValue"))
        self.features.add(name)
        skips = " ignore nulls" if nulls else ""
        if name == "NthValue":
            n = self.chance.randint(1, 3)
            node = _node_of_kind(name, column.kind, input=column.node, offset=_literal(n),
                          ignoreNulls=nulls)  # fmt: skip
            return _Function(node, f"nth_value({column.name}, {n}){skips}", column.kind)
        node = _node_of_kind(name, column.kind, child=column.node, ignoreNulls=nulls)
        text = f"{name.lower()}_value({column.name}){skips}"
        return _Function(_aggregate(node, column.kind), text, column.kind)

    def aggregate(self, below: RandomQuery) -> _Function:
        numbers = [c for c in below.columns if c.kind in _NUMBERS]
        column = self.chance.choice(numbers)
        name = self.chance.choice(("Count", "Sum", "Average", "Min", "Max", "StddevSamp"))
        self.features.add(name)
        condition, filter_text = None, ""
        plain = [c for c in below.columns if c.kind in ("int", "bigint")]
        if plain and self.maybe(0.2, "filtered"):
            by = self.chance.choice(plain)
            condition = _node_of_kind(
                "GreaterThan", "boolean", left=by.node, right=_literal(0, by.kind)
            )
            filter_text = f" filter (where {by.name} > 0)"
        context = PlanNode(
            "NumericEvalContext", {"evalMode": "ANSI", "allowDecimalPrecisionLoss": True}
        )
        text = f"{_SQL.get(name, name.lower())}({column.name}){filter_text}"
        match name:
            case "Count":
                node, kind = _node_of_kind(name, "bigint", children=(column.node,)), "bigint"
            case "Sum":
                kind = {"decimal(10,2)": "decimal(20,2)", "double": "double"}.get(
                    column.kind, "bigint"
                )
                node = _node_of_kind(name, kind, child=column.node, evalContext=context)
            case "Average":
                kind = {"decimal(10,2)": "decimal(14,6)"}.get(column.kind, "double")
                node = _node_of_kind(name, kind, child=column.node, evalMode="ANSI")
            case "StddevSamp":
                as_double = _node_of_kind(
                    "Cast", "double", child=column.node, dataType=_TYPES["double"],
                    timeZoneId="UTC", evalMode="ANSI",
                )  # fmt: skip
                child = column.node if column.kind == "double" else as_double
                node, kind = (
                    _node_of_kind(name, "double", child=child, nullOnDivideByZero=True),
                    "double",
                )
            case _:
                node, kind = _node_of_kind(name, column.kind, child=column.node), column.kind
        return _Function(_aggregate(node, kind, condition), text, kind)

    # --- Frames ---

    def frame(self, order: list[tuple[Column, PlanNode, str]]) -> tuple[PlanNode, str]:
        """A frame, and its text."""
        start, end = PlanNode("UnboundedPreceding"), PlanNode("UnboundedFollowing")
        if not order:
            return _frame("RowFrame", start, end), ""
        if self.maybe(0.35, "default frame"):
            return _frame("RangeFrame", start, PlanNode("CurrentRow")), ""
        by_value = len(order) == 1 and order[0][0].kind in ("int", "bigint", "decimal(10,2)")
        kind = "RowFrame"
        offsets: Callable[[int], PlanNode] = _literal
        if self.by_values or self.chance.random() < 0.4:
            kind = "RangeFrame"
            type_ = order[0][0].kind
            offsets = lambda n: _literal(Decimal(n) if "decimal" in type_ else n, type_)  # noqa: E731
        low, high = sorted((self.chance.randint(-2, 2), self.chance.randint(-2, 2)))
        if kind == "RangeFrame" and not by_value:
            low = high = 0
        first, first_text = self.frame_bound(low, start, "unbounded preceding", offsets)
        last, last_text = self.frame_bound(high, end, "unbounded following", offsets)
        word = "rows" if kind == "RowFrame" else "range"
        self.features.add(f"{word} {first_text.split()[-1]} {last_text.split()[-1]}")
        return _frame(kind, first, last), f" {word} between {first_text} and {last_text}"

    def frame_bound(
        self, offset: int, unbounded: PlanNode, text: str, literal: Callable[[int], PlanNode]
    ) -> tuple[PlanNode, str]:
        if self.chance.random() < 0.35:
            return unbounded, text
        if offset == 0:
            return PlanNode("CurrentRow"), "current row"
        side = "preceding" if offset < 0 else "following"
        return literal(offset), f"{abs(offset)} {side}"


_MIRRORED: Final = {
    "LessThanOrEqual": ("GreaterThanOrEqual", ">="),
    "LessThan": ("GreaterThan", ">"),
    "GreaterThan": ("LessThan", "<"),
}
_SQL: Final = {"Average": "avg", "StddevSamp": "stddev_samp"}


def _frame(kind: str, lower: PlanNode, upper: PlanNode) -> PlanNode:
    return PlanNode(
        "SpecifiedWindowFrame", {"frameType": PlanNode(kind), "lower": lower, "upper": upper}
    )


def _aggregate(function: PlanNode, kind: str, condition: PlanNode | None = None) -> PlanNode:
    return _node_of_kind(
        "AggregateExpression", kind,
        aggregateFunction=function, mode=PlanNode("Complete"), isDistinct=False,
        filter=condition, resultId=0,
    )  # fmt: skip


def _alias(column: Column, child: PlanNode) -> PlanNode:
    return _node_of_kind("Alias", column.kind, child=child, name=column.name, exprId=column.id)
