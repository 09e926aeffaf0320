"""XML files to rows: `source(xml, path, {"tag", ...} [, xpath(p)] [, type(T)])`.

Steps of `xpath(...)` mean what they mean in XPath: `a` the child elements a, `//a` those at any
depth, `@a` an attribute, `.` the element itself; `[n]` is the nth of a step's children of one
element, from 1.  Results come in document order, each once.  Elements are trees, attributes
strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias, assert_never
from xml.parsers import expat

from incmrql.errors import InternalError
from incmrql.io.files import MAX_LINE, open_bytes
from incmrql.io.json.values import parse_json
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.scalars import Unparsable, parse_scalar
from incmrql.io.xml.values import (
    Fragment,
    FragmentBuilder,
    attribute,
    attributes,
    cdata,
    children,
    new_parser,
    tag_of,
    text_of,
    why,
    xml_text,
)
from incmrql.syntax.ast import Literal, PathCondition, Step
from incmrql.types.model import (
    ANY,
    DOUBLE,
    JSON,
    STRING,
    XML,
    Any,
    Basic,
    Collection,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Data as DataType
from incmrql.values import Bag, Data, Value
from incmrql.values import Record as RecordValue

Selected: TypeAlias = Data | str
_Place: TypeAlias = tuple[int, ...]
"""Where a node stands: the positions that lead to it.  Sorts in document order."""
_Node: TypeAlias = tuple[_Place, Selected]


def select(tree: Selected, steps: Iterable[Step]) -> list[Selected]:
    """What a path selects, starting at an element."""
    nodes: dict[_Place, Selected] = {(): tree}
    for step in steps:
        nodes = dict(child for node in nodes.items() for child in _step(node, step))
    return [nodes[position] for position in sorted(nodes)]


def _step(node: _Node, step: Step) -> Iterator[_Node]:
    match step.axis:
        case "self":
            yield from _filter_nodes([node], step)
        case "child":
            yield from _filter_nodes(_next(node, step), step)
        case "descendant":
            for inner in _with_descendants(node):
                yield from _filter_nodes(_next(inner, step), step)
        case _:
            assert_never(step.axis)


def _next(node: _Node, step: Step) -> list[_Node]:
    """The children or attributes of a node that a step names.  Attributes stand before children."""
    place, tree = node
    if not isinstance(tree, Data):
        return []
    if step.attribute:
        pairs = enumerate(attributes(tree))
        return [((*place, -1, i), v) for i, (name, v) in pairs if step.name in ("*", name)]
    return [(p, c) for p, c in _children(place, tree) if step.name in ("*", c.content[0])]


def _children(place: _Place, tree: Data) -> list[tuple[_Place, Data]]:
    if tree.constructor != "Node":
        return []
    numbered = enumerate(tree.content[2])
    return [((*place, i), child) for i, child in numbered if child.constructor == "Node"]


def _with_descendants(node: _Node) -> Iterator[_Node]:
    pending = [node]
    while pending:
        place, tree = pending.pop()
        yield place, tree
        if isinstance(tree, Data):
            pending.extend(reversed(_children(place, tree)))


def _filter_nodes(nodes: list[_Node], step: Step) -> list[_Node]:
    for condition in step.conditions:
        if isinstance(condition, int):
            nodes = nodes[condition - 1 : condition] if condition > 0 else []
        else:
            nodes = [node for node in nodes if _holds(node[1], condition)]
    return nodes


def _holds(tree: Selected, condition: PathCondition) -> bool:
    selected = select(tree, condition.path)
    if condition.equals is None:
        return bool(selected)
    texts = (text_of(item) if isinstance(item, Data) else item for item in selected)
    return any(_equals(text, condition.equals) for text in texts)


def _equals(text: str, constant: Literal) -> bool:
    """Text against text; against a number, as a number if it is one."""
    match constant.value:
        case None:
            return False
        case bool():
            return text == str(constant.value).lower()
        case str():
            return text == constant.value
        case number:
            try:
                return bool(parse_scalar(text, DOUBLE) == number)
            except Unparsable:
                return False


# --- Elements of a declared type ---
#
# A field of a record is the child element of that name, or else the attribute; where the field is
# a bag or a list, all children of that name. A tuple takes the child elements in order. A basic
# type takes the text, of which an empty one is null unless a string is wanted.


def typed_xml(node: Data | str, type_: Type, path: str = "") -> Value:
    """The value of a type that an element or an attribute's text holds; raises `Unparsable`."""
    location = path or (f"/{tag_of(node) or 'text()'}" if isinstance(node, Data) else "@")
    match type_:
        case Any():
            return _tree(node)
        case DataType() if type_ == XML:
            return _tree(node)
        case Basic() | Decimal():
            return _scalar(node, type_, location)
        case DataType() if type_ == JSON:
            return _json(node, location)
        case Record(fields) if isinstance(node, Data):
            values = [_field(node, name, field, f"{location}/{name}") for name, field in fields]
            return RecordValue.of(type_.names, values)
        case Tuple(items) if isinstance(node, Data):
            inner = children(node)
            if len(inner) != len(items):
                raise Unparsable(f"{location}: expected {len(items)} elements, found {len(inner)}")
            pairs = zip(inner, items, strict=True)
            return tuple(typed_xml(c, t, f"{location}/{tag_of(c)}") for c, t in pairs)
        case Collection() if isinstance(node, Data):
            return _collection(list(children(node)), type_, f"{location}/*")
        case Function():
            raise InternalError("no document holds a function")
        case Record() | Tuple() | Collection() | Nothing() | DataType():
            raise Unparsable(f"{location}: expected {type_}, found text")


