"""Type inference of expressions: dispatch on the kind of node.

A problem does not stop the inference: a placeholder takes the place of the expression, so that
all problems of a script are reported at once.
"""

from __future__ import annotations

import math
from typing import assert_never

from incmrql.errors import nearest
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.builtins import NAMES
from incmrql.types.infer.access import (
    infer_component,
    infer_index,
    infer_project,
    infer_slice,
    infer_tree_step,
)
from incmrql.types.infer.aggregates import misplaced_function
from incmrql.types.infer.calls import infer_call
from incmrql.types.infer.conversions import convert
from incmrql.types.infer.operators import (
    infer_binary,
    infer_collection,
    infer_if,
    infer_range,
    infer_unary,
)
from incmrql.types.infer.patterns import LITERAL_TYPES
from incmrql.types.infer.queries import infer_case, infer_quantifier, infer_repeat, infer_select
from incmrql.types.infer.sources import infer_registered_source, infer_source
from incmrql.types.infer.templates import infer_template
from incmrql.types.model import DOUBLE, STRING, Record, Tuple, list_of
from incmrql.types.resolve import resolve_type
from incmrql.types.scope import Inference, MacroArgument, Scope

_CONSTANTS = {"PI": math.pi, "NaN": math.nan, "Infinity": math.inf}
_AS_HINT = '"as" converts to a type; to name a part of a row, write a record: < y: x >.'


def infer_expr(inference: Inference, expr: ast.Expr, scope: Scope) -> typed.Expr:
    """Type an expression; one that repeats a group-by key becomes the variable of the key."""
    if scope.keys and (key := scope.key_for(expr)) is not None:
        return typed.Var(key, type=key.type, span=expr.span)
    match expr:
        case ast.Literal(value, kind):
            return typed.Const(value, type=LITERAL_TYPES[kind], span=expr.span)
        case ast.Name():
            return _name(inference, expr, scope)
        case ast.TupleExpr(items):
            parts = tuple(inference.infer(item, scope) for item in items)
            types = Tuple(tuple(part.type for part in parts))
            return typed.MakeTuple(parts, type=types, span=expr.span)
        case ast.BagExpr(items):
            return infer_collection(inference, items, "bag", scope, expr.span)
        case ast.ListExpr(items):
            return infer_collection(inference, items, "list", scope, expr.span)
        case ast.RecordExpr():
            return _record(inference, expr, scope)
        case ast.Call("source" | "stream"):
            return infer_source(inference, expr, scope)
        case ast.Call():
            return infer_call(inference, expr, scope)
        case ast.Binary():
            return infer_binary(inference, expr, scope)
        case ast.Unary():
            return infer_unary(inference, expr, scope)
        case ast.Project():
            return infer_project(inference, expr, scope)
        case ast.ProjectAll() | ast.Attribute() | ast.AllAttributes():
            return infer_tree_step(inference, expr, scope)
        case ast.Component():
            return infer_component(inference, expr, scope)
        case ast.Index():
            return infer_index(inference, expr, scope)
        case ast.Slice():
            return infer_slice(inference, expr, scope)
        case ast.Cast(subject, tree):
            target = resolve_type(inference, tree, _AS_HINT)
            return convert(inference, inference.infer(subject, scope), target, expr.span)
        case ast.Range():
            return infer_range(inference, expr, scope)
        case ast.If():
            return infer_if(inference, expr, scope)
        case ast.Let(pattern, value, body):
            return infer_case(inference, value, ((pattern, body),), scope, expr.span)
        case ast.Case(subject, branches):
            pairs = tuple((branch.pattern, branch.body) for branch in branches)
            return infer_case(inference, subject, pairs, scope, expr.span)
        case ast.Lambda():
            return misplaced_function(inference, expr)
        case ast.Repeat():
            return infer_repeat(inference, expr, scope)
        case ast.Select():
            return infer_select(inference, expr, scope)
        case ast.Quantifier():
            return infer_quantifier(inference, expr, scope)
        case ast.Trace(inner):
            node = inference.infer(inner, scope)
            return typed.Trace(node, inner.span.text, type=node.type, span=expr.span)
        case ast.Template():
            return infer_template(inference, expr, scope)
        case ast.XPath() | ast.TypeExpr():
            what = "a path" if isinstance(expr, ast.XPath) else "a type"
            message = f"{what} can only be an argument of a source"
            hint = "Write it as an argument of source(…) or stream(…)."
            return inference.problem("T607", expr.span, message, "here", hint)
        case _:
            assert_never(expr)


def _name(inference: Inference, expr: ast.Name, scope: Scope) -> typed.Expr:
    """A local name, a named query, a registered source or a constant, in this order."""
    name = expr.name
    entry = scope.names.get(name)
    if isinstance(entry, MacroArgument):
        return inference.infer_argument(entry)
    if entry is not None:
        return typed.Var(entry, type=entry.type, span=expr.span)
    definition = inference.query_named(name)
    if definition is not None:
        if definition.stored:
            return typed.Stored(definition.key, type=definition.type, span=expr.span)
        return typed.Global(definition.key, type=definition.type, span=expr.span)
    if name in inference.catalog.registered:
        return infer_registered_source(inference, name, expr.span)
    if name == "args":
        return typed.ScriptArguments(type=list_of(STRING), span=expr.span)
    if name in _CONSTANTS:
        return typed.Const(_CONSTANTS[name], type=DOUBLE, span=expr.span)
    return _unknown_name(inference, expr, scope)


def _unknown_name(inference: Inference, expr: ast.Name, scope: Scope) -> typed.Expr:
    name = expr.name
    if name in NAMES or name in inference.functions or name in inference.macros:
        message = f'"{name}" is a function and needs its arguments'
        return inference.problem("T101", expr.span, message, "no arguments", f"Write {name}(…).")
    queries = filter(inference.query_named, inference.history)
    candidates = [*scope.names, *queries, *inference.catalog.registered, "args", *_CONSTANTS]
    hint = _defined_later(inference, expr) or nearest(name, candidates)
    if not hint and name == "partition":
        hint = "It exists only after group by, as the bag of all rows of the group."
    message = f'there is no "{name}" here'
    return inference.problem("T101", expr.span, message, "unknown name", hint)


def _defined_later(inference: Inference, expr: ast.Name) -> str:
    """A hint for a name that is defined by the item itself or later in the script."""
    name = expr.name
    for span in inference.definitions.get(name, []):
        if span.source != expr.span.source or span.end < expr.span.start:
            continue
        if span.start <= expr.span.start:
            instead = f"store {name} := … keeps a value, and repeat is a loop"
            return f"A named query cannot use itself: {instead}."
        line, _ = span.source.locate(span.start)
        return f'"{name}" is defined later, in line {line}: move it up.'
    return ""


def _record(inference: Inference, expr: ast.RecordExpr, scope: Scope) -> typed.Expr:
    seen: dict[str, typed.Expr] = {}
    for name, value in expr.fields:
        node = inference.infer(value, scope)
        if name in seen:
            message = f'the field "{name}" occurs twice in this record'
            inference.problem("T402", value.span, message, "again", "Choose another name.")
        seen[name] = node
    types = Record(tuple((name, node.type) for name, node in seen.items()))
    return typed.MakeRecord(tuple(seen.values()), type=types, span=expr.span)
