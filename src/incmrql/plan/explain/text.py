"""A plan for people and programs to read: what flows where, what is kept for whom, what it costs.

    explain_nodes(plan)    every node as data
    show_plan(plan)    the same as a tree of text
    plan_data(plan)    the same as lists and dictionaries, for JSON
    cautions(plan)     what a user should know, with codes and places in the text

Groups are written as `key`, `rows`, `left` and `right`, and what asked for something that is
kept as it stands in the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, assert_never

from incmrql.errors import Diagnostic, Span
from incmrql.plan.access import Scope
from incmrql.plan.explain.nodes import Shape, StateItem, shapes
from incmrql.plan.merging import state_monoid
from incmrql.plan.monoids import BAG
from incmrql.plan.nodes import (
    Constant,
    Edge,
    Groups,
    Input,
    Join,
    Linear,
    LoopParam,
    Merge,
    Node,
    Ordered,
    Plan,
    Repeated,
    inputs,
    is_unit,
)
from incmrql.plan.program import LoopMode
from incmrql.types import typed
from incmrql.types.show import show_expr, show_variable
from incmrql.types.walk import nodes as inside

# --- Lineage ---
#
# θ is the tree of the keys that lead to a value, as in the paper's Algorithm 1.
#
#   θ  =  ()                  a row of a source
#      |  (k, θ)              grouped by k
#      |  (k, (θ, θ'))        two sides that meet by k
#
# Two forms the paper does not have: rows of a union come by one of several ways, and a loop mixes
# all it reads.


LONGEST = 80
"""A text longer than this is named by its node where another one holds it."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No key yet: `()`."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A key, and what led to the one side or the two that it groups."""

    key: str
    below: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several ways."""

    ways: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class Looped:
    """Any of what a loop reads."""

    read: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The lineage of another node, which stands for itself."""

    name: str


Lineage: TypeAlias = Empty | Keyed | Either | Looped | Named


def show_lineage(lineage: Lineage) -> str:
    """A tree of keys on one line."""
    match lineage:
        case Empty():
            return "()"
        case Named(name):
            return name
        case Keyed(key, (below,)):
            return f"({key}, {show_lineage(below)})"
        case Keyed(key, below):
            return f"({key}, ({_several(below, ', ')}))"
        case Either(ways):
            return _several(ways, " | ")
        case Looped(read):
            return f"loop({_several(read, ', ')})"
        case _:
            assert_never(lineage)


def _several(lineages: tuple[Lineage, ...], gap: str) -> str:
    return gap.join(map(show_lineage, lineages))


def lineage_of(plan: Plan) -> tuple[str, ...]:
    """For each node of a plan, in its order, the lineage of the rows it sends on, as text.

    `k7` is the key that node 7 groups by, `()` a key that all rows share.  Where the text of an
    input would be too long, `θ7` names the lineage of node 7 in its place.
    """
    lineages: list[Lineage] = []
    texts: list[str] = []
    for place, node in enumerate(plan.nodes):
        below = [
            Named(f"θ{at}") if len(text) > LONGEST else lineage
            for at, (lineage, text) in enumerate(zip(lineages, texts, strict=True))
        ]
        lineages.append(_of_node(node, place, below))
        texts.append(show_lineage(lineages[-1]))
    return tuple(texts)


def _of_node(node: Node, place: int, below: list[Lineage]) -> Lineage:
    match node:
        case Input() | Constant() | LoopParam():
            return Empty()
        case Linear(input=at):
            return below[at]
        case Merge(parts):
            ways = tuple(dict.fromkeys(below[at] for at in parts))
            return ways[0] if len(ways) == 1 else Either(ways)
        case Join(left, right, key=key):
            return Keyed("()" if is_unit(key) else f"k{place}", (below[left], below[right]))
        case Groups(inputs=places, key=key):
            name = "()" if is_unit(key) else f"k{place}"
            return Keyed(name, tuple(below[at] for at in places))
        case Ordered(input=at):
            return Keyed(f"k{place}", (below[at],))
        case Repeated(inputs=places):
            return Looped(tuple(below[at] for at in places))
        case _:
            assert_never(node)


# --- Nodes ---


NOTHING_CHANGES: Final = "reads no stream: nothing changes, and it is answered once"
"""What there is to say of a query without a stream."""

WAYS_OUT: Final[dict[str, str]] = {
    "W101": "Relate the two by an equality, as in x.A = y.B, if there is one.",
    "W102": "If the value need not follow the stream, keep it first: store x := ...; and use x.",
    "W103": "Use --iterate exact if it can be, bound its input, or loop over a store of it.",
    "W104": "Group by something, or use an aggregate that can be taken back: sum, count, avg.",
    "W105": "Ask for totals, extremes, ranks or the first rows of a group, or keep groups small.",
}
"""What can be done about each warning."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A node: its place, what it does, and what is known of it."""

    place: int
    does: str
    shape: Shape
    inputs: tuple[int, ...]
    key: str | None
    """The type of the key, for nodes that have one."""
    key_from: tuple[str, ...]
    """How each input makes the key, where that can be seen."""
    function: tuple[str, ...]
    """What is made of each row or group."""
    asks: tuple[str, ...]
    """What the function asks of a group, as variables of it."""
    merge: str
    """The monoid under which what is kept, or what is emitted, adds up."""
    lineage: str
    """The tree of the keys that lead to a row of it."""
    edge: str
    """What is known of its changes: constant, invariant, insert-only, or any."""
    span: Span | None
    """The place in the text that it is for."""
    view: str | None
    """The named query whose rows it has, if several uses of that share them."""


