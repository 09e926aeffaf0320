"""A position in a list of tokens, with the operations of a recursive-descent parser.

A `Cursor` also carries the three pieces of context the grammar needs: whether a bare `>` closes
a record, a bare `limit` belongs to an enclosing `repeat`, and a bare `in` to an enclosing `let`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from incmrql.errors import Diagnostic, QueryError, SourceText, Span
from incmrql.syntax.depth import DEEPEST
from incmrql.syntax.parser.hints import Trouble, hint
from incmrql.syntax.parser.tokens import CONSTANTS, NUMBERS, Token, scan


class Cursor:
    """The parser's position in the tokens of one source."""

    def __init__(self, source: SourceText, tokens: list[Token]) -> None:
        self.source = source
        self.whole = "text"
        self.tokens = tokens
        self.index = 0
        self.in_record = False
        self.in_step = False
        self.in_let = False
        self.trying = False
        self.depth = 0
        self.reach = 0
        self.record_end = -1
        self.calls: set[int] = set()

    # --- looking ---

    @property
    def token(self) -> Token:
        """The token ahead."""
        return self.tokens[self.index]

    def peek(self, ahead: int = 1) -> Token:
        """A later token, or the last."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """Whether the token ahead is one of these symbols or keywords."""
        token = self.token
        if token.kind == "op":
            return token.text in texts
        return token.kind == "keyword" and token.value in texts

    def at_kind(self, *kinds: str) -> bool:
        """Whether the token ahead is of one of these kinds."""
        return self.token.kind in kinds

    # --- moving ---

    def advance(self) -> Token:
        """Take the token ahead."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def take(self, *texts: str) -> bool:
        """Take the token ahead if it is one of `texts`."""
        if self.at(*texts):
            self.advance()
            return True
        return False

    def expect(self, text: str, where: str = "") -> Token:
        """Take the symbol or keyword `text`, or fail."""
        if not self.at(text):
            raise self.unexpected(f'"{text}"', where)
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take a token of this kind, or fail."""
        if self.token.kind != kind:
            raise self.unexpected(what)
        return self.advance()

    def name(self, what: str) -> Token:
        """Take an identifier, or fail; keywords are refused by name."""
        token = self.token
        constant = token.kind == "id" and token.text in (*CONSTANTS, *NUMBERS)
        if token.kind == "keyword" or constant:
            kind = "constant" if constant else "reserved word"
            raise QueryError(
                Diagnostic(
                    "P013", f'"{token.text}" is a {kind} and cannot name {what}',
                    self.here(), kind, "Choose another name.",
                )
            )  # fmt: skip
        return self.expect_kind("id", what)

    def label(self, what: str) -> Token:
        """Take a field name: an identifier, a keyword, or any text in quotes."""
        if self.at_kind("string"):
            token = self.advance()
            return token._replace(text=str(token.value))
        if not self.at_kind("id", "keyword"):
            raise self.unexpected(what)
        return self.advance()

    # --- places ---

    def here(self) -> Span:
        """The span of the token ahead."""
        return Span(self.source, self.token.start, self.token.end)

    def since(self, start: int) -> Span:
        """The span from `start` to the end of the last token taken."""
        end = self.tokens[self.index - 1].end if self.index else start
        return Span(self.source, start, max(start, end))

    # --- context ---

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Inside brackets: `>` compares, `limit` belongs to the nearest select."""
        saved = self.in_record, self.in_step, self.in_let
        self.in_record = self.in_step = self.in_let = False
        yield
        self.in_record, self.in_step, self.in_let = saved

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Parse one level further down the tree; refuses a tree that is too deep."""
        self.depth += 1
        self.check_depth(self.depth)
        yield
        self.depth -= 1

    def sink(self) -> None:
        """Count one more level: the tree that was parsed last becomes an operand of an operator."""
        self.reach += 1
        self.check_depth(self.reach)

    def check_depth(self, depth: int) -> None:
        """Refuse a tree deeper than the later stages can walk."""
        if depth > DEEPEST:
            raise QueryError(
                Diagnostic(
                    "P008", f"the expression is nested deeper than {DEEPEST} levels", self.here(),
                    "too deep here", "Name a part of it with a query of its own: x = …;",
                )
            )  # fmt: skip

    # --- failing ---

    def unexpected(self, wanted: str, where: str = "") -> QueryError:
        """The error for a token that the grammar does not allow here."""
        message = f"expected {wanted}{' ' + where if where else ''}, found {self.describe_token()}"
        return QueryError(Diagnostic("P001", message, self.here(), "here", self._hint(wanted)))

    def describe_token(self) -> str:
        """The token ahead as a message shows it."""
        token = self.token
        if token.kind == "end":
            return f"the end of the {self.whole}"
        if token.kind in ("template", "xpath"):
            return f"a {token.kind}"
        text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
        return text if token.kind == "string" else f'"{text}"'

    def _hint(self, wanted: str) -> str:
        if self.trying:
            return ""
        if self.in_record and self.at(">", ">="):
            return "A comparison inside a record field needs parentheses: (x > y)."
        if self.index == self.record_end:
            return (
                "The > before this closes the record; "
                "a comparison inside a record field needs parentheses: (x > y)."
            )
        return hint(Trouble(self.source, self.tokens, self.index, wanted))


def cursor_over(source: SourceText, start: int = 0, end: int | None = None) -> Cursor:
    """A cursor over a piece of a source; characters that start no token are an error."""
    tokens, problems = scan(source, start, end)
    if problems:
        raise QueryError(*problems)
    return Cursor(source, tokens)


# --- Texts inside a token ---


class EmbeddedReader(ABC):
    """Reads the text of one token, character by character, and skips white space."""

    def __init__(self, cursor: Cursor, token: Token, closer: str) -> None:
        self.cursor, self.source = cursor, cursor.source
        self.end = token.end - len(closer)
        self.position = self.end - len(token.text)

    @abstractmethod
    def problem(self, wanted: str) -> QueryError:
        """The error for a text that the grammar does not allow here."""

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        """Take what the pattern matches, or fail."""
        self.spaces()
        match = pattern.match(self.source.text, self.position, self.end)
        if match is None:
            raise self.problem(what)
        self.position = match.end()
        return match.group()

    def spaces(self) -> None:
        """Skip white space."""
        while self.position < self.end and self.source.text[self.position].isspace():
            self.position += 1

    def ahead(self, text: str) -> bool:
        """Whether this text comes next."""
        self.spaces()
        return self.source.text.startswith(text, self.position, self.end)

    def take(self, text: str) -> bool:
        """Take this text if it comes next."""
        if self.ahead(text):
            self.position += len(text)
            return True
        return False
