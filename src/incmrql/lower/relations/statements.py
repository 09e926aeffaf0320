"""A term as one SQL text with all that an engine needs to run it, and shown to people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

from incmrql.algebra.show import show_term
from incmrql.algebra.term import Query, Repeat, Scan, Sort, Term, Values, element
from incmrql.lower import tree
from incmrql.lower.context import Context, PythonExpression
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.builder import LoweredRelation, RelationBuilder, columns_of
from incmrql.lower.relations.compact import inline_relations, prune_columns, used_columns
from incmrql.lower.relations.picking import Sources, carry_steps, without_picks
from incmrql.lower.relations.terms import is_packed, limit_of, order_of, relation
from incmrql.lower.shapes import Cell, Parts, Shape, leaves, map_leaves, split
from incmrql.lower.sums.rounding import SQL_FUNCTIONS, inline_functions
from incmrql.lower.tree import Dialect, column
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.types.show import show_expr
from incmrql.types.walk import used_variables

RowFormat: TypeAlias = Literal["rows", "packed", "flat"]
"""How rows are given: `rows` a column for each field of a record that is never null, else one
`value`; `packed` always that one; `flat` the columns that the lowering keeps them in."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL text, and the views and Python functions that it names."""

    text: str
    element: Type
    row: Shape
    """What a row is in the columns of the result."""
    sources: tuple[tuple[str, Scan], ...]
    constants: tuple[tuple[str, Values], ...]
    repeats: tuple[tuple[str, Repeat], ...]
    python_calls: tuple[PythonExpression, ...]


def statement(
    term: Term,
    ctx: Context,
    shared: Mapping[int, Term] | None = None,
    loops: Mapping[int, LoweredRelation] | None = None,
    form: RowFormat = "rows",
    *,
    by_key: bool = False,
) -> Statement:
    """The text of a term.

    `shared` are the terms that it names, `loops` the views of the variables of loops around it;
    with `by_key`, pairs lie together that have the same key.
    """
    builder = RelationBuilder(ctx, relation, loops=loops or {}, shared=shared or {})
    if isinstance(term, Sort) and term.ordered:
        source = relation(term.source, builder)
        row = split(source.row).parts[1]
        final, row_shape = _output_columns(row, element(term), ctx, form)
        final = final.from_(source.name).order_by(*order_of(term, source, builder))
        if term.limit is not None:
            final = final.limit(limit_of(term.limit, builder))
    else:
        source = relation(term, builder)
        final, row_shape = _output_columns(source.row, element(term), ctx, form)
        final = final.from_(source.name)
    if by_key:
        _distribute(final, source)
    relations, final = inline_relations(builder.relations, final)
    sources: Sources = builder.sources
    if ctx.dialect is Dialect.SPARK:
        relations, final, sources = carry_steps(
            relations, final, ctx.python_calls, sources, ctx.fresh
        )
    if any(scan.picks for _, scan in sources):
        relations = prune_columns(relations, final)
        selects = [*(select for _, select in relations), final]
        sources = [(name, _without_unused_picks(name, scan, selects)) for name, scan in sources]
    for name, select in relations:
        final = final.with_(name, as_=select, copy=False)
    text = tree.print_tree(inline_functions(final), ctx.dialect, pretty=True)
    called = tuple(call for call in ctx.python_calls if f"{call.name}(" in text)
    return Statement(
        text,
        element(term),
        row_shape,
        tuple(sources),
        tuple(builder.constants),
        tuple(builder.repeats),
        called,
    )


