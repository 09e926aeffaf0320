"""What each node of a plan is, keeps and costs, and what a user should be warned of: as data.

| code | warns that |
|---|---|
| W101 | a cross product keeps its sides whole |
| W102 | a change of a sub-query's value touches every row |
| W103 | a loop is run again from all of its input, or may be |
| W104 | all rows are one group, or one value, which every change goes through |
| W105 | whole groups of touched keys are read |

The scope of a node (`plan.access`) follows from its warnings: W105 is `groups`, the others are
`tables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from incmrql.errors import InternalError
from incmrql.plan.access import Scope, answer_mode, whole_requests, whole_sides
from incmrql.plan.additivity import Additivity, components
from incmrql.plan.explain.warnings import (
    SIDES,
    Nodes,
    Warned,
    few_rows,
    group_warnings,
    is_small,
    join_warnings,
    loop_warnings,
)
from incmrql.plan.loops.program import numbered_program, unnumbered_reason
from incmrql.plan.nodes import (
    Accumulator,
    AccumulatorKind,
    Constant,
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
    Request,
    ResultPart,
    Table,
    inputs,
)
from incmrql.plan.program import LoopMode, LoopProgram, Program
from incmrql.plan.windows import cost_of
from incmrql.types import typed
from incmrql.types.show import show_expr, show_window_function

Kind: TypeAlias = Literal["source", "linear", "bilinear", "fold", "per key", "loop"]


@dataclass(frozen=True, slots=True)
class StateItem:
    """Something that is remembered: rows or an accumulator, and which sub-terms asked for it."""

    what: str
    asked: tuple[str, ...] = ()
    is_rows: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """The cost of a node: its kind, what is kept, what a batch costs."""

    kind: Kind
    keeps: tuple[StateItem, ...]
    cost: str
    warnings: tuple[Warned, ...] = ()

    @property
    def scope(self) -> Scope:
        """What a batch may read."""
        scopes = {warning.scope for warning in self.warnings}
        return "tables" if "tables" in scopes else "groups" if scopes else "change"

    @property
    def is_incremental(self) -> bool:
        """Whether a batch never reads all rows of a table."""
        return self.scope != "tables"


def shapes(plan: Plan, iterate: LoopMode = "default") -> tuple[Shape, ...]:
    """The shape of every node of a plan, for a run that keeps loops in this way."""
    return _shapes(plan, [(plan.result, plan.parts)], plan.script, iterate)


def program_shapes(program: Program) -> tuple[Shape, ...]:
    """The shape of every node of a program."""
    answers = [(output.result, output.parts) for output in program.outputs]
    return _shapes(program, answers, program.script, program.iteration.mode)


def _shapes(
    plan: Nodes,
    answers: Iterable[tuple[typed.Expr, Sequence[ResultPart]]],
    script: typed.Script,
    iterate: LoopMode,
) -> tuple[Shape, ...]:
    whole = {
        part.place
        for result, parts in answers
        if not isinstance(result, typed.Var)
        for part in parts
        if not is_small(plan, part.place)
    }
    all_shapes = []
    for place, node in enumerate(plan.nodes):
        shape = _loop(node, script, iterate) if isinstance(node, Repeated) else _shape(node, plan)
        all_shapes.append(_in_one_value(shape) if place in whole else shape)
    return tuple(all_shapes)


def _in_one_value(shape: Shape) -> Shape:
    """The shape of a node whose rows are all read for an answer that is one value."""
    message = "the answer is one value: all rows of this node are read whenever one of them changes"
    return replace(shape, warnings=(*shape.warnings, Warned("W104", message)))


def _shape(node: Node, plan: Nodes) -> Shape:
    match node:
        case Input():
            return Shape(
                "source", _ledgers(node), "the change" if node.source.streaming else "once"
            )
        case Constant() | LoopParam():
            return Shape("source", (), "once")
        case Linear() | Merge():
            return Shape("linear", (), "the change")
        case Join():
            keeps = tuple(item for side in node.kept for item in _rows(node, side, plan))
            cost = "the change times its partners"
            return Shape("bilinear", keeps, cost, tuple(join_warnings(node, plan)))
        case Groups():
            kind: Kind = "fold" if node.is_fold else "per key"
            warnings = tuple(group_warnings(node, plan))
            return Shape(kind, _kept_items(node, plan), _cost(node, plan), warnings)
        case Ordered():
            what = f"first {show_expr(node.limit)} rows in order" if node.grows else "rows in order"
            return Shape("per key", (StateItem(what),), "the change and the rows answered")
        case Repeated():
            raise InternalError("the shape of a loop depends on how it is kept")
        case _:
            assert_never(node)


def _loop(node: Repeated, script: typed.Script, iterate: LoopMode) -> Shape:
    """A loop is kept from step to step where it can be, and else run again."""
    keeps = (StateItem("rows of the loop's inputs"), StateItem("rows of its last result"))
    reason = unnumbered_reason(node) or ("--iterate recompute" if iterate == "recompute" else "")
    if reason:
        message = "this loop is run again from all of its input whenever that changes"
        return Shape("loop", keeps, "all of its input", (Warned("W103", f"{message}: {reason}"),))
    steps = StateItem("differences from step to step, while these are few")
    if iterate == "exact":
        inner = numbered_program(node, script)
        assert isinstance(inner, LoopProgram)
        cost = "what changes, in the steps it reaches"
        return Shape("loop", (*keeps, steps), cost, tuple(loop_warnings(inner)))
    cost = "what changes, in the steps it reaches; or all of its input where most rows change"
    when = (
        "its error passes the tolerance or cannot be bounded"
        if iterate == "diffuse"
        else "its steps change most of their rows, or a change reaches many"
    )
    message = f"this loop is run again from all of its input when {when}"
    return Shape("loop", (*keeps, steps), cost, (Warned("W103", message),))


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


def _ledgers(node: Input) -> tuple[StateItem, ...]:
    deletions = ("deletions",) if node.ledger else ()
    if node.unique and node.source.streaming:
        return (StateItem(f"row by {', '.join(node.unique)}", ("the declared key", *deletions)),)
    return (StateItem("ledger of rows", deletions),) if node.ledger else ()


def _kept_items(node: Groups, plan: Nodes) -> tuple[StateItem, ...]:
    if node.is_final:
        return ()
    items = [StateItem("multiplicity", is_rows=False)]
    for place, accumulator in enumerate(node.accumulators):
        asked = [request for request in node.requests if place in request.accumulators]
        items.append(StateItem(_sum_text(accumulator), _request_texts(asked), is_rows=False))
    for place, table in enumerate(node.tables):
        if place == 0 and node.window is not None:
            functions = tuple(map(show_window_function, node.window.window.functions))
            items.append(StateItem("rows in the order of the window", functions))
            continue
        asked = [request for request in node.requests if _reads(node, request, place)]
        first = "values" if table.most is None else f"first {show_expr(table.most)} values"
        items.append(StateItem(f"{first} of {_values(table)} in order", _request_texts(asked)))
    kept = () if node.window is not None else node.kept
    return (*items, *[item for side in kept for item in _rows(node, side, plan)])


def _sum_text(accumulator: Accumulator) -> str:
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


def _request_texts(requests: list[Request]) -> tuple[str, ...]:
    return tuple(show_expr(request.expr) for request in requests)


def _reads(node: Groups, request: Request, table: int) -> bool:
    """Whether a request needs a table, itself or for the different values in it."""
    if request.reading is not None:
        return request.reading.table == table
    used = [node.accumulators[place].distinct for place in request.accumulators]
    return any(read is not None and read.table == table for read in used)


def _rows(node: Join | Groups, side: int, plan: Nodes) -> list[StateItem]:
    """What is kept of the rows of a side: its columns, each for the terms that read it."""
    names = SIDES if len(inputs(node)) == 2 else ("its",)
    what = f"{names[side]} {'row' if side in node.single else 'rows'} by {node.key}"
    below, columns = plan.nodes[inputs(node)[side]], node.columns[side]
    if columns is None:
        return [StateItem(_with(what, _mapped_value(below)), _askers(node, side))]
    if not columns:
        return [StateItem(f"number of {what}", _askers(node, side), is_rows=False)]
    return [
        StateItem(_with(what, _mapped_value(below, column), column), _askers(node, side, column))
        for column in columns
    ]


def _with(what: str, expr: typed.Expr | None, column: int | str | None = None) -> str:
    if expr is not None:
        return f"{what}: {show_expr(expr)}"
    return what if column is None else f"{what}: {column}"


def _askers(node: Join | Groups, side: int, column: int | str | None = None) -> tuple[str, ...]:
    """The terms that read rows of a side, or one column of them."""
    additivity, readers = Additivity(node.group, len(inputs(node))), _readers(node, side)
    rows = additivity.row_variables(readers, side)
    if rows is None:
        return tuple(map(show_expr, readers))
    parts = (
        [part for reader in readers for part in _parts(reader)]
        if isinstance(node, Join)
        else readers
    )
    read = [(part, components(part, rows)) for part in parts]
    return tuple(
        show_expr(part)
        for part, columns in read
        if columns is None or column in columns or (column is None and not isinstance(node, Join))
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


def _mapped_value(below: Node, column: int | str | None = None) -> typed.Expr | None:
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
    asked = [
        request.expr for request in node.requests if request.reads_rows and request.side == side
    ]
    return [*asked, node.body] if side in node.used else asked


def _cost(node: Groups, plan: Nodes) -> str:
    if node.window is not None:
        return cost_of(node.window)
    few = few_rows(node, plan)
    whole = whole_sides(node, few)
    if whole_requests(node, few) or (whole and answer_mode(node) == "whole"):
        return "the groups of the touched keys"
    if whole:
        return "the change, and the groups of keys for which what is asked changes"
    if node.tables:
        return "the change, and the values answered of the touched keys"
    return "the change and the touched keys"
