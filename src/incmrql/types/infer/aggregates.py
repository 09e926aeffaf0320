"""Aggregates, built in and declared: `sum(xs)`, and `sum(x.A * x.B)` after a group by.

After a group by, row variables are bags, so `x.A * x.B` has no type.  An aggregate whose argument
does not type over the bags is read row by row: every row variable is bound to its value in one row
of the group, and the aggregate ranges over the values of all rows.  An argument that does type
over the bags keeps that meaning; the exception is `+`, which joins collections only where the
argument does not type row by row either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from incmrql.errors import Diagnostic
from incmrql.syntax import ast
from incmrql.types import builtins, typed
from incmrql.types.infer.operators import collection
from incmrql.types.lattice import castable
from incmrql.types.model import DOUBLE, NOTHING, Collection, Record, Tuple, Type, bag, is_numeric
from incmrql.types.resolve import fit, parameter_names, refuse_repeated, resolve_type, widen
from incmrql.types.scope import GroupRows, Inference, MacroArgument, Scope
from incmrql.types.walk import substitute

# --- Functions as values ---


def function_value(
    inference: Inference, expr: ast.Expr, scope: Scope, count: int
) -> typed.Lambda | None:
    """The function that an argument is: a lambda, or the name of one that is declared."""
    match expr:
        case ast.Lambda():
            found = infer_lambda(inference, expr, scope)
        case ast.Name(name) if isinstance(entry := scope.names.get(name), MacroArgument):
            with inference.at(entry.place):
                return function_value(inference, entry.expr, entry.scope, count)
        case ast.Name(name) if name in inference.functions:
            head = inference.functions[name]
            own = tuple(inference.variable(p.name, p.type) for p in head.parameters)
            arguments = tuple(typed.Var(v, type=v.type, span=expr.span) for v in own)
            body = typed.Call(name, arguments, type=head.result, span=expr.span)
            found = typed.Lambda(own, body)
        case _:
            message = "a function is wanted here"
            hint = r"Write a lambda, \(x: int, y: int): int. x + y, or the name of a function."
            inference.problem("T601", expr.span, message, "not a function", hint)
            return None
    if len(found.parameters) != count:
        takes = len(found.parameters)
        message = f"a function of {counted(count, 'value')} is wanted here, and this takes {takes}"
        hint = "Write a lambda with as many parameters."
        inference.problem("T601", expr.span, message, f"takes {takes}", hint)
        return None
    return found


def infer_lambda(inference: Inference, expr: ast.Lambda, scope: Scope) -> typed.Lambda:
    r"""`\(x: int): int. e`."""
    variables = tuple(
        inference.variable(p.name, resolve_type(inference, p.type)) for p in expr.parameters
    )
    names = [parameter.name for parameter in expr.parameters]
    places = parameter_names(expr.parameters)
    refuse_repeated(inference, names, "parameters", expr.span, places)
    result = resolve_type(inference, expr.result)
    body = inference.infer(expr.body, scope.bind_variables(variables))
    return typed.Lambda(variables, fit(inference, body, result, "the result of this lambda"))


def misplaced_function(inference: Inference, expr: ast.Expr) -> typed.Expr:
    """The problem of a lambda that is not an argument."""
    message = "a lambda can only be an argument of fold, of an aggregation or of a macro"
    hint = "Declare a function: function f(x: int): int { … };"
    return inference.problem("T601", expr.span, message, "here", hint)


def counted(count: int, noun: str) -> str:
    """`1 value`, `2 values`, `no values`."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def wrong_count(inference: Inference, call: ast.Call, wanted: str) -> typed.Expr:
    """The problem of a call with too few or too many arguments."""
    given = len(call.arguments)
    found = f"{given} is given" if given == 1 else f"{given or 'none'} are given"
    message = f'"{call.function}" takes {wanted}, and {found}'
    return inference.problem("T307", call.span, message, "wrong number of arguments")


# --- Aggregates ---