def _output_columns(
    row: Shape, type_: Type, ctx: Context, form: RowFormat
) -> tuple[exp.Select, Shape]:
    """The columns that a row is given as, and what it is in them."""
    columns = columns_of(type_)
    if form == "flat":
        cells = list(leaves(row))
        named = [f"c{number}" for number in range(1, len(cells) + 1)]
        chosen = [exp.alias_(cell.tree, n) for cell, n in zip(cells, named, strict=True)]
        remaining = iter(named)
        shown = map_leaves(lambda cell: Cell(tree.column(next(remaining)), cell.type), row)
        return exp.select(*chosen or [exp.alias_(tree.boolean(True), "c0")]), shown
    if form == "packed" or columns == (("value", type_),) or not isinstance(row, Parts):
        whole = exp.alias_(ctx.whole(row), "value", quoted=True)
        return exp.select(whole), Cell(tree.column("value"), type_)
    chosen = [
        exp.alias_(ctx.whole(part), name, quoted=True)
        for part, (name, _) in zip(row.parts, columns, strict=True)
    ]
    shown = Parts(tuple(Cell(tree.column(name), part) for name, part in columns), type_)
    return exp.select(*chosen), shown


def _without_unused_picks(view: str, scan: Scan, selects: list[exp.Expression]) -> Scan:
    """A scan without what it picks and no relation asks for."""
    if scan.picks is None:
        return scan
    return without_picks(
        scan, {name for name, _ in scan.picks.fields} - used_columns(view, selects)
    )


def _distribute(final: exp.Select, source: LoweredRelation) -> None:
    key = list(leaves(split(source.row).parts[0]))
    if key:
        by = exp.Distribute(expressions=[cell.tree.copy() for cell in key])
        final.set("distribute", by)


def view(name: str, row: Shape, size: int | None) -> LoweredRelation:
    """A view whose columns hold rows of a shape."""
    return LoweredRelation(name, row, size=size)


# --- Statements for people ---


def show_statements(query: Query, script: typed.Script, *, fast_sums: bool = False) -> str:
    """All texts of a query, in the order in which they run."""

    def context() -> Context:
        return Context(lower, Dialect.SPARK, script, fast_sums=fast_sums)

    shared = {variable.number: term for variable, term in query.parts}
    texts: list[str] = []
    for variable, term in query.parts:
        if variable in used_variables(query.result):
            stmt = statement(term, context(), shared)
            texts += [*_loops(stmt, context, shared), _show_statement(stmt)]
    result = show_expr(query.result)
    is_plain = isinstance(query.result, typed.Var)
    if fast_sums:
        texts.insert(0, "-- sums of doubles are Spark's own: their last bits depend on the order")
    return "\n".join([*texts, *([] if is_plain else [f"-- then, here: {result}"])])


def _loops(
    stmt: Statement, context: Callable[[], Context], shared: dict[int, Term]
) -> Iterator[str]:
    for name, loop in stmt.repeats:
        yield f"-- {name}: a loop, inside one task while its inputs are small and its rows are few;"
        yield "-- else each step is one text over the rows of the step before"
        views = {v.number: _view(v) for v in loop.variables}
        for variable, term in zip(loop.variables, loop.step, strict=True):
            step = statement(term, context(), shared, views, "packed")
            yield f"-- step of {variable.name}\n{_show_statement(step)}"


def _view(variable: typed.Variable) -> LoweredRelation:
    row = element(Repeat((variable,), (), (), (), None, 0))
    return LoweredRelation(f"loop_{variable.number}", Cell(column("value"), row))


def _show_statement(stmt: Statement) -> str:
    views = [
        f"-- {name}: {show_term(scan)}{' (whole rows, some may be null)' if packed else ''}"
        for name, scan in stmt.sources
        for packed in (is_packed(scan),)
    ]
    picks = [
        f"-- {name}.{field} is picked where rows are parsed: {show_expr(expr)}"
        for name, scan in stmt.sources
        if scan.picks is not None
        for field, expr in scan.picks.fields
    ]
    calls = [
        f"-- {call.name} runs in Python ({call.reason}): {show_expr(call.body)}"
        for call in stmt.python_calls
    ]
    functions = [name for name in SQL_FUNCTIONS if f"{name}(" in stmt.text]
    called = [f"-- {', '.join(functions)}: exact, rounded once"] if functions else []
    return "\n".join([*views, *picks, *calls, *called, stmt.text])
