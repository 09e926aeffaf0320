"""Splits a SQL script into statements and says what each is for; Spark parses them.

    CREATE TEMPORARY VIEW orders (...) USING csv OPTIONS (path 'orders');    an input
    CREATE TEMPORARY VIEW large AS SELECT ...;                               a view
    CREATE MATERIALIZED VIEW totals AS SELECT ...;                           an answer
    SELECT ...;                                                              an answer without name
    SET spark.sql.ansi.enabled = false;                                      a setting

The text of a statement is that of the script up to its end, with blanks before it.  So the lines
and columns that Spark reports are those of the script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot.dialects import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from incmrql.errors import Diagnostic, QueryError, SourceText, Span

StatementKind = Literal["input", "view", "answer", "query", "setting"]

_QUERY: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})
_QUOTED: Final = (TokenType.STRING, TokenType.IDENTIFIER)
_KINDS_HINT: Final = (
    "A script has CREATE TEMPORARY VIEW ... USING for inputs, CREATE TEMPORARY VIEW ... AS, "
    "CREATE MATERIALIZED VIEW ... AS and SELECT for answers, and SET."
)


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A statement of a SQL script."""

    kind: StatementKind
    name: str
    """The name of the view that it creates; empty if it creates none."""
    text: str
    """What Spark analyses: of a view only its query."""
    span: Span
    columns: tuple[str, ...] = ()
    """New names for the columns of a view; empty if its query names them."""


def split_statements(source: SourceText) -> list[SqlStatement]:
    """The statements of a SQL script; raises `QueryError` with all problems."""
    statements: list[SqlStatement] = []
    problems: list[Diagnostic] = []
    for tokens in _tokens_by_statement(source):
        try:
            statements.append(_Head(source, tokens).statement())
        except QueryError as error:
            problems += error.problems
    if problems:
        raise QueryError(*problems)
    return statements


def _tokens_by_statement(source: SourceText) -> list[list[Token]]:
    try:
        tokens = Spark().tokenize(source.text)
    except TokenError as error:
        span = Span(source, len(source.text.rstrip()), len(source.text.rstrip()) + 1)
        message = f"the script cannot be split into statements: {_first_line(error)}"
        hint = "Look for a string, a quoted name or a comment that is not closed."
        raise QueryError(Diagnostic("C006", message, span, "ends here", hint)) from None
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [tokens for tokens in statements if tokens]


def _first_line(error: TokenError) -> str:
    return (str(error).splitlines() or ["unknown token"])[0][:200]


@dataclass(slots=True)
class _Head:
    """Reads the words at the beginning of a statement."""

    source: SourceText
    tokens: Sequence[Token]
    position: int = 0

    def statement(self) -> SqlStatement:
        """The statement; raises `QueryError` if it is none that a script may have."""
        first = self._word()
        if first in _QUERY:
            return self._statement("query", "", 0)
        if first == "SET":
            return self._statement("setting", "", 0)
        if not self._skip("CREATE"):
            raise self._refusal()
        if self._skip("OR"):
            self._skip("REPLACE")
        self._skip("OR REPLACE")
        is_answer = self._skip("MATERIALIZED")
        if not (is_answer or self._skip("TEMPORARY") or self._skip("TEMP")):
            raise self._refusal()
        if not self._skip("VIEW"):
            raise self._refusal()
        self._skip_if_not_exists()
        name = self._name()
        start = self.position
        if not is_answer and "USING" in self._words_before("AS"):
            return self._statement("input", name, 0)
        self.position = start
        return self._view("answer" if is_answer else "view", name)

    def _view(self, kind: StatementKind, name: str) -> SqlStatement:
        """A view: its query, and the names of its columns if it gives them."""
        columns = self._columns() if self._word() == "(" else ()
        while self.position < len(self.tokens) and self._word() != "AS":
            self.position += 1  # a comment, properties: Spark has no use for them here
        self.position += 1
        if self.position >= len(self.tokens):
            message = f'the view "{name}" has no query'
            hint = f"Write CREATE MATERIALIZED VIEW {name} AS SELECT ..."
            raise QueryError(Diagnostic("C007", message, self._span(), "here", hint))
        return self._statement(kind, name, self.position, columns)

    def _columns(self) -> tuple[str, ...]:
        """The names in parentheses; comments of columns are skipped."""
        names, depth, expects_name = [], 0, False
        while self.position < len(self.tokens):
            word, token = self._word(), self.tokens[self.position]
            self.position += 1
            depth += (word == "(") - (word == ")")
            if depth == 0:
                break
            if expects_name:
                names.append(token.text)
            expects_name = depth == 1 and word in ("(", ",")
        return tuple(names)

    def _statement(
        self, kind: StatementKind, name: str, first: int, columns: tuple[str, ...] = ()
    ) -> SqlStatement:
        text, start = self.source.text, self.tokens[first].start
        blanks = re.sub(r"[^\n]", " ", text[:start])
        return SqlStatement(
            kind, name, blanks + text[start : self.tokens[-1].end + 1], self._span(), columns
        )

    def _span(self) -> Span:
        return Span(self.source, self.tokens[0].start, self.tokens[-1].end + 1)

    def _word(self) -> str:
        """The next keyword in capitals; empty for a string, a quoted name and the end."""
        if self.position >= len(self.tokens):
            return ""
        token = self.tokens[self.position]
        return "" if token.token_type in _QUOTED else token.text.upper()

    def _skip(self, word: str) -> bool:
        is_there = self._word() == word
        self.position += is_there
        return is_there

    def _skip_if_not_exists(self) -> None:
        for word in ("IF", "NOT", "EXISTS"):
            self._skip(word)

    def _name(self) -> str:
        """The name of a view: one word, maybe quoted."""
        if self.position >= len(self.tokens):
            raise self._refusal()
        token = self.tokens[self.position]
        self.position += 1
        if self._word() == ".":
            message = "a view of a script has a name without a database"
            span = Span(self.source, token.start, token.end + 1)
            raise QueryError(Diagnostic("C007", message, span, "one name is enough"))
        return token.text

    def _words_before(self, end: str) -> set[str]:
        """The keywords up to a word outside of parentheses, or up to the end."""
        words: set[str] = set()
        depth = 0
        while self.position < len(self.tokens):
            word = self._word()
            depth += (word == "(") - (word == ")")
            if depth == 0 and word == end:
                break
            words |= {word} if depth == 0 else set()
            self.position += 1
        return words

    def _refusal(self) -> QueryError:
        start = " ".join(token.text for token in self.tokens[:3])
        message = f'"{start[:60]}" begins no statement of a script that follows changes'
        span = Span(self.source, self.tokens[0].start, self.tokens[0].end + 1)
        return QueryError(Diagnostic("C002", message, span, "here", _KINDS_HINT))


__all__ = ["SqlStatement", "StatementKind", "split_statements"]
