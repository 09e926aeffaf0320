"""Type inference of sources and streams: arguments, options, and the type of their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from incmrql.errors import OUTSIDE, DataError, Span, nearest
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.infer.conversions import constant_text, fit
from incmrql.types.model import (
    INT,
    JSON,
    NOTHING,
    STRING,
    XML,
    Record,
    Type,
    bag,
    column_types,
    element_type,
)
from incmrql.types.resolve import resolve_type
from incmrql.types.scope import Inference, Scope, placeholder

FORMATS = {"line": "line", "csv": "line", "json": "json", "xml": "xml", "text": "text",
           "binary": "binary", "parquet": "binary"}  # fmt: skip
ON_ERROR = ("fail", "drop", "quarantine")
_CHOICES = {"on_error": ON_ERROR, "on_modified": ("fail", "replace")}
_TEXTS = ("deletes", "sign", "quote", "null", "comment")
_FLAGS = ("trusted_deletes", "insert_only", "header")
_SIZES = ("max_line",)
_STREAM_ONLY = ("deletes", "sign", "trusted_deletes", "insert_only", "on_modified")
_LINE_ONLY = ("header", "quote", "null", "comment")
OPTIONS = (*_CHOICES, *_TEXTS, *_FLAGS, *_SIZES, "key")
"""All named options of sources and streams."""

Options = tuple[tuple[str, Any], ...]

_ARGUMENTS = {
    "line": "line, path, delimiter, type(T)",
    "json": 'json, path, {"key"}, type(T)',
    "xml": 'xml, path, {"tag"}, xpath(…), type(T)',
    "binary": "binary, path, type(T)",
}
_SYNTAX: dict[str, tuple[type[ast.Expr], ...]] = {
    "line": (ast.TypeExpr,),
    "json": (ast.TypeExpr, ast.BagExpr),
    "xml": (ast.TypeExpr, ast.BagExpr, ast.XPath),
    "binary": (ast.TypeExpr,),
    "text": (),
}
"""The arguments with special syntax (types, keys, paths) that each format uses."""


def infer_source(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """`source(format, path, …)`, `stream(format, path, …)`, `source(name)`."""
    positional = [argument.value for argument in call.arguments if argument.name is None]
    if not positional or not isinstance(positional[0], ast.Name):
        span = positional[0].span if positional else call.span
        message = f"{call.function} starts with a format or the name of a registered source"
        hint = f"Formats are: {', '.join(FORMATS)}."
        return inference.problem("T501", span, message, "here", hint)
    name = positional[0].name
    format_ = name if name in inference.parsers else FORMATS.get(name, name)
    source = _SourceCall(inference, call, scope, format_, positional[1:])
    options = source.options()
    if name in inference.parsers:
        described = source.with_parser()
    elif name in FORMATS:
        described = source.with_format()
        if described is not None:
            source.check_options(described[1], options)
    elif len(positional) == 1 and name in inference.catalog.registered:
        element, _ = inference.catalog.registered[name]
        source.check_options(element, options)
        return infer_registered_source(inference, name, call.span, options)
    elif name in inference.broken:
        described = None
    else:
        candidates = [*FORMATS, *inference.parsers, *inference.catalog.registered]
        message = f'there is no format or registered source "{name}"'
        hint = f"{nearest(name, candidates)}  Formats are: {', '.join(FORMATS)}.".strip()
        return inference.problem("T501", positional[0].span, message, "unknown", hint)
    if described is None:
        return placeholder(call.span, bag(NOTHING))
    rows, element = described
    rows = replace(rows, streaming=source.streaming, options=options)
    return typed.Read(rows, type=bag(element), span=call.span)


def infer_registered_source(
    inference: Inference, name: str, span: Span, options: Options = ()
) -> typed.Expr:
    """A source that was registered under a name."""
    element, streaming = inference.catalog.registered[name]
    source = typed.Source("registered", streaming, None, element, name=name, options=options)
    return typed.Read(source, type=bag(element), span=span)


class _SourceCall:
    """A call of `source` or `stream`, with its arguments classified.

    Types, sets of keys and paths are recognised by their syntax in any position; the other
    arguments (`values`: the path, and maybe a port and a delimiter) are positional.
    """

    def __init__(
        self,
        inference: Inference,
        call: ast.Call,
        scope: Scope,
        format_: str,
        arguments: list[ast.Expr],
    ) -> None:
        self.inference, self.call, self.scope, self.format = inference, call, scope, format_
        self.streaming = call.function == "stream"
        self.values: list[ast.Expr] = []
        self.type: ast.TypeTree | None = None
        self.keys: tuple[str, ...] | None = None
        self.steps: tuple[ast.Step, ...] = ()
        self.unused: list[ast.Expr] = []
        """Arguments with special syntax that the format does not use."""
        for argument in arguments:
            match argument:
                case ast.TypeExpr(tree):
                    self.type = tree
                case ast.BagExpr(items) if all(map(_is_text, items)):
                    self.keys = tuple(str(i.value) for i in items if isinstance(i, ast.Literal))
                case ast.XPath(steps):
                    self.steps = steps
                case _:
                    self.values.append(argument)
            special = isinstance(argument, ast.TypeExpr | ast.BagExpr | ast.XPath)
            if special and not isinstance(argument, _SYNTAX.get(format_, ())):
                self.unused.append(argument)

    # --- The source and the type of its elements, or None after a problem ---

    def with_parser(self) -> tuple[typed.Source, Type] | None:
        """A source of a format that the script declares with `parser`."""
        _, declared = self.inference.parsers[self.format]
        row = declared if self.type is None else resolve_type(self.inference, self.type)
        if not self.values:
            self._report_no_path("")
            return None
        path = self._path()
        self._refuse(self.values[1:])
        return typed.Source("python", self.streaming, path, row, parser=self.format), row

    def with_format(self) -> tuple[typed.Source, Type] | None:
        """A source of a built-in format."""
        if not self.values:
            self._report_no_path('Add the path: "data/sales.csv".')
            return None
        self._refuse(self.unused)
        host = port = None
        path: typed.Expr | None = self._path()
        rest = self.values[1:]
        if self.streaming and rest:
            node = self.inference.infer(rest[0], self.scope)
            if node.type != STRING:  # a text would be the delimiter
                host, path, rest = path, None, rest[1:]
                port = fit(self.inference, node, INT, "the port", "T501")
        source = typed.Source(self.format, False, path, NOTHING, host=host, port=port)
        if self.format == "line":
            return self._line(rest, source)
        if self.format == "xml":
            return self._xml(rest, source)
        row: Type | None
        match self.format:
            case "json":
                row = JSON if self.type is None else resolve_type(self.inference, self.type)
                source = replace(source, keys=self.keys or ())
                self._refuse(rest)
            case "text":
                row = STRING
                self._refuse(rest)
            case _:
                self._refuse(rest)
                row = self._file_type()
        return None if row is None else (replace(source, row=row), row)

    def _path(self) -> typed.Expr:
        path = self.inference.infer(self.values[0], self.scope)
        return fit(self.inference, path, STRING, "the path", "T501")

    def _line(self, rest: list[ast.Expr], source: typed.Source) -> tuple[typed.Source, Type] | None:
        if self.type is None:
            message = "a line source needs the types of its columns"
            hint = "Add the columns: type(< A: int, B: string >)."
            self.inference.problem("T503", self.call.span, message, "no type", hint)
            return None
        row = resolve_type(self.inference, self.type)
        if self.inference.has_error(row):
            return replace(source, row=row), element_type(row)
        if column_types(row) is None:
            message = f"the columns of a line must have basic types, but the type is {row}"
            hint = "Use a record or a tuple of basic types; columns of type any are skipped."
            self.inference.problem("T503", self.type.span, message, "not a line", hint)
            return None
        delimiter = ","
        if rest:
            text = constant_text(self.inference, rest[0])
            if not text:
                message = "the delimiter must be a string that is known before the script runs"
                hint = 'Write it in quotes, such as "," or "\\t".'
                self.inference.problem("T501", rest[0].span, message, "here", hint)
            delimiter = text or ","
            self._refuse(rest[1:])
        return replace(source, row=row, delimiter=delimiter), element_type(row)

    def _xml(self, rest: list[ast.Expr], source: typed.Source) -> tuple[typed.Source, Type] | None:
        if not self.keys and rest:
            tag = rest[0].span.text if _is_text(rest[0]) else '"book"'
            message = "an xml source needs the tags of its elements in braces"
            hint = f"Put the tags in braces: {{{tag}}}."
            self.inference.problem("T501", rest[0].span, message, "no braces", hint)
            return None
        self._refuse(rest)
        if not self.keys:
            message = "an xml source needs the tags of its elements"
            hint = 'Add the tags: source(xml, path, {"book", "article"}).'
            self.inference.problem("T501", self.call.span, message, "no tags", hint)
            return None
        row: Type = XML if self.type is None else resolve_type(self.inference, self.type)
        if self.steps and self.steps[-1].attribute and row == XML:
            row = STRING
        return replace(source, row=row, keys=self.keys, steps=self.steps), row

    def _file_type(self) -> Type | None:
        """The type of a Parquet file's rows: given, or read from the file."""
        if self.type is not None:
            return resolve_type(self.inference, self.type)
        read_type = self.inference.catalog.file_type
        path = constant_text(self.inference, self.values[0])
        if path is None or read_type is None:
            message = "the schema of this file is not known before the script runs"
            hint = "Add the type of its rows: type(…)."
            self.inference.problem("T504", self.call.span, message, "which file?", hint)
            return None
        sign = next((a.value for a in self.call.arguments if a.name == "sign"), None)
        try:
            return read_type(path, (sign and constant_text(self.inference, sign)) or "")
        except DataError as error:
            code = error.code if error.code == OUTSIDE else "T504"
            self.inference.problem(code, self.values[0].span, error.message, "here", error.hint)
            return None

    def _report_no_path(self, hint: str) -> None:
        message = f"{self.call.function}({self.format}, …) needs a path"
        self.inference.problem("T501", self.call.span, message, "no path", hint)

    def _refuse(self, arguments: list[ast.Expr]) -> None:
        """Report arguments that the format does not use."""
        expected = _ARGUMENTS.get(self.format, f"{self.format}, path")
        for argument in arguments:
            message = f"the format {self.format} does not use this argument"
            hint = f"The arguments are: {expected}, and named options."
            self.inference.problem("T501", argument.span, message, "here", hint)

    # --- Options ---

    def options(self) -> Options:
        """The named arguments that are valid, by name; reports the others."""
        options: dict[str, Any] = {}
        for argument in self.call.arguments:
            name = argument.name
            if name is None:
                continue
            wrong = self._misused_option(name, options)
            if wrong is not None:
                message, label, hint = wrong
                self.inference.problem("T502", argument.span, message, label, hint)
            elif (value := self._option(name, argument.value)) is not None:
                options[name] = value
        return tuple(options.items())

    def _misused_option(self, name: str, before: dict[str, Any]) -> tuple[str, str, str] | None:
        """Message, label and hint for an option that does not apply here; None if it does."""
        format_ = self.format if self.format in _SYNTAX else ""
        if name not in OPTIONS:
            hint = f"{nearest(name, OPTIONS)}  Options are: {', '.join(sorted(OPTIONS))}.".strip()
            return f'there is no option "{name}"', "here", hint
        if name in _STREAM_ONLY and not self.streaming:
            message = f'"{name}" is an option of streams, but this is a source'
            return message, "here", "Write stream(…) instead of source(…), or omit the option."
        if name in _LINE_ONLY and format_ not in ("line", ""):
            message = f'"{name}" is an option of line sources, but the format is {format_}'
            return message, "here", "Omit it."
        if name == "max_line" and format_ == "binary":
            message = f'"{name}" is an option of text files, but the format is {format_}'
            return message, "here", "Omit it."
        if name in before:
            return f'"{name}" is given twice', "again", "Omit one of them."
        return None

    def _option(self, name: str, expr: ast.Expr) -> Any:
        """The value of an option, or None after a problem."""
        if name == "key":
            return self._key_names(expr)
        if name in _FLAGS:
            if isinstance(expr, ast.Literal) and expr.kind == "bool":
                return expr.value
            return self._wrong_value(name, expr, "true or false")
        if name in _SIZES:
            match expr:
                case ast.Literal(int(size), "int" | "long") if size > 0:
                    return size
                case _:
                    return self._wrong_value(name, expr, "a number of bytes")
        text = constant_text(self.inference, expr)
        if name in _TEXTS:
            return self._wrong_value(name, expr, "a string in quotes") if text is None else text
        word = expr.name if isinstance(expr, ast.Name) else text
        if word in _CHOICES[name]:
            return word
        return self._wrong_value(name, expr, " or ".join(_CHOICES[name]))

    def _key_names(self, expr: ast.Expr) -> tuple[str, ...] | None:
        match expr:
            case ast.Name(name):
                return (name,)
            case ast.Literal(str(value), "string"):
                return (value,)
            case ast.TupleExpr(items):
                parts = [self._key_names(item) for item in items]
                names = tuple(name for part in parts if part is not None for name in part)
                return names if all(parts) else None
            case _:
                self._wrong_value("key", expr, "a column or a tuple of columns")
                return None

    def _wrong_value(self, name: str, expr: ast.Expr, expected: str) -> None:
        message = f'"{name}" must be {expected}, not {expr.span.text}'
        self.inference.problem("T502", expr.span, message, "here")

    def check_options(self, element: Type, options: Options) -> None:
        """Report keys that are not columns, and deletions from a stream that is insert_only."""
        values = dict(options)
        if values.get("insert_only") and (deleting := values.keys() & {"deletes", "sign"}):
            message = f'a stream that is insert_only cannot have "{min(deleting)}"'
            span = self._place_of("insert_only")
            self.inference.problem("T502", span, message, "here", "Omit one of the two.")
        for name in values.get("key", ()):
            if not isinstance(element, Record) or element.field(name) is None:
                columns = element.names if isinstance(element, Record) else ()
                hint = f"Columns are: {', '.join(columns)}." if columns else "Keys need a record."
                message = f'the key "{name}" is not a column'
                self.inference.problem("T502", self._place_of("key"), message, "here", hint)

    def _place_of(self, option: str) -> Span:
        return next((a.span for a in self.call.arguments if a.name == option), self.call.span)


def _is_text(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Literal) and expr.kind == "string"
