"""Maps, and functions of their entries.

A map is the list of its entries in the order in which they were put into it, as Spark's functions
show it.  So functions of maps are functions of lists, except that a new map must not have a key
twice, or null as a key: Spark then raises an error, or keeps the last value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.expressions.rules import (
    Rule,
    Rules,
    call,
    compare,
    const,
    constant_of,
    either,
    is_null,
    let,
    null,
    rule,
    type_of,
    when,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    LONG,
    STRING,
    Collection,
    Record,
    Type,
    entry_types,
    is_map,
    list_of,
    map_of,
)
from incmrql.values import encode

_POLICY: Final = "spark.sql.mapKeyDedupPolicy"
_PLAIN: Final = re.compile(r"[^\\\[\](){}.*+?^$|]+")
"""Delimiters that mean themselves as regular expressions."""


def entries_of(value: typed.Expr, node: PlanNode) -> typed.Expr:
    """The list of the entries of a map."""
    if not is_map(value.type):
        raise Refused("C104", f"{node.name} of {value.type} is not converted yet", node=node)
    assert isinstance(value.type, Collection)
    return typed.Widen(value, type=list_of(value.type.element))


def map_type(node: PlanNode) -> Collection:
    """The type of an expression that is a map."""
    type_ = type_of(node)
    assert isinstance(type_, Collection)
    return type_


def _as_map(entries: typed.Expr, type_: Collection) -> typed.Expr:
    """The map with these entries, whose keys are known to differ."""
    return typed.Widen(entries, type=type_)


def _new_map(entries: typed.Expr, type_: Collection, scope: ColumnScope) -> typed.Expr:
    """The map with these entries; a failure if a key is null, or there twice."""
    is_last = scope.settings.get(_POLICY, "EXCEPTION").upper() == "LAST_WIN"
    function = "spark.last_entries" if is_last else "spark.entries"
    return _as_map(call(function, [entries], list_of(type_.element), "ansi"), type_)


def _entry(key: typed.Expr, value: typed.Expr, type_: Collection) -> typed.Expr:
    key_type, value_type = entry_types(type_)
    return typed.MakeRecord(
        (_of_type(key, key_type), _of_type(value, value_type)), type=type_.element
    )


def _of_type(value: typed.Expr, type_: Type) -> typed.Expr:
    """A value of a type; a null literal may have none of its own."""
    return null(type_) if isinstance(value, typed.Const) and value.value is None else value


def _of_entries(name: str) -> Rule:
    """The keys or the values of a map."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        entries = entries_of(scope.expression(node["child"]), node)
        return _entry_parts(entries, name, scope)

    return rule(convert, "child")


def _entry_parts(entries: typed.Expr, name: str, scope: ColumnScope) -> typed.Expr:
    variable, entry = _variable(entries, scope)
    body = build.field(entry, name)
    return typed.MapOver(variable, entries, body, False, type=list_of(body.type))


def _variable(entries: typed.Expr, scope: ColumnScope) -> tuple[typed.Variable, typed.Expr]:
    assert isinstance(entries.type, Collection)
    variable = scope.names.variable("entry", entries.type.element)
    return variable, build.var(variable)


