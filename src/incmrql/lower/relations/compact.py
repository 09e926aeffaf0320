"""Fewer named relations: a plain one with one use is written into the SELECT that uses it.

    SELECT f(b) FROM (SELECT e AS b FROM s WHERE p) WHERE q   =   SELECT f(e) FROM s WHERE p AND q

The text gets shorter, and engines analyse and plan it faster.  No expression is written out
twice, but for columns and constants.
"""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import PYTHON_PREFIX

Relations = list[tuple[str, exp.Expression]]

_INNER = {"expressions", "from_", "where", "joins", "laterals", "hint"}
"""The clauses of a SELECT that can be written into another one."""
_OUTER = {"expressions", "from_", "where", "group", "hint", "having"}
"""The clauses of a SELECT that another one can be written into."""
_TRIVIAL = exp.Column | exp.Literal | exp.Boolean


def inline_relations(relations: Relations, final: exp.Select) -> tuple[Relations, exp.Select]:
    """The same query with plain relations written into the only SELECT that uses them."""
    selects: dict[str, exp.Expression] = dict(relations)
    uses = Counter(table.name for select in (*selects.values(), final) for table in _tables(select))
    for name in selects:
        selects[name] = _inline_source(selects[name], selects, uses)
    whole = _inline_source(final, selects, uses)
    assert isinstance(whole, exp.Select)
    named = {table.name for select in (*selects.values(), whole) for table in _tables(select)}
    reachable = _reachable(whole, selects, named)
    return [(name, selects[name]) for name, _ in relations if name in reachable], whole


def _reachable(
    whole: exp.Expression, selects: dict[str, exp.Expression], named: set[str]
) -> set[str]:
    """The relations that a query needs, directly or through others."""
    reachable: set[str] = set()
    pending = [whole]
    while pending:
        for table in _tables(pending.pop()):
            if table.name in selects and table.name in named and table.name not in reachable:
                reachable.add(table.name)
                pending.append(selects[table.name])
    return reachable


def _tables(select: exp.Expression) -> list[exp.Table]:
    return list(select.find_all(exp.Table))


def _inline_source(
    select: exp.Expression, selects: dict[str, exp.Expression], uses: Counter[str]
) -> exp.Expression:
    """A SELECT with the relation that it takes its rows from written into it, if that can be."""
    while isinstance(select, exp.Select):
        name = _only_source(select)
        inner = None if name is None or uses[name] != 1 else selects.get(name)
        if not isinstance(inner, exp.Select) or _clauses(inner) - _INNER:
            return select
        columns = _column_definitions(inner)
        if columns is None or not _can_inline(select, inner, columns):
            return select
        select = _merge_selects(select, inner, columns)
    return select


def _clauses(select: exp.Select) -> set[str]:
    return {name for name, value in select.args.items() if value}


def _only_source(select: exp.Select) -> str | None:
    """The relation that all rows come from, if a SELECT has one and can take another SELECT."""
    if _clauses(select) - _OUTER or any(isinstance(e, exp.Star) for e in select.expressions):
        return None
    source = select.args["from_"].this
    return source.name if isinstance(source, exp.Table) and not source.alias else None


def _column_definitions(select: exp.Select) -> dict[str, exp.Expression] | None:
    """What each column of a SELECT is; None where that is not known, or is no plain expression."""
    definitions: dict[str, exp.Expression] = {}
    for column in select.expressions:
        if isinstance(column, exp.Star) or column.find(exp.Window) or column.find(exp.Select):
            return None
        definitions[column.alias_or_name] = column.this if isinstance(column, exp.Alias) else column
    return definitions


def _can_inline(select: exp.Select, inner: exp.Select, columns: dict[str, exp.Expression]) -> bool:
    uses = Counter(column.name for column in select.find_all(exp.Column))
    group = select.args.get("group")
    keys = {column.name for column in group.find_all(exp.Column)} if group else set()
    groups = bool(group or inner.args.get("laterals"))
    for name, expr in columns.items():
        if isinstance(expr, exp.Literal) and name in keys:  # GROUP BY 1 is the first column
            return False
        if isinstance(expr, _TRIVIAL):
            continue
        if uses[name] > 1 or (groups and _runs_in_python(expr)):
            return False
    return True


def _runs_in_python(expr: exp.Expression) -> bool:
    return any(call.name.startswith(PYTHON_PREFIX) for call in expr.find_all(exp.Anonymous))


def _merge_selects(
    select: exp.Select, inner: exp.Select, columns: dict[str, exp.Expression]
) -> exp.Select:
    def substitute_columns(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and node.name in columns:
            return tree.parenthesize(columns[node.name].copy())
        return node

    merged = inner.copy()
    columns_ = []
    for column in select.expressions:
        definition = column.transform(substitute_columns)
        is_renamed = isinstance(column, exp.Column) and column.name in columns
        columns_.append(exp.alias_(definition, column.name) if is_renamed else definition)
    merged.set("expressions", columns_)
    for clause in ("group", "having"):
        if select.args.get(clause):
            merged.set(clause, select.args[clause].transform(substitute_columns))
    where = select.args.get("where")
    if where is not None:
        merged = merged.where(where.this.transform(substitute_columns))
    if select.args.get("hint"):
        merged.set("hint", select.args["hint"].copy())
    return merged


# --- Unused columns ---


def prune_columns(relations: Relations, final: exp.Select) -> Relations:
    """The relations without columns that no other one names; names are unique in a query."""
    current = list(relations)
    selects = [*(select for _, select in current), final]
    starred = {
        t.name for outer in selects if outer.find(exp.Star) for t in outer.find_all(exp.Table)
    }
    while True:
        uses = Counter(
            column.name
            for outer in (*(select for _, select in current), final)
            for column in outer.find_all(exp.Column)
        )
        pruned = [
            (name, select if name in starred else _drop_unused(select, uses))
            for name, select in current
        ]
        if all(before is after for (_, before), (_, after) in zip(current, pruned, strict=True)):
            return current
        current = pruned


def _drop_unused(select: exp.Expression, uses: Counter[str]) -> exp.Expression:
    if not isinstance(select, exp.Select) or select.args.get("distinct"):
        return select
    needed = [column for column in select.expressions if _is_needed(column, uses)]
    if len(needed) == len(select.expressions):
        return select
    smaller = select.copy()
    smaller.set(
        "expressions", [e.copy() for e in needed] or [exp.alias_(tree.boolean(True), "unit0")]
    )
    return smaller


def _is_needed(column: exp.Expression, uses: Counter[str]) -> bool:
    plain = isinstance(column, exp.Alias) and isinstance(column.this, exp.Column)
    return not plain or uses[column.alias] > 0


def used_columns(view: str, selects: list[exp.Expression]) -> set[str]:
    """The columns of a view that are named where rows are taken from it."""
    return {
        column.name
        for outer in selects
        for select in outer.find_all(exp.Select)
        if any(table.name == view for table in _sources(select))
        for column in select.find_all(exp.Column)
    }


def _sources(select: exp.Select) -> list[exp.Table]:
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return [t for clause in clauses if clause is not None for t in clause.find_all(exp.Table)]
