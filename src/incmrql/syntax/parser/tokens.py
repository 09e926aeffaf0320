"""The scanner: characters to tokens, each with its position.

Templates `[xml| … |]` and paths `xpath(…)` have a syntax of their own: each is one token
that keeps its text, for `templates.py` and `paths.py` to read.
"""

from __future__ import annotations

import re
from math import inf, isinf, nan
from typing import NamedTuple

from incmrql.errors import Diagnostic, SourceText, Span

KEYWORDS = frozenset(
    ("if", "then", "else", "select", "from", "having", "mod", "and", "or", "not", "union",
     "intersect", "except", "exists", "in", "let", "where", "order", "group", "by", "asc", "desc",
     "function", "macro", "distinct", "as", "some", "all", "store", "dump", "incr", "type", "data",
     "case", "xpath", "repeat", "step", "limit", "import", "parser", "include", "aggregation",
     "trace", "lineage", "debug")
)  # fmt: skip

CONSTANTS = {"true": True, "false": False, "null": None}
"""Names of constants, which cannot be used for anything else."""

NUMBERS = {"NaN": nan, "Infinity": inf}
"""Names of numbers, constants also in patterns, which cannot be used for anything else."""

LONGEST = 2**63 - 1


class Token(NamedTuple):
    """A token: its kind, its text, and its position in the source.

    The text of a template or a path is the part between its brackets.
    """

    kind: str
    text: str
    start: int
    end: int
    value: str | int | float | None = None


