"""Random SQL texts over the tables of `texts/random.tables`: every operator over every other.

A text of a seed is always the same.  Nearly all are accepted by Spark; it refuses some correlated
sub-queries.  No text depends on an order that it does not state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

Column = tuple[str, str]
"""How a column is written, and its kind of type."""
Columns = tuple[Column, ...]

TABLES: Final[dict[str, Columns]] = {
    "r": (("a", "int"), ("b", "int"), ("c", "string"), ("d", "decimal"), ("e", "double"),
          ("f", "date"), ("h", "boolean")),
    "s": (("a", "int"), ("b", "bigint"), ("c", "string"), ("d", "decimal")),
    "v": (("id", "int"), ("xs", "array"), ("st.x", "int"), ("st.y", "string")),
}  # fmt: skip
_SCALARS: Final = ("int", "int", "bigint", "string", "decimal", "double", "date", "boolean")
LITERALS: Final[dict[str, Sequence[str]]] = {
    "int": ("0", "1", "2", "3", "-1", "cast(null as int)"),
    "bigint": ("0L", "2L", "cast(null as bigint)"),
    "string": ("'x'", "'y'", "'xy'", "''", "cast(null as string)"),
    "decimal": ("1.50", "0.25", "cast(2 as decimal(10,2))"),
    "double": ("0.5D", "1.0D", "-2.5D", "cast(null as double)"),
    "date": ("date '2024-01-01'", "date '2024-02-29'"),
    "boolean": ("true", "false", "cast(null as boolean)"),
    "array": ("array(1, 2)", "array(1, null)", "cast(array() as array<int>)"),
    "struct": ("named_struct('x', 1, 'y', 'x')", "named_struct('x', cast(null as int), 'y', 'y')",
               "cast(null as struct<x:int,y:string>)"),
}  # fmt: skip
COMPARISONS: Final = ("=", "=", "<>", "<", "<=", ">", ">=", "<=>")
_NUMERIC: Final = ("int", "bigint", "decimal", "double")


@dataclass(slots=True)
class Texts:
    """Makes texts; `outer` holds the columns of the queries around the one that is made."""

    chance: Random
    is_hard: bool = False
    names: int = 0
    outer: list[Column] = field(default_factory=list)
    deepest: int = 3
    tables: Mapping[str, Columns] = field(default_factory=lambda: TABLES)

    def query(self, depth: int = 0, kinds: Sequence[str] = ()) -> tuple[str, Columns]:
        """A query and its columns; of these kinds, if kinds are given."""
        roll = self.chance.random()
        if depth < self.deepest and roll < 0.15:
            return self._set_operation(depth, kinds)
        if depth < self.deepest and roll < 0.25:
            return self._limit(depth, kinds)
        if depth == 0 and roll < 0.4:
            return self._with(kinds)
        if roll < 0.65:
            return self._group_by(depth, kinds)
        return self._select(depth, kinds)

    # --- queries ---

    def _set_operation(self, depth: int, kinds: Sequence[str]) -> tuple[str, Columns]:
        kinds = kinds or self.kinds()
        left, columns = self.query(depth + 1, kinds)
        right, _ = self.query(depth + 1, kinds)
        word = self.chance.choice(
            ("union", "union all", "intersect", "intersect all", "except", "except all")
        )
        return f"({left}) {word} ({right})", columns

    def _limit(self, depth: int, kinds: Sequence[str]) -> tuple[str, Columns]:
        inner, columns = self.query(depth + 1, kinds)
        alias = self.name("q")
        keys = ", ".join(
            name + self.chance.choice(("", " desc", " nulls last", " desc nulls first"))
            for name, _ in self.chance.sample(columns, len(columns))
        )
        end = f"limit {self.chance.randint(0, 4)}"
        if self.chance.random() < 0.3:
            end += f" offset {self.chance.randint(0, 2)}"
        return f"select * from ({inner}) {alias} order by {keys} {end}", columns

    def _with(self, kinds: Sequence[str]) -> tuple[str, Columns]:
        name = self.name("w")
        inner, columns = self.query(2)
        one, other = self.name("t"), self.name("t")
        word = self.chance.choice(("join", "left join", "full join"))
        scope = qualify(one, columns) + qualify(other, columns)
        condition = self.condition(scope, 2)
        items, selected = self.items(scope, kinds or self.kinds(), 2)
        text = f"select {items} from {name} {one} {word} {name} {other} on {condition}"
        return f"with {name} as ({inner}) {text}", selected

    def _select(self, depth: int, kinds: Sequence[str]) -> tuple[str, Columns]:
        if self.is_hard and self.chance.random() < 0.15:
            return self._using(kinds, depth)
        source, scope = self.source(depth)
        items, columns = self.items(scope, kinds or self.kinds(), depth)
        word = "distinct " if self.chance.random() < 0.2 else ""
        return f"select {word}{items} from {source}{self._where(scope, depth)}", columns

    def _using(self, kinds: Sequence[str], depth: int) -> tuple[str, Columns]:
        """Joins by columns of the same name, which then is one column."""
        word = self.chance.choice(("", "left ", "right ", "full "))
        one, other = self.name("t"), self.name("t")
        keys = self.chance.choice((("a",), ("a", "c"), ("b", "d")))
        kind_of = dict(self.tables["r"])
        left, right = qualify(one, self.tables["r"]), qualify(other, self.tables["s"])
        scope = tuple((key, kind_of[key]) for key in keys) + tuple(
            column for column in left + right if column[0].rpartition(".")[2] not in keys
        )
        items, columns = self.items(scope, kinds or self.kinds(), depth + 1)
        where = self._where(scope, self.deepest)
        text = f"select {items} from r {one} {word}join s {other} using ({', '.join(keys)}){where}"
        return text, columns

    def _group_by(self, depth: int, kinds: Sequence[str]) -> tuple[str, Columns]:
        source, scope = self.source(depth)
        where = self._where(scope, depth)
        keys = [self.expression(scope, self.chance.choice(_SCALARS), depth + 1)
                for _ in range(self.chance.randint(0, 2))]  # fmt: skip
        keys = [key for key in dict.fromkeys(keys) if "select" not in key]
        key_kinds = [(key, self._kind_of(key, scope)) for key in keys]
        wanted = list(kinds) or self.kinds()
        items, columns = [], []
        for kind in wanted:
            of_kind = [key for key, key_kind in key_kinds if key_kind == kind]
            name = self.name("x")
            if of_kind and self.chance.random() < 0.5:
                items.append(f"{self.chance.choice(of_kind)} as {name}")
            else:
                items.append(f"{self.aggregate(scope, kind, depth)} as {name}")
            columns.append((name, kind))
        group = ""
        if keys:
            listed = ", ".join(keys)
            sets = f"grouping sets (({listed}), ({keys[0]}), ())"
            forms = (listed, listed, f"rollup ({listed})", f"cube ({listed})", sets)
            group = f" group by {self.chance.choice(forms)}"
        having = ""
        if keys and self.chance.random() < 0.25:
            having = f" having {self.aggregate(scope, 'bigint', depth)} >= 1"
        text = f"select {', '.join(items)} from {source}{where}{group}{having}"
        return text, tuple(columns)

    def _kind_of(self, key: str, scope: Columns) -> str:
        """The kind of a key that is a column; keys that are not are only grouped by."""
        return next((kind for name, kind in scope if name == key), "")

    def kinds(self) -> list[str]:
        return [self.chance.choice(_SCALARS) for _ in range(self.chance.randint(1, 3))]

    # --- sources ---

    def source(self, depth: int) -> tuple[str, Columns]:
        text, scope = self._relation(depth)
        for _ in range(self.chance.choice((0, 0, 1, 1, 2)) if depth < 2 else 0):
            other, columns = self._relation(depth + 1)
            word = self.chance.choice(
                ("join", "join", "left join", "right join", "full join", "cross join",
                 "left semi join", "left anti join")
            )  # fmt: skip
            both = scope + columns
            condition = "" if word == "cross join" else f" on {self.join_on(scope, columns)}"
            text = f"{text} {word} {other}{condition}"
            scope = scope if word in ("left semi join", "left anti join") else both
        if any(kind == "array" for _, kind in scope) and self.chance.random() < 0.4:
            xs = self.chance.choice([name for name, kind in scope if kind == "array"])
            view, element = self.name("z"), self.name("x")
            word = self.chance.choice(("", "outer "))
            text = f"{text} lateral view {word}explode({xs}) {view} as {element}"
            scope = (*scope, (f"{view}.{element}", "int"))
        return text, scope

    def _relation(self, depth: int) -> tuple[str, Columns]:
        alias = self.name("t")
        if depth < self.deepest - 1 and self.chance.random() < 0.3:
            outer, self.outer = self.outer, []
            inner, columns = self.query(depth + 1)
            self.outer = outer
            return f"({inner}) {alias}", qualify(alias, columns)
        if self.chance.random() < 0.05:
            rows = "(1, 'x'), (2, null), (null, 'y')"
            columns = ((f"{alias}.i", "int"), (f"{alias}.j", "string"))
            return f"(values {rows}) {alias} (i, j)", columns
        table = self.chance.choice(("r", "r", "s", "s", "v"))
        return f"{table} {alias}", qualify(alias, self.tables[table])

    def join_on(self, left: Columns, right: Columns) -> str:
        pairs = [(one, other) for one, kind in left for other, k in right if k == kind != "array"]
        parts = []
        if pairs and self.chance.random() < 0.8:
            one, other = self.chance.choice(pairs)
            parts.append(f"{one} {self.chance.choice(('=', '=', '=', '<=>', '<'))} {other}")
        if not parts or self.chance.random() < 0.3:
            parts.append(self.condition(left + right, self.deepest))
        return " and ".join(parts)

    def _where(self, scope: Columns, depth: int) -> str:
        return f" where {self.condition(scope, depth)}" if self.chance.random() < 0.6 else ""

    # --- conditions ---

    def condition(self, scope: Columns, depth: int) -> str:
        roll = self.chance.random()
        if roll < 0.12:
            return f"({self.condition(scope, depth)} or {self.condition(scope, depth)})"
        if roll < 0.22:
            return f"({self.condition(scope, depth)} and {self.condition(scope, depth)})"
        if roll < 0.3:
            return f"not ({self.condition(scope, depth)})"
        if roll < 0.55 and depth < self.deepest - 1:
            return self._subquery_condition(scope)
        return self._predicate(scope, depth)

    def _predicate(self, scope: Columns, depth: int) -> str:
        kind = self.chance.choice(_SCALARS)
        value = self.expression(scope, kind, depth + 1)
        match self.chance.randrange(6):
            case 0:
                return f"{value} is {self.chance.choice(('', 'not '))}null"
            case 1:
                options = ", ".join(self.chance.choice(LITERALS[kind]) for _ in range(3))
                return f"{value} {self.chance.choice(('', 'not '))}in ({options})"
            case 2 if kind in _NUMERIC:
                low = self.expression(scope, kind, depth + 2)
                return f"{value} between {low} and {self.expression(scope, kind, depth + 2)}"
            case 3 if kind == "string":
                pattern = self.chance.choice(("x%", "%y", "_", ""))
                return f"{value} like '{pattern}'"
            case 4 if kind == "boolean":
                return value
        other = self.expression(scope, kind, depth + 1)
        return f"{value} {self.chance.choice(COMPARISONS)} {other}"

    def _subquery_condition(self, scope: Columns) -> str:
        outer, self.outer = self.outer, [column for column in scope if column[1] != "array"]
        word = self.chance.choice(("", "", "not "))
        if self.chance.random() < 0.5:
            text = f"{word}exists ({self._correlated_query()})"
        else:
            value, kind = self.chance.choice(self.outer)
            alias = self.name("t")
            table = self.chance.choice(("r", "s"))
            columns = qualify(alias, self.tables[table])
            item = self.expression(columns, kind, self.deepest)
            where = self._correlation(columns) if self.chance.random() < 0.6 else ""
            if self.is_hard and self.chance.random() < 0.3:
                item = self.aggregate(columns, kind, self.deepest)
                where += f" group by {self.expression(columns, 'int', self.deepest + 1)}"
            text = f"{value} {word}in (select {item} from {table} {alias}{where})"
        self.outer = outer
        return text

    def _correlated_query(self) -> str:
        """A query over a table, related to the columns around it."""
        alias = self.name("t")
        table = self.chance.choice(("r", "s", "v"))
        columns = qualify(alias, self.tables[table])
        return f"select 1 from {table} {alias}{self._correlation(columns)}"

    def _correlation(self, columns: Columns) -> str:
        pairs = [(one, o) for one, kind in columns for o, k in self.outer if k == kind != "array"]
        parts = []
        if pairs:
            one, other = self.chance.choice(pairs)
            parts.append(f"{one} {self.chance.choice(('=', '=', '<=>', '<', '<>'))} {other}")
        if not parts or self.chance.random() < 0.4:
            parts.append(self._predicate(columns, self.deepest))
        return f" where {' and '.join(parts)}"

    # --- expressions ---

    def items(self, scope: Columns, kinds: Sequence[str], depth: int) -> tuple[str, Columns]:
        columns = tuple((self.name("x"), kind) for kind in kinds)
        items = [f"{self.expression(scope, kind, depth)} as {name}" for name, kind in columns]
        return ", ".join(items), columns

    def expression(self, scope: Columns, kind: str, depth: int) -> str:
        """An expression of a kind that cannot fail."""
        known = [name for name, other in scope if other == kind]
        roll = self.chance.random()
        if known and (roll < 0.55 or depth > self.deepest):
            return self.chance.choice(known)
        if depth > self.deepest or roll < 0.65:
            return self.chance.choice(LITERALS[kind])
        if roll < 0.72:
            condition = self._predicate(scope, depth + 1)
            one, other = (self.expression(scope, kind, depth + 1) for _ in range(2))
            return f"case when {condition} then {one} else {other} end"
        if roll < 0.78:
            one, other = (self.expression(scope, kind, depth + 1) for _ in range(2))
            return f"{self.chance.choice(('coalesce', 'nullif', 'nvl'))}({one}, {other})"
        if roll < 0.84 and depth < self.deepest - 1:
            return self._scalar(scope, kind)

        def part(of: str) -> str:
            return self.expression(scope, of, depth + 1)

        return self.chance.choice(self._forms(kind))(part)

    def _forms(self, kind: str) -> Sequence[Callable[[Part], str]]:
        """Ways to write an expression of a kind by others."""
        forms = _HARD_FORMS if self.is_hard and self.chance.random() < 0.6 else _FORMS
        return forms[kind]

    def _scalar(self, scope: Columns, kind: str) -> str:
        outer, self.outer = self.outer, [column for column in scope if column[1] != "array"]
        alias = self.name("t")
        table = self.chance.choice(("r", "s"))
        columns = qualify(alias, self.tables[table])
        pairs = [(one, o) for one, k in columns for o, other in self.outer if other == k]
        where = ""
        if pairs and self.chance.random() < 0.7:
            where = " where {} = {}".format(*self.chance.choice(pairs))
        self.outer = outer
        return f"(select {self.aggregate(columns, kind, self.deepest)} from {table} {alias}{where})"

    def aggregate(self, scope: Columns, kind: str, depth: int) -> str:
        """An aggregate of a kind."""

        def part(of: str) -> str:
            text = self.expression(scope, of, depth + 2)
            return text if "select" not in text else self.chance.choice(LITERALS[of])

        aggregates = _AGGREGATES
        if self.is_hard and kind in _HARD_AGGREGATES and self.chance.random() < 0.5:
            aggregates = _HARD_AGGREGATES
        text = self.chance.choice(aggregates[kind])(part)
        if self.chance.random() < 0.1 and not text.startswith(("cast", "coalesce")):
            condition = part("boolean")
            return f"{text} filter (where {condition})"
        return text

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"


Part = Callable[[str], str]
"""An expression of a kind."""
Forms = dict[str, Sequence[Callable[[Part], str]]]

_FORMS: Final[Forms] = {
    "int": (
        lambda part: f"({part('int')} + {part('int')})",
        lambda part: f"({part('int')} - {part('int')})",
        lambda part: f"abs({part('int')})",
        lambda part: f"length({part('string')})",
        lambda part: f"({part('int')} % 3)",
        lambda part: f"year({part('date')})",
        lambda part: f"cast({part('boolean')} as int)",
        lambda part: f"greatest({part('int')}, {part('int')})",
        lambda part: f"size({part('array')})",
        lambda part: f"(-{part('int')})",
    ),
    "bigint": (
        lambda part: f"({part('bigint')} + {part('int')})",
        lambda part: f"cast({part('int')} as bigint)",
        lambda part: f"({part('int')} div 2)",
    ),
    "string": (
        lambda part: f"concat({part('string')}, {part('string')})",
        lambda part: f"upper({part('string')})",
        lambda part: f"substring({part('string')}, 1, 1)",
        lambda part: f"cast({part('int')} as string)",
        lambda part: f"({part('string')} || 'z')",
        lambda part: f"trim({part('string')})",
    ),
    "decimal": (
        lambda part: f"cast({part('int')} as decimal(10,2))",
        lambda part: f"round({part('decimal')}, 1)",
        lambda part: f"({part('decimal')} + {part('decimal')})",
        lambda part: f"({part('decimal')} * 2)",
        lambda part: f"abs({part('decimal')})",
    ),
    "double": (
        lambda part: f"({part('double')} + {part('double')})",
        lambda part: f"({part('double')} * 2.0D)",
        lambda part: f"cast({part('int')} as double)",
        lambda part: f"({part('double')} / 4.0D)",
        lambda part: f"floor({part('double')}) * 1.0D",
    ),
    "date": (
        lambda part: f"date_add({part('date')}, 1)",
        lambda part: f"last_day({part('date')})",
        lambda part: f"trunc({part('date')}, 'MM')",
    ),
    "boolean": (
        lambda part: f"({part('int')} < {part('int')})",
        lambda part: f"({part('boolean')} or {part('boolean')})",
        lambda part: f"(not {part('boolean')})",
        lambda part: f"({part('string')} is null)",
        lambda part: f"({part('decimal')} <=> {part('decimal')})",
    ),
    "array": (
        lambda part: f"array({part('int')}, {part('int')})",
        lambda part: f"transform({part('array')}, y -> y + 1)",
        lambda part: f"filter({part('array')}, y -> y > 1)",
    ),
}

_AGGREGATES: Final[Forms] = {
    "int": (
        lambda part: f"min({part('int')})",
        lambda part: f"max({part('int')})",
        lambda part: f"cast(count({part('string')}) as int)",
    ),
    "bigint": (
        lambda _: "count(*)",
        lambda part: f"count({part('string')})",
        lambda part: f"count(distinct {part('int')})",
        lambda part: f"sum({part('int')})",
        lambda part: f"sum(distinct {part('int')})",
        lambda part: f"count(distinct {part('string')}, {part('int')})",
    ),
    "string": (lambda part: f"max({part('string')})", lambda part: f"min({part('string')})"),
    "decimal": (
        lambda part: f"cast(sum({part('decimal')}) as decimal(20,2))",
        lambda part: f"max({part('decimal')})",
    ),
    "double": (
        lambda part: f"avg({part('int')})",
        lambda part: f"sum({part('double')})",
        lambda part: f"avg({part('double')})",
        lambda part: f"max({part('double')})",
    ),
    "date": (lambda part: f"min({part('date')})", lambda part: f"max({part('date')})"),
    "boolean": (
        lambda part: f"bool_or({part('boolean')})",
        lambda part: f"every({part('boolean')})",
        lambda part: f"(count({part('int')}) > 1)",
    ),
}


_HARD_FORMS: Final[Forms] = {
    "int": (
        lambda part: f"try_cast({part('string')} as int)",
        lambda part: f"datediff({part('date')}, {part('date')})",
        lambda part: f"cast({part('decimal')} as int)",
        lambda part: f"cast({part('double')} as int)",
        lambda part: f"pmod({part('int')}, 3)",
        lambda part: f"({part('int')} & {part('int')})",
        lambda part: f"get({part('array')}, 0)",
        lambda part: f"aggregate({part('array')}, 0, (y, z) -> y + z)",
        lambda part: f"cast(cast({part('int')} as smallint) * 2S as int)",
        lambda part: f"if({part('boolean')}, {part('int')}, month({part('date')}))",
        lambda part: f"array_max({part('array')})",
    ),
    "bigint": (
        lambda part: f"({part('bigint')} * {part('int')})",
        lambda part: f"ceil({part('double')})",
        lambda part: f"floor({part('decimal')})",
        lambda part: f"cast({part('decimal')} as bigint)",
        lambda part: f"try_cast({part('string')} as bigint)",
        lambda part: f"try_divide({part('bigint')}, {part('int')}) div 1",
    ),
    "string": (
        lambda part: f"cast({part('decimal')} as string)",
        lambda part: f"cast({part('date')} as string)",
        lambda part: f"cast({part('double')} as string)",
        lambda part: f"cast({part('boolean')} as string)",
        lambda part: f"replace({part('string')}, 'x', 'yy')",
        lambda part: f"lpad({part('string')}, 3, '-')",
        lambda part: f"reverse({part('string')})",
        lambda part: f"concat_ws(',', {part('string')}, {part('string')})",
        lambda part: f"greatest({part('string')}, {part('string')})",
    ),
    "decimal": (
        lambda part: f"({part('decimal')} * {part('decimal')})",
        lambda part: f"({part('decimal')} / 3)",
        lambda part: f"cast({part('double')} as decimal(10,2))",
        lambda part: f"({part('decimal')} - {part('int')})",
        lambda part: f"round({part('decimal')})",
        lambda part: f"bround({part('decimal')}, 1)",
        lambda part: f"cast({part('decimal')} as decimal(8,1))",
        lambda part: f"(-{part('decimal')})",
        lambda part: f"try_cast({part('string')} as decimal(10,2))",
    ),
    "double": (
        lambda part: f"({part('double')} * {part('double')})",
        lambda part: f"({part('double')} / 3.0D)",
        lambda part: f"sqrt({part('double')})",
        lambda part: f"cast({part('decimal')} as double)",
        lambda part: f"cast(cast({part('double')} as float) as double)",
        lambda part: f"round({part('double')}, 1)",
        lambda part: f"try_divide({part('double')}, {part('double')})",
        lambda part: f"({part('int')} / 4)",
        lambda part: f"least({part('double')}, {part('double')})",
        lambda part: f"nanvl({part('double')}, 1.0D)",
    ),
    "date": (
        lambda part: f"add_months({part('date')}, 1)",
        lambda part: f"({part('date')} + interval '1' month)",
        lambda part: f"date_sub({part('date')}, {part('int')})",
        lambda part: f"try_cast({part('string')} as date)",
        lambda part: f"greatest({part('date')}, {part('date')})",
    ),
    "boolean": (
        lambda part: f"exists({part('array')}, y -> y > 1)",
        lambda part: f"array_contains({part('array')}, 1)",
        lambda part: f"({part('string')} in ('x', {part('string')}))",
        lambda part: f"({part('double')} = {part('double')})",
        lambda part: f"(({part('int')}, {part('string')}) = ({part('int')}, {part('string')}))",
        lambda part: f"forall({part('array')}, y -> y is not null)",
        lambda part: f"startswith({part('string')}, 'x')",
        lambda part: f"isnan({part('double')})",
    ),
    "array": (
        lambda part: f"array_distinct({part('array')})",
        lambda part: f"sort_array({part('array')})",
        lambda part: f"concat({part('array')}, {part('array')})",
        lambda part: f"array_remove({part('array')}, 1)",
        lambda part: f"slice({part('array')}, 1, 2)",
        lambda _: "sequence(1, 3)",
    ),
}
"""Forms where engines tend to differ."""

_HARD_AGGREGATES: Final[Forms] = {
    "int": (
        lambda part: f"size(collect_list({part('int')}))",
        lambda part: f"size(collect_set({part('string')}))",
    ),
    "bigint": (
        lambda part: f"count_if({part('boolean')})",
        lambda part: f"sum({part('bigint')})",
        lambda part: f"count(distinct {part('double')})",
        lambda part: f"count({part('int')}, {part('string')})",
    ),
    "decimal": (
        lambda part: f"sum({part('decimal')})",
        lambda part: f"avg({part('decimal')})",
        lambda part: f"sum(distinct {part('decimal')})",
    ),
    "double": (
        lambda part: f"stddev({part('int')})",
        lambda part: f"var_pop({part('int')})",
        lambda part: f"median({part('int')})",
        lambda part: f"avg(distinct {part('int')})",
        lambda part: f"min({part('double')})",
    ),
    "boolean": (
        lambda part: f"max({part('boolean')})",
        lambda part: f"some({part('boolean')})",
    ),
}


def qualify(alias: str, columns: Columns) -> Columns:
    return tuple((f"{alias}.{name}", kind) for name, kind in columns)


HARD: Final = 1000
"""Texts of seeds from here on have what engines tend to disagree about."""


def random_text(seed: int) -> str:
    """The text of a seed."""
    return Texts(Random(seed), seed >= HARD).query()[0]
