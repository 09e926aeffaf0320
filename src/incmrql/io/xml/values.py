"""XML text to trees of the data type XML, and trees to text.

    Node(tag, { (attribute, value) }, [ children ])        CData(text)

Order and mixed text are kept, tags and attributes are named as they are written (`dc:title`).
Comments, processing instructions, and white space that stands between elements are dropped.
The parser expands nothing that a document declares and fetches nothing: an entity is one of
the five of XML, a known character name as in HTML, or stays as text.
"""

from __future__ import annotations

import html.entities
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from xml.parsers import expat

from incmrql.io.scalars import Unparsable
from incmrql.values import Bag, Data, Value

DEEPEST: Final = 100
"""Elements nested deeper than this are refused: no engine could compare or sort them."""

SPACE: Final = " \t\r\n"
_ENTITY: Final = re.compile(r"&([A-Za-z_][\w.-]*);")
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_TEXT: Final = str.maketrans(_ESCAPES)
_ATTRIBUTE: Final = str.maketrans({**_ESCAPES, '"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def node(tag: str, attributes: Bag, children: list[Data]) -> Data:
    """An element."""
    return Data("Node", 0, (tag, attributes, children))


def cdata(text: str) -> Data:
    """A piece of text."""
    return Data("CData", 1, text)


def is_xml(value: Value) -> bool:
    """Whether a value is a tree of type XML."""
    match value:
        case Data(constructor="Node", position=0, content=(str(), Bag(), list())):
            return True
        case Data(constructor="CData", position=1, content=str()):
            return True
        case _:
            return False


def tag_of(tree: Data) -> str | None:
    """The tag of an element; null for text."""
    return tree.content[0] if tree.constructor == "Node" else None


def children(tree: Data, tag: str = "*") -> list[Data]:
    """The child elements with a tag, or all of them."""
    if tree.constructor != "Node":
        return []
    inner = [child for child in tree.content[2] if child.constructor == "Node"]
    return inner if tag == "*" else [child for child in inner if child.content[0] == tag]


def attribute(tree: Data, name: str) -> str | None:
    """The value of an attribute, or null."""
    return next((value for key, value in attributes(tree) if key == name), None)


def attributes(tree: Data) -> list[tuple[str, str]]:
    """The attributes of an element with their values."""
    return list(tree.content[1]) if tree.constructor == "Node" else []


def text_of(tree: Data) -> str:
    """All text in a tree, in order."""
    return "".join(_texts(tree))


def _texts(tree: Data) -> Iterator[str]:
    if tree.constructor == "CData":
        yield tree.content
    else:
        for child in tree.content[2]:
            yield from _texts(child)


def xml_text(tree: Data) -> str:
    """A tree as text; attributes in canonical order, an impossible character as U+FFFD."""
    if tree.constructor == "CData":
        return _clean(tree.content).translate(_TEXT)
    tag, pairs, inner = tree.content
    attributes_text = "".join(f' {n}="{_clean(v).translate(_ATTRIBUTE)}"' for n, v in sorted(pairs))
    if not inner:
        return f"<{tag}{attributes_text}/>"
    return f"<{tag}{attributes_text}>{''.join([xml_text(child) for child in inner])}</{tag}>"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


# --- parsing -----------------------------------------------------------------------------


def parse_xml(text: str) -> Data:
    """The tree of one document; raises `Unparsable`."""
    builder = FragmentBuilder(frozenset())
    parser = new_parser(builder)
    try:
        parser.Parse(text, True)
    except expat.ExpatError as problem:
        raise Unparsable(why(problem)) from None
    except UnicodeEncodeError:
        raise Unparsable("the text holds half of a surrogate pair") from None
    ((_, tree),) = builder.take()
    return tree


def why(problem: expat.ExpatError) -> str:
    """What is wrong with a document, and where."""
    what = expat.errors.messages.get(problem.code, str(problem))
    return f"not XML at line {problem.lineno}, column {problem.offset + 1}: {what}"


@dataclass(slots=True)
class _Open:
    """An element whose end has not come yet."""

    tag: str
    attributes: Bag
    slot: int | None
    children: list[Data] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def flush(self) -> None:
        if self.texts:
            self.children.append(cdata("".join(self.texts)))
            self.texts.clear()

    def close(self) -> Data:
        self.flush()
        kept = self.children
        if any(child.constructor == "Node" for child in kept):
            kept = [c for c in kept if c.constructor == "Node" or c.content.strip(SPACE)]
        return node(self.tag, self.attributes, kept)


Fragment: TypeAlias = tuple[int, Data]
"""The line on which an element starts, and the element."""


class FragmentBuilder:
    """What a parser calls: elements go in, finished fragments come out.

    A fragment is an element with one of the tags, or the root where no tags are given.  Nested
    ones are parts of the outer one and fragments too; they come out in the order of their
    start, when the outermost one has ended.
    """

    def __init__(self, tags: frozenset[str], longest: int | None = None) -> None:
        self.tags, self.longest = tags, longest
        self.stack: list[_Open] = []
        self.slots: list[tuple[int, Data | None]] = []
        self.complete: list[Fragment] = []
        self.line: Callable[[], int] = int
        self.position: Callable[[], int] = int
        """The first byte of the tag, text or comment at hand."""
        self.fragment_start = 0
        """The first byte of the outermost fragment at hand."""

    def take(self) -> list[Fragment]:
        """The fragments that were finished since the last call."""
        fragments, self.complete = self.complete, []
        return fragments

    def give_up(self) -> list[Fragment]:
        """The fragments that were finished, also those inside one that is not."""
        self.complete += [(line, element) for line, element in self.slots if element is not None]
        self.slots.clear()
        return self.take()

    def start(self, tag: str, pairs: list[str]) -> None:
        """The start of an element."""
        is_fragment = tag in self.tags or not (self.tags or self.stack)
        if not (is_fragment or self.stack):
            return
        self._check("a tag", len(tag) + sum(map(len, pairs)))
        if not self.stack:
            self.fragment_start = self.position()
        if len(self.stack) >= DEEPEST:
            raise Unparsable(f"elements are nested deeper than {DEEPEST} levels")
        if self.stack:
            self.stack[-1].flush()
        slot = len(self.slots) if is_fragment else None
        if is_fragment:
            self.slots.append((self.line(), None))
        attributes = Bag(zip(pairs[::2], pairs[1::2], strict=True))
        self.stack.append(_Open(tag, attributes, slot))

    def text(self, text: str) -> None:
        """Text between tags."""
        if self.stack:
            self.stack[-1].texts.append(text)

    def other(self, text: str) -> None:
        """Anything else; of this only the names of characters matter."""
        if self.stack and (match := _ENTITY.fullmatch(text)):
            self.stack[-1].texts.append(html.entities.html5.get(f"{match[1]};", text))

    def end(self, _: str) -> None:
        """The end of an element."""
        if not self.stack:
            return
        closed = self.stack.pop()
        element = closed.close()
        if closed.slot is not None:
            self.slots[closed.slot] = (self.slots[closed.slot][0], element)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self._check("an element", self.position() - self.fragment_start)
            self.complete = self.give_up()

    def check_size(self, count: int) -> None:
        """Refuse an element or a tag that is not complete after `count` bytes and too long."""
        if self.stack:
            self._check("an element", count - self.fragment_start)
        self._check("a tag or a comment", count - self.position())

    def _check(self, what: str, size: int) -> None:
        if self.longest is not None and size > self.longest:
            raise Unparsable(f"{what} is longer than max_line ({self.longest} bytes)")


def new_parser(builder: FragmentBuilder) -> expat.XMLParserType:
    """A parser that feeds a builder; a default handler keeps it from expanding entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.DefaultHandler = builder.other
    builder.line = lambda: parser.CurrentLineNumber
    builder.position = lambda: parser.CurrentByteIndex
    return parser
