"""Why something runs in Python, for people."""

from __future__ import annotations

from incmrql.types import typed


def why_not(
    expr: typed.PythonCall
    | typed.Navigate
    | typed.MakeData
    | typed.Repeat
    | typed.Trace
    | typed.Read,
) -> str:
    """Why a construct has no form in SQL."""
    match expr:
        case typed.PythonCall(name):
            return f'Python function "{name}"'
        case typed.Navigate():
            return "a step into a tree"
        case typed.MakeData(constructor):
            return f"a value of data type {constructor.owner}"
        case typed.Repeat():
            return "a loop inside a row"
        case typed.Trace():
            return "trace shows values as they are met"
        case typed.Read():
            return "a source inside a row"


def name_of(expr: typed.Expr) -> str:
    """What an expression is called where it has no native form."""
    match expr:
        case typed.Builtin(function):
            return function
        case typed.Arithmetic(op) | typed.Compare(op):
            return f"{op} on {expr.type}"
        case typed.Cast(operand) | typed.Widen(operand):
            return f"conversion from {operand.type} to {expr.type}"
        case _:
            return type(expr).__name__