_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n\f\ufeff]+ | //[^\n]* | /\*.*?\*/)
    | (?P<template>\[(?:xml|json)\|)
    | (?P<double>\d+\.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<int>\d+[lL]?)
    | (?P<id>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*" | '[^'\\]*(?:\\.[^'\\]*)*')
    | (?P<op>\.\.\. | \.\. | := | <> | <= | >= | /(?!\*) | [-+*%=<>(){}\[\],;:.@\#|!\\])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_XPATH_OPEN = re.compile(r"\s*\(")
_IN_HOLE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "[^"\\]*(?:\\.[^"\\]*)*" | '[^'\\]*(?:\\.[^'\\]*)*'
    | \[(?:xml|json)\| | \b(?i:xpath)\s*\( | [{}]""",
    re.VERBOSE | re.DOTALL,
)
# What to search for inside a template, inside a hole, and inside braces in a hole.
_INSIDE = {
    "xml": re.compile(r"\{\{|\|\]"),
    "json": re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\{\{|\|\]', re.DOTALL),
    "{{": _IN_HOLE,
    "{": _IN_HOLE,
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0",
            '"': '"', "'": "'", "\\": "\\", "/": "/", "\n": ""}  # fmt: skip


class TokenScan(NamedTuple):
    """The tokens of a text, the last of kind `end`, and the problems of the text."""

    tokens: list[Token]
    problems: list[Diagnostic]


def scan(source: SourceText, start: int = 0, end: int | None = None) -> TokenScan:
    """The tokens of `source[start:end]`."""
    stop = len(source.text) if end is None else end
    result = TokenScan([], [])
    tokens, problems = result
    text, position = source.text, start
    while position < stop:
        match = _TOKEN.match(text, position, stop)
        if match is None:
            problem = _unreadable_problem(source, position, stop)
            problems.append(problem)
            position = problem.span.end
            continue
        kind, word, after = str(match.lastgroup), match.group(), match.end()
        if kind == "id":
            after = _name(source, result, word, position, stop)
        elif kind == "template":
            after = _template(source, result, word, position, stop)
        elif kind != "space":
            tokens.append(_with_value(source, problems, Token(kind, word, position, after)))
        position = after
    tokens.append(Token("end", "", stop, stop))
    return result


def _with_value(source: SourceText, problems: list[Diagnostic], token: Token) -> Token:
    """`token` with the value of its text; adds to `problems`."""
    kind, word = token.kind, token.text
    if kind == "int":
        digits = word.rstrip("lL")
        if len(digits.lstrip("0")) > 19 or int(digits) > LONGEST + 1:
            problems.append(too_large(Span(source, token.start, token.end)))
            return token._replace(value=0)
        return token._replace(kind="long" if digits != word else kind, value=int(digits))
    if kind == "double":
        if isinf(float(word)):
            problems.append(too_large(Span(source, token.start, token.end), "double"))
            return token._replace(text="0.0")
        return token._replace(value=float(word))
    if kind == "string":
        return token._replace(value=_unescape(source, problems, token))
    return token


def too_large(span: Span, kind: str = "long") -> Diagnostic:
    """The problem for a number that its type cannot hold."""
    number = span.text if len(span.text) <= 40 else span.text[:37] + "..."
    hint = (
        f"A long goes from {-LONGEST - 1} to {LONGEST}; write it with a point to make it a double."
        if kind == "long"
        else "The largest double is 1.7976931348623157e308."
    )
    return Diagnostic("P005", f"the number {number} does not fit a {kind}", span, "too large", hint)


def _unescape(source: SourceText, problems: list[Diagnostic], token: Token) -> str:
    """The text between the quotes with its escapes replaced."""
    inner = token.text[1:-1]
    if "\\" not in inner:
        return inner

    def replace(match: re.Match[str]) -> str:
        word = match.group(1)
        if word[0] == "u" and len(word) == 5:
            return chr(int(word[1:], 16))
        if word in _ESCAPES:
            return _ESCAPES[word]
        at = token.start + 1 + match.start()
        message, label = f'a string has no escape "\\{word}"', "unknown escape"
        hint = (
            f"Write \\\\{word} for a backslash followed by {word}; "
            r"escapes are \n \t \r \b \f \0 \" \' \\ \/ \uXXXX."
        )
        if word == "u":
            message, label = r"\u needs four hexadecimal digits", "fewer digits"
            hint = r"Write \u00e9 for é, or \\u for a backslash followed by u."
        problems.append(Diagnostic("P004", message, Span(source, at, at + 2), label, hint))
        return word

    plain = _ESCAPE.sub(replace, inner)
    # A pair of \u escapes may spell one character outside the basic plane.
    joined = plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    half = _HALF.search(joined)
    if half:
        problems.append(
            Diagnostic(
                "P004", f"\\u{ord(half.group()):04x} is half of a character",
                Span(source, token.start, token.end), "in this string",
                r"Characters above \uffff are written as two escapes, as in \ud83d\ude00.",
            )
        )  # fmt: skip
        return ""
    return joined


def _name(source: SourceText, found: TokenScan, word: str, start: int, stop: int) -> int:
    """Add an identifier, keyword or path to the scan; returns where it ends."""
    tokens, problems = found
    folded = word.lower()
    end = start + len(word)
    opens = _XPATH_OPEN.match(source.text, end, stop) if folded == "xpath" else None
    if opens:
        close = _path_end(source.text, opens.end(), stop)
        if close is None:
            problems.append(_unclosed_problem(source, start, end, "path", ")"))
            return stop
        tokens.append(Token("xpath", source.text[opens.end() : close], start, close + 1))
        return close + 1
    tokens.append(Token("keyword" if folded in KEYWORDS else "id", word, start, end, folded))
    return end


def _path_end(text: str, start: int, stop: int) -> int | None:
    """Where the parenthesis opened just before `start` is closed, quotes respected."""
    depth, position = 1, start
    while position < stop:
        c = text[position]
        if c in "\"'":
            position = text.find(c, position + 1, stop)
            if position < 0:
                return None
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return position
        position += 1
    return None


def _template(source: SourceText, found: TokenScan, word: str, start: int, stop: int) -> int:
    """Add a template to the scan; returns where it ends."""
    body, kind = start + len(word), word[1:-1]
    close = closing(source.text, kind, body, stop)
    if close is None:
        # A hole may be unclosed: end at the next |], and the template parser reports the hole.
        close = source.text.find("|]", body, stop)
    if close < 0:
        found.problems.append(_unclosed_problem(source, start, body, "template", "|]"))
        return stop
    found.tokens.append(Token("template", source.text[body:close], start, close + 2, kind))
    return close + 2


def closing(text: str, opened: str, start: int, stop: int) -> int | None:
    """The position of the `|]` of a template or the `}}` of a hole, given what was opened.

    Holes may hold strings, comments, paths and further templates.
    """
    stack, position = [opened], start
    while match := _INSIDE[stack[-1]].search(text, position, stop):
        word, position = match.group(), match.end()
        if word in ("{{", "{"):
            stack.append(word)
        elif word in ("[xml|", "[json|"):
            stack.append(word[1:-1])
        elif word == "|]" or (word == "}" and stack[-1] == "{"):
            stack.pop()
        elif word == "}":
            if not text.startswith("}", position, stop):
                return None
            position += 1
            stack.pop()
        elif word[0] in "xX":
            end = _path_end(text, position, stop)
            if end is None:
                return None
            position = end + 1
        if not stack:
            return match.start()
    return None


def _unclosed_problem(
    source: SourceText, start: int, end: int, what: str, closer: str
) -> Diagnostic:
    return Diagnostic(
        "P003", f"this {what} is never closed", Span(source, start, end), "opened here",
        f"Add {closer} where the {what} ends.",
    )  # fmt: skip


def _unreadable_problem(source: SourceText, position: int, stop: int) -> Diagnostic:
    """The problem for characters that start no token; its span is what to skip."""
    text = source.text
    c = text[position]
    if c in "\"'":
        end = text.find("\n", position, stop)
        line_end = stop if end < 0 else end
        problem = _unclosed_problem(source, position, position + 1, "string", c)
        return Diagnostic(
            problem.code,
            problem.message,
            Span(source, position, line_end),
            problem.label,
            problem.hint,
        )
    if text.startswith("&&", position):
        return Diagnostic(
            "P002", 'the characters "&&" have no meaning here',
            Span(source, position, position + 2), "unknown characters", "Write and instead.",
        )  # fmt: skip
    if text.startswith("/*", position):
        problem = _unclosed_problem(source, position, position + 2, "comment", "*/")
        return Diagnostic(
            problem.code, problem.message, Span(source, position, stop), problem.label, problem.hint
        )
    character = c if c.isprintable() else f"U+{ord(c):04X}"
    return Diagnostic(
        "P002", f'the character "{character}" has no meaning here',
        Span(source, position, position + 1), "unknown character", _look_alike(c),
    )  # fmt: skip


def _look_alike(c: str) -> str:
    """A hint for characters from word processors and other languages."""
    plain = {"“": '"', "”": '"', "„": '"', "\u2018": "'", "\u2019": "'", "\u2013": "-",
             "—": "-", "≤": "<=", "≥": ">=", "≠": "<>", "λ": "\\", "&": "and", "^": "pow(x, y)",
             "~": "not", "\u00a0": "a plain space", "\u00d7": "*", "÷": "/",
             "?": "if … then … else …", "$": "a name without $"}.get(c)  # fmt: skip
    return f"Write {plain} instead." if plain else ""
