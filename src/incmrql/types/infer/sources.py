"""Sources and streams: their arguments, their options, and the type of their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from incmrql.errors import OUTSIDE, DataError, Span, nearest
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.columns import column_types, element_type
from incmrql.types.model import (
    INT,
    JSON,
    NOTHING,
    STRING,
    XML,
    Record,
    Type,
    bag,
)
from incmrql.types.resolve import fit, plain_string, resolve_type
from incmrql.types.scope import Inference, Scope

# --- Columns of a line source ---


# --- Sources and streams: their arguments, their options, and the type of their rows ---


FORMATS = {"line": "line", "csv": "line", "json": "json", "xml": "xml", "text": "text",
           "binary": "binary", "parquet": "binary"}  # fmt: skip
ON_ERROR = ("fail", "drop", "quarantine")
_WORDS = {"on_error": ON_ERROR, "on_modified": ("fail", "replace")}
_TEXTS = ("deletes", "sign", "quote", "null", "comment")
_FLAGS = ("trusted_deletes", "insert_only", "header")
_COUNTS = ("max_line",)
_STREAM_ONLY = ("deletes", "sign", "trusted_deletes", "insert_only", "on_modified")
_LINE_ONLY = ("header", "quote", "null", "comment")
OPTIONS = (*_WORDS, *_TEXTS, *_FLAGS, *_COUNTS, "key")
"""All named options of sources and streams."""


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The positional arguments of a source, sorted by what they are."""

    values: tuple[ast.Expr, ...]
    type: ast.TypeTree | None
    keys: tuple[str, ...] | None
    steps: tuple[ast.Step, ...]


