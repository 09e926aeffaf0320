"""Taking values apart: fields, components, navigation in trees, indices, slices.

All of it maps over collections: `xs.A` is the collection of the A's.
"""

from __future__ import annotations

from collections.abc import Callable

from incmrql.errors import Span, nearest
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.lattice import comparable
from incmrql.types.model import (
    ANY,
    JSON,
    LONG,
    NOTHING,
    STRING,
    XML,
    Collection,
    Nothing,
    Record,
    Tuple,
    Type,
    bag,
    is_integer,
    list_of,
)
from incmrql.types.resolve import cast_hint, fit, widen
from incmrql.types.scope import Inference, Scope

Access = Callable[[typed.Expr], typed.Expr]


def infer_project(inference: Inference, expr: ast.Project, scope: Scope) -> typed.Expr:
    """`e.name`."""
    subject = inference.infer(expr.subject, scope)
    return project(inference, subject, expr.name, expr.name_span, expr.span)


def project(
    inference: Inference, subject: typed.Expr, name: str, place: Span, span: Span
) -> typed.Expr:
    """The field, children, member or look-up that `.name` means for this subject."""
    match subject.type:
        case Record() as record:
            found = record.field(name)
            if found is None:
                fields = ", ".join(record.names)
                hint = f"{nearest(name, record.names)}  Fields are: {fields}.".strip()
                message = f'the record has no field "{name}"'
                return inference.problem("T201", place, message, "no such field", hint)
            return typed.Field(subject, name, type=found, span=span)
        case type_ if type_ == XML:
            return typed.Navigate("children", subject, name, type=list_of(XML), span=span)
        case type_ if type_ == JSON:
            return typed.Navigate("member", subject, name, type=JSON, span=span)
        case type_ if type_ == ANY:
            return typed.Navigate("dynamic", subject, name, type=ANY, span=span)
        case Nothing():
            return subject
        case Collection(_, Tuple((key, value))) if key == STRING:
            wanted = typed.Const(name, type=STRING, span=place)
            return typed.LookUp(subject, wanted, type=value, span=span)
        case Collection():
            return over(
                inference, subject, lambda one: project(inference, one, name, place, span), span
            )
        case other:
            hint = ""
            if isinstance(other, Tuple):
                hint = "Components of a tuple are numbered from 0: t#0."
            message = f'a value of type {other} has no field "{name}"'
            return inference.problem("T202", place, message, f"of {other}", hint)


def over(inference: Inference, subject: typed.Expr, access: Access, span: Span) -> typed.Expr:
    """`access` of every element; lists of children are put together, not nested."""
    assert isinstance(subject.type, Collection)
    variable = inference.variable("each", subject.type.element)
    one = typed.Var(variable, type=variable.type, span=subject.span)
    body = access(one)
    navigates = isinstance(body, typed.Navigate | typed.MapOver) and _is_trees(body)
    inner = body.type.element if navigates and isinstance(body.type, Collection) else body.type
    wanted = Collection(subject.type.kind, inner)
    return typed.MapOver(variable, subject, body, navigates, type=wanted, span=span)


def _is_trees(node: typed.Expr) -> bool:
    """Whether a step from a tree gave a collection, which flattens."""
    match node:
        case typed.Navigate("children" | "attributes"):
            return True
        case typed.MapOver(body=body, flatten=flatten):
            return flatten or _is_trees(body)
        case _:
            return False


