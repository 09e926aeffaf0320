"""Type inference of aggregates: `sum(xs)`, and `sum(x.A * x.B)` after a group by.

After a group by, row variables are bags, so `x.A * x.B` has no type.  If the argument of an
aggregate has no type over the bags, it is evaluated row by row: each row variable is bound to its
value in one row of the group, and the aggregate ranges over the results for all rows.  An argument
that has a type over the bags keeps that meaning.  The exception is `+`, which joins collections
only if the argument has no type row by row either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from incmrql.errors import Diagnostic
from incmrql.syntax import ast
from incmrql.types import builtins, typed
from incmrql.types.infer.conversions import fit, widen
from incmrql.types.infer.operators import collection
from incmrql.types.lattice import castable
from incmrql.types.model import DOUBLE, Collection, Record, Tuple, Type, bag, is_numeric
from incmrql.types.resolve import parameter_names, report_duplicates, resolve_type
from incmrql.types.scope import GroupRows, Inference, MacroArgument, Scope, placeholder
from incmrql.types.walk import substitute

# --- Functions as arguments ---


def function_value(
    inference: Inference, expr: ast.Expr, scope: Scope, count: int
) -> typed.Lambda | None:
    """The function of `count` parameters that an argument is: a lambda or a function's name."""
    match expr:
        case ast.Lambda():
            function = infer_lambda(inference, expr, scope)
        case ast.Name(name) if isinstance(entry := scope.names.get(name), MacroArgument):
            with inference.at(entry.place):
                return function_value(inference, entry.expr, entry.scope, count)
        case ast.Name(name) if name in inference.functions:
            head = inference.functions[name]
            parameters = tuple(inference.variable(p.name, p.type) for p in head.parameters)
            arguments = tuple(typed.Var(v, type=v.type, span=expr.span) for v in parameters)
            body = typed.Call(name, arguments, type=head.result, span=expr.span)
            function = typed.Lambda(parameters, body)
        case _:
            message = "expected a function here"
            hint = r"Write a lambda, \(x: int, y: int): int. x + y, or the name of a function."
            inference.problem("T601", expr.span, message, "not a function", hint)
            return None
    takes = len(function.parameters)
    if takes != count:
        message = f"expected a function of {count_of(count, 'value')} here, not of {takes}"
        hint = f"Write a lambda with {count_of(count, 'parameter')}."
        inference.problem("T601", expr.span, message, f"takes {takes}", hint)
        return None
    return function


def infer_lambda(inference: Inference, expr: ast.Lambda, scope: Scope) -> typed.Lambda:
    r"""`\(x: int): int. e`."""
    variables = tuple(
        inference.variable(p.name, resolve_type(inference, p.type)) for p in expr.parameters
    )
    names = [parameter.name for parameter in expr.parameters]
    spans = parameter_names(expr.parameters)
    report_duplicates(inference, names, "parameters", expr.span, spans)
    result = resolve_type(inference, expr.result)
    body = inference.infer(expr.body, scope.bind_variables(variables))
    return typed.Lambda(variables, fit(inference, body, result, "the result of this lambda"))


def misplaced_function(inference: Inference, expr: ast.Expr) -> typed.Expr:
    """Report a lambda that is not an argument."""
    message = "a lambda can only be an argument of fold, of an aggregation or of a macro"
    hint = "Declare a function: function f(x: int): int { … };"
    return inference.problem("T601", expr.span, message, "here", hint)


def count_of(count: int, noun: str) -> str:
    """`1 value`, `2 values`, `no values`."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def wrong_count(inference: Inference, call: ast.Call, wanted: str) -> typed.Expr:
    """Report a call with too few or too many arguments."""
    given = len(call.arguments)
    shown = "1 is given" if given == 1 else f"{given or 'none'} are given"
    message = f'"{call.function}" takes {wanted}, but {shown}'
    return inference.problem("T307", call.span, message, "wrong number of arguments")


# --- Aggregates ---


def infer_aggregate(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """`sum(e)`, `percentile(e, p)` and the other built-in aggregates."""
    name = call.function
    expected_count = 2 if name == "percentile" else 1
    if len(call.arguments) != expected_count:
        for argument in call.arguments:
            inference.infer(argument.value, scope)
        either = (
            "1 collection or 2 values"
            if name in ("min", "max")
            else count_of(expected_count, "value")
        )
        return wrong_count(inference, call, either)
    if isinstance(call.arguments[0].value, ast.Quantifier) and name in ("some", "all"):
        # `some(all x in X: p)`: the quantifier in parentheses
        return inference.infer(call.arguments[0].value, scope)
    return _over_bags_or_rows(inference, call, scope)


def infer_user_aggregate(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """A call of an aggregation that the script declares."""
    if len(call.arguments) != 1:
        return wrong_count(inference, call, "1 collection")
    return _over_bags_or_rows(inference, call, scope)


# --- Over the bags of a group, or row by row ---


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An aggregate typed in one of the two ways, and the problems of doing so."""

    node: typed.Expr
    problems: tuple[Diagnostic, ...]
    argument_fails: bool
    """True if the argument itself has a problem, not only the aggregate over it."""
    is_nested: bool
    """True if the argument is a collection for each row, where a single value is expected."""