def _entries(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return entries_of(scope.expression(node["child"]), node)


def value_at(value: typed.Expr, key: typed.Expr, node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The value of a key; null if there is none."""
    entries = entries_of(value, node)
    assert isinstance(value.type, Collection)
    _, type_ = entry_types(value.type)

    def at(wanted: typed.Expr) -> typed.Expr:
        variable, entry = _variable(entries, scope)
        one = typed.MakeCollection((build.field(entry, "value"),), type=list_of(type_))
        none = typed.MakeCollection((), type=list_of(type_))
        body = when(compare("=", build.field(entry, "key"), wanted), one, none)
        hits = typed.MapOver(variable, entries, body, True, type=list_of(type_))
        return typed.At(hits, const(0, LONG), type=type_)

    return let(scope, key, at)


def _value(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    value, key = scope.expressions((node["child"], node["key"]))
    return value_at(value, key, node, scope)


def _create_map(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`map(k, v, ...)`."""
    parts, type_ = scope.expressions(node["children"]), map_type(node)
    pairs = [*zip(parts[::2], parts[1::2], strict=True)]
    items = tuple(_entry(key, value, type_) for key, value in pairs)
    entries = typed.MakeCollection(items, type=list_of(type_.element))
    if _differ([key for key, _ in pairs]):
        return _as_map(entries, type_)
    return _new_map(entries, type_, scope)


def _differ(keys: Sequence[typed.Expr]) -> bool:
    """Whether keys are constants that differ, none of them null."""
    values = [key.value for key in keys if isinstance(key, typed.Const) and key.value is not None]
    return len({encode(value) for value in values}) == len(keys)


def _from_arrays(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    type_ = map_type(node)
    arrays = scope.expressions((node["left"], node["right"]))
    pairs = call("spark.pair_up", arrays, list_of(type_.element), "ansi")
    return _new_map(pairs, type_, scope)


def _from_entries(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The map of an array of structs of two fields; null if one of the structs is."""
    type_ = map_type(node)

    def over(array: typed.Expr) -> typed.Expr:
        if not (isinstance(array.type, Collection) and isinstance(array.type.element, Record)):
            raise Refused("C104", f"{node.name} of {array.type} is not converted yet", node=node)
        one, two = array.type.element.names
        variable, pair = _variable(array, scope)
        body = _entry(build.field(pair, one), build.field(pair, two), type_)
        entries = typed.MapOver(variable, array, body, False, type=list_of(type_.element))
        other, struct = _variable(array, scope)
        tests = typed.MapOver(other, array, is_null(struct), False, type=list_of(BOOL))
        missing = typed.Aggregate("some", tests, type=BOOL)
        no_map = either([is_null(array), missing])
        return when(no_map, null(type_), _new_map(entries, type_, scope))

    return let(scope, scope.expression(node["child"]), over)


def _concat(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    type_ = map_type(node)
    parts = tuple(entries_of(part, node) for part in scope.expressions(node["children"]))
    lists = typed.MakeCollection(parts, type=list_of(list_of(type_.element)))
    whole = call("spark.flatten", [lists], list_of(type_.element), "try")
    return _new_map(whole, type_, scope)


# --- Functions of keys and values ---


def _body(function: PlanNode, entry: typed.Expr, scope: ColumnScope) -> typed.Expr:
    """The value of a lambda of a key and a value."""
    arguments = function["arguments"]
    if function.name != "LambdaFunction" or len(arguments) != 2:
        raise Refused("C104", "a function with these parameters is not converted", node=function)
    key, value = build.field(entry, "key"), build.field(entry, "value")
    columns = {arguments[0]["exprId"]: key, arguments[1]["exprId"]: value}
    return scope.with_columns(columns).expression(function["function"])


def _filter(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    entries = entries_of(scope.expression(node["argument"]), node)
    type_ = map_type(node)
    variable, entry = _variable(entries, scope)
    one = typed.MakeCollection((entry,), type=entries.type)
    none = typed.MakeCollection((), type=entries.type)
    body = when(_body(node["function"], entry, scope), one, none)
    return _as_map(typed.MapOver(variable, entries, body, True, type=entries.type), type_)


def _transform_values(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return _as_map(_transform_entries(node, scope, of_keys=False), map_type(node))


def _transform_keys(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return _new_map(_transform_entries(node, scope, of_keys=True), map_type(node), scope)


def _transform_entries(node: PlanNode, scope: ColumnScope, *, of_keys: bool) -> typed.Expr:
    entries = entries_of(scope.expression(node["argument"]), node)
    type_ = map_type(node)
    variable, entry = _variable(entries, scope)
    result = _body(node["function"], entry, scope)
    kept = build.field(entry, "value" if of_keys else "key")
    pair = _entry(result, kept, type_) if of_keys else _entry(kept, result, type_)
    return typed.MapOver(variable, entries, pair, False, type=list_of(type_.element))


def _split(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`str_to_map`: the parts of a text, with delimiters that are no patterns."""
    text, pairs, key = scope.expressions((node["text"], node["pairDelim"], node["keyValueDelim"]))
    for delimiter in (pairs, key):
        known = constant_of(delimiter)
        if known is None or known.value is None or not _PLAIN.fullmatch(known.value):
            message = "str_to_map with a delimiter that is a pattern, or from data,"
            raise Refused("C104", f"{message} is not converted yet", node=node)
    type_ = map_of(STRING, STRING)
    entries = call("spark.str_to_map", [text, pairs, key], list_of(type_.element))
    return _new_map(entries, type_, scope)


MAPS: Final[Rules] = {
    "CreateMap": rule(_create_map, "children", ignores=("useStringTypeWhenEmpty",)),
    "GetMapValue": rule(_value, "child", "key", ignores=("failOnError",)),
    "MapKeys": _of_entries("key"),
    "MapValues": _of_entries("value"),
    "MapEntries": rule(_entries, "child"),
    "MapFromArrays": rule(_from_arrays, "left", "right"),
    "MapFromEntries": rule(_from_entries, "child"),
    "MapConcat": rule(_concat, "children"),
    "MapFilter": rule(_filter, "argument", "function"),
    "TransformValues": rule(_transform_values, "argument", "function"),
    "TransformKeys": rule(_transform_keys, "argument", "function"),
    "StringToMap": rule(_split, "text", "pairDelim", "keyValueDelim"),
}
"""Classes of maps and of functions of them."""
