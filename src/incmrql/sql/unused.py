"""Columns that nobody asks for, left out of the relations that a query is made of."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from incmrql.sql import tree
from incmrql.sql.merging import Relations


def pruned(relations: Relations, final: exp.Select) -> Relations:
    """The relations without columns that no other one names; names are unique in a query."""
    kept = list(relations)
    selects = [*(select for _, select in kept), final]
    whole = {t.name for each in selects if each.find(exp.Star) for t in each.find_all(exp.Table)}
    while True:
        uses = Counter(
            column.name
            for each in (*(select for _, select in kept), final)
            for column in each.find_all(exp.Column)
        )
        fewer = [
            (name, select if name in whole else _without_unused(select, uses))
            for name, select in kept
        ]
        if all(one is other for (_, one), (_, other) in zip(kept, fewer, strict=True)):
            return kept
        kept = fewer


def _without_unused(select: exp.Expression, uses: Counter[str]) -> exp.Expression:
    if not isinstance(select, exp.Select) or select.args.get("distinct"):
        return select
    wanted = [each for each in select.expressions if _is_used(each, uses)]
    if len(wanted) == len(select.expressions):
        return select
    made = select.copy()
    made.set("expressions", [e.copy() for e in wanted] or [exp.alias_(tree.boolean(True), "unit0")])
    return made


def _is_used(column: exp.Expression, uses: Counter[str]) -> bool:
    plain = isinstance(column, exp.Alias) and isinstance(column.this, exp.Column)
    return not plain or uses[column.alias] > 0


def columns_from(view: str, selects: list[exp.Expression]) -> set[str]:
    """The columns of a view that are named where rows are taken from it."""
    return {
        column.name
        for each in selects
        for select in each.find_all(exp.Select)
        if any(table.name == view for table in _sources(select))
        for column in select.find_all(exp.Column)
    }


def _sources(select: exp.Select) -> list[exp.Table]:
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return [t for clause in clauses if clause is not None for t in clause.find_all(exp.Table)]
