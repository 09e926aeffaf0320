"""The rule for `select`: its rows with their notes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import pattern_variables, used_after_group
from incmrql.algebra.lineage.notes import RowLineage, VariableOrigin, element_of
from incmrql.algebra.lineage.shapes import (
    GroupedPairs,
    annotated_element,
    nesting,
    parts_of_element,
    range_type,
)
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Type, bag, list_of

if TYPE_CHECKING:
    from incmrql.algebra.lineage.queries import LineageRewrite


def select_parts(t: LineageRewrite, query: typed.Select, row: RowLineage, depth: int) -> typed.Expr:
    """The elements of a select, each with what its row and its head were made from."""
    start = inner = row.inside(deep=t.notes.is_tree or depth > 1)
    qualifiers: list[typed.Qualifier] = []
    for qualifier in query.qualifiers:
        inner = _add_qualifier(t, qualifier, inner, qualifiers)
    if query.where is not None:
        inner = inner.use(t.note(query.where, inner))
    lifting = None
    if query.group is not None:
        lifting = GroupLift(t, query, inner, qualifiers)
        inner = lifting.row(start)
    if query.having is not None:
        inner = inner.use(t.note(query.having, inner))
    note = _note(t, query.head, inner)
    deep = depth > 1 and not query.distinct
    parts = t.parts(query.head, inner, depth - 1) if deep else None
    group = None if lifting is None else lifting.group()
    plain = replace(query, qualifiers=tuple(qualifiers), group=group)
    if query.distinct:
        return _distinct(t, plain, note)
    head = annotated_element(query.head, note, parts)
    return replace(plain, head=head, type=_kind(query, head.type))


def _kind(query: typed.Select, element: Type) -> Collection:
    return list_of(element) if query.order else bag(element)


def _note(t: LineageRewrite, head: typed.Expr, row: RowLineage) -> typed.Expr:
    """What an element was made from: the inputs of its row, and those of its head."""
    shown = t.parts(head, row, 1) if t.notes.is_tree else None
    inputs = (*row.inputs, t.note(head, row))
    return t.notes.as_expr(t.notes.value_note("select", head, inputs, shown))


def _add_qualifier(
    t: LineageRewrite,
    qualifier: typed.Qualifier,
    row: RowLineage,
    qualifiers: list[typed.Qualifier],
) -> RowLineage:
    """Append a qualifier, with notes; the row after it."""
    match qualifier:
        case typed.Generator(pattern, domain):
            return _add_generator(t, pattern, domain, row, qualifiers)
        case typed.Binding(pattern, value):
            qualifiers.append(qualifier)
            note = t.note(value, row)
            parts = lambda: t.parts(value, row, nesting(value.type))  # noqa: E731
            return row.bind(t.origins(pattern, note, parts)).use(note)
        case typed.Condition(condition):
            qualifiers.append(qualifier)
            return row.use(t.note(condition, row))


def _add_generator(
    t: LineageRewrite,
    pattern: typed.Pattern,
    domain: typed.Expr,
    row: RowLineage,
    qualifiers: list[typed.Qualifier],
) -> RowLineage:
    wanted = 1 + nesting(range_type(domain)) if row.deep else 1
    parts = t.parts(domain, row, wanted)
    if parts is None:
        return _add_opaque_generator(t, pattern, domain, row, qualifiers)
    parts = t.complete(parts, domain, row)
    note_variable = t.names.variable("note", t.notes.type)
    bindings: list[typed.Pattern] = [pattern, typed.Bind(note_variable)]
    one = t.names.variable("part", element_of(parts))
    inner = parts_of_element(build.var(one))
    below = None if inner is None else t.names.variable("parts", inner.type)
    if below is not None:
        bindings.append(typed.Bind(below))
    qualifiers.append(typed.Generator(typed.TupleOf(tuple(bindings)), parts))
    note = (build.var(note_variable),)
    known = None if below is None else build.var(below)
    return row.bind(t.origins(pattern, note, lambda: known)).use(note)


def _add_opaque_generator(
    t: LineageRewrite,
    pattern: typed.Pattern,
    domain: typed.Expr,
    row: RowLineage,
    qualifiers: list[typed.Qualifier],
) -> RowLineage:
    """Append a generator whose elements all have the note of the whole collection."""
    note = t.note(domain, row)
    if not t.notes.is_tree:
        qualifiers.append(typed.Generator(pattern, domain))
    else:
        one = t.names.variable("x", range_type(domain))
        qualifiers.append(typed.Generator(typed.Bind(one), domain))
        qualifiers.append(typed.Binding(pattern, build.var(one)))
        note = t.notes.value_note("element", build.var(one), (note,))
    return row.bind(t.origins(pattern, note, lambda: None)).use(note)


class GroupLift:
    """A group by, which lifts what is used of the rows of a group to bags."""

    def __init__(
        self,
        t: LineageRewrite,
        query: typed.Select,
        rows: RowLineage,
        qualifiers: list[typed.Qualifier],
    ) -> None:
        assert query.group is not None
        self.t, self.given, self.rows, self.qualifiers = t, query.group, rows, qualifiers
        self.lifted = list(query.group.lifted)
        self.wanted = used_after_group(query)

    def row(self, outer: RowLineage) -> RowLineage:
        """A group as a row, made from its members."""
        t, group = self.t, self.given
        origins = {
            variable.number: VariableOrigin(t.notes.value_note("key", build.var(variable), ()))
            for variable in pattern_variables(group.patterns)
        }
        for variable, many in group.lifted:
            origin = self.rows.origins[variable.number]
            origins[many.number] = self._values(many, build.var(variable), origin)
        record = self._record()
        inputs = [self.rows.origins[v.number].note for v in group.rows]
        of_row = VariableOrigin(t.notes.value_note("row", record, inputs))
        origins[group.partition.number] = self._values(group.partition, record, of_row)
        member = t.notes.as_expr(t.notes.value_note("row", record, self.rows.inputs))
        note = t.notes.group_note(build.var(group.partition), self._lift(member))
        return outer.bind(origins).use(note)

    def group(self) -> typed.Group:
        """The group by with everything that was lifted.

        The rows have variables for notes now, so the old partition is lifted like them.
        """
        partition = self.given.partition
        if partition in self.wanted or self.t.notes.is_tree:
            row = self._bind(self._record())
            self.lifted.append((row, partition))
        rows = tuple(dict.fromkeys([*self.given.rows, *[one for one, _ in self.lifted]]))
        record = build.record_of([(v.name, build.var(v)) for v in rows])
        whole = self.t.names.variable(partition.name, bag(record.type))
        return replace(self.given, lifted=tuple(self.lifted), partition=whole, rows=rows)

    def _record(self) -> typed.Expr:
        return build.record_of([(v.name, build.var(v)) for v in self.given.rows])

    def _values(
        self, many: typed.Variable, value: typed.Expr, origin: VariableOrigin
    ) -> VariableOrigin:
        """The origin of the bag of a value in each row; unless deep, the row implies its notes."""
        if many not in self.wanted or not self.rows.deep:
            return VariableOrigin(())
        note = self.t.notes.as_expr(origin.note)
        parts = self._lift(annotated_element(value, note, origin.parts()))
        return VariableOrigin(
            self.t.notes.collection_note("group", build.var(many), parts), lambda: parts
        )

    def _lift(self, value: typed.Expr) -> typed.Expr:
        """The bag of the values of an expression over the rows of a group."""
        one = value.variable if isinstance(value, typed.Var) else self._bind(value)
        many = self.t.names.variable(one.name, bag(one.type))
        self.lifted.append((one, many))
        return build.var(many)

    def _bind(self, value: typed.Expr) -> typed.Variable:
        """A variable of the rows that holds a value."""
        one = self.t.names.variable("told", value.type)
        self.qualifiers.append(typed.Binding(typed.Bind(one), value))
        return one


def _distinct(t: LineageRewrite, query: typed.Select, note: typed.Expr) -> typed.Expr:
    """Distinct values with the notes of all rows that have them, each in the place of the first."""
    keys = build.tuple_of(*[order.expr for order in query.order])
    head = build.tuple_of(query.head, build.tuple_of(note, keys))
    pairs = replace(query, distinct=False, head=head, order=(), limit=None, type=bag(head.type))
    grouped = GroupedPairs(pairs, t.notes)
    answer = annotated_element(build.var(grouped.key), grouped.note(), None)
    order = tuple(
        typed.Order(build.item(_first_keys(t, query, grouped), index), key.descending)
        for index, key in enumerate(query.order)
    )
    return grouped.select(answer, order, query.limit)


def _first_keys(t: LineageRewrite, query: typed.Select, grouped: GroupedPairs) -> typed.Expr:
    """The sort keys of the first of several rows."""
    one = t.names.like(grouped.one)
    keys = build.item(build.var(one), 1)
    order = tuple(
        typed.Order(build.item(keys, index), key.descending)
        for index, key in enumerate(query.order)
    )
    domain = (typed.Generator(typed.Bind(one), build.var(grouped.many)),)
    first = typed.Select(
        False, keys, domain, None, None, None, order, typed.Const(1, type=LONG),
        type=list_of(keys.type),
    )  # fmt: skip
    return typed.Builtin("elem", (first,), type=keys.type)
