"""Access to parts of values by name or position: lists, maps, XML and JSON trees, any value.

A tree that has no such part gives null or nothing; only a list position that does not exist
and a key that a map lacks count as failures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from incmrql.reference.operators import compare, elements
from incmrql.types.model import Constructor
from incmrql.values import Bag, Data, Record, Value, show, sort_values

Fail: TypeAlias = Callable[[str], None]
"""Receives the reason why an operation has no result; returns if the result is to be null."""


def ignore(_: str) -> None:
    """Let the result be null."""


def navigate(kind: str, value: Value, name: str) -> Value:
    """A step from a tree; see `typed.Navigate` for the kinds."""
    match kind:
        case _ if value is None:
            return None
        case "children":
            return children(value, name)
        case "attribute":
            return _first(pairs_of(attributes(value), name))
        case "attributes":
            return attributes(value)
        case "member":
            return _member(value, name)
        case _:
            return _dynamic(value, name)


def _member(tree: Value, name: str) -> Value:
    """The member of a JSON object; for an array, the array of the members of its items."""
    if not (isinstance(tree, Data) and tree.constructor == "JArray"):
        return _first(pairs_of(members(tree), name))
    members_ = [_member(item, name) for item in tree.content]
    return Data("JArray", tree.position, [item for item in members_ if item is not None])


def _dynamic(value: Value, name: str) -> Value:
    """The field, member or children of that name; for a collection, those of its elements."""
    match value:
        case Record():
            return value.get(name)
        case Data(constructor="Node"):
            return children(value, name)
        case Data():
            return _member(value, name)
        case list():
            parts = [_dynamic(element, name) for element in value]
            return type(value)(_splice(parts))
        case _:
            return None


def _splice(parts: list[Value]) -> list[Value]:
    """The parts, with each list replaced by its elements."""
    return [e for part in parts for e in (part if isinstance(part, list) else [part])]


def children(tree: Value, tag: str) -> list[Value]:
    """The children of an XML element that have a tag, or all elements for `*`."""
    match tree:
        case Data(constructor="Node", content=(_, _, inner)):
            tagged = [(tag_of(child), child) for child in elements(inner)]
            return [child for own, child in tagged if own is not None and tag in (own, "*")]
        case _:
            return []


def tag_of(tree: Value) -> str | None:
    """The tag of an XML element; text has none."""
    match tree:
        case Data(constructor="Node", content=(str() as tag, _, _)):
            return tag
        case _:
            return None


def make_data(constructor: Constructor, content: Value) -> Data:
    """A value of a data type; an XML element without the attributes and children that are null."""
    if constructor.owner == "XML" and constructor.name == "Node" and content is not None:
        tag, pairs, inner = content
        present_pairs = Bag(
            [pair for pair in elements(pairs) if pair is not None and pair[1] is not None]
        )
        present_children = [child for child in elements(inner) if not _is_nothing(child)]
        content = (tag, present_pairs, present_children)
    return Data(constructor.name, constructor.position, content)


def _is_nothing(child: Value) -> bool:
    """Whether this is null, or text that is null."""
    return child is None or (child.constructor == "CData" and child.content is None)


def text_of(tree: Value) -> str:
    """All text inside an XML tree, in document order."""
    match tree:
        case Data(constructor="CData", content=str() as text):
            return text
        case Data(constructor="Node", content=(_, _, inner)):
            return "".join([text_of(child) for child in elements(inner)])
        case _:
            return ""


def attributes(tree: Value) -> Bag:
    """The attributes of an XML element as pairs; text has none."""
    match tree:
        case Data(constructor="Node", content=(_, pairs, _)):
            return Bag(elements(pairs))
        case _:
            return Bag()


def members(tree: Value) -> Bag:
    """The members of a JSON object as pairs; other JSON values have none."""
    match tree:
        case Data(constructor="JObject", content=pairs):
            return Bag(elements(pairs))
        case _:
            return Bag()


def pairs_of(pairs: Value, key: Value) -> list[Value]:
    """The values beside a key in a collection of pairs, in canonical order."""
    entries = [pair for pair in elements(pairs) if isinstance(pair, tuple) and len(pair) == 2]
    if isinstance(key, str):
        values = [value for name, value in entries if isinstance(name, str) and name == key]
    else:
        values = [value for name, value in entries if compare("=", name, key)]
    return sort_values(values) if len(values) > 1 else values


def look_up(pairs: Value, key: Value, fail: Fail = ignore) -> Value:
    """The value beside a key, the least of several; null if the map or the key is null."""
    values = pairs_of(pairs, key)
    if not values and pairs is not None and key is not None:
        fail(f"no entry has the key {show(key)}")
    return _first(values)


def element_at(subject: Value, index: Value, fail: Fail = ignore) -> Value:
    """`subject[index]` for all kinds of values; null if one of the two is null."""
    match subject, index:
        case (None, _) | (_, None):
            return None
        case Bag(), _:
            return look_up(subject, index, fail)
        case ((list() | tuple() | Data(constructor="JArray")), int()):
            return _at(subject if isinstance(subject, tuple) else elements(subject), index, fail)
        case Record(), str():
            return subject.get(index)
        case Data(), str():
            return _first(pairs_of(members(subject), index))
        case _:
            return None


def _at(values: list[Value] | tuple[Value, ...], index: int, fail: Fail) -> Value:
    position = index + len(values) if index < 0 else index
    if 0 <= position < len(values):
        return values[position]
    fail(f"there is no element {index} in a list of {len(values)}")
    return None


def slice_of(subject: Value, first: Value, last: Value) -> Value:
    """The elements from `first` to `last`, both included; ends beyond the list are clipped."""
    if subject is None or first is None or last is None:
        return None
    values = elements(subject)
    start = first + len(values) if first < 0 else first
    end = last + len(values) if last < 0 else last
    return values[max(start, 0) : max(end + 1, 0)]


def _first(values: list[Value]) -> Value:
    return values[0] if values else None
