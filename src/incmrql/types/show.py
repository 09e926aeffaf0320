"""Prints typed expressions on one line, for people, plans and traces; not for parsing.

Variables are printed with their numbers and conversions are written out.  The types and spans
of nodes are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from incmrql.types import typed
from incmrql.types.model import Collection, Record
from incmrql.types.walk import nodes, used_variables
from incmrql.values import show


def show_variable(variable: typed.Variable) -> str:
    """`x12`."""
    return f"{variable.name}{variable.number}"


def show_expr(expr: typed.Expr) -> str:
    """An expression in one line."""
    match expr:
        case typed.Const(value):
            return show(value)
        case typed.Var(variable):
            return show_variable(variable)
        case typed.Global(key) | typed.Stored(key):
            return key.partition("@")[0]
        case typed.ScriptArguments():
            return "args"
        case typed.Read(source):
            return show_source(source)
        case typed.MakeTuple(items):
            return f"({_comma_list(items)})"
        case typed.MakeRecord(items):
            names = expr.type.names if isinstance(expr.type, Record) else ()
            fields = zip(names, map(show_expr, items), strict=True)
            return f"< {', '.join(f'{name}: {value}' for name, value in fields)} >"
        case typed.MakeCollection(items):
            is_bag = isinstance(expr.type, Collection) and expr.type.kind == "bag"
            return f"{{{_comma_list(items)}}}" if is_bag else f"[{_comma_list(items)}]"
        case typed.MakeData(constructor, content):
            return f"{constructor.name}({show_expr(content)})"
        case typed.Concat(parts):
            return f"concat({_comma_list(parts)})"
        case typed.RangeOf(first, last):
            return f"{_operand(first)}..{_operand(last)}"
        case typed.Select():
            return _select(expr)
        case _:
            return _operator(expr)


def _operator(expr: typed.Expr) -> str:
    match expr:
        case typed.Arithmetic(op, left, right, mode):
            return _in_mode(f"{_operand(left)} {op} {_operand(right)}", mode)
        case (
            typed.Compare(op, left, right)
            | typed.Logic(op, left, right)
            | typed.Combine(op, left, right)
        ):
            return f"{_operand(left)} {op} {_operand(right)}"
        case typed.Negate(operand, mode):
            return _in_mode(f"-{_operand(operand)}", mode)
        case typed.Not(operand):
            return f"not {_operand(operand)}"
        case typed.IsNull(operand):
            return f"{_operand(operand)} is null"
        case typed.Exists(operand):
            return f"exists {_operand(operand)}"
        case typed.Widen(operand):
            return f"{_operand(operand)} to {expr.type}"
        case typed.Cast(operand, mode):
            return _in_mode(f"{_operand(operand)} as {expr.type}", mode)
        case typed.If(condition, then, otherwise):
            return f"if {show_expr(condition)} then {show_expr(then)} else {show_expr(otherwise)}"
        case typed.Case(subject, branches):
            shown = (f"{show_pattern(b.pattern)}: {show_expr(b.body)}" for b in branches)
            return f"case {show_expr(subject)} {{ {' | '.join(shown)} }}"
        case typed.Repeat():
            return _repeat(expr)
        case _:
            return _access(expr)


def _in_mode(text: str, mode: typed.Mode) -> str:
    """An operation with the mode in which it gives null or wraps where others would fail."""
    return f"{mode}({text})" if mode in ("try", "legacy") else text


def _access(expr: typed.Expr) -> str:
    match expr:
        case typed.Field(subject, name):
            return f"{_operand(subject)}.{name}"
        case typed.Item(subject, index):
            return f"{_operand(subject)}#{index}"
        case typed.Navigate(kind, subject, name):
            mark = "@" if kind in ("attribute", "attributes") else ""
            return f"{_operand(subject)}.{mark}{name}"
        case typed.At(subject, index) | typed.LookUp(subject, index):
            return f"{_operand(subject)}[{show_expr(index)}]"
        case typed.SliceOf(subject, first, last):
            return f"{_operand(subject)}[{show_expr(first)}:{show_expr(last)}]"
        case typed.MapOver(variable, subject, body, flatten):
            how = "flatMap" if flatten else "map"
            return f"{how}({show_variable(variable)} -> {show_expr(body)}, {show_expr(subject)})"
        case _:
            return _call(expr)


def _call(expr: typed.Expr) -> str:
    match expr:
        case (
            typed.Call(name, arguments)
            | typed.PythonCall(name, arguments)
            | typed.Builtin(name, arguments)
        ):
            return f"{name}({_comma_list(arguments)})"
        case typed.Aggregate(name, operand, extra):
            return f"{name}({_comma_list([operand] if extra is None else [operand, extra])})"
        case typed.UserAggregate(name, operand):
            return f"{name}({show_expr(operand)})"
        case typed.Fold(function, zero, operand):
            inner = f"{_variables(function.parameters)} -> {show_expr(function.body)}"
            return f"fold({inner}, {show_expr(zero)}, {show_expr(operand)})"
        case typed.Window():
            return _window(expr)
        case typed.Trace(operand):
            return f"trace({show_expr(operand)})"
        case _:
            raise AssertionError(f"no text for {type(expr).__name__}")


def _operand(expr: typed.Expr) -> str:
    """An operand, in parentheses where that helps the reader."""
    text = show_expr(expr)
    closed = (
        typed.Var, typed.Const, typed.Global, typed.Stored, typed.Read, typed.MakeTuple,
        typed.MakeRecord, typed.MakeCollection, typed.MakeData, typed.Field, typed.Item,
        typed.Navigate, typed.At, typed.LookUp, typed.SliceOf, typed.MapOver, typed.Call,
        typed.PythonCall, typed.Builtin, typed.Aggregate, typed.UserAggregate, typed.Fold,
        typed.Trace, typed.ScriptArguments, typed.Concat, typed.Window,
    )  # fmt: skip
    return text if isinstance(expr, closed) else f"({text})"


def _comma_list(items: Iterable[typed.Expr]) -> str:
    return ", ".join(map(show_expr, items))


def _variables(variables: Iterable[typed.Variable]) -> str:
    return f"({', '.join(map(show_variable, variables))})"


def _repeat(expr: typed.Repeat) -> str:
    start, step = _comma_list(expr.initial), _comma_list(expr.step)
    limit = "" if expr.limit is None else f" limit {show_expr(expr.limit)}"
    return f"repeat {_variables(expr.variables)} = ({start}) step ({step}){limit}"


def _select(expr: typed.Select) -> str:
    clauses = [f"select {'distinct ' if expr.distinct else ''}{show_expr(expr.head)}"]
    if expr.qualifiers:
        clauses.append(f"from {', '.join(map(show_qualifier, expr.qualifiers))}")
    if expr.where is not None:
        clauses.append(f"where {show_expr(expr.where)}")
    if expr.group is not None:
        pairs = zip(expr.group.patterns, expr.group.keys, strict=True)
        keys = ", ".join(f"{show_pattern(p)}: {show_expr(k)}" for p, k in pairs)
        clauses.append(f"group by {keys}")
    if expr.having is not None:
        clauses.append(f"having {show_expr(expr.having)}")
    if expr.order:
        orders = (show_expr(o.expr) + (" desc" if o.descending else "") for o in expr.order)
        clauses.append(f"order by {', '.join(orders)}")
    if expr.limit is not None:
        clauses.append(f"limit {show_expr(expr.limit)}")
    return " ".join(clauses)


def _window(expr: typed.Window) -> str:
    """`window(row in rows order by row.A: rank(), sum(values) of row.B rows ..0)`."""
    keys = ", ".join(show_expr(o.expr) + (" desc" if o.descending else "") for o in expr.order)
    order = f" order by {keys}" if keys else ""
    functions = ", ".join(map(show_window_function, expr.functions))
    row = show_variable(expr.row)
    return f"window({row} in {_operand(expr.operand)}{order}: {functions})"


def show_window_function(function: typed.WindowFunction) -> str:
    """A function of a window in one line."""
    match function:
        case typed.Rank(name, _, buckets):
            return f"{name}({buckets or ''})"
        case typed.Pick(frame, argument, position, skips_nulls):
            nulls = ", not null" if skips_nulls else ""
            return f"{show_expr(argument)}[{position}{nulls}] {_frame(frame)}"
        case typed.Total(frame, argument, values, result):
            over = _frame(frame)
            single = _aggregate_of(result, values)
            if single:
                return f"{single}({show_expr(argument)}) {over}"
            given = f"{show_variable(values)} = {show_expr(argument)}"
            return f"{show_expr(result)} where {given} {over}"
        case _:
            assert_never(function)


def _aggregate_of(result: typed.Expr, values: typed.Variable) -> str:
    """The only aggregate of a result, besides the count that says if there is a value at all."""
    names = {
        node.function
        for node in nodes(result)
        if isinstance(node, typed.Aggregate) and values in used_variables(node.operand)
    }
    others = names - {"count"} or names
    is_plain = isinstance(result, typed.Aggregate | typed.If)
    return next(iter(others)) if len(others) == 1 and is_plain else ""


def _frame(frame: typed.Frame) -> str:
    first, last = ("" if end is None else show(end) for end in (frame.first, frame.last))
    return f"{frame.kind} {first}..{last}"


def show_qualifier(qualifier: typed.Qualifier) -> str:
    """`p in e`, `p = e`, or a condition."""
    match qualifier:
        case typed.Generator(pattern, domain):
            return f"{show_pattern(pattern)} in {_operand(domain)}"
        case typed.Binding(pattern, value):
            return f"{show_pattern(pattern)} = {_operand(value)}"
        case typed.Condition(condition):
            return show_expr(condition)
        case _:
            assert_never(qualifier)


def show_pattern(pattern: typed.Pattern) -> str:
    """A pattern in one line."""
    match pattern:
        case typed.Bind(variable):
            return show_variable(variable)
        case typed.Anything():
            return "*"
        case typed.Equals(value):
            return show(value)
        case typed.TupleOf(items):
            return f"({', '.join(map(show_pattern, items))})"
        case typed.ListOf(items):
            return f"[{', '.join(map(show_pattern, items))}]"
        case typed.DataOf(constructor, content):
            return f"{constructor.name}({show_pattern(content)})"
        case typed.Fields(fields) | typed.Members(fields):
            return f"< {', '.join(f'{name}: {show_pattern(p)}' for name, p in fields)} >"
        case typed.ReadAs(inner, _, target):
            return f"{show_pattern(inner)} as {target}"
        case _:
            assert_never(pattern)


def show_source(source: typed.Source) -> str:
    """`source(line, "a.csv")`."""
    if source.format == "registered":
        return source.name
    place = source.path if source.path is not None else source.host
    word = "stream" if source.streaming else "source"
    if source.reader is not None:
        paths = ", ".join(show(path.removeprefix("file:")) for path in source.reader.paths)
        return f"{word}({source.reader.format}, {paths})"
    return f"{word}({source.format}, {'' if place is None else show_expr(place)})"
