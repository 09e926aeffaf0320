"""How a node over groups reads its state, and how much of that it may read in a batch.

| scope | what may be read |
|---|---|
| `change` | the change, its join partners, and the rows of the node's output that change |
| `groups` | whole groups of affected keys, even if no row of the output changes |
| `tables` | all rows of a table |

`answer_mode` and `read_method` say how a node reads its state.  The engine compiles nodes by them
and `explain.nodes` classifies nodes by them, so that the two cannot disagree.

A group counts as part of the output where the output row holds it: a row with a nested
collection changes as a whole, and reading the collection is reading the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from incmrql.plan.additivity import Additivity
from incmrql.plan.nodes import Accumulator, Groups, Request, TableRead
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, Collection
from incmrql.types.walk import conjuncts, used_variables

Scope: TypeAlias = Literal["change", "groups", "tables"]
"""What a node may read in a batch."""

SCOPES: Final[tuple[Scope, ...]] = ("change", "groups", "tables")

Mode: TypeAlias = Literal["fold", "linear", "whole", "window"]
"""What the body of a node reads of a group: no rows; one side row by row; whole sides; the rows of
a window that a change concerns (`plan.windows`)."""

Method: TypeAlias = Literal["totals", "end", "ranks", "values", "rows"]
"""What a request reads: accumulators; the first or last value of a table; a bounded number of its
values, found by rank; all values of a table; all rows of a side."""

_IN_TABLES: Final = ("least", "greatest", "user")
"""Accumulators without an inverse: their values are kept in a table."""


def answer_mode(node: Groups) -> Mode:
    """What the body of a node itself reads of a group."""
    if node.window is not None:
        return "window"
    if not node.used:
        return "fold"
    if node.linear is not None and set(node.used) == {node.linear}:
        return "linear"
    return "whole"


def is_in_table(accumulator: Accumulator) -> bool:
    """Whether an accumulator is read from a table of values instead of a total."""
    return accumulator.kind in _IN_TABLES


def read_method(node: Groups, request: Request) -> Method:
    """What a request reads."""
    if request.reading is not None:
        return _reading_method(request.reading)
    if not request.accumulators:
        return "rows"
    accumulator = node.accumulators[request.accumulators[0]]
    if not is_in_table(accumulator):
        return "totals"
    # The merge of a user aggregation may have no inverse, so a total could not be corrected after
    # a deletion: all values are kept and merged again.
    return "values" if accumulator.kind == "user" else "end"


def _reading_method(reading: TableRead) -> Method:
    match reading.how, reading.arguments:
        case (("least" | "greatest"), _):
            return "end"
        case (("between" | "at"), _):
            return "ranks"
        case "first", (_,):
            return "ranks"
        case "slice", (typed.Const(int(first)), typed.Const(int(last))) if (first < 0) == (
            last < 0
        ):
            return "ranks"
        case _:
            return "values"


# --- what is read whole ------------------------------------------------------------------------


def whole_requests(node: Groups, has_few_rows: Callable[[int], bool]) -> list[Request]:
    """The requests that read all rows or values of a group.

    A side has few rows if each key has about one; reading it counts as reading the change.
    """
    return [request for request in node.requests if _reads_whole(node, request, has_few_rows)]


def _reads_whole(node: Groups, request: Request, has_few_rows: Callable[[int], bool]) -> bool:
    match read_method(node, request):
        case "rows":
            return not _keeps_few_rows(node, request.side, has_few_rows)
        case "values":
            return not has_few_rows(request.side)
        case _:
            return False


def whole_sides(node: Groups, has_few_rows: Callable[[int], bool]) -> list[int]:
    """The sides of which the body reads whole groups, at some changes or at all."""
    sides = [side for side in node.used if not _keeps_few_rows(node, side, has_few_rows)]
    if answer_mode(node) == "linear":
        # A side that is not kept is paired only with rows that never change.
        return [side for side in sides if node.requests and side in node.kept]
    return sides


def _keeps_few_rows(node: Groups, side: int, has_few_rows: Callable[[int], bool]) -> bool:
    """Whether the state of a side has about one row per group.

    Rows without columns are all equal, so they are stored once with a weight.
    """
    return node.columns[side] == () or has_few_rows(side)


def hidden_requests(node: Groups, has_few_rows: Callable[[int], bool]) -> list[Request]:
    """The requests that read whole groups which are not part of the output rows."""
    in_output = _output_values(node)
    return [
        request
        for request in whole_requests(node, has_few_rows)
        if request.variable not in in_output
    ]


def hidden_sides(node: Groups, has_few_rows: Callable[[int], bool]) -> list[int]:
    """The sides of which whole groups are read even if the output does not change."""
    sides = whole_sides(node, has_few_rows)
    if answer_mode(node) == "linear":
        return [] if _changes_every_row(node) else sides
    additivity = Additivity(node.group, len(node.inputs))
    in_output = {
        _output_side(part, additivity) for part in _single_row_parts(node, additivity, has_few_rows)
    }
    return [side for side in sides if side not in in_output]


def _output_values(node: Groups) -> set[typed.Variable]:
    """The requests whose values are collections that every output row contains unchanged."""
    additivity = Additivity(node.group, len(node.inputs))
    parts = _single_row_parts(node, additivity, lambda _: answer_mode(node) == "linear")
    collections = {
        request.variable
        for request in node.requests
        if request.reading is not None
        and request.reading.variable is None
        and isinstance(request.variable.type, Collection)
    }
    return {part.variable for part in parts if isinstance(part, typed.Var)} & collections


def _single_row_parts(
    node: Groups, additivity: Additivity, has_few_rows: Callable[[int], bool]
) -> Sequence[typed.Expr]:
    """The parts of the output row, if every group has one; empty if a group may have none.

    A group may also have one output row for each row of a side with few rows.
    """
    match node.body:
        case typed.MakeCollection((row,)):
            return list(_parts(row))
        case typed.Select() | typed.MapOver():
            row_map = _row_map(node.body, additivity)
            if row_map is None or row_map[1] or not _keeps_few_rows(node, row_map[2], has_few_rows):
                return ()
            return list(_parts(row_map[0]))
        case _:
            return ()


def _output_side(part: typed.Expr, additivity: Additivity) -> int | None:
    """The side whose rows a part of an output row contains, each as an element of its own."""
    side = additivity.side(part)
    if side is not None:
        return side
    row_map = _row_map(part, additivity)
    return (
        None if row_map is None or row_map[1] or additivity.sides_read(row_map[0]) else row_map[2]
    )


def _parts(row: typed.Expr) -> Iterator[typed.Expr]:
    """The parts of a row: if a part of two rows differs, the rows differ."""
    yield row
    match row:
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            for item in items:
                yield from _parts(item)
        case typed.Widen(operand) | typed.Not(operand):
            yield from _parts(operand)
        case typed.Cast(operand) if row.type in (INT, LONG) and operand.type in (INT, LONG):
            yield from _parts(operand)
        case _:
            pass


def _row_map(
    expr: typed.Expr, additivity: Additivity
) -> tuple[typed.Expr, list[typed.Expr], int] | None:
    """A bag that maps the rows of a side: its head, its conditions and the side; else None."""
    match expr:
        case typed.MapOver(_, subject, row, flatten):
            side = additivity.side(subject)
            if side is None:
                return None
            if not flatten:
                return row, [], side
            match row:
                case typed.MakeCollection((element,)):
                    return element, [], side
                case typed.If(
                    condition, typed.MakeCollection((element,)), typed.MakeCollection(())
                ):
                    return element, conjuncts(condition), side
                case _:
                    return None
        case typed.Select(
            distinct=False,
            head=head,
            qualifiers=(typed.Generator(typed.Bind(), domain), *rest),
            where=where,
            group=None,
            having=None,
            order=(),
            limit=None,
        ):
            side = additivity.side(domain)
            conditions = [item.condition for item in rest if isinstance(item, typed.Condition)]
            if side is None or len(conditions) != len(rest):
                return None
            conditions += [] if where is None else [where]
            return head, [part for item in conditions for part in conjuncts(item)], side
        case _:
            return None


def _changes_every_row(node: Groups) -> bool:
    """Whether a new value of a request changes every output row of its group.

    It does if every row contains the value, or if the value alone decides whether there are rows,
    as in a semi-join.  A condition on a row itself is no obstacle: a join filters pairs likewise.
    """
    additivity = Additivity(node.group, len(node.inputs))
    row_map = _row_map(node.body, additivity)
    if row_map is None:
        return additivity.side(node.body) is not None
    row, conditions, _ = row_map
    requested = {request.variable for request in node.requests}
    deciding = [condition for condition in conditions if used_variables(condition) & requested]
    if not deciding:
        held = {part.variable for part in _parts(row) if isinstance(part, typed.Var)}
        return requested <= held
    (first, *more) = deciding
    if isinstance(first, typed.Not):
        first = first.operand
    return (
        not more
        and isinstance(first, typed.Var)
        and requested == {first.variable}
        and (first.type == BOOL)
    )


def reads_totals_only(node: Groups, has_few_rows: Callable[[int], bool]) -> bool:
    """Whether a loop that is maintained step by step reads no more of a group than its totals.

    Such a loop reads the values and rows of all steps for each key that a step reaches.
    """
    values = any(map(is_in_table, node.accumulators)) or bool(node.tables)
    return not values and all(_keeps_few_rows(node, side, has_few_rows) for side in node.kept)
