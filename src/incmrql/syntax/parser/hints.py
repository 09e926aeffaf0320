"""Hints for syntax errors.

A list of guesses, from the most to the least certain.  Each inspects the tokens around the
error and what the grammar expected there, and returns a sentence or the empty text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from incmrql.errors import SourceText
from incmrql.syntax.parser.tokens import KEYWORDS, Token


@dataclass(frozen=True, slots=True)
class Trouble:
    """A syntax error: the index of the token, and what the grammar expected instead."""

    source: SourceText
    tokens: list[Token]
    index: int
    wanted: str

    def near(self, offset: int) -> Token:
        """The token at a distance from the error; beyond both ends, one of kind `end`."""
        index = self.index + offset
        inside = 0 <= index < len(self.tokens)
        return self.tokens[index] if inside else Token("end", "", 0, 0)


_PAIRS = {
    ("=", "="): "Write = to compare.",
    ("!", "="): "Write <> to compare.",
    ("|", "|"): "Write or; strings are joined by +.",
    ("-", ">"): "Write . between the result type and the body of a lambda.",
    ("=", ">"): r"A lambda looks like \(x: int): int. x + 1, a comparison like x >= y.",
    ("<", "="): "Write <= without a space.",
    (">", "="): "Write >= without a space.",
}
_WORDS = {
    "like": "Use matches(text, pattern) or contains(text, part).",
    "between": "Write a <= x and x <= b.",
    "join": "List both sides in the from clause and join them in the where clause.",
    "is": "Write case x { null: true | *: false } to ask for null, = to compare.",
    "on": "Put the condition of a join in the where clause.",
}
_STARTS = frozenset(
    ("select", "if", "let", "case", "repeat", "not", "exists", "some", "all", "trace", "store",
     "dump", "incr", "lineage", "debug", "type", "data", "function", "macro", "aggregation",
     "import", "parser", "include")
)  # fmt: skip
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def hint(trouble: Trouble) -> str:
    """The first guess that applies, or the empty text."""
    for guess in _GUESSES:
        text = guess(trouble)
        if text:
            return text
    return ""


def _habit(trouble: Trouble) -> str:
    """For an operator that other languages have."""
    before, token, after = (trouble.near(offset) for offset in (-1, 0, 1))
    if token.kind == "op" and token.text == "!" and after.text != "=":
        return "Write not instead."
    if token.kind != "op":
        return _WORDS.get(token.text.lower(), "") if token.kind == "id" else ""
    return _PAIRS.get((before.text, token.text)) or _PAIRS.get((token.text, after.text)) or ""


def _number(trouble: Trouble) -> str:
    before, token, after = (trouble.near(offset) for offset in (-1, 0, 1))
    if token.text == "." and after.kind == "int":
        return f"Write 0.{after.text}, with a digit before the point."
    if before.text == "." and token.kind == "int":
        return f"Write #{token.text}: the components of a tuple are t#0, t#1 and so on."
    touching = before.end == token.start
    if touching and token.kind == "id" and before.kind in ("int", "long", "double"):
        return "A name cannot start with a digit."
    return ""


def _clause(trouble: Trouble) -> str:
    """For the clauses of a select, or an item, in the wrong form."""
    token, wanted = trouble.near(0), trouble.wanted
    if wanted == '"from"' and token.text == ",":
        return "Put the parts of the head in parentheses: select (x, y) from …"
    if wanted == '"in" or "="' and token.kind != "id":
        return "Name the elements: from x in X."
    if wanted == "an expression" and token.text == "*" and trouble.near(-2).text == "count":
        return "Write count(partition) for the rows of a group, count(select …) for a query's."
    if wanted == "an expression" and token.text == "*":
        return "Name a variable: * stands for anything only in patterns and after a point."
    if wanted == "an expression" and token.value == "from":
        return "A query starts with its head: select … from …"
    if token.value == "in" and _ends_expression(trouble.near(-1)):
        return "Write member(x, s) to ask whether x is an element of s."
    if token.value == "having":
        return "Only groups have a having clause, after group by; use where for rows."
    if wanted == '";"' and token.text == ":=":
        return "Write x = …; to name a query, store x := …; to keep its value."
    return ""


def _ends_expression(token: Token) -> bool:
    return token.kind in ("id", "int", "long", "double", "string") or token.text in (")", "]", "}")


def _declaration(trouble: Trouble) -> str:
    """For a missing part of a declaration."""
    token, before, first, wanted = *(trouble.near(i) for i in (0, -1, -2)), trouble.wanted
    if wanted == '"="' and first.kind == "keyword" and first.value in ("type", "data", "parser"):
        shown = token.text if token.kind == "id" else "…"
        return f"Write {first.value} {before.text} = {shown}"
    if wanted != '":"' or trouble.index == 0:
        return ""
    start = trouble.index - 1
    while start > 0 and trouble.tokens[start - 1].text != ";":
        start -= 1
    words = trouble.tokens[start : trouble.index]
    if words[0].value == "data" and before.kind == "id" and first.text in ("=", "|"):
        return f"Every constructor says what it holds: {before.text}: ()."
    declares = any(word.value == "function" or word.text == "\\" for word in words)
    if declares and before.kind == "id" and first.text in ("(", ","):
        return f"Every parameter has a type: {before.text}: int."
    if declares and before.text == ")" and token.text == "{":
        return "Every function says what it gives: function f(x: int): int { … }."
    return ""


def _misspelling(trouble: Trouble) -> str:
    """For a misspelt keyword: the word ahead, or the word before it that starts an item."""
    token, before, first = (trouble.near(offset) for offset in (0, -1, -2))
    if token.kind == "id":
        candidates = [trouble.wanted.strip('"')] if trouble.wanted[1:-1] in KEYWORDS else KEYWORDS
        close = get_close_matches(token.text.lower(), candidates, n=1, cutoff=0.75)
        if close:
            return f'Did you mean "{close[0]}"?'
    if before.kind == "id" and (first.kind == "end" or first.text in (";", "=", ":=", "(", ",")):
        close = get_close_matches(before.text.lower(), _STARTS, n=1, cutoff=0.75)
        if close:
            return f'Did you mean "{close[0]}" instead of "{before.text}"?'
    return ""


def _missing_semicolon(trouble: Trouble) -> str:
    if trouble.wanted != '";"':
        return ""
    between = trouble.source.text[trouble.near(-1).end : trouble.near(0).start]
    return "Put a semicolon at the end of the item before." if "\n" in between else ""


def _open_bracket(trouble: Trouble) -> str:
    """For a bracket that is not closed: where it was opened."""
    opener = _BRACKETS.get(trouble.wanted.strip('"'))
    token = trouble.near(0)
    if opener is None or not (token.kind == "end" or token.text in (";", ")", "]", "}")):
        return ""
    depth = 0
    for index in range(trouble.index - 1, -1, -1):
        candidate = trouble.tokens[index]
        if candidate.kind == "op" and candidate.text in _BRACKETS:
            depth += 1
        elif candidate.kind == "op" and candidate.text in _BRACKETS.values():
            if depth == 0 and candidate.text == opener:
                line, column = trouble.source.locate(candidate.start)
                return f"Close the {opener} of line {line}, column {column}."
            depth -= 1
    return ""


def _reserved_word(trouble: Trouble) -> str:
    token = trouble.near(0)
    if token.kind != "keyword" or trouble.wanted not in ("an expression", "a pattern", "a type"):
        return ""
    return f'"{token.text}" is a reserved word: as a name it stands only after a point.'


_GUESSES: tuple[Callable[[Trouble], str], ...] = (
    _habit,
    _number,
    _clause,
    _declaration,
    _misspelling,
    _missing_semicolon,
    _open_bracket,
    _reserved_word,
)