def _field(node: Data, name: str, type_: Type, path: str) -> Value:
    inner: list[Data | str] = [*children(node, name)]
    if not inner and (text := attribute(node, name)) is not None:
        inner = [text]
    if isinstance(type_, Collection):
        return _collection(inner, type_, path)
    if len(inner) > 1:
        raise Unparsable(f"{path}: expected one element, found {len(inner)}")
    return typed_xml(inner[0], type_, path) if inner else None


def _collection(inner: list[Data | str], type_: Collection, path: str) -> Value:
    values = [typed_xml(item, type_.element, f"{path}[{i}]") for i, item in enumerate(inner, 1)]
    return Bag(values) if type_.kind == "bag" else values


def _scalar(node: Data | str, type_: Type, path: str) -> Value:
    text = _text(node)
    if type_ != STRING and not text.strip():
        return None
    try:
        return parse_scalar(text, type_)
    except Unparsable as problem:
        raise Unparsable(f"{path}: {problem.reason}") from None


def _json(node: Data | str, path: str) -> Value:
    try:
        return parse_json(_text(node))
    except Unparsable as problem:
        raise Unparsable(f"{path}: {problem.reason}") from None


def _tree(node: Data | str) -> Data:
    return node if isinstance(node, Data) else cdata(node)


def _text(node: Data | str) -> str:
    return text_of(node) if isinstance(node, Data) else node


# --- Files ---
#
# source(xml, path, {"tag", ...} [, xpath(p)] [, type(T)])
#
# The document is read in pieces, so that only the outermost fragment at hand is in memory. Where a
# document stops being XML, what was complete before is rows, and the rest is one bad row; so it is
# with a fragment, a tag or a comment of more bytes than a line may have.


_PIECE = 1 << 16
_EXCERPT = 100


def read_xml(
    path: Path,
    row: Type,
    tags: Iterable[str],
    steps: tuple[Step, ...],
    longest: int = MAX_LINE,
) -> Iterator[Read]:
    """The rows of one file; without tags, the document itself is the fragment."""
    for item in _fragments(path, frozenset(tags), longest):
        if isinstance(item, BadRow):
            yield item
            continue
        line, fragment = item
        for node in select(fragment, steps) if steps else [fragment]:
            try:
                yield Row(_value(node, row))
            except Unparsable as problem:
                text = xml_text(node) if isinstance(node, Data) else node
                yield BadRow(str(path), line, text, problem.reason)


def _value(node: Selected, row: Type) -> Value:
    """What was found as it is, where the row is an XML tree or an attribute's string."""
    if row in (XML, ANY) or (row == STRING and isinstance(node, str)):
        return node
    return typed_xml(node, row)


def _fragments(path: Path, tags: frozenset[str], longest: int) -> Iterator[Fragment | BadRow]:
    builder = FragmentBuilder(tags, longest)
    parser = new_parser(builder)
    piece, offset, reason, line = b"", 0, "", 1
    with open_bytes(path) as stream:
        while not reason:
            offset += len(piece)
            # Expat reads an unfinished tag again from its start: each time it gets twice as much.
            unfinished = offset - parser.CurrentByteIndex
            piece = stream.read(max(_PIECE, min(unfinished, longest - unfinished)))
            if not piece and not offset:
                return
            try:
                parser.Parse(piece, not piece)
                builder.check_size(offset + len(piece))
            except expat.ExpatError as problem:
                reason, line = why(problem), problem.lineno
            except Unparsable as problem:
                reason, line = problem.reason, parser.CurrentLineNumber
            except (LookupError, ValueError) as problem:  # an encoding that Python cannot decode
                reason, line = f"not XML: {problem}", parser.CurrentLineNumber
            yield from builder.give_up() if reason else builder.take()
            if not piece:
                break
        if reason:
            at = max(0, min(parser.ErrorByteIndex - offset, len(piece)))
            excerpt = piece[max(0, at - _EXCERPT) : at + _EXCERPT]
            yield BadRow(str(path), line, excerpt.decode(errors="replace"), reason)
