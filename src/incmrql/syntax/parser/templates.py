"""Templates `[xml| … |]` and `[json| … |]`: their text to trees with holes.

The caller parses the holes: they hold expressions in an expression, patterns in a pattern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isinf
from typing import Generic, TypeVar

from incmrql.errors import Diagnostic, QueryError, Span
from incmrql.syntax.ast import Hole, JsonArray, JsonLeaf, JsonObject, JsonPart, XmlElement, XmlText
from incmrql.syntax.ast import Literal as Constant
from incmrql.syntax.parser.cursor import Cursor, EmbeddedReader, cursor_over
from incmrql.syntax.parser.tokens import Token, closing, too_large

Held = TypeVar("Held")

_WORD = re.compile(r'\w{1,40}|&#?\w*;|\{\{|"[^"\n]{0,40}"|.', re.DOTALL)
_TAG = re.compile(r"[^\W\d][\w.:-]*")
_JSON_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_JSON_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(#\d+|#x[0-9a-fA-F]+|\w+);", re.ASCII)


def parse_template(
    cursor: Cursor, parse_hole: Callable[[Cursor], Held]
) -> XmlElement[Held] | JsonPart[Held]:
    """The tree of the template ahead."""
    token = cursor.advance()
    reader = _Reader(cursor, token, parse_hole)
    body = reader.element() if token.value == "xml" else reader.json()
    reader.spaces()
    if reader.position < reader.end:
        raise reader.problem('"|]"', "A template holds one element or one value.")
    return body


class _Reader(EmbeddedReader, Generic[Held]):
    """A position in the text of a template."""

    def __init__(self, cursor: Cursor, token: Token, parse_hole: Callable[[Cursor], Held]) -> None:
        super().__init__(cursor, token, "|]")
        self.parse_hole = parse_hole

    # --- XML ---

    def element(self) -> XmlElement[Held]:
        start = self._skip_to("<", "an element")
        if self.ahead("!"):
            raise self.problem("a tag", "Comments and CDATA sections have no place in a template.")
        tag = self.match(_TAG, "a tag")
        attributes: list[tuple[str, tuple[XmlText | Hole[Held], ...]]] = []
        while not self.ahead("/>") and not self.ahead(">"):
            name = self.match(_TAG, 'an attribute, ">" or "/>"')
            if name in dict(attributes):
                raise self.repetition(name, tag)
            self.expect("=")
            attributes.append((name, self.attribute_value()))
        if self.take("/>"):
            return XmlElement(tag, tuple(attributes), (), span=self.since(start))
        self.expect(">")
        with self.cursor.deeper():
            children = self.children(tag)
        return XmlElement(tag, tuple(attributes), children, span=self.since(start))

    def repetition(self, name: str, tag: str) -> QueryError:
        message = f'the attribute "{name}" occurs twice in <{tag}>'
        span = self.since(self.position - len(name))
        return QueryError(Diagnostic("P009", message, span, "again", "Leave one of them out."))

    def attribute_value(self) -> tuple[XmlText | Hole[Held], ...]:
        if self.ahead("{{"):
            return (self.hole(),)
        self.spaces()
        quote = self.source.text[self.position] if self.position < self.end else ""
        if quote not in ('"', "'"):
            raise self.problem("a quoted value or {{a hole}}")
        self.position += 1
        parts = self.run(quote, f"the closing {quote} of the value")
        self.position += 1
        return parts

    def children(self, tag: str) -> tuple[XmlElement[Held] | XmlText | Hole[Held], ...]:
        nodes: list[XmlElement[Held] | XmlText | Hole[Held]] = []
        while True:
            run = self.run("<", f"</{tag}> to close <{tag}>")
            nodes.extend(p for p in run if not isinstance(p, XmlText) or p.text.strip())
            if self.source.text.startswith("</", self.position):
                self.position += 2
                at = self.position
                if self.match(_TAG, "a tag") != tag:
                    self.position = at
                    raise self.problem(f"</{tag}> to close <{tag}>")
                self.expect(">")
                return tuple(nodes)
            nodes.append(self.element())

    def run(self, stop: str, closer: str) -> tuple[XmlText | Hole[Held], ...]:
        """Text and holes up to the character `stop`."""
        parts: list[XmlText | Hole[Held]] = []
        text = self.source.text
        start = self.position
        while True:
            if self.position >= self.end:
                raise self.problem(closer)
            hole = text.startswith("{{", self.position)
            if hole or text[self.position] == stop:
                if self.position > start:
                    plain = self.unescape(start, self.position)
                    parts.append(XmlText(plain, span=self.since(start)))
                if not hole:
                    return tuple(parts)
                parts.append(self.hole())
                start = self.position
            else:
                self.position += 1

    def unescape(self, start: int, end: int) -> str:
        def replace(match: re.Match[str]) -> str:
            name = match.group(1)
            if name in _ENTITIES:
                return _ENTITIES[name]
            digits, base = (name[2:], 16) if name.startswith("#x") else (name[1:], 10)
            number = int(digits, base) if name.startswith("#") and len(digits) < 8 else -1
            if not (0 < number < 0xD800 or 0xDFFF < number < 0x110000):
                self.position = start + match.start()
                entities = "&lt; &gt; &amp; &quot; &apos; or the number of a character"
                raise self.problem(entities, "Write &amp; for a plain &.")
            return chr(number)

        return _ENTITY.sub(replace, self.source.text[start:end])

    # --- JSON ---

    def json(self) -> JsonPart[Held]:
        self.spaces()
        start = self.position
        if self.ahead("{{"):
            return self.hole()
        if self.take("{"):
            with self.cursor.deeper():
                return JsonObject(tuple(self.members()), span=self.since(start))
        if self.take("["):
            with self.cursor.deeper():
                return JsonArray(tuple(self.items()), span=self.since(start))
        return self.leaf(start)

    def members(self) -> list[tuple[str, JsonPart[Held]]]:
        pairs: list[tuple[str, JsonPart[Held]]] = []
        while not self.take("}"):
            if pairs:
                self.expect(",")
            self.spaces()
            name = self.match(_JSON_STRING, "a quoted member name")
            self.expect(":")
            pairs.append((self.string(name), self.json()))
        return pairs

    def items(self) -> list[JsonPart[Held]]:
        parts: list[JsonPart[Held]] = []
        while not self.take("]"):
            if parts:
                self.expect(",")
            parts.append(self.json())
        return parts

    def leaf(self, start: int) -> JsonLeaf:
        constant: Constant
        if self.ahead('"'):
            text = self.string(self.match(_JSON_STRING, "a string"))
            constant = Constant(text, "string")
        elif self.take("true"):
            constant = Constant(True, "bool")
        elif self.take("false"):
            constant = Constant(False, "bool")
        elif self.take("null"):
            constant = Constant(None, "null")
        else:
            constant = self.number(self.match(_JSON_NUMBER, "a JSON value"), start)
        span = self.since(start)
        return JsonLeaf(Constant(constant.value, constant.kind, span=span), span=span)

    def number(self, text: str, start: int) -> Constant:
        whole = not set(text) & set(".eE")
        if whole and len(text) <= 20 and -(2**63) <= int(text) < 2**63:
            return Constant(int(text), "long")
        # There is one zero: -0.0 is 0.0.
        double = float(text) + 0.0
        if isinf(double):
            raise QueryError(too_large(self.since(start), "double"))
        return Constant(double, "double")

    def string(self, quoted: str) -> str:
        try:
            text = str(json.loads(quoted, strict=False))
            text.encode()  # half of a pair of \u escapes is not a character
        except ValueError:
            self.position -= len(quoted)
            hint = r"The escapes of JSON are \" \\ \/ \b \f \n \r \t and \uXXXX."
            raise self.problem("a JSON string with JSON's escapes", hint) from None
        return text

    # --- both ---

    def hole(self) -> Hole[Held]:
        start = self.position
        close = closing(self.source.text, "{{", start + 2, self.end)
        if close is None:
            raise self.problem("}} to close this hole", "A hole looks like {{x.A + 1}}.")
        inner = cursor_over(self.source, start + 2, close)
        inner.depth, inner.whole = self.cursor.depth, "hole"
        content = self.parse_hole(inner)
        if not inner.at_kind("end"):
            raise inner.unexpected("}}")
        self.cursor.reach = max(self.cursor.reach, inner.reach)
        self.position = close + 2
        return Hole(content, span=self.since(start))

    def _skip_to(self, text: str, what: str) -> int:
        self.spaces()
        start = self.position
        if not self.take(text):
            raise self.problem(what)
        return start

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.problem(f'"{text}"')

    def since(self, start: int) -> Span:
        return Span(self.source, start, self.position)

    def problem(self, wanted: str, hint: str = "") -> QueryError:
        word = _WORD.match(self.source.text, self.position, self.end)
        span = Span(self.source, *(word.span() if word else (self.end, self.end)))
        shown = span.text if span.text.startswith('"') else f'"{span.text}"'
        actual = shown if word else "the end of the template"
        message = f"expected {wanted} in a template, found {actual}"
        return QueryError(Diagnostic("P009", message, span, "here", hint))
