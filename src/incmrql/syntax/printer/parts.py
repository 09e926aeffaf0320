"""Types, patterns, constants, templates and paths: trees back to text.

Parsing the text gives an equal tree.  Line breaks in the text come only from the printer,
never from the data, so that a caller may indent the lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isfinite
from typing import TypeVar, assert_never

from incmrql.syntax.ast import (
    AnyPattern,
    AppliedType,
    BagType,
    DataPattern,
    DecimalType,
    DistributedType,
    Hole,
    JsonArray,
    JsonLeaf,
    JsonObject,
    JsonPart,
    ListPattern,
    ListType,
    Literal,
    LiteralPattern,
    NamedType,
    NamePattern,
    Parameter,
    PathCondition,
    Pattern,
    RecordPattern,
    RecordType,
    Step,
    TemplatePattern,
    TuplePattern,
    TupleType,
    TypedPattern,
    TypeTree,
    XmlElement,
    XmlText,
)

Held = TypeVar("Held")
Part = TypeVar("Part")

_NAMED_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_INT_MAX = 2**31 - 1
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# Characters that would be parsed as markup, as the start of a hole or as the end of the template.
_XML_SPECIAL = re.compile(r'[&<"\n\r]|\{(?=\{|$)|(?<=\|)\]')

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def format_type(tree: TypeTree) -> str:
    """The text of a type."""
    match tree:
        case NamedType(name):
            return name
        case TupleType(items):
            return f"({_comma_list(format_type, items)})"
        case RecordType(fields):
            return format_fields(format_type, fields)
        case ListType(element):
            return f"[{format_type(element)}]"
        case BagType(element):
            return f"{{{format_type(element)}}}"
        case AppliedType(name, arguments):
            return f"{name}({_comma_list(format_type, arguments)})"
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case DistributedType(inner):
            return f"!{format_type(inner)}"
        case _:
            assert_never(tree)


def format_parameters(parameters: Sequence[Parameter]) -> str:
    """`x: int, y: string`."""
    return ", ".join(f"{p.name}: {format_type(p.type)}" for p in parameters)


def format_pattern(pattern: Pattern) -> str:
    """The text of a pattern."""
    match pattern:
        case NamePattern(name):
            return name
        case AnyPattern():
            return "*"
        case LiteralPattern(literal):
            return format_literal(literal)
        case TuplePattern(items):
            return f"({_comma_list(format_pattern, items)})"
        case ListPattern(items):
            return f"[{_comma_list(format_pattern, items)}]"
        case DataPattern(constructor, arguments):
            return f"{constructor}({_comma_list(format_pattern, arguments)})"
        case RecordPattern(fields):
            return format_fields(format_pattern, fields)
        case TypedPattern(inner, type_):
            return f"{format_pattern(inner)} as {format_type(type_)}"
        case TemplatePattern(body):
            return format_template(format_pattern, body)
        case _:
            assert_never(pattern)


def format_fields(show: Callable[[Part], str], fields: Sequence[tuple[str, Part]]) -> str:
    """`<A: a, B: b>`."""
    if not fields:
        return "< >"
    return f"<{', '.join(f'{format_label(name)}: {show(part)}' for name, part in fields)}>"


def format_label(name: str) -> str:
    """The name of a field, in quotes where it is not an identifier."""
    return name if _NAME.fullmatch(name) else quote(name)


def _comma_list(show: Callable[[Part], str], parts: Sequence[Part]) -> str:
    return ", ".join(show(part) for part in parts)


# --- constants ---------------------------------------------------------------------------


def format_literal(literal: Literal) -> str:
    """The text of a constant; a sign is part of it."""
    value = literal.value
    match literal.kind:
        case "null":
            return "null"
        case "bool":
            return "true" if value else "false"
        case "string":
            return quote(str(value))
        case "long" if -_INT_MAX - 1 <= int(value or 0) <= _INT_MAX:
            return f"{value}L"
        case "double" if not isfinite(float(value or 0)):
            return _SPECIAL[repr(value)]
        case "int" | "long" | "double":
            return repr(value)
        case _:
            assert_never(literal.kind)


def quote(text: str) -> str:
    """`text` as a string constant on one line."""
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(c: str) -> str:
    if c in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[c]
    return c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}"


# --- templates ---------------------------------------------------------------------------


def format_template(show: Callable[[Held], str], body: XmlElement[Held] | JsonPart[Held]) -> str:
    """The text of a template; `show` prints the content of a hole."""
    if isinstance(body, XmlElement):
        return f"[xml| {_element(show, body)} |]"
    return f"[json| {_json(show, body)} |]"


def _element(show: Callable[[Held], str], element: XmlElement[Held]) -> str:
    attributes = "".join(
        f' {name}="{"".join(_xml(show, part) for part in parts)}"'
        for name, parts in element.attributes
    )
    if not element.children:
        return f"<{element.tag}{attributes}/>"
    inner = "".join(_xml(show, child) for child in element.children)
    return f"<{element.tag}{attributes}>{inner}</{element.tag}>"


def _xml(show: Callable[[Held], str], part: XmlElement[Held] | XmlText | Hole[Held]) -> str:
    match part:
        case XmlElement():
            return _element(show, part)
        case XmlText(text):
            return _XML_SPECIAL.sub(lambda match: f"&#{ord(match.group())};", text)
        case Hole():
            return _hole(show, part)
        case _:
            assert_never(part)


def _json(show: Callable[[Held], str], part: JsonPart[Held]) -> str:
    match part:
        case JsonObject(members):
            return f"{{{', '.join(f'{_json_text(n)}: {_json(show, p)}' for n, p in members)}}}"
        case JsonArray(items):
            return f"[{', '.join(_json(show, item) for item in items)}]"
        case JsonLeaf(literal):
            return _json_text(literal.value)
        case Hole():
            return _hole(show, part)
        case _:
            assert_never(part)


def _json_text(value: str | float | bool | None) -> str:
    return json.dumps(value, ensure_ascii=False)


def _hole(show: Callable[[Held], str], hole: Hole[Held]) -> str:
    text = show(hole.content)
    spaced = text.startswith("{") or text.endswith("}")
    return f"{{{{ {text} }}}}" if spaced else f"{{{{{text}}}}}"


# --- paths -------------------------------------------------------------------------------


def format_path(steps: Sequence[Step]) -> str:
    """The text of a path."""
    return "".join(_step(step, first=index == 0) for index, step in enumerate(steps))


def _step(step: Step, *, first: bool) -> str:
    lead = {"descendant": "//", "child": "" if first else "/", "self": ""}[step.axis]
    attribute = "@" if step.attribute else ""
    return f"{lead}{attribute}{step.name}{''.join(map(_condition, step.conditions))}"


def _condition(condition: int | PathCondition) -> str:
    if isinstance(condition, int):
        return f"[{condition}]"
    path = format_path(condition.path)
    return f"[{path}]" if condition.equals is None else f"[{path} = {_constant(condition.equals)}]"


def _constant(literal: Literal) -> str:
    """A constant of a path: strings have no escapes there, and numbers no exponents."""
    value = literal.value
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if isinstance(value, float):
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else plain + ".0"
    return str(value)