def explain_nodes(plan: Plan, iterate: LoopMode = "default") -> tuple[Explained, ...]:
    """Every node of a plan, by place, for a run that keeps loops in this way."""
    nodes = zip(plan.nodes, shapes(plan, iterate), lineage_of(plan), strict=True)
    return tuple(
        _explain_node(plan, place, node, shape, lineage)
        for place, (node, shape, lineage) in enumerate(nodes)
    )


def _explain_node(plan: Plan, place: int, node: Node, shape: Shape, lineage: str) -> Explained:
    key = str(node.key) if isinstance(node, Join | Groups) else None
    return Explained(
        place,
        _does(node),
        _readable(shape, node),
        inputs(node),
        key,
        tuple(_key_of(plan.nodes[below]) for below in inputs(node)) if key else (),
        tuple(_in_words(node, text) for text in _function(node)),
        tuple(_in_words(node, text) for text in _asks(node)),
        _merge(node),
        lineage,
        _edge(plan.edges[place]),
        _span(node),
        next((name for name, index in plan.views if index == place), None),
    )


# --- the parts of a node -----------------------------------------------------------------------


def _does(node: Node) -> str:
    match node:
        case Input(name=name, source=source):
            kind = "stream" if source.streaming else "source"
            return name if name.startswith(kind) else f"{kind} {name}"
        case Constant(expr):
            return f"constant {show_expr(expr)}"
        case LoopParam():
            return "rows of a loop"
        case Linear():
            return "each row on its own"
        case Merge():
            return "rows of several inputs"
        case Join(key=key):
            return f"join by {key}"
        case Groups(key=key):
            return f"groups by {key}"
        case Ordered(descending=descending, limit=limit):
            keys = ", ".join("desc" if is_descending else "asc" for is_descending in descending)
            return f"the first {show_expr(limit)} rows by ({keys})"
        case Repeated(term=term):
            names = ", ".join(map(show_variable, term.variables))
            return f"repeat ({names})"
        case _:
            assert_never(node)


def _function(node: Node) -> list[str]:
    match node:
        case Linear(steps=steps):
            return [f"{show_variable(variable)} -> {show_expr(body)}" for variable, body in steps]
        case Join(body=body) | Groups(body=body):
            return [show_expr(body)]
        case _:
            return []


def _asks(node: Node) -> list[str]:
    if not isinstance(node, Groups):
        return []
    return [
        f"{show_variable(request.variable)} = {show_expr(request.expr)}"
        for request in node.requests
    ]


def _merge(node: Node) -> str:
    """The monoid of a node: of its state if it has one, else of what it emits."""
    if isinstance(node, Repeated):
        return "none: what was there is replaced"
    return str(state_monoid(node) or BAG)


