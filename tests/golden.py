"""Golden files: questions with the answers that were reviewed.

A file is a row of blocks, with two blank lines between them. A block is

    # any number of comment lines
    command name=value other=value
    the input, any number of lines
    ----
    the answer, any number of lines

`check` gives each block to the handler of its command and compares the answers. With
`pytest --update-golden` it writes the new answers into the file instead, also below an input that
has no `----` yet; the difference is then read like any other change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

Handler = Callable[[str, Mapping[str, str]], str]
"""Takes the input and the named values of a block; returns the answer."""

_GAP = "\n\n\n"
_RULE = "----"


@dataclass(frozen=True, slots=True)
class Block:
    """One question and its answer; `answer` is None when it was never written."""

    line: int
    comments: tuple[str, ...]
    command: str
    args: Mapping[str, str]
    input: str
    answer: str | None

    def text(self, answer: str) -> str:
        """The block as it stands in a file, with this answer."""
        named = [f"{name}={value}" for name, value in self.args.items()]
        head = " ".join([self.command, *named])
        parts = [*self.comments, head, *([self.input] if self.input else []), _RULE]
        return "\n".join(parts + ([answer] if answer else []))


def read(path: Path) -> list[Block]:
    """The blocks of a golden file."""
    return list(_blocks(path.read_text(encoding="utf-8"), path.name))


def check(path: Path, handlers: Mapping[str, Handler], *, update: bool) -> None:
    """Compare every answer in the file with what the handlers say now, or write those down."""
    blocks = read(path)
    answers = [_answer(path, block, handlers) for block in blocks]
    pairs = list(zip(blocks, answers, strict=True))
    if update:
        texts = [block.text(answer) for block, answer in pairs]
        path.write_text(_GAP.join(texts) + "\n", encoding="utf-8")
        return
    wrong = [_difference(path, block, new) for block, new in pairs if block.answer != new]
    assert not wrong, "\n\n".join(wrong)


def _blocks(text: str, name: str) -> Iterator[Block]:
    start = len(text) - len(text.lstrip("\n"))
    for chunk in re.split(r"\n{3,}", text.strip("\n")):
        start = text.index(chunk, start)
        yield _block(chunk, text.count("\n", 0, start) + 1, name)
        start += len(chunk)


def _block(chunk: str, line: int, name: str) -> Block:
    lines = chunk.split("\n")
    question = lines[: lines.index(_RULE)] if _RULE in lines else lines
    comments = 0
    while comments < len(question) and question[comments].startswith("#"):
        comments += 1
    assert comments < len(question), f"{name}:{line}: a block without a command"
    command, *words = question[comments].split()
    assert all("=" in word for word in words), f"{name}:{line}: arguments are written name=value"
    return Block(
        line=line,
        comments=tuple(question[:comments]),
        command=command,
        args=dict(word.split("=", 1) for word in words),
        input="\n".join(question[comments + 1 :]),
        answer="\n".join(lines[len(question) + 1 :]) if _RULE in lines else None,
    )


def _answer(path: Path, block: Block, handlers: Mapping[str, Handler]) -> str:
    assert block.command in handlers, f"{path.name}:{block.line}: no command {block.command!r}"
    answer = handlers[block.command](block.input, block.args).strip("\n")
    assert _GAP not in answer, f"{path.name}:{block.line}: two blank lines end a block"
    return answer


def _difference(path: Path, block: Block, new: str) -> str:
    old = (block.answer or "").split("\n")
    lines = unified_diff(old, new.split("\n"), "in the file", "now", lineterm="")
    title = "\n".join([f"{path.name}:{block.line}: {block.command}", *block.comments])
    return "\n".join([title, *lines])
