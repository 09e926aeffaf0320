"""How a node over groups reads its state, and how much of that it may read in a batch.

| scope | what may be read |
|---|---|
| `change` | the change, its join partners, and the rows of the node's output that change |
| `groups` | whole groups of touched keys, although no row of the output may change |
| `tables` | all rows of a table |

`answer_mode` and `read_method` say how a node reads.  The engine compiles nodes by them and
`explain.nodes` classifies nodes by them, so that the two cannot disagree.

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
from incmrql.types.walk import used_variables

Scope: TypeAlias = Literal["change", "groups", "tables"]
"""What a node may read in a batch."""

SCOPES: Final[tuple[Scope, ...]] = ("change", "groups", "tables")

Mode: TypeAlias = Literal["fold", "linear", "whole"]
"""What an answer over a group reads: no rows of it; one side row by row; whole sides."""

Method: TypeAlias = Literal["totals", "end", "ranks", "values", "rows"]
"""How a request is met: by accumulators; by the first or last value of a table; by a bounded
number of its values, found by rank; by all values of a table; by all rows of a side."""

_IN_TABLES: Final = ("least", "greatest", "user")
"""Accumulators that are not added up: their values are in a table."""


def answer_mode(node: Groups) -> Mode:
    """What the answer itself reads."""
    if not node.used:
        return "fold"
    if node.linear is not None and set(node.used) == {node.linear}:
        return "linear"
    return "whole"


def is_in_table(accumulator: Accumulator) -> bool:
    """Whether an accumulator is read from a table of values, and not from a total."""
    return accumulator.kind in _IN_TABLES


def read_method(node: Groups, request: Request) -> Method:
    """How a request is met."""
    if request.reading is not None:
        return _reading_method(request.reading)
    if not request.accumulators:
        return "rows"
    accumulator = node.accumulators[request.accumulators[0]]
    if not is_in_table(accumulator):
        return "totals"
    # What a user merges has no total of its own: all values are kept and merged again.
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


def whole_requests(node: Groups, few: Callable[[int], bool]) -> list[Request]:
    """The requests that read all rows or values of a group; `few` are sides with a row or so."""
    return [request for request in node.requests if _reads_whole(node, request, few)]


def _reads_whole(node: Groups, request: Request, few: Callable[[int], bool]) -> bool:
    match read_method(node, request):
        case "rows":
            return not _few_kept(node, request.side, few)
        case "values":
            return not few(request.side)
        case _:
            return False


def whole_sides(node: Groups, few: Callable[[int], bool]) -> list[int]:
    """The sides of which the answer itself reads whole groups, at any change or at some."""
    sides = [side for side in node.used if not _few_kept(node, side, few)]
    if answer_mode(node) == "linear":
        # A side that is not kept meets only what never changes.
        return [side for side in sides if node.requests and side in node.kept]
    return sides


def _few_kept(node: Groups, side: int, few: Callable[[int], bool]) -> bool:
    """Whether a group has a row or so in the table of a side: rows without columns are one."""
    return node.columns[side] == () or few(side)


def hidden_requests(node: Groups, few: Callable[[int], bool]) -> list[Request]:
    """The requests that read a whole group which the output rows do not hold."""
    held = _held_values(node)
    return [each for each in whole_requests(node, few) if each.variable not in held]


def hidden_sides(node: Groups, few: Callable[[int], bool]) -> list[int]:
    """The sides of which whole groups are read although the output may stay as it is."""
    sides = whole_sides(node, few)
    if answer_mode(node) == "linear":
        return [] if _changes_every_row(node) else sides
    judge = Additivity(node.group, len(node.inputs))
    held = {_held_side(part, judge) for part in _only_row_parts(node, judge, few)}
    return [side for side in sides if side not in held]


def _held_values(node: Groups) -> set[typed.Variable]:
    """The requests whose values are collections that every output row holds as they are."""
    judge = Additivity(node.group, len(node.inputs))
    parts = _only_row_parts(node, judge, lambda _: answer_mode(node) == "linear")
    kept = {
        each.variable
        for each in node.requests
        if each.reading is not None
        and each.reading.variable is None
        and isinstance(each.variable.type, Collection)
    }
    return {part.variable for part in parts if isinstance(part, typed.Var)} & kept


def _only_row_parts(
    node: Groups, judge: Additivity, few: Callable[[int], bool]
) -> Sequence[typed.Expr]:
    """The parts of the one row that every group is answered with; none if there may be no row.

    The row may be there once for each row of a side with `few` rows.
    """
    match node.body:
        case typed.MakeCollection((row,)):
            return list(_parts(row))
        case typed.Select() | typed.MapOver():
            found = _row_by_row(node.body, judge)
            if found is None or found[1] or not _few_kept(node, found[2], few):
                return ()
            return list(_parts(found[0]))
        case _:
            return ()


def _held_side(part: typed.Expr, judge: Additivity) -> int | None:
    """The side that a part of a row holds, row for row."""
    side = judge.side(part)
    if side is not None:
        return side
    found = _row_by_row(part, judge)
    return None if found is None or found[1] or judge.read(found[0]) else found[2]


def _parts(row: typed.Expr) -> Iterator[typed.Expr]:
    """What a row holds in a way that it differs wherever the part does."""
    yield row
    match row:
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            for item in items:
                yield from _parts(item)
        case typed.Widen(operand):
            yield from _parts(operand)
        case typed.Cast(operand) if row.type in (INT, LONG) and operand.type in (INT, LONG):
            yield from _parts(operand)
        case _:
            pass


def _row_by_row(
    expr: typed.Expr, judge: Additivity
) -> tuple[typed.Expr, list[typed.Expr], int] | None:
    """A bag that goes through a side: the row it makes, its conditions, and the side."""
    match expr:
        case typed.MapOver(_, subject, row, flatten):
            side = judge.side(subject)
            if side is None:
                return None
            if not flatten:
                return row, [], side
            match row:
                case typed.MakeCollection((one,)):
                    return one, [], side
                case typed.If(condition, typed.MakeCollection((one,)), typed.MakeCollection(())):
                    return one, list(_conjuncts(condition)), side
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
            side = judge.side(domain)
            conditions = [each.condition for each in rest if isinstance(each, typed.Condition)]
            if side is None or len(conditions) != len(rest):
                return None
            conditions += [] if where is None else [where]
            return head, [part for each in conditions for part in _conjuncts(each)], side
        case _:
            return None


def _conjuncts(condition: typed.Expr) -> Iterator[typed.Expr]:
    match condition:
        case typed.Logic("and", left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield condition


def _changes_every_row(node: Groups) -> bool:
    """Whether a request with a new value changes every output row of its group.

    It does where every row holds the value, or where the value alone says whether there are
    rows, as in a semi-join.  Conditions on a row itself are those of a join on its partners.
    """
    judge = Additivity(node.group, len(node.inputs))
    found = _row_by_row(node.body, judge)
    if found is None:
        return judge.side(node.body) is not None
    row, conditions, _ = found
    asked = {request.variable for request in node.requests}
    deciding = [each for each in conditions if used_variables(each) & asked]
    if not deciding:
        held = {part.variable for part in _parts(row) if isinstance(part, typed.Var)}
        return asked <= held
    (first, *more) = deciding
    if isinstance(first, typed.Not):
        first = first.operand
    return (
        not more
        and isinstance(first, typed.Var)
        and asked == {first.variable}
        and (first.type == BOOL)
    )


def held_in_loop(node: Groups, few: Callable[[int], bool]) -> bool:
    """Whether a loop that is kept from step to step reads no more of a group than its totals.

    There the values and rows of all steps are read for each key that a step reaches.
    """
    values = any(map(is_in_table, node.accumulators)) or bool(node.tables)
    return not values and all(_few_kept(node, side, few) for side in node.kept)