def _key_of(below: Node) -> str:
    """How rows get their keys: the first of each pair that a map makes."""
    match below:
        case Linear(steps=(*_, (_, body))):
            pair = body.then if isinstance(body, typed.If) else body
            match pair:
                case typed.MakeCollection((typed.MakeTuple((key, _)),)):
                    return show_expr(key)
                case _:
                    return ""
        case _:
            return ""


def _edge(edge: Edge) -> str:
    if edge.constant:
        return "constant"
    if edge.invariant:
        return "invariant"
    return "insert-only" if edge.insert_only else "any"


def _in_words(node: Node, text: str) -> str:
    """Text about a group in words: its key, its rows, its left and right rows."""
    if not isinstance(node, Join | Groups):
        return text
    group = show_variable(node.group)
    sides = {"#1#0": "left", "#1#1": "right"} if len(inputs(node)) == 2 else {"#1": "rows"}
    for path, name in ({"#0": "key"} | sides).items():
        text = text.replace(group + path, name)
    return text


def _readable(shape: Shape, node: Node) -> Shape:
    """A shape whose texts are about key and rows, and name each asking term as it was written."""
    written = {show_expr(term): term.span.text for term in _askers(node) if term.span.text}
    if isinstance(node, Groups):
        written[show_expr(node.body)] = "its answer"

    def with_names(text: str) -> str:
        for shown, original in written.items():
            text = text.replace(shown, " ".join(original.split()))
        return _in_words(node, text)

    def request_names(kept: StateItem) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(with_names, kept.asked)))

    keeps = tuple(
        replace(k, what=_in_words(node, k.what), asked=request_names(k)) for k in shape.keeps
    )
    warned = tuple(replace(w, message=with_names(w.message)) for w in shape.warnings)
    return replace(shape, keeps=keeps, warnings=warned)


def _askers(node: Node) -> list[typed.Expr]:
    return [request.expr for request in node.requests] if isinstance(node, Groups) else []


def _span(node: Node) -> Span | None:
    """The longest piece of the text that a node's own expressions come from."""
    spans = [expr.span for expr in _expressions(node) if expr.span.text]
    return max(spans, key=lambda span: span.end - span.start, default=None)


def _expressions(node: Node) -> Iterator[typed.Expr]:
    match node:
        case Groups(body=body):
            for asked in (*_askers(node), body):
                yield from inside(asked)
        case Join(body=body):
            yield from inside(body)
        case Ordered(limit=limit):
            yield from inside(limit)
        case _:
            return


# --- as text, as data, as problems -------------------------------------------------------------


ByRow: TypeAlias = Mapping[int, tuple[str, ...]]
"""What nodes compute in Python, by their places: how often and what."""
NOTHING_BY_ROW: Final[ByRow] = MappingProxyType({})


def show_plan(plan: Plan, by_row: ByRow = NOTHING_BY_ROW) -> str:
    """The nodes of every part of the answer, inputs indented under what takes them in.

    A node with several uses is written out once; its number stands in the other places.
    `by_row` is what nodes compute in Python, by their places.
    """
    every = explain_nodes(plan)
    shown: set[int] = set()
    lines: list[str] = []
    for part in plan.parts:
        order = "" if part.order is None else ", in order"
        lines.append(f"{show_variable(part.variable)} = all rows of node {part.place}{order}")
        lines += _tree(every, part.place, 1, shown, by_row)
    is_last = isinstance(plan.result, typed.Var)
    return "\n".join(lines if is_last else [*lines, f"answer {show_expr(plan.result)}"])


def _tree(
    every: tuple[Explained, ...], place: int, depth: int, shown: set[int], by_row: ByRow
) -> Iterator[str]:
    indent, one = "  " * depth, every[place]
    if place in shown:
        yield f"{indent}{place}: as above"
        return
    shown.add(place)
    shape = "" if one.shape.kind == "source" else f"{one.shape.kind}: "
    scope = "" if one.shape.scope == "change" else f"reads {one.shape.scope}"
    notes = ", ".join(filter(None, ("" if one.edge == "any" else one.edge, scope)))
    yield f"{indent}{place}: {shape}{one.does}" + (f"  [{notes}]" if notes else "")
    yield from (f"{indent}   {line}" for line in _details(one))
    yield from (f"{indent}   runs Python {work}" for work in by_row.get(place, ()))
    for below in one.inputs:
        yield from _tree(every, below, depth + 1, shown, by_row)


