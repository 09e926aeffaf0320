"""From analysed plans to a script: one item for each query, named queries for what they share.

    plan of Spark  ->  bag of tuples in the typed tree

Names of columns and their types in Spark stand beside the item, as rows are tuples.  An order at
the top says how the rows are shown, and is no part of the answer that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incmrql.algebra.rows import Names
from incmrql.catalyst.expressions import convert_expression
from incmrql.catalyst.nodes import AnalyzedPlan, PlanNode
from incmrql.catalyst.operators.dispatch import convert_plan
from incmrql.catalyst.operators.sharing import repeated_views
from incmrql.catalyst.operators.subqueries import subquery_value
from incmrql.catalyst.refusals import Refusals, Refused
from incmrql.catalyst.relation import Relation
from incmrql.catalyst.scope import ColumnScope, Conversion, Leaves
from incmrql.catalyst.types import model_type
from incmrql.errors import Diagnostic, QueryError, SourceText, in_text_order
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """A column by which the rows of an answer are shown in order."""

    position: int
    descending: bool


@dataclass(frozen=True, slots=True)
class ConvertedQuery:
    """A query in the typed tree.

    `order` is how its rows are shown, as far as it is by columns of the answer.  `notes` are what
    the user should know about it.
    """

    expr: typed.Expr
    columns: tuple[str, ...]
    schema: PlanNode
    order: tuple[ColumnOrder, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConvertedScript:
    """A script that answers some queries, and the queries in the order of its items."""

    script: typed.Script
    queries: tuple[ConvertedQuery, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A query to convert: its plan, what its leaves are, and the name of its text in errors."""

    plan: AnalyzedPlan
    leaves: Leaves
    name: str = "<query>"


def convert_script(questions: Sequence[Question], kind: typed.ItemKind = "incr") -> ConvertedScript:
    """The script with one item for each query; raises `QueryError` with all refusals."""
    problems: list[Diagnostic] = []
    converted: list[ConvertedQuery] = []
    names = Names(0)
    queries: dict[str, typed.Expr] = {}
    views: dict[str, typed.Expr] = {}
    with deep_recursion():
        repeated = repeated_views(question.plan.plan for question in questions)
        for question in questions:
            conversion = _conversion(question, names)
            conversion.queries, conversion.views, conversion.repeated = queries, views, repeated
            try:
                converted.append(_convert(question.plan, conversion))
            except QueryError as error:
                problems += error.problems
    if problems:
        raise QueryError(*in_text_order(problems))
    items = tuple(
        typed.ScriptItem(kind, query.expr, incremental=kind == "incr") for query in converted
    )
    script = typed.Script(items, queries, {}, {}, {}, {}, {})
    return ConvertedScript(script, tuple(converted))


def _conversion(question: Question, names: Names) -> Conversion:
    plan = question.plan
    source = SourceText(plan.text, question.name) if plan.text else None
    return Conversion(
        question.leaves,
        convert_plan,
        convert_expression,
        subquery_value,
        names,
        Refusals(source),
        plan.settings,
    )


def _convert(plan: AnalyzedPlan, conversion: Conversion) -> ConvertedQuery:
    relation = convert_plan(plan.plan, ColumnScope(conversion))
    for field in plan.schema["fields"]:
        try:
            model_type(field["dataType"])
        except Refused as refused:
            message = f'the column "{field["name"]}" of the answer: {refused.message}'
            hint = refused.hint or "Leave the column out, or cast it."
            conversion.refusals.add(Refused(refused.code, message, hint), plan.plan)
    conversion.refusals.raise_if_any()
    columns = tuple(str(field["name"]) for field in plan.schema["fields"])
    notes = tuple(conversion.notes)
    return ConvertedQuery(relation.bag, columns, plan.schema, _shown_order(relation), notes)


def _shown_order(relation: Relation) -> tuple[ColumnOrder, ...]:
    """The sort keys that are columns of the answer, up to the first that is not."""
    order: list[ColumnOrder] = []
    values = relation.values
    for key in relation.order:
        if key.expr not in values:
            break
        order.append(ColumnOrder(values.index(key.expr), key.descending))
    return tuple(order)
