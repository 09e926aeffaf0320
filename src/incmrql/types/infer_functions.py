"""Functions as values: lambdas, and names of functions, where a function is wanted."""

from __future__ import annotations

from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.resolve import fit, parameter_names, refuse_repeated, resolve_type
from incmrql.types.scope import Inference, MacroArgument, Scope


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
