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

_PLAIN = {"expressions", "from_", "where", "joins", "laterals", "hint"}
"""The clauses of a SELECT that can be written into another one."""
_TAKING = {"expressions", "from_", "where", "group", "hint", "having"}
"""The clauses of a SELECT that another one can be written into."""
_TRIVIAL = exp.Column | exp.Literal | exp.Boolean


def merged(relations: Relations, final: exp.Select) -> tuple[Relations, exp.Select]:
    """The same query with plain relations written into the only SELECT that uses them."""
    known: dict[str, exp.Expression] = dict(relations)
    uses = Counter(table.name for each in (*known.values(), final) for table in _tables(each))
    for name in known:
        known[name] = _taken(known[name], known, uses)
    whole = _taken(final, known, uses)
    assert isinstance(whole, exp.Select)
    left = {table.name for each in (*known.values(), whole) for table in _tables(each)}
    kept = _reached(whole, known, left)
    return [(name, known[name]) for name, _ in relations if name in kept], whole


def _reached(whole: exp.Expression, known: dict[str, exp.Expression], named: set[str]) -> set[str]:
    """The relations that a query needs, directly or through others."""
    found: set[str] = set()
    waiting = [whole]
    while waiting:
        for table in _tables(waiting.pop()):
            if table.name in known and table.name in named and table.name not in found:
                found.add(table.name)
                waiting.append(known[table.name])
    return found


def _tables(select: exp.Expression) -> list[exp.Table]:
    return list(select.find_all(exp.Table))


def _taken(
    select: exp.Expression, known: dict[str, exp.Expression], uses: Counter[str]
) -> exp.Expression:
    """A SELECT with the relation that it takes its rows from written into it, if that can be."""
    while isinstance(select, exp.Select):
        name = _only_source(select)
        inner = None if name is None or uses[name] != 1 else known.get(name)
        if not isinstance(inner, exp.Select) or _clauses(inner) - _PLAIN:
            return select
        columns = _columns(inner)
        if columns is None or not _fits(select, inner, columns):
            return select
        select = _written(select, inner, columns)
    return select


def _clauses(select: exp.Select) -> set[str]:
    return {name for name, given in select.args.items() if given}


def _only_source(select: exp.Select) -> str | None:
    """The relation that all rows come from, if a SELECT has one and can take another SELECT."""
    if _clauses(select) - _TAKING or any(isinstance(e, exp.Star) for e in select.expressions):
        return None
    source = select.args["from_"].this
    return source.name if isinstance(source, exp.Table) and not source.alias else None


def _columns(select: exp.Select) -> dict[str, exp.Expression] | None:
    """What each column of a SELECT is; None where that is not known, or is no plain expression."""
    found: dict[str, exp.Expression] = {}
    for each in select.expressions:
        if isinstance(each, exp.Star) or each.find(exp.Window) or each.find(exp.Select):
            return None
        found[each.alias_or_name] = each.this if isinstance(each, exp.Alias) else each
    return found


def _fits(select: exp.Select, inner: exp.Select, columns: dict[str, exp.Expression]) -> bool:
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


def _written(
    select: exp.Select, inner: exp.Select, columns: dict[str, exp.Expression]
) -> exp.Select:
    def replaced(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and node.name in columns:
            return tree.wrapped(columns[node.name].copy())
        return node

    made = inner.copy()
    chosen = []
    for each in select.expressions:
        new = each.transform(replaced)
        is_renamed = isinstance(each, exp.Column) and each.name in columns
        chosen.append(exp.alias_(new, each.name) if is_renamed else new)
    made.set("expressions", chosen)
    for clause in ("group", "having"):
        if select.args.get(clause):
            made.set(clause, select.args[clause].transform(replaced))
    where = select.args.get("where")
    if where is not None:
        made = made.where(where.this.transform(replaced))
    if select.args.get("hint"):
        made.set("hint", select.args["hint"].copy())
    return made


# --- Unused columns ---


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
