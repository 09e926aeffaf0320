"""Paths `xpath(…)`: their text to steps."""

from __future__ import annotations

import re
from math import isinf
from typing import Literal as OneOf

from incmrql.errors import Diagnostic, QueryError, Span
from incmrql.syntax.ast import Literal, LiteralKind, PathCondition, Step
from incmrql.syntax.parser.cursor import Cursor, EmbeddedReader
from incmrql.syntax.parser.tokens import LONGEST, Token, too_large

_WORD = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?|\*")
_SHOWN = re.compile(r"\w{1,40}|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_STRING = re.compile(r'"([^"\n]*)"|\'([^\'\n]*)\'')
"""A string in a path is on one line and has no escapes."""


def parse_path(cursor: Cursor) -> tuple[Step, ...]:
    """The steps of the path ahead."""
    reader = _Reader(cursor, cursor.advance())
    steps = reader.path()
    reader.spaces()
    if reader.position < reader.end:
        raise reader.problem('"/", "//" or "["')
    return steps


class _Reader(EmbeddedReader):
    """A position in the text of a path."""

    def __init__(self, cursor: Cursor, token: Token) -> None:
        super().__init__(cursor, token, ")")

    def path(self) -> tuple[Step, ...]:
        steps = [self.step(first=True)]
        while self.ahead("/"):
            steps.append(self.step(first=False))
        return tuple(steps)

    def step(self, *, first: bool) -> Step:
        self.spaces()
        start = self.position
        if first and self.ahead(".") and not self.ahead(".."):
            self.position += 1
            return Step("self", ".", False, self.conditions(), span=self.since(start))
        descendant = self.take("//")
        if not descendant:
            self.take("/")
        attribute = self.take("@")
        name = self.match(_WORD, "a tag, an attribute or *")
        conditions = self.conditions()
        axis: OneOf["child", "descendant"] = "descendant" if descendant else "child"
        return Step(axis, name, attribute, conditions, span=self.since(start))

    def conditions(self) -> tuple[int | PathCondition, ...]:
        result: list[int | PathCondition] = []
        while self.take("["):
            self.spaces()
            start = self.position
            number = _NUMBER.match(self.source.text, self.position, self.end)
            if number and not number.group(1):
                self.position = number.end()
                result.append(self.parse_position(number.group(), start))
            else:
                with self.cursor.deeper():
                    path = self.path()
                equals = self.constant() if self.take("=") else None
                result.append(PathCondition(path, equals, span=self.since(start)))
            if not self.take("]"):
                raise self.problem('"]"')
        return tuple(result)

    def parse_position(self, digits: str, start: int) -> int:
        position = self.whole(digits, start)
        if position < 1:
            raise QueryError(
                Diagnostic(
                    "P010", f"a path has no position {position}", self.since(start), "below 1",
                    "Positions start at 1: title[1] is the first title.",
                )
            )  # fmt: skip
        return position

    def constant(self) -> Literal:
        self.spaces()
        start = self.position
        text = self.source.text
        if string := _STRING.match(text, start, self.end):
            self.position = string.end()
            value = string.group(1) if string.group(1) is not None else string.group(2)
            return Literal(value, "string", span=self.since(start))
        if number := _NUMBER.match(text, start, self.end):
            self.position = number.end()
            if number.group(1):
                return Literal(self.double(number.group(), start), "double", span=self.since(start))
            whole = self.whole(number.group(), start)
            kind: LiteralKind = "int" if -(2**31) <= whole < 2**31 else "long"
            return Literal(whole, kind, span=self.since(start))
        raise self.problem("a string or a number")

    def whole(self, digits: str, start: int) -> int:
        if len(digits) > 20 or not -LONGEST - 1 <= int(digits) <= LONGEST:
            raise QueryError(too_large(self.since(start)))
        return int(digits)

    def double(self, digits: str, start: int) -> float:
        # There is one zero: -0.0 is 0.0.
        double = float(digits) + 0.0
        if isinf(double):
            raise QueryError(too_large(self.since(start), "double"))
        return double

    def since(self, start: int) -> Span:
        end = start + len(self.source.text[start : self.position].rstrip())
        return Span(self.source, start, end)

    def problem(self, wanted: str) -> QueryError:
        word = _SHOWN.match(self.source.text, self.position, self.end)
        span = Span(self.source, *(word.span() if word else (self.end, self.end)))
        actual = f'"{span.text}"' if word else "the end of the path"
        return QueryError(
            Diagnostic(
                "P010", f"expected {wanted} in a path, found {actual}", span, "here",
                "A path looks like .//book[@year = 2020]/title or title[1].",
            )
        )  # fmt: skip
