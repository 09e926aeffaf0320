"""Random DataFrames over the tables of `texts/random.tables`, built call by call.

A frame of a seed is always the same.  Its expressions are those of `wide_texts`; a step that Spark
refuses raises, mostly because of a correlated sub-query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.catalyst.random_texts import Columns, qualify
from tests.catalyst.wide_texts import WIDE_TABLES, WideTexts

Tables = Callable[[str], DataFrame]
"""The table of a name."""

_JOINS: Final = ("inner", "left", "right", "full", "cross", "left_semi", "left_anti")


@dataclass(slots=True)
class Frames:
    """Makes frames; each has an alias, and its columns are written with it."""

    texts: WideTexts
    table: Tables

    @property
    def chance(self) -> Random:
        """Where all choices come from."""
        return self.texts.chance

    def frame(self, depth: int = 0) -> tuple[DataFrame, Columns]:
        """A frame after some steps."""
        frame, scope = self._table()
        for _ in range(self.chance.randint(1, 4 - min(depth, 2))):
            step = self.chance.choice(_STEPS)
            frame, scope = step(self, frame, scope, depth)
        return frame, scope

    def _table(self) -> tuple[DataFrame, Columns]:
        name = self.chance.choice(("r", "r", "s", "s", "v"))
        alias = self.texts.name("t")
        columns = WIDE_TABLES[name]
        if name != "v":
            return self.table(name).alias(alias), qualify(alias, columns)
        # steps like to have whole columns
        return self.table(name).alias(alias), tuple(
            (f"{alias}.{column}", kind) for column, kind in columns
        )

    def with_alias(self, frame: DataFrame, columns: Columns) -> tuple[DataFrame, Columns]:
        """Give a frame a new alias, by which its columns are qualified."""
        alias = self.texts.name("t")
        return frame.alias(alias), qualify(alias, columns)

    def named_expressions(self, scope: Columns, depth: int) -> tuple[list[str], Columns]:
        """Expressions, each with a new name."""
        columns = tuple((self.texts.name("x"), kind) for kind in self.texts.kinds())
        items = [f"{self.texts.expression(scope, kind, depth + 1)} as {name}"
                 for name, kind in columns]  # fmt: skip
        return items, columns

    def select(self, frame: DataFrame, scope: Columns, depth: int) -> tuple[DataFrame, Columns]:
        """Chosen expressions."""
        items, columns = self.named_expressions(scope, depth)
        return self.with_alias(frame.selectExpr(*items), columns)

    def where(self, frame: DataFrame, scope: Columns, depth: int) -> tuple[DataFrame, Columns]:
        """The rows with a condition."""
        return frame.where(self.texts.condition(scope, min(depth, 1))), scope

    def with_column(
        self, frame: DataFrame, scope: Columns, depth: int
    ) -> tuple[DataFrame, Columns]:
        """A column more, and all others under names of their own."""
        renamed, columns = self.plain(frame, scope)
        frame, inner = self.with_alias(renamed, columns)
        kind, name = self.chance.choice(self.texts.kinds()), self.texts.name("x")
        new = F.expr(self.texts.expression(inner, kind, depth + 1))
        return self.with_alias(frame.withColumn(name, new), (*columns, (name, kind)))

    def plain(self, frame: DataFrame, scope: Columns) -> tuple[DataFrame, Columns]:
        """The columns under new names without dots."""
        columns = tuple((self.texts.name("x"), kind) for _, kind in scope)
        items = [F.expr(old).alias(new) for (old, _), (new, _) in zip(scope, columns, strict=True)]
        return frame.select(*items), columns

    def join(self, frame: DataFrame, scope: Columns, depth: int) -> tuple[DataFrame, Columns]:
        """Joined with another frame, by any condition."""
        if depth > 1:
            return frame, scope
        other, columns = self.frame(depth + 1) if self.chance.random() < 0.4 else self._table()
        how = self.chance.choice(_JOINS)
        if how == "cross":
            return frame.crossJoin(other), scope + columns
        condition = F.expr(self.texts.join_on(scope, columns))
        joined = frame.join(other, condition, how)
        return joined, scope if how in ("left_semi", "left_anti") else scope + columns

    def group(self, frame: DataFrame, scope: Columns, depth: int) -> tuple[DataFrame, Columns]:
        """Groups, rollups and cubes with aggregates."""
        kinds = self.texts.kinds()
        keys = tuple((self.texts.name("x"), self.chance.choice(self.texts.kinds()))
                     for _ in range(self.chance.randint(0, 2)))  # fmt: skip
        named = [F.expr(self._key(scope, kind, depth)).alias(name) for name, kind in keys]
        columns = tuple((self.texts.name("x"), kind) for kind in kinds)
        items = [F.expr(self.texts.aggregate(scope, kind, 2)).alias(name) for name, kind in columns]
        word = self.chance.choice(("groupBy", "groupBy", "rollup", "cube"))
        grouped = getattr(frame, word)(*named) if keys else frame.groupBy()
        return self.with_alias(grouped.agg(*items), keys + columns)

    def _key(self, scope: Columns, kind: str, depth: int) -> str:
        text = self.texts.expression(scope, kind, depth + 2)
        return text if "select" not in text else "cast(null as int) is null"

    def set_operation(
        self, frame: DataFrame, scope: Columns, depth: int
    ) -> tuple[DataFrame, Columns]:
        """United, intersected with or without the rows of another frame of these types."""
        if depth > 1:
            return frame, scope
        one, columns = self.plain(frame, scope)
        other, inner = self.frame(depth + 1)
        items = [
            F.expr(self.texts.expression(inner, kind, 2)).alias(name) for name, kind in columns
        ]
        other = other.select(*items)
        word = self.chance.choice(
            ("union", "unionByName", "intersect", "intersectAll", "subtract", "exceptAll")
        )
        return self.with_alias(getattr(one, word)(other), columns)

    def distinct(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """Each row once."""
        plain, columns = self.plain(frame, scope)
        return self.with_alias(plain.distinct(), columns)

    def limit(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """The first rows of a total order."""
        plain, columns = self.plain(frame, scope)
        keys = [
            getattr(F.col(name), self.chance.choice(("asc", "desc", "asc_nulls_last")))()
            for name, _ in self.chance.sample(columns, len(columns))
        ]
        limited = plain.orderBy(*keys)
        if self.chance.random() < 0.4:
            limited = limited.offset(self.chance.randint(0, 2))
        return self.with_alias(limited.limit(self.chance.randint(0, 5)), columns)

    def explode(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """The elements of an array, if there is one."""
        arrays = [name for name, kind in scope if kind == "array"]
        if not arrays:
            return frame, scope
        plain, columns = self.plain(frame, scope)
        name = next(new for (new, kind) in columns if kind == "array")
        element, place = self.texts.name("x"), self.texts.name("x")
        match self.chance.randrange(4):
            case 0:
                exploded = plain.select("*", F.explode(name).alias(element))
            case 1:
                exploded = plain.select("*", F.explode_outer(name).alias(element))
            case 2:
                exploded = plain.select("*", F.posexplode(name).alias(place, element))
                columns = (*columns, (place, "int"))
            case _:
                exploded = plain.select("*", F.posexplode_outer(name).alias(place, element))
                columns = (*columns, (place, "int"))
        return self.with_alias(exploded, (*columns, (element, "int")))

    def missing(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """Rows or values that are null, left out or filled in."""
        plain, columns = self.plain(frame, scope)
        names = [name for name, kind in columns if kind not in ("array", "struct")]
        if not names:
            return frame, scope
        some = self.chance.sample(names, self.chance.randint(1, len(names)))
        match self.chance.randrange(4):
            case 0:
                changed = plain.dropna(subset=some)
            case 1:
                changed = plain.dropna(how="all", subset=some)
            case 2:
                changed = plain.fillna(7).fillna("?")
            case _:
                changed = plain.replace([0, 1], [1, 9])
        return self.with_alias(changed, columns)

    def pivot(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """A column for each of some values."""
        plain, columns = self.plain(frame, scope)
        strings = [name for name, kind in columns if kind == "string"]
        numbers = [name for name, kind in columns if kind == "int"]
        if not strings or len(numbers) < 2:
            return frame, scope
        pivoted = plain.groupBy(numbers[0]).pivot(strings[0], ["x", "y", "q"])
        totals = pivoted.agg(F.sum(numbers[1])).toDF("k", "p1", "p2", "p3")
        kinds = (("k", "int"), ("p1", "bigint"), ("p2", "bigint"), ("p3", "bigint"))
        return self.with_alias(totals, kinds)

    def unpivot(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """A row for each of some columns."""
        plain, columns = self.plain(frame, scope)
        numbers = [name for name, kind in columns if kind == "int"]
        if len(numbers) < 2:
            return frame, scope
        unpivoted = plain.unpivot([*numbers[:1]], [*numbers[1:]], "name", "number")
        kinds = ((numbers[0], "int"), ("name", "string"), ("number", "int"))
        return self.with_alias(unpivoted, kinds)

    def subquery(self, frame: DataFrame, scope: Columns, _depth: int) -> tuple[DataFrame, Columns]:
        """A sub-query of the API: whether there are rows, a single value, or rows of each row."""
        plain, columns = self.plain(frame, scope)
        frame, scope = self.with_alias(plain, columns)
        own = [(name, kind) for name, kind in scope if kind in ("int", "bigint", "decimal")]
        if not own:
            return frame, scope
        outer, _ = self.chance.choice(own)
        other, inner = self._table()
        numbers = [(n, k) for n, k in inner if k in ("int", "bigint", "decimal")]
        key, kind = self.chance.choice(numbers)
        condition = F.col(key) == F.col(outer).outer()
        if self.chance.random() < 0.3:
            condition = F.col(key) < F.col(outer).outer()
        sub = other.where(condition)
        name = self.texts.name("x")
        match self.chance.randrange(3):
            case 0:
                exists = sub.exists()
                return frame.where(exists if self.chance.random() < 0.5 else ~exists), scope
            case 1:
                value = sub.select(F.max(F.col(key))).scalar()
                return self.with_alias(
                    frame.select("*", value.alias(name)), (*columns, (name, kind))
                )
            case _:
                rows = sub.select(F.col(key).alias(name))
                how = self.chance.choice((None, "inner", "left"))
                joined = (
                    frame.lateralJoin(rows) if how is None else frame.lateralJoin(rows, how=how)
                )
                return self.with_alias(joined, (*columns, (name, kind)))


Step = Callable[[Frames, DataFrame, Columns, int], tuple[DataFrame, Columns]]
_STEPS: Final[Sequence[Step]] = (
    Frames.select, Frames.select, Frames.where, Frames.where, Frames.with_column, Frames.join,
    Frames.join, Frames.join, Frames.group, Frames.group, Frames.set_operation, Frames.distinct,
    Frames.limit, Frames.explode, Frames.missing, Frames.pivot, Frames.unpivot, Frames.subquery,
)  # fmt: skip


def random_frame(seed: int, table: Tables) -> DataFrame:
    """The frame of a seed."""
    chance = Random(f"frame {seed}")
    texts = WideTexts(chance, is_hard=seed % 2 == 1, may_fail=seed % 3 == 0, tables=WIDE_TABLES)
    frames = Frames(texts, table)
    frame, scope = frames.frame()
    plain, _ = frames.plain(frame, scope)
    return plain