def _details(one: Explained) -> Iterator[str]:
    if one.view is not None:
        yield f"view {one.view}: planned once for all that read it"
    keys = list(dict.fromkeys(filter(None, one.key_from)))
    if keys:
        yield f"key {' = '.join(keys)}"
    if one.key is not None:
        yield f"lineage {one.lineage}"
    yield from (f"makes {text}" for text in one.function)
    yield from (f"asks {text}" for text in one.asks)
    if one.shape.keeps and one.shape.kind != "source":
        yield f"merges {one.merge}"
    for kept in one.shape.keeps:
        yield f"keeps {kept.what}" + (f", for {'; '.join(kept.asked)}" if kept.asked else "")
    if one.shape.kind != "source":
        yield f"costs {one.shape.cost}"
    yield from (f"warning[{warning.code}]: {warning.message}" for warning in one.shape.warnings)


NO_PLAN: Final[Mapping[str, Any]] = {
    "incremental": True,
    "answer": "",
    "parts": [],
    "nodes": [],
}
"""What `plan_data` would say where nothing changes."""


def plan_data(plan: Plan, by_row: ByRow = NOTHING_BY_ROW) -> dict[str, Any]:
    """A plan as data; docs/explain.md says what the fields mean."""
    return {
        "incremental": all(one.shape.is_incremental for one in explain_nodes(plan)),
        "answer": show_expr(plan.result),
        "parts": [
            {
                "name": show_variable(part.variable),
                "node": part.place,
                "ordered": part.order is not None,
            }
            for part in plan.parts
        ],
        "nodes": [_node_data(one, by_row) for one in explain_nodes(plan)],
    }


def _node_data(one: Explained, by_row: ByRow) -> dict[str, Any]:
    keeps = [
        {"what": kept.what, "asked": list(kept.asked), "rows": kept.is_rows}
        for kept in one.shape.keeps
    ]
    warned = [
        {"code": warning.code, "message": warning.message, "hint": WAYS_OUT.get(warning.code, "")}
        for warning in one.shape.warnings
    ]
    return {
        "node": one.place,
        "shape": one.shape.kind,
        "does": one.does,
        "inputs": list(one.inputs),
        "key": one.key,
        "key_from": list(one.key_from),
        "function": list(one.function),
        "asks": list(one.asks),
        "merge": one.merge,
        "lineage": one.lineage,
        "keeps": keeps,
        "cost": one.shape.cost,
        "by_row": list(by_row.get(one.place, ())),
        "reads": one.shape.scope,
        "emits": one.edge,
        "incremental": one.shape.is_incremental,
        "warnings": warned,
        "view": one.view,
    }


Strict: TypeAlias = bool | Literal["groups"]
"""What is an error: nothing, scope `tables`, or that and scope `groups`."""

_REFUSED: Final[Mapping[Strict, frozenset[Scope]]] = {
    False: frozenset(),
    True: frozenset(("tables",)),
    "groups": frozenset(("tables", "groups")),
}


def cautions(
    plan: Plan, span: Span, *, strict: Strict = False, iterate: LoopMode = "default"
) -> list[Diagnostic]:
    """The warnings of a plan; with `strict`, errors among them."""
    refused = _REFUSED[strict]
    diagnostics = []
    for one in explain_nodes(plan, iterate):
        label = "not incremental" if not one.shape.is_incremental else one.shape.kind
        for warning in one.shape.warnings:
            severity = "error" if warning.scope in refused else "warning"
            hint, where = WAYS_OUT.get(warning.code, ""), one.span or span
            diagnostics.append(
                Diagnostic(warning.code, warning.message, where, label, hint, severity)
            )
    return list(dict.fromkeys(diagnostics))
