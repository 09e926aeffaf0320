"""Random SQL texts with more than `random_texts`: sub-queries everywhere, nested types, errors.

A text of a seed is always the same.  Sub-queries stand in conditions of joins, in HAVING, in select
lists and in each other; arrays and structs are columns, keys and operands; and some expressions
fail in ANSI mode.  Spark refuses some texts, mostly for a correlated sub-query that it cannot plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.catalyst.random_texts import (
    TABLES,
    Column,
    Columns,
    Forms,
    Part,
    Texts,
    qualify,
)

_KINDS: Final = ("int", "int", "bigint", "string", "decimal", "double", "date", "boolean",
                 "array", "struct")  # fmt: skip
WIDE_TABLES: Final[dict[str, Columns]] = {**TABLES, "v": (*TABLES["v"], ("st", "struct"))}
_FAILURES: Final = 0.12
"""How often a form is one that may fail."""


@dataclass(slots=True)
class WideTexts(Texts):
    """Makes texts; all kinds of types are columns."""

    may_fail: bool = False
    nested: int = 0
    """How many sub-queries are around."""

    def kinds(self) -> list[str]:
        """The kinds of some columns."""
        return [self.chance.choice(_KINDS) for _ in range(self.chance.randint(1, 4))]

    # --- queries ---

    def _select(self, depth: int, kinds: Sequence[str]) -> tuple[str, Columns]:
        roll = self.chance.random()
        if depth < self.deepest and roll < 0.06:
            return self._pivot(kinds, depth)
        if depth < self.deepest and roll < 0.12:
            return self._lateral(kinds, depth)
        return super(WideTexts, self)._select(depth, kinds)

    def _pivot(self, kinds: Sequence[str], depth: int) -> tuple[str, Columns]:
        alias = self.name("p")
        source, pivot, scope = self.chance.choice(
            (
                ("select a, b, c from r", "sum(b) for c in ('x' as p1, 'y' as p2, '' as p3)",
                 (("a", "int"), ("p1", "bigint"), ("p2", "bigint"), ("p3", "bigint"))),
                ("select b, c, d from s", "max(d) for b in (0 as p1, 1 as p2)",
                 (("c", "string"), ("p1", "decimal"), ("p2", "decimal"))),
            )
        )  # fmt: skip
        columns = qualify(alias, scope)
        items, chosen = self.items(columns, kinds or self.kinds(), depth + 1)
        where = self._where(columns, self.deepest)
        return (
            f"select {items} from (select * from ({source}) pivot ({pivot})) {alias}{where}",
            chosen,
        )

    def _lateral(self, kinds: Sequence[str], depth: int) -> tuple[str, Columns]:
        """A query over a table and a query of each of its rows."""
        source, scope = self._relation(self.deepest)
        outer, self.outer = self.outer, [column for column in scope if column[1] != "array"]
        alias, inner = self.name("t"), self.name("t")
        table = self.chance.choice(("r", "s"))
        columns = qualify(inner, self.tables[table])
        item_kinds = [self.chance.choice(_KINDS[:-2]) for _ in range(2)]
        if self.chance.random() < 0.5:
            names = tuple((self.name("x"), kind) for kind in item_kinds)
            items = ", ".join(
                f"{self.aggregate(columns, kind, self.deepest)} as {name}" for name, kind in names
            )
        else:
            items, names = self.items(columns, item_kinds, self.deepest)
        where = self._correlation(columns)
        self.outer = outer
        word = self.chance.choice((", lateral", " left join lateral", " join lateral"))
        end = "" if word.startswith(",") else " on true"
        body = f"(select {items} from {table} {inner}{where}) {alias}"
        both = scope + qualify(alias, names)
        chosen, selected = self.items(both, kinds or self.kinds(), depth + 1)
        return f"select {chosen} from {source}{word} {body}{end}", selected

    def _group_by(self, depth: int, kinds: Sequence[str]) -> tuple[str, Columns]:
        text, columns = super(WideTexts, self)._group_by(depth, kinds)
        if " group by " not in text or " having " in text or depth or self.chance.random() < 0.7:
            return text, columns
        table = self.chance.choice(("r", "s"))
        return f"{text} having count(*) >= (select min(a) from {table})", columns

    # --- sources and conditions ---

    def join_on(self, left: Columns, right: Columns) -> str:
        roll = self.chance.random()
        if roll < 0.6:
            return super(WideTexts, self).join_on(left, right)
        scope = left + right
        parts = [super(WideTexts, self).join_on(left, right)] if roll < 0.8 else []
        parts.append(self.condition(scope, self.deepest))
        word = self.chance.choice((" and ", " or "))
        return f"({word.join(parts)})"

    def _correlated_query(self) -> str:
        if self.nested > 1 or self.chance.random() < 0.5:
            return super(WideTexts, self)._correlated_query()
        self.nested += 1
        alias, table = self.name("t"), self.chance.choice(("r", "s"))
        columns = qualify(alias, self.tables[table])
        where = self._correlation(columns)
        match self.chance.randrange(4):
            case 0:  # a sub-query in a sub-query
                outer, self.outer = self.outer, list(columns)
                inner = self._correlated_query()
                self.outer = outer
                word = self.chance.choice(("", "not "))
                text = f"select 1 from {table} {alias}{where} and {word}exists ({inner})"
            case 1:
                key = self.expression(columns, "int", self.deepest + 1)
                having = f"{self.aggregate(columns, 'bigint', self.deepest)} > 0"
                text = f"select 1 from {table} {alias}{where} group by {key} having {having}"
            case 2:
                other = self.name("t")
                on = f"{alias}.a = {other}.a"
                word = self.chance.choice(("join", "left join"))
                text = f"select 1 from {table} {alias} {word} s {other} on {on}{where}"
            case _:
                text = f"select distinct {alias}.a from {table} {alias}{where}"
        self.nested -= 1
        return text

    def _subquery_condition(self, scope: Columns) -> str:
        if all(kind == "array" for _, kind in scope):
            return self._predicate(scope, self.deepest)
        roll = self.chance.random()
        if roll > 0.3:
            return super(WideTexts, self)._subquery_condition(scope)
        outer, self.outer = self.outer, [column for column in scope if column[1] != "array"]
        value, kind = self.chance.choice(self.outer)
        alias, table = self.name("t"), self.chance.choice(("r", "s"))
        columns = qualify(alias, self.tables[table])
        if roll < 0.15:  # of two columns
            other, other_kind = self.chance.choice(self.outer)
            items = ", ".join(
                self.expression(columns, operand_kind, self.deepest)
                for operand_kind in (kind, other_kind)
            )
            where = self._correlation(columns) if self.chance.random() < 0.4 else ""
            word = self.chance.choice(("", "not "))
            text = f"({value}, {other}) {word}in (select {items} from {table} {alias}{where})"
        else:
            sign = self.chance.choice(("=", "<", "<=>", ">="))
            text = f"{value} {sign} {self._scalar(scope, kind)}"
        self.outer = outer
        return text

    def _predicate(self, scope: Columns, depth: int) -> str:
        if self.chance.random() > 0.1:
            return super(WideTexts, self)._predicate(scope, depth)
        kind = self.chance.choice(("array", "struct"))
        one, other = (self.expression(scope, kind, depth + 1) for _ in range(2))
        return f"{one} {self.chance.choice(('=', '<=>', '<>'))} {other}"

    # --- expressions ---

    def _forms(self, kind: str) -> Sequence[Callable[[Part], str]]:
        if self.may_fail and kind in _FAILING and self.chance.random() < _FAILURES:
            return _FAILING[kind]
        if kind == "struct" or (kind in _WIDE and self.chance.random() < 0.3):
            return _WIDE[kind]
        return super(WideTexts, self)._forms(kind)

    def aggregate(self, scope: Columns, kind: str, depth: int) -> str:
        """An aggregate of a kind."""
        if kind not in ("array", "struct"):
            return super(WideTexts, self).aggregate(scope, kind, depth)
        parts = [self.expression(scope, of, depth + 2) for of in ("int", "string")]
        parts = [part if "select" not in part else "1" for part in parts]
        if kind == "array":
            return f"sort_array(collect_{self.chance.choice(('list', 'set'))}({parts[0]}))"
        struct = f"struct({parts[0]} as x, cast({parts[1]} as string) as y)"
        return f"{self.chance.choice(('max', 'min'))}({struct})"


_WIDE: Final[Forms] = {
    "int": (
        lambda part: f"{part('struct')}.x",
        lambda part: f"element_at({part('array')}, -1)",
        lambda part: f"try_add({part('int')}, 2147483647)",
        lambda part: f"coalesce(try_divide({part('int')}, {part('int')}), 0) div 1",
    ),
    "string": (
        lambda part: f"{part('struct')}.y",
        lambda part: f"lower({part('string')})",
    ),
    "boolean": (
        lambda part: f"({part('array')} = {part('array')})",
        lambda part: f"({part('struct')} < {part('struct')})",
        lambda part: f"({part('date')} between {part('date')} and {part('date')})",
    ),
    "array": (
        lambda part: f"array(length({part('string')}), {part('int')}, null)",
        lambda part: f"transform({part('array')}, (y, i) -> y * i)",
        lambda part: f"array_union({part('array')}, {part('array')})",
    ),
    "struct": (
        lambda part: f"named_struct('x', {part('int')}, 'y', {part('string')})",
        lambda part: f"if({part('boolean')}, {part('struct')}, {part('struct')})",
    ),
}

_FAILING: Final[Forms] = {
    "int": (
        lambda part: f"cast({part('string')} as int)",
        lambda part: f"({part('int')} + 2147483646)",
        lambda part: f"({part('int')} % {part('int')})",
        lambda part: f"{part('array')}[{part('int')}]",
        lambda part: f"cast({part('bigint')} * 1000000000 as int)",
    ),
    "bigint": (
        lambda part: f"({part('int')} div {part('int')})",
        lambda part: f"({part('bigint')} * 4611686018427387904)",
        lambda part: f"cast({part('string')} as bigint)",
    ),
    "decimal": (
        lambda part: f"cast({part('int')} as decimal(2,1))",
        lambda part: f"cast({part('string')} as decimal(10,2))",
    ),
    "double": (
        lambda part: f"({part('double')} / {part('double')})",
        lambda part: f"cast({part('string')} as double)",
    ),
    "date": (lambda part: f"cast({part('string')} as date)",),
}
"""Forms that fail in ANSI mode for some values."""


def wide_texts(seed: int) -> WideTexts:
    """What makes the text of a seed."""
    chance = Random(f"wide {seed}")
    return WideTexts(chance, is_hard=seed % 2 == 1, may_fail=seed % 3 == 0, tables=WIDE_TABLES)


def wide_text(seed: int) -> str:
    """The text of a seed."""
    return wide_texts(seed).query()[0]


PARTITIONS: Final = ("", "({})", "not ({})", "({}) is null")
"""A query with each of these conditions: the rows of the first are those of the others."""


def partitioned_texts(seed: int) -> tuple[str, ...]:
    """A query without a condition, and with one that holds, does not hold, and is null."""
    texts = wide_texts(seed)
    source, scope = texts.source(0)
    items, _ = texts.items(scope, texts.kinds(), 0)
    condition = texts.condition(scope, 1)
    already = texts.condition(scope, texts.deepest) if texts.chance.random() < 0.5 else ""
    partitioned = []
    for form in PARTITIONS:
        parts = [part for part in (already and f"({already})", form.format(condition)) if part]
        where = f" where {' and '.join(parts)}" if parts else ""
        partitioned.append(f"select {items} from {source}{where}")
    return tuple(partitioned)


__all__ = ["Column", "WideTexts", "partitioned_texts", "wide_text", "wide_texts"]
