"""The examples of a page: scripts in fenced blocks, each followed by what it prints.

```mrql [options] [arguments]      a script, run as `incmrql run -e` would with docs/ as folder
```result                          what it prints, one item a line
```notes                           what it says on the side (traces, bad lines), if anything

```mrql-error [options]            a script that is refused
```error                           the problem as it is printed
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from incmrql import api
from incmrql.errors import DataError, QueryError, SourceText
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_script
from incmrql.values import show

_BLOCK = re.compile(r"^```(\S+)[ ]*(.*)\n((?:(?!```).*\n)*)```$", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANSWERS = {"mrql": "result", "mrql-error": "error"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words after it, its text and where that stands."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Example:
    """A script with the heading above it and the blocks that show what it does."""

    section: str
    script: Block
    shown: Block
    notes: Block | None

    @property
    def fails(self) -> bool:
        return self.script.language == "mrql-error"

    @property
    def place(self) -> str:
        return f"line {self.script.line}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an example does now."""

    printed: str
    notes: str = ""
    answers: tuple[api.Answer, ...] = ()
    codes: tuple[str, ...] = ()


def blocks(text: str) -> Iterator[Block]:
    """All fenced blocks of a page."""
    for match in _BLOCK.finditer(text):
        language, words, body = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        yield Block(language, tuple(words.split()), body, line, match.start(3), match.end(3))


def examples(text: str) -> list[Example]:
    """The scripts of a page with what they print."""
    blocks_of_page = list(blocks(text))
    pairs: list[Example] = []
    for index, block in enumerate(blocks_of_page):
        if block.language in _ANSWERS:
            shown, *rest = blocks_of_page[index + 1 :]
            wanted = _ANSWERS[block.language]
            assert shown.language == wanted, f"line {block.line}: no {wanted} follows"
            notes = rest[0] if rest and rest[0].language == "notes" else None
            section = _HEADING.findall(text, 0, block.start)[-1]
            pairs.append(Example(section, block, shown, notes))
    return pairs


def run(example: Example) -> Outcome:
    """Run an example in the current folder."""
    script, words = example.script.text, list(example.script.words)
    fail = "--on-arithmetic=fail" in words
    arguments = [word for word in words if not word.startswith("--")]
    notes: list[str] = []
    printed: list[str] = []
    answers: list[api.Answer] = []

    def keep(answer: api.Answer) -> None:
        answers.append(answer)
        printed.append(show(answer.value))

    codes: tuple[str, ...] = ()
    try:
        api.run(
            script,
            arguments,
            on_answer=keep,
            fail_arithmetic=fail,
            on_trace=lambda text, value: notes.append(f"trace: {text} = {show(value)}"),
            on_report=lambda report, policy: notes.extend(
                [*report.sentences(policy), *(notice.render() for notice in report.notices)]
            ),
        )
    except QueryError as error:
        printed.append(str(error))
        codes = tuple(problem.code for problem in error.problems)
    except DataError as error:
        printed.append(str(error))
        codes = (error.code,)
    lines = "".join(text + "\n" for text in printed)
    return Outcome(lines, "".join(note + "\n" for note in notes), tuple(answers), codes)


def tree(example: Example) -> ast.Script:
    """The syntax tree of an example that parses."""
    return parse_script(SourceText(example.script.text))


def rewrite_page(text: str, outcomes: list[tuple[Example, Outcome]]) -> str:
    """The page with the current output of its examples."""
    for example, outcome in reversed(outcomes):
        if example.notes is not None:
            text = text[: example.notes.start] + outcome.notes + text[example.notes.end :]
        text = text[: example.shown.start] + outcome.printed + text[example.shown.end :]
    return text


def page(path: Path) -> str:
    """The text of a page."""
    return path.read_text(encoding="utf-8")
