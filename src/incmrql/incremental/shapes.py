"""What each node of a plan is, keeps and costs, and what a user should be warned of: as data.

| code | warns that |
|---|---|
| W101 | a cross product keeps its sides whole |
| W102 | a change of a sub-query's value touches every row |
| W103 | a loop is run again from all of its input |
| W104 | all rows are one group, which every change goes through |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from incmrql.incremental.judge import Judge, components
from incmrql.incremental.looping import why_not
from incmrql.incremental.nodes import (
    Accumulator,
    AccumulatorKind,
    Constant,
    Given,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Node,
    Ordered,
    Plan,
    Repeated,
    Request,
    Table,
    inputs,
    is_unit,
)
from incmrql.types import typed
from incmrql.types.show import show_expr

Kind: TypeAlias = Literal["source", "linear", "bilinear", "fold", "per key", "loop"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that is remembered: rows or an accumulator, and which sub-terms asked for it."""

    what: str
    asked: tuple[str, ...] = ()
    is_rows: bool = True


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning with its stable code."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The cost of a node: its kind, what is kept, what a batch costs."""

    kind: Kind
    keeps: tuple[Kept, ...]
    cost: str
    warnings: tuple[Warned, ...] = ()

    @property
    def is_incremental(self) -> bool:
        """Whether a batch costs less than all the data."""
        return not any(each.code == "W103" for each in self.warnings)


def shapes(plan: Plan) -> tuple[Shape, ...]:
    """The shape of every node."""
    return tuple(_shape(node, plan) for node in plan.nodes)


def _shape(node: Node, plan: Plan) -> Shape:
    match node:
        case Input():
            return Shape(
                "source", _ledgers(node), "the change" if node.source.streaming else "once"
            )
        case Constant() | Given():
            return Shape("source", (), "once")
        case Linear() | Merge():
            return Shape("linear", (), "the change")
        case Join():
            keeps = tuple(each for side in node.kept for each in _rows(node, side, plan))
            cost = "the change times its partners"
            return Shape("bilinear", keeps, cost, tuple(_join_warnings(node, plan)))
        case Groups():
            kind: Kind = "fold" if node.is_fold else "per key"
            return Shape(kind, _kept(node, plan), _cost(node), tuple(_group_warnings(node, plan)))
        case Ordered():
            what = f"first {show_expr(node.limit)} rows in order" if node.grows else "rows in order"
            return Shape("per key", (Kept(what),), "the change and the rows answered")
        case Repeated():
            return _loop(node)
        case _:
            assert_never(node)


def _loop(node: Repeated) -> Shape:
    """A loop is kept from step to step where it can be, and else run again."""
    keeps = (Kept("rows of the loop's inputs"), Kept("rows of its last result"))
    reason = why_not(node)
    if reason:
        message = "this loop is run again from all of its input whenever that changes"
        return Shape("loop", keeps, "all of its input", (Warned("W103", f"{message}: {reason}"),))
    steps = Kept("differences from step to step, while these are few")
    cost = "what changes, in the steps it reaches; or all of its input where most rows change"
    return Shape("loop", (*keeps, steps), cost)


_SIDES: Final = ("left", "right")

_ADDED: Final[dict[AccumulatorKind, str]] = {
    "rows": "number of rows",
    "count": "count",
    "sum": "exact sum",
    "squares": "exact sum of squares",
    "true": "number of trues",
    "false": "number of falses",
    "parts": "exact sum of parts",
    "sizes": "sum of sizes",
    "least": "least",
    "greatest": "greatest",
    "user": "merged value",
}


def _ledgers(node: Input) -> tuple[Kept, ...]:
    deletions = ("deletions",) if node.ledger else ()
    if node.unique and node.source.streaming:
        return (Kept(f"row by {', '.join(node.unique)}", ("the declared key", *deletions)),)
    return (Kept("ledger of rows", deletions),) if node.ledger else ()


def _kept(node: Groups, plan: Plan) -> tuple[Kept, ...]:
    if node.is_final:
        return ()
    found = [Kept("multiplicity", is_rows=False)]
    for place, accumulator in enumerate(node.accumulators):
        asked = [request for request in node.requests if place in request.accumulators]
        found.append(Kept(_added(accumulator), _shown(asked), is_rows=False))
    for place, table in enumerate(node.tables):
        asked = [request for request in node.requests if _reads(node, request, place)]
        first = "values" if table.most is None else f"first {show_expr(table.most)} values"
        found.append(Kept(f"{first} of {_values(table)} in order", _shown(asked)))
    return (*found, *[each for side in node.kept for each in _rows(node, side, plan)])


def _added(accumulator: Accumulator) -> str:
    return f"{_ADDED[accumulator.kind]} of {show_expr(accumulator.operand)}"


def _values(table: Table) -> str:
    """The bag whose values a table has; beside those of an order, the keys of it."""
    match table.operand:
        case typed.Select(
            head=typed.MakeTuple((_, typed.Var(one))),
            qualifiers=(typed.Generator(typed.Bind(bound), domain),),
        ) if table.order == () and one == bound:
            return show_expr(domain)
        case _:
            return show_expr(table.operand)


def _shown(requests: list[Request]) -> tuple[str, ...]:
    return tuple(show_expr(request.asked) for request in requests)


