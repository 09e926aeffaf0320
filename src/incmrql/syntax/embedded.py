"""A place in a text with a syntax of its own, inside a token: a path, a template."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from incmrql.diagnostics import QueryError
from incmrql.syntax.cursor import Cursor
from incmrql.syntax.tokens import Token


class EmbeddedReader(ABC):
    """Reads the text of one token, character by character, and skips white space."""

    def __init__(self, cursor: Cursor, token: Token, closer: str) -> None:
        self.cursor, self.source = cursor, cursor.source
        self.end = token.end - len(closer)
        self.position = self.end - len(token.text)

    @abstractmethod
    def problem(self, wanted: str) -> QueryError:
        """The problem that something else was wanted here."""

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        """Take what the pattern matches, or fail."""
        self.spaces()
        found = pattern.match(self.source.text, self.position, self.end)
        if found is None:
            raise self.problem(what)
        self.position = found.end()
        return found.group()

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