def infer_aggregate(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """`sum(e)`, `percentile(e, p)` and the other built-in aggregates."""
    name = call.function
    wanted = 2 if name == "percentile" else 1
    if len(call.arguments) != wanted:
        for argument in call.arguments:
            inference.infer(argument.value, scope)
        two = "1 collection or 2 values" if name in ("min", "max") else counted(wanted, "value")
        return wrong_count(inference, call, two)
    if isinstance(call.arguments[0].value, ast.Quantifier) and name in ("some", "all"):
        # `some(all x in X: p)`: the quantifier in parentheses
        return inference.infer(call.arguments[0].value, scope)
    return _over_bags_or_rows(inference, call, scope)


def infer_user_aggregate(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """A call of an aggregation that the script declares."""
    if len(call.arguments) != 1:
        return wrong_count(inference, call, "1 collection")
    return _over_bags_or_rows(inference, call, scope)


# --- over the bags of a group, or row by row -----------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One reading of an aggregate, and the problems with it."""

    node: typed.Expr
    problems: tuple[Diagnostic, ...]
    inside: bool
    """Whether a problem is in the argument, not in what the aggregate makes of it."""
    fits: bool = True
    """Whether each row has a single value, not a collection."""


def _over_bags_or_rows(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    if scope.group is None:
        return _aggregated(inference, call, inference.infer(_first(call), scope), scope)
    with _addition_of_collections(inference, allowed=False):
        over_bags = _attempt(inference, call, scope)
    if not over_bags.problems:
        return over_bags.node
    by_rows = _attempt(inference, call, scope, scope.group)
    if by_rows.fits and not by_rows.problems:
        return by_rows.node
    if inference.adds_collections:
        with_addition = _attempt(inference, call, scope)
        if not with_addition.problems:
            return with_addition.node
    shown = by_rows if over_bags.inside and by_rows.fits else over_bags
    inference.problems += shown.problems
    return shown.node


@contextmanager
def _addition_of_collections(inference: Inference, *, allowed: bool) -> Iterator[None]:
    outer, inference.adds_collections = inference.adds_collections, allowed
    yield
    inference.adds_collections = outer


def _attempt(
    inference: Inference, call: ast.Call, scope: Scope, rows: GroupRows | None = None
) -> _Attempt:
    """The aggregate over the bags of a group or over `rows`; its problems are not noted yet."""
    before = len(inference.problems)
    if rows is None:
        operand = inference.infer(_first(call), scope)
    else:
        operand = _row_by_row(inference, _first(call), scope, rows)
    inside = len(inference.problems) > before
    node = _aggregated(inference, call, operand, scope)
    problems = tuple(inference.problems[before:])
    del inference.problems[before:]
    values = operand.type
    nested = isinstance(values, Collection) and isinstance(values.element, Collection)
    return _Attempt(node, problems, inside, rows is None or not nested)


def _row_by_row(
    inference: Inference, argument: ast.Expr, scope: Scope, rows: GroupRows
) -> typed.Expr:
    """The bag of the argument's values, one for each row of the group."""
    in_view = [row for row, many in rows.lifted if scope.names.get(row.name) is many]
    own = {row.name: inference.variable(row.name, row.type) for row in in_view}
    body = inference.infer(argument, scope.ungrouped().bind(own.items()))
    element = rows.partition.type
    assert isinstance(element, Collection)
    record = inference.variable("row", element.element)
    one = typed.Var(record, type=record.type, span=argument.span)
    fields: dict[typed.Variable, typed.Expr] = {
        variable: typed.Field(one, name, type=variable.type, span=argument.span)
        for name, variable in own.items()
    }
    group = typed.Var(rows.partition, type=rows.partition.type, span=argument.span)
    return typed.MapOver(record, group, substitute(body, fields), False, type=bag(body.type),
                         span=argument.span)  # fmt: skip


def _first(call: ast.Call) -> ast.Expr:
    return call.arguments[0].value


# --- what an aggregate makes of a collection -----------------------------------------------


def _aggregated(
    inference: Inference, call: ast.Call, argument: typed.Expr, scope: Scope
) -> typed.Expr:
    name = call.function
    operand = collection(inference, argument, f'the argument of "{name}"')
    assert isinstance(operand.type, Collection)
    if name in inference.aggregations:
        return _declared(inference, call, operand, operand.type.kind)
    fraction = inference.infer(call.arguments[1].value, scope) if len(call.arguments) > 1 else None
    found = builtins.aggregate_type(name, operand.type.element)
    if found is None and inference.spoiled(operand.type.element):
        return typed.Const(None, type=NOTHING, span=call.span)
    if found is None:
        needs = "conditions" if name in ("some", "all") else "numbers"
        message = f'"{name}" applies to {needs}, and the elements are {operand.type.element}'
        hint = _elements_hint(operand.type.element, needs)
        return inference.problem("T309", call.span, message, f"of {operand.type.element}", hint)
    element, result = found
    fitted = widen(operand, Collection(operand.type.kind, element))
    extra = None if fraction is None else fit(inference, fraction, DOUBLE, "the fraction")
    return typed.Aggregate(name, fitted, extra, type=result, span=call.span)


def _declared(inference: Inference, call: ast.Call, operand: typed.Expr, kind: str) -> typed.Expr:
    aggregation = inference.aggregations[call.function]
    wanted = Collection("list" if kind == "list" else "bag", aggregation.element)
    fitted = fit(inference, operand, wanted, f'the argument of "{call.function}"')
    return typed.UserAggregate(call.function, fitted, type=aggregation.type, span=call.span)


def _elements_hint(element: Type, needs: str) -> str:
    """What to do with elements that an aggregate has no use for."""
    match element:
        case Record(fields):
            fitting = [name for name, t in fields if is_numeric(t) == (needs == "numbers")]
            return f"Take one field of them, such as xs.{fitting[0]}." if fitting else ""
        case Tuple():
            return "Take one component of them, such as xs#0."
        case _ if needs == "conditions":
            return "Compare them first: some x in xs: x > 0."
        case _ if castable(element, DOUBLE):
            return "Convert them first: select x as double from x in xs."
        case _:
            return ""