def infer_source(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """`source(format, path, …)`, `stream(format, path, …)`, `source(name)`."""
    streaming = call.function == "stream"
    plain = tuple(argument.value for argument in call.arguments if argument.name is None)
    if not plain or not isinstance(plain[0], ast.Name):
        span = plain[0].span if plain else call.span
        message = f"{call.function} starts with a format or the name of a registered source"
        hint = f"Formats are: {', '.join(FORMATS)}."
        return inference.problem("T501", span, message, "here", hint)
    word = plain[0].name
    options = _options(inference, call, FORMATS.get(word, ""), streaming)
    arguments = _sorted(plain[1:])
    if word in inference.parsers:
        return _parsed(inference, call, scope, arguments, options)
    if word not in FORMATS:
        if len(plain) == 1 and word in inference.catalog.registered:
            element, _ = inference.catalog.registered[word]
            _check_options(inference, call, element, options)
            return registered(inference, word, call.span, options)
        if word in inference.broken:
            return typed.Const(None, type=bag(NOTHING), span=call.span)
        known = [*FORMATS, *inference.parsers, *inference.catalog.registered]
        message = f'there is no format or registered source "{word}"'
        hint = f"{nearest(word, known)}  Formats are: {', '.join(FORMATS)}.".strip()
        return inference.problem("T501", plain[0].span, message, "unknown", hint)
    found = _described(inference, FORMATS[word], call, scope, arguments)
    if found is None:
        return typed.Const(None, type=bag(NOTHING), span=call.span)
    source, element = found
    _check_options(inference, call, element, options)
    described = replace(source, streaming=streaming, options=options)
    return typed.Read(described, type=bag(element), span=call.span)


def registered(
    inference: Inference, name: str, span: Span, options: tuple[tuple[str, Any], ...] = ()
) -> typed.Expr:
    """A source that was registered under a name."""
    element, streaming = inference.catalog.registered[name]
    source = typed.Source("registered", streaming, None, element, name=name, options=options)
    return typed.Read(source, type=bag(element), span=span)


def _sorted(values: tuple[ast.Expr, ...]) -> _Arguments:
    """Types, key sets and paths by their form; the rest in order."""
    rest: list[ast.Expr] = []
    type_: ast.TypeTree | None = None
    keys: tuple[str, ...] | None = None
    steps: tuple[ast.Step, ...] = ()
    for value in values:
        match value:
            case ast.TypeExpr(tree):
                type_ = tree
            case ast.BagExpr(items) if all(_is_text(item) for item in items):
                keys = tuple(str(i.value) for i in items if isinstance(i, ast.Literal))
            case ast.XPath(found):
                steps = found
            case _:
                rest.append(value)
    return _Arguments(tuple(rest), type_, keys, steps)


def _is_text(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Literal) and expr.kind == "string"


def _described(
    inference: Inference, format_: str, call: ast.Call, scope: Scope, given: _Arguments
) -> tuple[typed.Source, Type] | None:
    """The source that the arguments describe and the type of its elements."""
    if not given.values:
        message = f"{call.function}({format_}, …) needs a path"
        inference.problem("T501", call.span, message, "no path", 'Add the path: "data/sales.csv".')
        return None
    _refuse_unused(inference, call, format_)
    host = port = path = None
    rest = given.values[1:]
    first = fit(inference, inference.infer(given.values[0], scope), STRING, "the path", "T501")
    second = _port(inference, rest[0], scope) if call.function == "stream" and rest else None
    if second is not None:
        host, port, rest = first, second, rest[1:]
    else:
        path = first
    source = typed.Source(format_, False, path, NOTHING, host=host, port=port)
    match format_:
        case "line":
            return _line(inference, call, given, rest, source)
        case "json":
            row = resolve_type(inference, given.type) if given.type is not None else JSON
            _no_more(inference, rest, format_)
            return replace(source, row=row, keys=given.keys or ()), row
        case "xml":
            return _xml(inference, call, given, rest, source)
        case "text":
            _no_more(inference, rest, format_)
            return replace(source, row=STRING), STRING
        case _:
            _no_more(inference, rest, format_)
            return _binary(inference, call, given, source)


def _port(inference: Inference, expr: ast.Expr, scope: Scope) -> typed.Expr | None:
    """The port that a number is; a text in its place is a delimiter."""
    node = inference.infer(expr, scope)
    return None if node.type == STRING else fit(inference, node, INT, "the port", "T501")


_FORMS = {
    "line": "line, path, delimiter, type(T)",
    "json": 'json, path, {"key"}, type(T)',
    "xml": 'xml, path, {"tag"}, xpath(…), type(T)',
    "binary": "binary, path, type(T)",
}


_USED: dict[str, tuple[type, ...]] = {
    "line": (ast.TypeExpr,),
    "json": (ast.TypeExpr, ast.BagExpr),
    "xml": (ast.TypeExpr, ast.BagExpr, ast.XPath),
    "binary": (ast.TypeExpr,),
    "text": (),
}
"""Arguments told by their form that each format has a use for."""


def _refuse_unused(inference: Inference, call: ast.Call, format_: str) -> None:
    values = (argument.value for argument in call.arguments if argument.name is None)
    told_by_form = [v for v in values if isinstance(v, ast.TypeExpr | ast.BagExpr | ast.XPath)]
    unused = [value for value in told_by_form if not isinstance(value, _USED[format_])]
    _no_more(inference, tuple(unused), format_)


def _no_more(inference: Inference, rest: tuple[ast.Expr, ...], format_: str) -> None:
    hint = f"The arguments are: {_FORMS.get(format_, f'{format_}, path')}, and named options."
    for expr in rest:
        message = f"the format {format_} has no use for this argument"
        inference.problem("T501", expr.span, message, "here", hint)


def _line(
    inference: Inference,
    call: ast.Call,
    given: _Arguments,
    rest: tuple[ast.Expr, ...],
    source: typed.Source,
) -> tuple[typed.Source, Type] | None:
    if given.type is None:
        hint = "Add the columns: type(< A: int, B: string >)."
        message = "a line source needs the types of its columns"
        inference.problem("T503", call.span, message, "no type", hint)
        return None
    row = resolve_type(inference, given.type)
    if inference.spoiled(row):
        return replace(source, row=row), element_type(row)
    if column_types(row) is None:
        message = f"a line holds columns of basic types, and the type is {row}"
        hint = "Use a record or a tuple of basic types; columns of type any are skipped."
        inference.problem("T503", given.type.span, message, "not a line", hint)
        return None
    delimiter = ","
    if rest:
        text = plain_string(inference, rest[0])
        if not text:
            message = "the delimiter must be a text that is known before the script runs"
            hint = 'Write it in quotes, such as "," or "\\t".'
            inference.problem("T501", rest[0].span, message, "here", hint)
        delimiter = text or ","
        _no_more(inference, rest[1:], "line")
    return replace(source, row=row, delimiter=delimiter), element_type(row)


def _xml(
    inference: Inference,
    call: ast.Call,
    given: _Arguments,
    rest: tuple[ast.Expr, ...],
    source: typed.Source,
) -> tuple[typed.Source, Type] | None:
    if not given.keys and rest:
        tag = rest[0].span.text if _is_text(rest[0]) else '"book"'
        message = "an xml source needs the tags of its elements in braces"
        hint = f"Put the tags in braces: {{{tag}}}."
        inference.problem("T501", rest[0].span, message, "no braces", hint)
        return None
    _no_more(inference, rest, "xml")
    if not given.keys:
        hint = 'Add them: source(xml, path, {"book", "article"}).'
        message = "an xml source needs the tags of its elements"
        inference.problem("T501", call.span, message, "no tags", hint)
        return None
    row: Type = resolve_type(inference, given.type) if given.type is not None else XML
    if given.steps and given.steps[-1].attribute and row == XML:
        row = STRING
    return replace(source, row=row, keys=given.keys, steps=given.steps), row


def _binary(
    inference: Inference, call: ast.Call, given: _Arguments, source: typed.Source
) -> tuple[typed.Source, Type] | None:
    if given.type is not None:
        row = resolve_type(inference, given.type)
        return replace(source, row=row), row
    path = plain_string(inference, given.values[0])
    sign = next((plain_string(inference, a.value) for a in call.arguments if a.name == "sign"), "")
    if path is None or inference.catalog.file_type is None:
        hint = "Add the type of its rows: type(…)."
        message = "the schema of this file is not known before the script runs"
        inference.problem("T504", call.span, message, "which file?", hint)
        return None
    try:
        row = inference.catalog.file_type(path, sign or "")
    except DataError as error:
        code = error.code if error.code == OUTSIDE else "T504"
        inference.problem(code, given.values[0].span, error.message, "here", error.hint)
        return None
    return replace(source, row=row), row


def _parsed(
    inference: Inference,
    call: ast.Call,
    scope: Scope,
    given: _Arguments,
    options: tuple[tuple[str, Any], ...],
) -> typed.Expr:
    """A source of a format that the script declares with `parser`."""
    first = call.arguments[0].value
    name = first.name if isinstance(first, ast.Name) else ""
    _, declared = inference.parsers[name]
    row = resolve_type(inference, given.type) if given.type is not None else declared
    if not given.values:
        message = f"{call.function}({name}, …) needs a path"
        return inference.problem("T501", call.span, message, "no path")
    path = fit(inference, inference.infer(given.values[0], scope), STRING, "the path", "T501")
    _no_more(inference, given.values[1:], name)
    source = typed.Source("python", call.function == "stream", path, row, parser=name,
                          options=options)  # fmt: skip
    return typed.Read(source, type=bag(row), span=call.span)


# --- options -----------------------------------------------------------------------------


def _options(
    inference: Inference, call: ast.Call, format_: str, streaming: bool
) -> tuple[tuple[str, Any], ...]:
    """The named arguments, by name."""
    found: dict[str, Any] = {}
    for argument in call.arguments:
        name = argument.name
        if name is None:
            continue
        if name not in OPTIONS:
            hint = f"{nearest(name, OPTIONS)}  Options are: {', '.join(sorted(OPTIONS))}.".strip()
            inference.problem("T502", argument.span, f'there is no option "{name}"', "here", hint)
        elif name in _STREAM_ONLY and not streaming:
            message = f'"{name}" is an option of streams, and this is a source'
            hint = "Write stream(…) instead of source(…), or leave the option out."
            inference.problem("T502", argument.span, message, "here", hint)
        elif name in _LINE_ONLY and format_ not in ("line", ""):
            message = f'"{name}" is an option of line sources, and this is {format_}'
            inference.problem("T502", argument.span, message, "here", "Leave it out.")
        elif name == "max_line" and format_ == "binary":
            message = f'"{name}" is an option of text files, and this is {format_}'
            inference.problem("T502", argument.span, message, "here", "Leave it out.")
        elif name in found:
            inference.problem("T502", argument.span, f'"{name}" is given twice', "again",
                              "Leave one of them out.")  # fmt: skip
        else:
            value = _option(inference, name, argument.value)
            if value is not None:
                found[name] = value
    return tuple(found.items())


def _option(inference: Inference, name: str, expr: ast.Expr) -> Any:
    """The value of an option, or None after a problem."""
    if name == "key":
        return _key_names(inference, expr)
    if name in _FLAGS:
        if isinstance(expr, ast.Literal) and expr.kind == "bool":
            return expr.value
        return _no_option(inference, name, expr, "true or false")
    if name in _COUNTS:
        match expr:
            case ast.Literal(int(count), "int" | "long") if count > 0:
                return count
            case _:
                return _no_option(inference, name, expr, "a number of bytes")
    if name in _TEXTS:
        text = plain_string(inference, expr)
        return text if text is not None else _no_option(inference, name, expr, "a text in quotes")
    word = expr.name if isinstance(expr, ast.Name) else plain_string(inference, expr)
    if word in _WORDS[name]:
        return word
    return _no_option(inference, name, expr, " or ".join(_WORDS[name]))


def _no_option(inference: Inference, name: str, expr: ast.Expr, wanted: str) -> None:
    message = f'"{name}" must be {wanted}, and this is {expr.span.text}'
    inference.problem("T502", expr.span, message, "here")


def _key_names(inference: Inference, expr: ast.Expr) -> tuple[str, ...] | None:
    match expr:
        case ast.Name(name):
            return (name,)
        case ast.Literal(str(value), "string"):
            return (value,)
        case ast.TupleExpr(items):
            parts = [_key_names(inference, item) for item in items]
            known = [name for part in parts if part is not None for name in part]
            return tuple(known) if all(parts) else None
        case _:
            _no_option(inference, "key", expr, "a column or a tuple of columns")
            return None


def _check_options(
    inference: Inference,
    call: ast.Call,
    element: Type,
    options: tuple[tuple[str, Any], ...],
) -> None:
    """A declared key must name columns, and a stream that only grows cannot delete."""
    given = dict(options)
    if given.get("insert_only") and (deleting := given.keys() & {"deletes", "sign"}):
        message = f'a stream that is insert_only has no "{min(deleting)}"'
        place = _argument(call, "insert_only")
        inference.problem("T502", place, message, "here", "Leave one of the two out.")
    for name in dict(options).get("key", ()):
        if not isinstance(element, Record) or element.field(name) is None:
            names = element.names if isinstance(element, Record) else ()
            hint = f"Columns are: {', '.join(names)}." if names else "Keys need a record type."
            place = _argument(call, "key")
            inference.problem("T502", place, f'the key "{name}" is no column', "here", hint)


def _argument(call: ast.Call, name: str) -> Span:
    """Where a named argument stands."""
    return next((a.span for a in call.arguments if a.name == name), call.span)
