"""Rewrites a query to one that also computes its lineage: `lineage q` and `debug q` run it.

    value of annotate(q)  =  { (row, note) }

One rule for each construct: `note` says what a value was made from, and `parts` is the collection
of its elements with a note beside each, (element, note) or (element, note, parts of the element),
if the notes of single elements are known.  Everything else of a query stays as it is, so that
every engine unnests, joins and runs it like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import pattern_variables
from incmrql.algebra.lineage.notes import (
    LeafLineage,
    Note,
    Notes,
    Parts,
    RowLineage,
    Trees,
    VariableOrigin,
    element_of,
)
from incmrql.algebra.lineage.selects import select_parts
from incmrql.algebra.lineage.shapes import (
    annotate_all,
    annotate_values,
    annotated_element,
    combine_parts,
    depth,
    is_always_known,
    is_empty,
    leaves,
    map_parts,
    nesting,
    parts_of_element,
    range_type,
)
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope, last_number
from incmrql.errors import Diagnostic, QueryError
from incmrql.reference.operators import collection
from incmrql.types import typed
from incmrql.types.model import ANY, LONG, Collection, Tuple, Type
from incmrql.types.walk import children, rename_binders, substitute
from incmrql.values import Bag, Value

Expr = TypeVar("Expr", bound=typed.Expr)


@dataclass(frozen=True, slots=True)
class AnnotatedQuery:
    """A query with notes, and the stored values that it uses besides those of the script."""

    expr: typed.Expr
    stored: Mapping[str, Value]
    kind: typed.ItemKind

    def answer(self, value: Value) -> list[Value]:
        """The answer of the item from the value of the query; null has no rows."""
        rows: list[Value] = [] if value is None else value
        if self.kind == "lineage":
            rows = [(row, Bag([leaf[:2] for leaf in note])) for row, note in rows]
        return collection(self.expr.type, rows)


def annotate(
    item: typed.ScriptItem,
    script: typed.Script,
    stored: Mapping[str, Value],
    name: Callable[[typed.Source], str],
) -> AnnotatedQuery:
    """The query for the rows of an item, each with its note.  `name` names a source."""
    scope = SourceScope(script)
    _refuse_random(item, scope)
    names = Names(last_number(script, item.expr))
    notes: Notes = LeafLineage(names) if item.kind == "lineage" else Trees(names)
    rewrite = LineageRewrite(notes, scope, stored, name)
    return AnnotatedQuery(rewrite.rows(item.expr), rewrite.stored_leaves, item.kind)


def _refuse_random(item: typed.ScriptItem, scope: SourceScope) -> None:
    """Refuse random values (A003): notes evaluate them again, and would show other ones."""
    builtins = (node for node in scope.reachable(item.expr) if isinstance(node, typed.Builtin))
    if any(builtin.function == "random" for builtin in builtins):
        message = f"{item.kind} of random values: each look at them gives others"
        hint = "Store the random values first, store x := ...; and ask about x."
        raise QueryError(Diagnostic("A003", message, item.expr.span, "of this", hint))


def _uses(
    expr: typed.Expr, script: typed.Script, known: Container[int], called: set[str]
) -> list[typed.Expr]:
    """The sources, queries and known variables that an expression uses anywhere."""
    match expr:
        case typed.Read() | typed.Global() | typed.Stored():
            return [expr]
        case typed.Var(variable):
            return [expr] if variable.number in known else []
        case typed.Call(name) if name not in called:
            called.add(name)
            below = [*children(expr), script.functions[name].body]
        case typed.UserAggregate(name):
            below = [*children(expr), *children(script.aggregations[name])]
        case _:
            below = list(children(expr))
    return [use for part in below for use in _uses(part, script, known, called)]


class LineageRewrite:
    """Rewrites a query to one with notes, by a rule for each construct."""

    def __init__(
        self,
        notes: Notes,
        scope: SourceScope,
        stored: Mapping[str, Value],
        name: Callable[[typed.Source], str],
    ) -> None:
        self.notes, self.names, self.scope = notes, notes.names, scope
        self.stored, self.name = stored, name
        self.stored_leaves: dict[str, Value] = {}
        self._numbers: dict[object, int] = {}
        self._sometimes_known = False
        """Whether null stands for unknown parts in some rows while other rows know theirs."""

    def rows(self, expr: typed.Expr) -> typed.Expr:
        """The rows of an answer with their notes."""
        if isinstance(expr.type, Collection):
            return self.elements(expr, self.outermost(), 1)
        note = self.notes.as_expr(self.note(expr, self.outermost()))
        return build.bag_of(build.tuple_of(expr, note))

    # --- What a value was made from ---

    def note(self, expr: typed.Expr, row: RowLineage) -> Note:
        """What the value of an expression was made from, beyond what the row implies."""
        return row.without_implied(self._note(expr, row))

    def _note(self, expr: typed.Expr, row: RowLineage) -> Note:
        notes = self.notes
        match expr:
            case typed.Var(variable):
                return row.origins[variable.number].note
            case typed.Read():
                return notes.collection_note("read", expr, self._leaves(expr))
            case typed.Stored(key):
                return self._stored(expr, key)
            case typed.Global(key):
                query = self._query(key)
                named = self.note(query, self.outermost())
                operator = f"query {key.partition('@')[0]}"
                return notes.value_note(
                    operator, expr, (named,), self._shown_parts(query, self.outermost())
                )
            case typed.Trace(operand, text):
                inner = self.note(operand, row)
                return notes.value_note(
                    f"trace {text}", expr, (inner,), self._shown_parts(operand, row)
                )
            case typed.Select():
                return notes.collection_note("query", expr, self._known_parts(expr, row))
            case typed.Combine(op):
                return notes.collection_note(op, expr, self._known_parts(expr, row))
            case typed.MapOver():
                return self._note_of_map(expr, row)
            case typed.If():
                return self._note_of_if(expr, row)
            case typed.Case():
                return self._note_of_case(expr, row)
            case _:
                return self._other(expr, row)

    def _other(self, expr: typed.Expr, row: RowLineage) -> Note:
        """Any other construct: all that its operands use, or the bodies below its binders."""
        binds = isinstance(expr, typed.Repeat | typed.Fold | typed.Call | typed.UserAggregate)
        script = self.scope.script
        parts = _uses(expr, script, row.origins, set()) if binds else children(expr)
        inputs = [self.note(part, row) for part in parts]
        return self.notes.value_note(type(expr).__name__.lower(), expr, inputs)

    def _note_of_map(self, expr: typed.MapOver, row: RowLineage) -> Note:
        known = self.notes.collection_note("map", expr, self._known_parts(expr, row))
        if self.scope.is_never_null(expr.subject):
            return known
        subject = self.note(expr.subject, row)
        missing = self.notes.value_note("map", typed.Const(None, type=ANY), (subject,))
        return self._either(build.is_present(expr.subject), known, missing)

    def _note_of_if(self, expr: typed.If, row: RowLineage) -> Note:
        test = self.note(expr.condition, row)
        then, otherwise = self.note(expr.then, row), self.note(expr.otherwise, row)
        branch = self._either(expr.condition, then, otherwise)
        return self.notes.value_note("if", expr, (test, branch), self._shown_parts(expr, row))

    def _either(self, condition: typed.Expr, then: Note, otherwise: Note) -> Note:
        if then == otherwise:
            return then
        both = self.notes.as_expr(then), self.notes.as_expr(otherwise)
        return (typed.If(condition, *both, type=self.notes.type),)

    def _note_of_case(self, expr: typed.Case, row: RowLineage) -> Note:
        expr = self.copy(expr)
        subject = self.note(expr.subject, row)
        branches, adds_notes = [], False
        for branch in expr.branches:
            bound = row.bind(self._bind_pattern(branch.pattern, expr.subject, row))
            body = self.note(branch.body, bound)
            shown = self._shown_parts(branch.body, bound)
            note = self.notes.value_note("case", branch.body, (subject, body), shown)
            adds_notes |= self.notes.is_tree or not set(body) <= set(subject)
            branches.append(typed.Branch(branch.pattern, self.notes.as_expr(note)))
        if not adds_notes:
            return subject
        missing = self.notes.value_note("case", typed.Const(None, type=ANY), (subject,))
        branches.append(typed.Branch(typed.Anything(), self.notes.as_expr(missing)))
        return (typed.Case(expr.subject, tuple(branches), type=self.notes.type),)

    def _stored(self, expr: typed.Stored, key: str) -> Note:
        name = key.partition("@")[0]
        if isinstance(self.stored[key], list):
            return self.notes.collection_note(f"stored {name}", expr, self._leaves(expr))
        one = typed.Const(1, type=LONG)
        return self.notes.leaf_note(f"stored {name}", name, expr, one, self._number(key))

    # --- Elements with their notes ---

    def parts(self, expr: typed.Expr, row: RowLineage, depth: int) -> typed.Expr | None:
        """The elements with their notes, or None if only the note of the whole is known.

        `depth` says how many levels of nested collections need notes; 1: the elements alone.
        """
        match expr:
            case typed.Var(variable):
                origin = row.origins[variable.number]
                is_implied = not self.notes.is_tree and not row.without_implied(origin.note)
                return None if is_implied else origin.parts()
            case typed.Read():
                return self._leaves(expr)
            case typed.Stored(key):
                return self._leaves(expr) if isinstance(self.stored[key], list) else None
            case typed.Global(key):
                return self.parts(self._query(key), self.outermost(), depth)
            case typed.Trace(operand):
                return self.parts(operand, row, depth)
            case typed.Select():
                return select_parts(self, self.copy(expr), row, depth)
            case typed.Combine():
                sides = [self.elements(side, row, depth) for side in (expr.left, expr.right)]
                return combine_parts(expr, self._unify_depth(sides), self.notes)
            case typed.MapOver():
                return self._parts_of_map(self.copy(expr), row, depth)
            case typed.If(condition, then, otherwise):
                branches = [(b, self.parts(b, row, depth)) for b in (then, otherwise)]
                unified = self._unify(branches)
                if unified is None:
                    return None
                return typed.If(condition, *unified, type=unified[0].type)
            case typed.Case():
                return self._parts_of_case(self.copy(expr), row, depth)
            case _:
                return None

    def elements(self, expr: typed.Expr, row: RowLineage, depth: int) -> typed.Expr:
        """The elements with their notes; an element of unknown note gets that of the whole."""
        parts = self.parts(expr, row, depth)
        return (
            self._coarse_elements(expr, row) if parts is None else self.complete(parts, expr, row)
        )

    def complete(self, parts: typed.Expr, expr: typed.Expr, row: RowLineage) -> typed.Expr:
        """Parts in which the whole's note is used wherever null stands for unknown parts."""
        if not self._sometimes_known or is_always_known(parts):
            return parts
        known = self.names.variable("parts", parts.type)
        coarse = self._deepen(self._coarse_elements(expr, row), element_of(parts))
        is_known = build.is_present(build.var(known))
        body = typed.If(is_known, build.var(known), coarse, type=parts.type)
        return typed.Case(parts, (typed.Branch(typed.Bind(known), body),), type=parts.type)

    def _coarse_elements(self, expr: typed.Expr, row: RowLineage) -> typed.Expr:
        note = self.note(expr, row)
        return annotate_all(
            expr, lambda one: self.notes.value_note("element", one, (note,)), self.notes
        )

    def _known_parts(self, expr: typed.Expr, row: RowLineage) -> typed.Expr:
        parts = self.parts(expr, row, 1)
        assert parts is not None
        return parts

    def _shown_parts(self, expr: typed.Expr, row: RowLineage) -> typed.Expr | None:
        """The parts that a tree shows; None for lineage, whose inputs have all of their leaves."""
        return self.parts(expr, row, 1) if self.notes.is_tree else None

    def _leaves(self, expr: typed.Read | typed.Stored) -> typed.Expr:
        """The rows of a source or of a stored value, with their notes."""
        if isinstance(expr, typed.Read):
            name = expr.source.name or self.name(expr.source)
            number = self._number(repr(expr.source))
            return leaves(expr, f"source {name}", name, number, self.notes)
        name = expr.key.partition("@")[0]
        if self.notes.is_tree:
            return leaves(expr, f"stored {name}", name, 0, self.notes)
        value = self.stored[expr.key]
        key, number = f"{expr.key}@leaves", self._number(id(value))
        self.stored_leaves[key] = annotate_values(value, name, number)
        kind = expr.type.kind if isinstance(expr.type, Collection) else "bag"
        return typed.Stored(key, type=Collection(kind, Tuple((range_type(expr), self.notes.type))))

    def _number(self, identity: object) -> int:
        return self._numbers.setdefault(identity, len(self._numbers))

    def _parts_of_map(self, expr: typed.MapOver, row: RowLineage, depth: int) -> typed.Expr:
        subject = self.elements(expr.subject, row, 1 + nesting(expr.variable.type))
        part = self.names.variable("part", element_of(subject))
        note = (build.item(build.var(part), 1),)
        bound = row.bind(
            {expr.variable.number: VariableOrigin(note, lambda: parts_of_element(build.var(part)))}
        )
        if expr.flatten:
            body = self.elements(expr.body, bound, depth)
        else:
            inputs = note, self.note(expr.body, bound)
            of_body = self.notes.value_note(
                "each", expr.body, inputs, self._shown_parts(expr.body, bound)
            )
            inner = self.parts(expr.body, bound, depth - 1) if depth > 1 else None
            body = annotated_element(expr.body, self.notes.as_expr(of_body), inner)
        value = build.item(build.var(part), 0)
        return map_parts(part, substitute(body, {expr.variable: value}), subject, expr, self.names)

    def _parts_of_case(self, expr: typed.Case, row: RowLineage, depth: int) -> typed.Expr | None:
        rows = [row.bind(self._bind_pattern(b.pattern, expr.subject, row)) for b in expr.branches]
        bodies = [
            (branch.body, self.parts(branch.body, bound, depth))
            for branch, bound in zip(expr.branches, rows, strict=True)
        ]
        unified = self._unify(bodies)
        if unified is None:
            return None
        branches = [
            typed.Branch(branch.pattern, body)
            for branch, body in zip(expr.branches, unified, strict=True)
        ]
        return typed.Case(expr.subject, tuple(branches), type=unified[0].type)

    def _unify(
        self, bodies: Sequence[tuple[typed.Expr, typed.Expr | None]]
    ) -> list[typed.Expr] | None:
        """The parts of several branches in one type; None if no branch has known parts."""
        known = [parts for _, parts in bodies if parts is not None]
        if not known:
            return None
        type_ = known[0].type
        return self._unify_depth([
            parts if parts is not None
            else typed.MakeCollection((), type=type_) if is_empty(body)
            else self._unknown(type_)
            for body, parts in bodies
        ])  # fmt: skip

    def _unknown(self, type_: Type) -> typed.Expr:
        self._sometimes_known = True
        return typed.Const(None, type=type_)

    def _unify_depth(self, parts: Sequence[typed.Expr]) -> list[typed.Expr]:
        """Parts of several collections in one type: all as deep as the deepest."""
        deepest = max(map(element_of, parts), key=depth)
        return [self._deepen(collection, deepest) for collection in parts]

    def _deepen(self, parts: typed.Expr, element: Type) -> typed.Expr:
        """Parts with as many levels as the parts of a given type."""
        if depth(element_of(parts)) == depth(element):
            return parts
        one = self.names.variable("part", element_of(parts))
        value, note = (build.item(build.var(one), place) for place in range(2))
        assert isinstance(element, Tuple)
        wanted = element.items[2]
        assert isinstance(wanted, Collection)
        known = parts_of_element(build.var(one))
        inner = self._unknown(wanted) if known is None else self._deepen(known, wanted.element)
        body = annotated_element(value, note, inner)
        kind = parts.type.kind if isinstance(parts.type, Collection) else "bag"
        return typed.MapOver(one, parts, body, False, type=Collection(kind, body.type))

    def _bind_pattern(
        self, pattern: typed.Pattern, subject: typed.Expr, row: RowLineage
    ) -> dict[int, VariableOrigin]:
        note = self.note(subject, row)
        return self.origins(pattern, note, lambda: self.parts(subject, row, nesting(subject.type)))

    def origins(
        self, pattern: typed.Pattern, note: Note, parts: Parts
    ) -> dict[int, VariableOrigin]:
        """The origins of what a pattern binds: the whole, or parts of it."""
        if isinstance(pattern, typed.Bind):
            return {pattern.variable.number: VariableOrigin(note, parts)}
        return {
            variable.number: VariableOrigin(
                self.notes.value_note("part", build.var(variable), (note,))
            )
            for variable in pattern_variables(pattern)
        }

    def outermost(self) -> RowLineage:
        """The row without variables that a query starts from."""
        return RowLineage(deep=self.notes.is_tree)

    def copy(self, expr: Expr) -> Expr:
        """A copy of the expression with variables of its own."""
        return cast("Expr", rename_binders(expr, self.names.like))

    def _query(self, key: str) -> typed.Expr:
        return self.copy(self.scope.script.queries[key])