def _reads(node: Groups, request: Request, table: int) -> bool:
    """Whether a request needs a table, itself or for the different values in it."""
    if request.reading is not None:
        return request.reading.table == table
    used = [node.accumulators[place].distinct for place in request.accumulators]
    return any(each is not None and each.table == table for each in used)


def _rows(node: Join | Groups, side: int, plan: Plan) -> list[Kept]:
    """What is kept of the rows of a side: its columns, each for the terms that read it."""
    names = _SIDES if len(inputs(node)) == 2 else ("its",)
    what = f"{names[side]} {'row' if side in node.single else 'rows'} by {node.key}"
    below, columns = plan.nodes[inputs(node)[side]], node.columns[side]
    if columns is None:
        return [Kept(_with(what, _made(below)), _askers(node, side))]
    if not columns:
        return [Kept(f"number of {what}", _askers(node, side), is_rows=False)]
    return [
        Kept(_with(what, _made(below, column), column), _askers(node, side, column))
        for column in columns
    ]


def _with(what: str, made: typed.Expr | None, column: int | str | None = None) -> str:
    if made is not None:
        return f"{what}: {show_expr(made)}"
    return what if column is None else f"{what}: {column}"


def _askers(node: Join | Groups, side: int, column: int | str | None = None) -> tuple[str, ...]:
    """The terms that read rows of a side, or one column of them."""
    judge, readers = Judge(node.group, len(inputs(node))), _readers(node, side)
    rows = judge.loops(readers, side)
    if rows is None:
        return tuple(map(show_expr, readers))
    parts = (
        [part for each in readers for part in _parts(each)] if isinstance(node, Join) else readers
    )
    read = [(part, components(part, rows)) for part in parts]
    return tuple(
        show_expr(part)
        for part, found in read
        if found is None or column in found or (column is None and not isinstance(node, Join))
    )


def _parts(body: typed.Expr) -> list[typed.Expr]:
    """The terms of a join: its conditions, and the components of what it makes."""
    match body:
        case typed.Select(head=head, qualifiers=qualifiers, where=where):
            conditions = [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
            return [*_parts(head), *conditions, *([] if where is None else [where])]
        case typed.MapOver(body=inner):
            return _parts(inner)
        case typed.If(condition, then):
            return [condition, *_parts(then)]
        case typed.MakeTuple(items) | typed.MakeRecord(items) | typed.MakeCollection(items):
            return [part for item in items for part in _parts(item)]
        case _:
            return [body]


def _made(below: Node, column: int | str | None = None) -> typed.Expr | None:
    """What a map puts beside the key of each pair, or one component of it."""
    if not isinstance(below, Linear):
        return None
    body = below.steps[-1][1]
    body = body.then if isinstance(body, typed.If) else body
    match body:
        case (
            typed.MakeCollection((typed.MakeTuple((_, value)),))
            | typed.Select(head=typed.MakeTuple((_, value)))
        ):
            pass
        case _:
            return None
    match value, column:
        case _, None:
            return None if isinstance(value, typed.Var | typed.MakeTuple) else value
        case typed.MakeTuple(items), int(place):
            return items[place]
        case _:
            return None


def _readers(node: Join | Groups, side: int) -> list[typed.Expr]:
    """What reads the rows of a side: aggregates that go through them, the answer itself."""
    if isinstance(node, Join):
        return [node.body]
    asked = [each.asked for each in node.requests if each.is_walked and each.side == side]
    return [*asked, node.body] if side in node.used else asked


def _whole(node: Groups) -> list[Request]:
    """The requests that go through rows, or through all values of a table."""
    return [
        request
        for request in node.requests
        if request.is_walked or (request.reading is not None and request.reading.how == "all")
    ]


def _cost(node: Groups) -> str:
    if _whole(node) or (node.used and node.linear is None):
        return "the groups of the touched keys"
    if node.linear is not None:
        return "the change, and the groups of keys for which what is asked changes"
    if node.tables:
        return "the change, and the values answered of the touched keys"
    return "the change and the touched keys"


def _join_warnings(node: Join, plan: Plan) -> list[Warned]:
    if not is_unit(node.key) or any(_is_one_row(plan, place) for place in inputs(node)):
        return []
    sides = " and the ".join(_SIDES[side] for side in node.kept)
    message = f"a cross product keeps the {sides} side whole, and every row meets all others"
    return [Warned("W101", message)] if node.kept else []


def _group_warnings(node: Groups, plan: Plan) -> list[Warned]:
    whole = [side for side in node.kept if not _is_one_row(plan, node.inputs[side])]
    if not is_unit(node.key) or not (whole or _whole(node)):
        return []
    if (node.linear is None and whole) or _whole(node):
        message = "all rows are one group, which is kept whole and gone through at every change"
        return [Warned("W104", message)]
    asked = ", ".join(show_expr(request.asked) for request in node.requests)
    return [Warned("W102", f"a change of {asked} touches every row")]


def _is_one_row(plan: Plan, place: int) -> bool:
    """Whether a node has one row or so: a constant, or totals under the one key ()."""
    node = plan.nodes[place]
    if isinstance(node, Linear):
        return _is_one_row(plan, node.input)
    if isinstance(node, Groups) and is_unit(node.key):
        return all(plan.edges[node.inputs[side]].constant for side in node.used)
    return plan.edges[place].constant
