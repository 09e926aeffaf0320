"""Collections whose elements have notes beside them.

A *part* of a collection is (element, note), or (element, note, parts of the element).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from incmrql.algebra import rows as build
from incmrql.algebra.lineage.notes import Note, Notes, element_of
from incmrql.algebra.rows import Names
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, Collection, Tuple, Type, bag, list_of
from incmrql.values import Bag, Value, encode


def nesting(type_: Type) -> int:
    """How many collections a type nests."""
    return 1 + nesting(type_.element) if isinstance(type_, Collection) else 0


def range_type(domain: typed.Expr) -> Type:
    """The type of what a generator over a value binds: the elements of a tree are trees."""
    return domain.type.element if isinstance(domain.type, Collection) else domain.type


def is_empty(expr: typed.Expr) -> bool:
    """Whether an expression is `{}` or `[]`."""
    while isinstance(expr, typed.Widen):
        expr = expr.operand
    return isinstance(expr, typed.MakeCollection) and not expr.items


def annotated_element(value: typed.Expr, note: typed.Expr, parts: typed.Expr | None) -> typed.Expr:
    """A part: an element, its note, and the parts of the element if they are known."""
    return build.tuple_of(value, note, *([] if parts is None else [parts]))


def parts_of_element(element: typed.Expr) -> typed.Expr | None:
    """The third component of a part, if it has one."""
    assert isinstance(element.type, Tuple)
    return build.item(element, 2) if len(element.type.items) > 2 else None


def depth(element: Type) -> int:
    """How many levels of parts are known inside a part."""
    assert isinstance(element, Tuple)
    if len(element.items) < 3:
        return 0
    assert isinstance(element.items[2], Collection)
    return 1 + depth(element.items[2].element)


def is_always_known(parts: typed.Expr) -> bool:
    """Whether the text of parts says that they are never null, which stands for unknown parts."""
    match parts:
        case typed.If(_, then, otherwise):
            return is_always_known(then) and is_always_known(otherwise)
        case typed.Case(_, branches):
            return all(is_always_known(branch.body) for branch in branches)
        case _:
            return not isinstance(parts, typed.Const | typed.Var | typed.Item)


def annotate_all(expr: typed.Expr, note: Callable[[typed.Expr], Note], notes: Notes) -> typed.Expr:
    """The elements of any collection, each with a note that is computed from it."""
    one = notes.names.variable("x", range_type(expr))
    element = annotated_element(build.var(one), notes.as_expr(note(build.var(one))), None)
    if isinstance(expr.type, Collection) and expr.type.kind == "list":
        return typed.MapOver(one, expr, element, False, type=list_of(element.type))
    return build.for_each(one, expr, element)


def leaves(expr: typed.Expr, operator: str, name: str, number: int, notes: Notes) -> typed.Expr:
    """The rows of a source, each with itself as its note; copies of a row are numbered."""
    if notes.is_tree:
        none = typed.Const(1, type=LONG)
        return annotate_all(
            expr, lambda one: notes.leaf_note(operator, name, one, none, number), notes
        )
    names = notes.names
    row, rows = names.variable("x", range_type(expr)), names.variable("xs", expr.type)
    key = names.variable("k", row.type)
    partition = names.variable("partition", bag(build.record_of([("x", build.var(row))]).type))
    group = typed.Group((build.var(row),), (typed.Bind(key),), ((row, rows),), partition, (row,))
    count = typed.Aggregate("count", build.var(rows), type=LONG)
    head = build.tuple_of(build.var(key), count)
    domain = (typed.Generator(typed.Bind(row), expr),)
    counted = typed.Select(False, head, domain, None, group, None, (), None, type=bag(head.type))
    value, times = names.variable("x", row.type), names.variable("n", LONG)
    copy = names.variable("copy", LONG)
    one = typed.Const(1, type=LONG)
    copies = typed.RangeOf(one, build.var(times), type=list_of(LONG))
    leaf = notes.leaf_note(operator, name, build.var(value), build.var(copy), number)
    return build.select(
        annotated_element(build.var(value), notes.as_expr(leaf), None),
        (
            typed.Generator(typed.TupleOf((typed.Bind(value), typed.Bind(times))), counted),
            typed.Generator(typed.Bind(copy), copies),
        ),
    )


def annotate_values(values: list[Value], name: str, number: int) -> list[Value]:
    """The same for rows that are given as values."""
    copies: Counter[bytes] = Counter()
    pairs = []
    for value in values:
        key = encode(value)
        copies[key] += 1
        pairs.append((value, Bag([(name, value, copies[key], number)])))
    return Bag(pairs) if isinstance(values, Bag) else pairs


def map_parts(
    part: typed.Variable, body: typed.Expr, subject: typed.Expr, expr: typed.MapOver, names: Names
) -> typed.Expr:
    """The body for each part: a select over a bag, a map over a list, which keeps its order."""
    kind = expr.type if isinstance(expr.type, Collection) else expr.subject.type
    type_ = element_of(body) if expr.flatten else body.type
    if isinstance(kind, Collection) and kind.kind == "list":
        return typed.MapOver(part, subject, body, expr.flatten, type=list_of(type_))
    if not expr.flatten:
        return build.for_each(part, subject, body)
    inner = names.variable("each", type_)
    return build.for_each(part, subject, build.var(inner), typed.Generator(typed.Bind(inner), body))


def combine_parts(expr: typed.Combine, sides: Sequence[typed.Expr], notes: Notes) -> typed.Expr:
    """The parts of `union`, `intersect`, `except`: of these two with the notes of all copies."""
    whole = bag(element_of(sides[0]))
    if expr.op == "union":
        return typed.Combine("union", sides[0], sides[1], type=whole)
    names = notes.names
    tagged = [_with_side(side, place, notes) for place, side in enumerate(sides)]
    both = typed.Combine("union", tagged[0], tagged[1], type=tagged[0].type)
    grouped = GroupedPairs(both, notes)
    counts = [typed.Aggregate("count", grouped.of_side(place), type=LONG) for place in range(2)]
    if expr.op == "intersect":
        less = typed.Compare("<", counts[0], counts[1], type=BOOL)
        times: typed.Expr = typed.If(less, counts[0], counts[1], type=LONG)
        note = grouped.note()
    else:
        times = typed.Arithmetic("-", counts[0], counts[1], type=LONG)
        note = grouped.note(0)
    counted = grouped.select(build.tuple_of(build.var(grouped.key), note, times))
    value, told = names.variable("x", grouped.key.type), names.variable("note", notes.type)
    last, copy = names.variable("n", LONG), names.variable("copy", LONG)
    pattern = typed.TupleOf((typed.Bind(value), typed.Bind(told), typed.Bind(last)))
    copies = typed.RangeOf(typed.Const(1, type=LONG), build.var(last), type=list_of(LONG))
    return build.select(
        annotated_element(build.var(value), build.var(told), None),
        (typed.Generator(pattern, counted), typed.Generator(typed.Bind(copy), copies)),
    )


def _with_side(side: typed.Expr, place: int, notes: Notes) -> typed.Expr:
    """Elements as (element, (note, side, keys))."""
    part = notes.names.variable("part", element_of(side))
    value, note = (build.item(build.var(part), i) for i in range(2))
    told = build.tuple_of(note, typed.Const(place, type=INT))
    return build.for_each(part, side, build.tuple_of(value, told))


class GroupedPairs:
    """Pairs (value, (note, …)), grouped by the value."""

    def __init__(self, pairs: typed.Expr, notes: Notes) -> None:
        names, self.notes = notes.names, notes
        element = element_of(pairs)
        assert isinstance(element, Tuple)
        value_type, rest = element.items
        self.pairs = pairs
        self.value, self.one = names.variable("x", value_type), names.variable("told", rest)
        self.key, self.many = names.like(self.value), names.variable("told", bag(rest))
        row = build.record_of([("x", build.var(self.value)), ("told", build.var(self.one))])
        self.partition = names.variable("partition", bag(row.type))

    def of_side(self, place: int) -> typed.Expr:
        """What comes from one of the sides."""
        one = self.notes.names.like(self.one)
        tag, wanted = build.item(build.var(one), 1), typed.Const(place, type=INT)
        same = typed.Compare("=", tag, wanted, type=BOOL)
        return build.for_each(one, build.var(self.many), build.var(one), typed.Condition(same))

    def note(self, place: int | None = None) -> typed.Expr:
        """The note of the value: those of all its copies, or of the copies of one side."""
        given = build.var(self.many) if place is None else self.of_side(place)
        one = self.notes.names.like(self.one)
        told = annotated_element(build.var(self.key), build.item(build.var(one), 0), None)
        parts = build.for_each(one, given, told)
        return self.notes.as_expr(self.notes.collection_note("row", build.var(self.key), parts))

    def select(
        self,
        head: typed.Expr,
        order: tuple[typed.Order, ...] = (),
        limit: typed.Expr | None = None,
    ) -> typed.Expr:
        """A select over the groups."""
        pattern = typed.TupleOf((typed.Bind(self.value), typed.Bind(self.one)))
        group = typed.Group(
            (build.var(self.value),),
            (typed.Bind(self.key),),
            ((self.one, self.many),),
            self.partition,
            (self.value, self.one),
        )
        kind: Collection = list_of(head.type) if order else bag(head.type)
        domain = (typed.Generator(pattern, self.pairs),)
        return typed.Select(False, head, domain, None, group, None, order, limit, type=kind)