def infer_tree_step(
    inference: Inference,
    expr: ast.ProjectAll | ast.Attribute | ast.AllAttributes,
    scope: Scope,
) -> typed.Expr:
    """`e.*`, `e.@name`, `e.@*`."""
    subject = inference.infer(expr.subject, scope)

    def step(one: typed.Expr) -> typed.Expr:
        if isinstance(one.type, Collection):
            return over(inference, one, step, expr.span)
        if one.type == NOTHING:
            return one
        if one.type != XML:
            message = f"only XML has children and attributes, and this is {one.type}"
            hint = "Fields of a record are taken by name: r.A."
            shown = hint if isinstance(one.type, Record) else ""
            return inference.problem("T202", expr.span, message, f"is {one.type}", shown)
        match expr:
            case ast.ProjectAll():
                return typed.Navigate("children", one, "*", type=list_of(XML), span=expr.span)
            case ast.Attribute(_, name):
                return typed.Navigate("attribute", one, name, type=STRING, span=expr.span)
            case ast.AllAttributes():
                pairs: Type = bag(Tuple((STRING, STRING)))
                return typed.Navigate("attributes", one, "*", type=pairs, span=expr.span)

    return step(subject)


def infer_component(inference: Inference, expr: ast.Component, scope: Scope) -> typed.Expr:
    """`e#i`."""

    def step(one: typed.Expr) -> typed.Expr:
        match one.type:
            case Tuple(items) if expr.index < len(items):
                found = items[expr.index]
                return typed.Item(one, expr.index, type=found, span=expr.span)
            case Tuple(items):
                message = f"a tuple of {len(items)} has no component {expr.index}"
                hint = f"Components are #0 to #{len(items) - 1}."
                return inference.problem("T203", expr.span, message, "no such component", hint)
            case Nothing():
                return one
            case Collection():
                return over(inference, one, step, expr.span)
            case other:
                message = f"{other} is not a tuple"
                hint = "Fields of a record are taken by name: r.A."
                shown = hint if isinstance(other, Record) else ""
                return inference.problem("T203", expr.span, message, f"is {other}", shown)

    return step(inference.infer(expr.subject, scope))


def infer_index(inference: Inference, expr: ast.Index, scope: Scope) -> typed.Expr:
    """`e[i]`: an element of a list, or a look-up in a collection of pairs."""
    subject, index = inference.infer(expr.subject, scope), inference.infer(expr.index, scope)
    counts = is_integer(index.type) or index.type == NOTHING
    match subject.type:
        case Collection("list", element) if counts:
            return typed.At(subject, widen(index, LONG), type=element, span=expr.span)
        case Collection(_, Tuple((key, value))):
            common = comparable(key, index.type)
            if common is None:
                message = f"the keys of this collection are {key}, and the index is {index.type}"
                hint = cast_hint(index, key)
                return inference.problem("T302", index.span, message, f"is {index.type}", hint)
            pairs = Collection("bag", Tuple((common, value)))
            return typed.LookUp(
                widen(subject, pairs), widen(index, common), type=value, span=expr.span
            )
        case type_ if type_ in (JSON, ANY) and (counts or index.type == STRING):
            wanted = LONG if counts else STRING
            return typed.At(subject, widen(index, wanted), type=type_, span=expr.span)
        case Nothing():
            return subject
        case Collection(_, Nothing()):
            return typed.Const(None, type=NOTHING, span=expr.span)
        case Collection("list", _):
            return fit(inference, index, LONG, "the index of a list")
        case other:
            hint = ""
            if isinstance(other, Collection):
                hint = "A bag has no positions: use order by, sort(…), or a bag of pairs."
            message = f"a value of type {other} cannot be indexed"
            return inference.problem("T204", expr.span, message, f"is {other}", hint)


def infer_slice(inference: Inference, expr: ast.Slice, scope: Scope) -> typed.Expr:
    """`e[i:j]`."""
    subject = inference.infer(expr.subject, scope)
    first, last = (
        fit(inference, inference.infer(bound, scope), LONG, "the bound of a slice")
        for bound in (expr.first, expr.last)
    )
    if subject.type == NOTHING:
        return subject
    if not (isinstance(subject.type, Collection) and subject.type.kind == "list"):
        message = f"only a list can be sliced, and this is {subject.type}"
        hint = "A bag has no positions: use order by or sort(…)."
        return inference.problem("T204", expr.span, message, f"is {subject.type}", hint)
    return typed.SliceOf(subject, first, last, type=subject.type, span=expr.span)
