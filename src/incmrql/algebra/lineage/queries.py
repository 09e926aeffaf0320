"""A query with its lineage, as a query: what `lineage q` and `debug q` ask, in the language itself.

    value of annotated(q)  =  { (row, note) }

One rule for each construct: `note` says what a value was made from, and `parts` is the collection
of its elements with a note beside each, (element, note) or (element, note, parts of the element),
where they are known one by one.  Everything else of a query stays as it is, so that it is
unnested, joined and run like any other, by every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import pattern_variables
from incmrql.algebra.lineage.notes import Leaves, Note, Notes, Origin, Parts, Row, Trees, element_of
from incmrql.algebra.lineage.selects import select_parts
from incmrql.algebra.lineage.shapes import (
    beside,
    combined,
    deeper,
    depth,
    elements_of,
    is_empty,
    is_known,
    leaves,
    mapped,
    nesting,
    numbered,
    ranged,
)
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope, last_number
from incmrql.errors import Diagnostic, QueryError
from incmrql.reference.operators import collection
from incmrql.types import typed
from incmrql.types.model import ANY, BOOL, LONG, Collection, Tuple, Type
from incmrql.types.walk import children, nodes, rename_binders, substitute
from incmrql.values import Bag, Value

Expr = TypeVar("Expr", bound=typed.Expr)


@dataclass(frozen=True, slots=True)
class Annotated:
    """A query with notes, and stored values that it uses beside those of the script."""

    expr: typed.Expr
    stored: Mapping[str, Value]
    kind: typed.ItemKind

    def answer(self, value: Value) -> list[Value]:
        """What the item answers, of the value of the query; null has no rows."""
        rows: list[Value] = [] if value is None else value
        if self.kind == "lineage":
            rows = [(row, Bag([leaf[:2] for leaf in note])) for row, note in rows]
        return collection(self.expr.type, rows)


def annotated(
    item: typed.ScriptItem,
    script: typed.Script,
    stored: Mapping[str, Value],
    name: Callable[[typed.Source], str],
) -> Annotated:
    """What an item asks: the rows of its answer, each with its note.  `name` names a source."""
    _check_certain(item, script)
    names = Names(last_number(script, item.expr))
    notes: Notes = Leaves(names) if item.kind == "lineage" else Trees(names)
    rewrite = LineageRewrite(notes, SourceScope(script), stored, name)
    return Annotated(rewrite.rows(item.expr), rewrite.stored_leaves, item.kind)


def _check_certain(item: typed.ScriptItem, script: typed.Script) -> None:
    """Refuse what has another value each time, as notes look at it again: code A003."""
    pending, seen = [item.expr], set[str]()
    while pending:
        for node in nodes(pending.pop()):
            match node:
                case typed.Builtin("random"):
                    message = f"{item.kind} of random values: each look at them gives others"
                    hint = "Store the random values first, store x := ...; and ask about x."
                    raise QueryError(Diagnostic("A003", message, item.expr.span, "of this", hint))
                case typed.Global(key) if f"query {key}" not in seen:
                    seen.add(f"query {key}")
                    pending.append(script.queries[key])
                case typed.Call(name) if name not in seen:
                    seen.add(name)
                    pending.append(script.functions[name].body)
                case _:
                    pass


def _uses(
    expr: typed.Expr, script: typed.Script, known: Container[int], called: set[str]
) -> list[typed.Expr]:
    """The sources, queries and known variables that an expression mentions anywhere."""
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
    """Rewrites queries of one script to queries with notes, by a rule for each construct."""

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
        """Whether null stands for parts that are not known, where other rows know theirs."""

    def rows(self, expr: typed.Expr) -> typed.Expr:
        """The rows of an answer with their notes."""
        if isinstance(expr.type, Collection):
            return self.elements(expr, self.outermost(), 1)
        note = self.notes.written(self.note(expr, self.outermost()))
        return build.bag_of(build.tuple_of(expr, note))

    # --- what a value was made from ------------------------------------------------------------

    def note(self, expr: typed.Expr, row: Row) -> Note:
        """What the value of an expression was made from, but for what is told anyway."""
        return row.untold(self._note(expr, row))

    def _note(self, expr: typed.Expr, row: Row) -> Note:
        notes = self.notes
        match expr:
            case typed.Var(variable):
                return row.origins[variable.number].note
            case typed.Read():
                return notes.whole("read", expr, self._leaves(expr))
            case typed.Stored(key):
                return self._stored(expr, key)
            case typed.Global(key):
                query = self._query(key)
                named = self.note(query, self.outermost())
                operator = f"query {key.partition('@')[0]}"
                return notes.over(operator, expr, (named,), self._shown(query, self.outermost()))
            case typed.Trace(operand, text):
                inner = self.note(operand, row)
                return notes.over(f"trace {text}", expr, (inner,), self._shown(operand, row))
            case typed.Select():
                return notes.whole("query", expr, self._known(expr, row))
            case typed.Combine(op):
                return notes.whole(op, expr, self._known(expr, row))
            case typed.MapOver():
                return self._note_of_map(expr, row)
            case typed.If():
                return self._note_of_if(expr, row)
            case typed.Case():
                return self._note_of_case(expr, row)
            case _:
                return self._other(expr, row)

    def _other(self, expr: typed.Expr, row: Row) -> Note:
        """Any other construct: all that its operands, or the code below its binders, use."""
        binds = isinstance(expr, typed.Repeat | typed.Fold | typed.Call | typed.UserAggregate)
        script = self.scope.script
        used = _uses(expr, script, row.origins, set()) if binds else list(children(expr))
        inputs = [self.note(part, row) for part in used]
        return self.notes.over(type(expr).__name__.lower(), expr, inputs)

    def _note_of_map(self, expr: typed.MapOver, row: Row) -> Note:
        known = self.notes.whole("map", expr, self._known(expr, row))
        if self.scope.is_never_null(expr.subject):
            return known
        subject = self.note(expr.subject, row)
        missing = self.notes.over("map", typed.Const(None, type=ANY), (subject,))
        is_there = typed.Compare("=", expr.subject, expr.subject, type=BOOL)
        return self._either(is_there, known, missing)

    def _note_of_if(self, expr: typed.If, row: Row) -> Note:
        test = self.note(expr.condition, row)
        then, otherwise = self.note(expr.then, row), self.note(expr.otherwise, row)
        branch = self._either(expr.condition, then, otherwise)
        return self.notes.over("if", expr, (test, branch), self._shown(expr, row))

    def _either(self, condition: typed.Expr, then: Note, otherwise: Note) -> Note:
        if then == otherwise:
            return then
        both = self.notes.written(then), self.notes.written(otherwise)
        return (typed.If(condition, *both, type=self.notes.type),)

    def _note_of_case(self, expr: typed.Case, row: Row) -> Note:
        expr = self.copied(expr)
        subject = self.note(expr.subject, row)
        branches, told = [], False
        for branch in expr.branches:
            bound = row.bind(self._bound(branch.pattern, expr.subject, row))
            body = self.note(branch.body, bound)
            shown = self._shown(branch.body, bound)
            note = self.notes.over("case", branch.body, (subject, body), shown)
            told = told or self.notes.all_told or not set(body) <= set(subject)
            branches.append(typed.Branch(branch.pattern, self.notes.written(note)))
        if not told:
            return subject
        missing = self.notes.over("case", typed.Const(None, type=ANY), (subject,))
        branches.append(typed.Branch(typed.Anything(), self.notes.written(missing)))
        return (typed.Case(expr.subject, tuple(branches), type=self.notes.type),)

    def _stored(self, expr: typed.Stored, key: str) -> Note:
        name = key.partition("@")[0]
        if isinstance(self.stored[key], list):
            return self.notes.whole(f"stored {name}", expr, self._leaves(expr))
        one = typed.Const(1, type=LONG)
        return self.notes.leaf(f"stored {name}", name, expr, one, self._number(key))

    # --- elements with their notes -------------------------------------------------------------

    def parts(self, expr: typed.Expr, row: Row, depth: int) -> typed.Expr | None:
        """The elements with their notes, if they are known one by one.

        `depth` is how deep inside of elements notes are asked for; 1 is the elements themselves.
        """
        match expr:
            case typed.Var(variable):
                origin = row.origins[variable.number]
                told = not self.notes.all_told and not row.untold(origin.note)
                return None if told else origin.parts()
            case typed.Read():
                return self._leaves(expr)
            case typed.Stored(key):
                return self._leaves(expr) if isinstance(self.stored[key], list) else None
            case typed.Global(key):
                return self.parts(self._query(key), self.outermost(), depth)
            case typed.Trace(operand):
                return self.parts(operand, row, depth)
            case typed.Select():
                return select_parts(self, self.copied(expr), row, depth)
            case typed.Combine():
                sides = [self.elements(side, row, depth) for side in (expr.left, expr.right)]
                return combined(expr, self._alike_deep(sides), self.notes)
            case typed.MapOver():
                return self._parts_of_map(self.copied(expr), row, depth)
            case typed.If(condition, then, otherwise):
                made = self._alike([(b, self.parts(b, row, depth)) for b in (then, otherwise)])
                return None if made is None else typed.If(condition, *made, type=made[0].type)
            case typed.Case():
                return self._parts_of_case(self.copied(expr), row, depth)
            case _:
                return None

    def elements(self, expr: typed.Expr, row: Row, depth: int) -> typed.Expr:
        """The elements with their notes: where they are not known, all that the whole has."""
        parts = self.parts(expr, row, depth)
        return self._coarse(expr, row) if parts is None else self.completed(parts, expr, row)

    def completed(self, parts: typed.Expr, expr: typed.Expr, row: Row) -> typed.Expr:
        """Parts with the elements themselves in the rows where null stands for parts."""
        if not self._sometimes_known or is_known(parts):
            return parts
        known = self.names.variable("parts", parts.type)
        there = typed.Compare("=", build.var(known), build.var(known), type=BOOL)
        coarse = self._deepened(self._coarse(expr, row), element_of(parts))
        body = typed.If(there, build.var(known), coarse, type=parts.type)
        return typed.Case(parts, (typed.Branch(typed.Bind(known), body),), type=parts.type)

    def _coarse(self, expr: typed.Expr, row: Row) -> typed.Expr:
        note = self.note(expr, row)
        return elements_of(expr, lambda one: self.notes.over("element", one, (note,)), self.notes)

    def _known(self, expr: typed.Expr, row: Row) -> typed.Expr:
        parts = self.parts(expr, row, 1)
        assert parts is not None
        return parts

    def _shown(self, expr: typed.Expr, row: Row) -> typed.Expr | None:
        """The parts, where a note shows them beside what has them too."""
        return self.parts(expr, row, 1) if self.notes.all_told else None

    def _leaves(self, expr: typed.Read | typed.Stored) -> typed.Expr:
        """The rows of a source, or of a value that was stored."""
        if isinstance(expr, typed.Read):
            name = expr.source.name or self.name(expr.source)
            number = self._number(repr(expr.source))
            return leaves(expr, f"source {name}", name, number, self.notes)
        name = expr.key.partition("@")[0]
        if self.notes.all_told:
            return leaves(expr, f"stored {name}", name, 0, self.notes)
        value = self.stored[expr.key]
        key, number = f"{expr.key}@leaves", self._number(id(value))
        self.stored_leaves[key] = numbered(value, name, number)
        kind = expr.type.kind if isinstance(expr.type, Collection) else "bag"
        return typed.Stored(key, type=Collection(kind, Tuple((ranged(expr), self.notes.type))))

    def _number(self, identity: object) -> int:
        return self._numbers.setdefault(identity, len(self._numbers))

    def _parts_of_map(self, expr: typed.MapOver, row: Row, depth: int) -> typed.Expr:
        subject = self.elements(expr.subject, row, 1 + nesting(expr.variable.type))
        part = self.names.variable("part", element_of(subject))
        note = (build.item(build.var(part), 1),)
        bound = row.bind({expr.variable.number: Origin(note, lambda: deeper(build.var(part)))})
        if expr.flatten:
            body = self.elements(expr.body, bound, depth)
        else:
            inputs = note, self.note(expr.body, bound)
            made = self.notes.over("each", expr.body, inputs, self._shown(expr.body, bound))
            inner = self.parts(expr.body, bound, depth - 1) if depth > 1 else None
            body = beside(expr.body, self.notes.written(made), inner)
        value = build.item(build.var(part), 0)
        return mapped(part, substitute(body, {expr.variable: value}), subject, expr, self.names)

    def _parts_of_case(self, expr: typed.Case, row: Row, depth: int) -> typed.Expr | None:
        rows = [row.bind(self._bound(b.pattern, expr.subject, row)) for b in expr.branches]
        bodies = [
            (branch.body, self.parts(branch.body, bound, depth))
            for branch, bound in zip(expr.branches, rows, strict=True)
        ]
        made = self._alike(bodies)
        if made is None:
            return None
        branches = [
            typed.Branch(branch.pattern, body)
            for branch, body in zip(expr.branches, made, strict=True)
        ]
        return typed.Case(expr.subject, tuple(branches), type=made[0].type)

    def _alike(
        self, bodies: Sequence[tuple[typed.Expr, typed.Expr | None]]
    ) -> list[typed.Expr] | None:
        """The parts of several branches in one form; None if they are known of none."""
        known = [parts for _, parts in bodies if parts is not None]
        if not known:
            return None
        type_ = known[0].type
        return self._alike_deep([
            parts if parts is not None
            else typed.MakeCollection((), type=type_) if is_empty(body)
            else self._unknown(type_)
            for body, parts in bodies
        ])  # fmt: skip

    def _unknown(self, type_: Type) -> typed.Expr:
        self._sometimes_known = True
        return typed.Const(None, type=type_)

    def _alike_deep(self, parts: Sequence[typed.Expr]) -> list[typed.Expr]:
        """Collections of elements with notes in one type: all as deep as the deepest."""
        deepest = max(map(element_of, parts), key=depth)
        return [self._deepened(each, deepest) for each in parts]

    def _deepened(self, parts: typed.Expr, element: Type) -> typed.Expr:
        """Elements with notes that have parts beside them as deep as elements of a type."""
        if depth(element_of(parts)) == depth(element):
            return parts
        one = self.names.variable("part", element_of(parts))
        value, note = (build.item(build.var(one), place) for place in range(2))
        assert isinstance(element, Tuple)
        wanted = element.items[2]
        assert isinstance(wanted, Collection)
        known = deeper(build.var(one))
        inner = self._unknown(wanted) if known is None else self._deepened(known, wanted.element)
        body = beside(value, note, inner)
        kind = parts.type.kind if isinstance(parts.type, Collection) else "bag"
        return typed.MapOver(one, parts, body, False, type=Collection(kind, body.type))

    def _bound(self, pattern: typed.Pattern, subject: typed.Expr, row: Row) -> dict[int, Origin]:
        note = self.note(subject, row)
        return self.origins(pattern, note, lambda: self.parts(subject, row, nesting(subject.type)))

    def origins(self, pattern: typed.Pattern, note: Note, parts: Parts) -> dict[int, Origin]:
        """The origins of what a pattern binds: the whole, or parts of it."""
        if isinstance(pattern, typed.Bind):
            return {pattern.variable.number: Origin(note, parts)}
        return {
            variable.number: Origin(self.notes.over("part", build.var(variable), (note,)))
            for variable in pattern_variables(pattern)
        }

    def outermost(self) -> Row:
        """The place where a query starts."""
        return Row(deep=self.notes.all_told)

    def copied(self, expr: Expr) -> Expr:
        """The expression with variables of its own."""
        return cast("Expr", rename_binders(expr, self.names.like))

    def _query(self, key: str) -> typed.Expr:
        return self.copied(self.scope.script.queries[key])
