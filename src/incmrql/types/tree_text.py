"""`text(xs)` of a collection of XML trees, where a single string is wanted.

On its own `text(xs)` is the collection of the trees' texts.  Where that has no type and one string
has, as in `text(x.name.first) = "Ann"`, it is the text of all trees joined, as in Apache MRQL: of
a list in its order, of a bag in the canonical order.
"""

from __future__ import annotations

from incmrql.types import typed
from incmrql.types.model import PREDEFINED, STRING, XML, Collection, Tuple, Type, bag, list_of

_NODE = next(c for c in PREDEFINED["XML"] if c.name == "Node")


def joined_text(node: typed.Expr) -> typed.Expr | None:
    """The joined text of all trees, if `node` is the text of each tree of a collection."""
    match node:
        case typed.MapOver(one, trees, typed.Builtin("text", (typed.Var(used),)), False):
            if used != one or not isinstance(trees.type, Collection):
                return None
        case _:
            return None
    span = node.span
    children: typed.Expr = trees
    if trees.type.kind == "bag":
        children = typed.Builtin("sort", (trees,), type=list_of(XML), span=span)
    pair: Type = Tuple((STRING, STRING))
    # `text` joins all text below an element: an element around the trees saves a built-in of its
    # own in every engine.
    content = typed.MakeTuple(
        (
            typed.Const("", type=STRING, span=span),
            typed.MakeCollection((), type=bag(pair), span=span),
            children,
        ),
        type=_NODE.content,
        span=span,
    )
    around = typed.MakeData(_NODE, content, type=XML, span=span)
    return typed.Builtin("text", (around,), type=STRING, span=span)


def as_text(node: typed.Expr) -> typed.Expr:
    """The joined text where there is one, else `node` itself."""
    return joined_text(node) or node