def _over_bags_or_rows(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    if scope.group is None:
        operand = inference.infer(call.arguments[0].value, scope)
        return _aggregate(inference, call, operand, scope)
    with _without_collection_sums(inference):
        over_bags = _attempt(inference, call, scope)
    if not over_bags.problems:
        return over_bags.node
    by_rows = _attempt(inference, call, scope, scope.group)
    if not by_rows.is_nested and not by_rows.problems:
        return by_rows.node
    if inference.adds_collections:
        with_sums = _attempt(inference, call, scope)
        if not with_sums.problems:
            return with_sums.node
    reported = by_rows if over_bags.argument_fails and not by_rows.is_nested else over_bags
    inference.problems += reported.problems
    return reported.node


@contextmanager
def _without_collection_sums(inference: Inference) -> Iterator[None]:
    """Do not let `+` join collections inside the `with` block."""
    outer, inference.adds_collections = inference.adds_collections, False
    yield
    inference.adds_collections = outer


def _attempt(
    inference: Inference, call: ast.Call, scope: Scope, rows: GroupRows | None = None
) -> _Attempt:
    """The aggregate over `rows`, or over the bags if that is None; reports no problems yet."""
    before = len(inference.problems)
    argument = call.arguments[0].value
    if rows is None:
        operand = inference.infer(argument, scope)
    else:
        operand = _row_by_row(inference, argument, scope, rows)
    argument_fails = len(inference.problems) > before
    node = _aggregate(inference, call, operand, scope)
    problems = tuple(inference.problems[before:])
    del inference.problems[before:]
    values = operand.type
    is_nested = isinstance(values, Collection) and isinstance(values.element, Collection)
    return _Attempt(node, problems, argument_fails, rows is not None and is_nested)


def _row_by_row(
    inference: Inference, argument: ast.Expr, scope: Scope, rows: GroupRows
) -> typed.Expr:
    """The bag of the argument's values, one for each row of the group."""
    visible = [row for row, values in rows.lifted if scope.names.get(row.name) is values]
    variables = {row.name: inference.variable(row.name, row.type) for row in visible}
    body = inference.infer(argument, scope.without_group().bind(variables.items()))
    element = rows.partition.type
    assert isinstance(element, Collection)
    record = inference.variable("row", element.element)
    row_value = typed.Var(record, type=record.type, span=argument.span)
    fields: dict[typed.Variable, typed.Expr] = {
        variable: typed.Field(row_value, name, type=variable.type, span=argument.span)
        for name, variable in variables.items()
    }
    group = typed.Var(rows.partition, type=rows.partition.type, span=argument.span)
    return typed.MapOver(record, group, substitute(body, fields), False, type=bag(body.type),
                         span=argument.span)  # fmt: skip


def _aggregate(
    inference: Inference, call: ast.Call, argument: typed.Expr, scope: Scope
) -> typed.Expr:
    """The aggregate of a collection: built in, or declared by the script."""
    name = call.function
    operand = collection(inference, argument, f'the argument of "{name}"')
    assert isinstance(operand.type, Collection)
    kind, element = operand.type.kind, operand.type.element
    if name in inference.aggregations:
        aggregation = inference.aggregations[name]
        expected = Collection(kind, aggregation.element)
        fitted = fit(inference, operand, expected, f'the argument of "{name}"')
        return typed.UserAggregate(name, fitted, type=aggregation.type, span=call.span)
    fraction = inference.infer(call.arguments[1].value, scope) if len(call.arguments) > 1 else None
    types = builtins.aggregate_type(name, element)
    if types is None and inference.has_error(element):
        return placeholder(call.span)
    if types is None:
        needs = "conditions" if name in ("some", "all") else "numbers"
        message = f'"{name}" needs a collection of {needs}, not of {element}'
        hint = _elements_hint(element, needs)
        return inference.problem("T309", call.span, message, f"of {element}", hint)
    summand, result = types
    fitted = widen(operand, Collection(kind, summand))
    extra = None if fraction is None else fit(inference, fraction, DOUBLE, "the fraction")
    return typed.Aggregate(name, fitted, extra, type=result, span=call.span)


def _elements_hint(element: Type, needs: str) -> str:
    """A hint what to do with elements that do not fit an aggregate."""
    match element:
        case Record(fields):
            fitting = [name for name, t in fields if is_numeric(t) == (needs == "numbers")]
            return f"Take one of their fields, such as xs.{fitting[0]}." if fitting else ""
        case Tuple():
            return "Take one of their components, such as xs#0."
        case _ if needs == "conditions":
            return "Compare the elements first: some x in xs: x > 0."
        case _ if castable(element, DOUBLE):
            return "Convert the elements first: select x as double from x in xs."
        case _:
            return ""
