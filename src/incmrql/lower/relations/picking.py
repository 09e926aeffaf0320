"""Steps into trees, taken where the rows of a source are parsed.

    cMap(x → f(x.a.b, x.c), X)  =  cMap(r → f(r.step_1, r.step_2), X picking x.a.b, x.c)

The task that parses a document has its tree at hand.  What a query wants to know of the tree is
looked up there, and only that becomes columns: no tree is encoded, sent and decoded again for
each step.  A tree that is also used whole is one more column, with its canonical bytes.

Every row is asked, also one that a filter leaves out.  So only what always has a value, and soon,
is picked: no functions that call themselves or are Python's, no loops, no ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from incmrql.algebra.term import CMap, Picks, Scan
from incmrql.lower import tree
from incmrql.lower.context import Context, PythonPlace
from incmrql.lower.relations.compact import Relations
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import JSON, XML, Any, Collection, Data, Record, Type
from incmrql.types.walk import children, free_variables, map_children, nodes, substitute

WHOLE: Final = "value"
"""The column of the row itself."""
PARSED: Final = ("json", "xml")
"""The formats of sources that have trees for rows."""
_BUILTINS: Final = ("text", "tag", "elem", "member", "distinct", "sort", "reverse", "flatten")
_AGGREGATES: Final = ("count", "some", "all", "min", "max", "first")
_TOTAL: Final = (
    typed.Const | typed.Var | typed.MakeTuple | typed.MakeRecord | typed.MakeCollection
    | typed.MakeData | typed.Concat | typed.Arithmetic | typed.Negate | typed.Compare
    | typed.Logic | typed.Not | typed.Exists | typed.Navigate | typed.At | typed.LookUp
    | typed.SliceOf | typed.MapOver | typed.Field | typed.Item | typed.Cast | typed.Widen
    | typed.If | typed.Case | typed.Select
)  # fmt: skip


def picked(term: CMap, ctx: Context) -> CMap | None:
    """The same over what is picked of the rows; None where nothing is to be picked."""
    scan = term.source
    if not isinstance(scan, Scan) or scan.picks is not None or not is_parsed(scan.source):
        return None
    picking = _Picking(term.variable, ctx)
    picking.body(term.body)
    if not any(_is_step(expr) for _, expr in picking.fields):
        return None
    row = Record(tuple((name, expr.type) for name, expr in picking.fields))
    variable = typed.Variable(term.variable.name, term.variable.number, row)
    body = _by_parts(term.body, picking.body(term.body, typed.Var(variable, type=row)))
    found = Scan(scan.source, row, Picks(term.variable, tuple(picking.fields)))
    return CMap(variable, body, found)


def _by_parts(before: typed.Expr, body: typed.Expr) -> typed.Expr:
    """A body that was picked as a whole, with elements known by their parts as before."""
    if not (isinstance(before, typed.Select) and isinstance(body, typed.Field)):
        return body
    item = typed.Variable("item", -1, before.head.type)
    head = _apart(before.head, typed.Var(item, type=item.type))
    through = (typed.Generator(typed.Bind(item), body),)
    return typed.Select(False, head, through, None, None, None, (), None, type=body.type)


def _apart(like: typed.Expr, whole: typed.Expr) -> typed.Expr:
    """A value as the tuple or record of its parts, where an expression makes one."""
    parts: list[typed.Expr]
    match like:
        case typed.MakeTuple(items):
            parts = [typed.Item(whole, i, type=item.type) for i, item in enumerate(items)]
        case typed.MakeRecord(items) if isinstance(like.type, Record):
            pairs = zip(like.type.names, items, strict=True)
            parts = [typed.Field(whole, name, type=item.type) for name, item in pairs]
        case _:
            return whole
    return replace(like, items=tuple(map(_apart, items, parts)))


def is_parsed(source: typed.Source) -> bool:
    """Whether rows are parsed one by one, and none of them deletes another."""
    options = dict(source.options)
    signed = "deletes" in options or "sign" in options
    return source.format in PARSED and source.host is None and not signed


def is_never_null(scan: Scan, name: str) -> bool:
    """Whether a field of what is picked is there in every row."""
    return name == WHOLE and scan.source.row in (JSON, XML)


def without(scan: Scan, names: set[str]) -> Scan:
    """A scan that picks less; one field stays, as rows are made of columns."""
    assert scan.picks is not None
    kept = [each for each in scan.picks.fields if each[0] not in names]
    kept = kept or [each for each in scan.picks.fields if each[0] != WHOLE][:1]
    row = Record(tuple((name, expr.type) for name, expr in kept))
    return Scan(scan.source, row, Picks(scan.picks.variable, tuple(kept)))


@dataclass(slots=True)
class _Picking:
    """The fields that are picked so far of the rows that a variable stands for."""

    variable: typed.Variable
    ctx: Context
    fields: list[tuple[str, typed.Expr]] = field(default_factory=list)

    def body(self, expr: typed.Expr, row: typed.Expr | None = None) -> typed.Expr:
        """An expression with fields of a row in the place of what is picked.

        Without a row, the fields are only noted.
        """
        if expr == self._row or is_picked(expr, self.variable):
            name = self._name(expr)
            return expr if row is None else typed.Field(row, name, type=expr.type, span=expr.span)
        if isinstance(expr, typed.Call) and self._is_written_out(expr):
            function = self.ctx.script.functions[expr.function]
            given = dict(zip(function.parameters, expr.arguments, strict=True))
            return self.body(substitute(function.body, given), row)
        return map_children(lambda child: self.body(child, row), expr)

    def _is_written_out(self, call: typed.Call) -> bool:
        """Whether a function is given the row or steps into it, and does not call itself."""
        parts = [part for argument in call.arguments for part in nodes(argument)]
        is_plain = all(isinstance(part, typed.Var | typed.Const | typed.Navigate) for part in parts)
        uses = any(part == self._row for part in parts)
        return is_plain and uses and not self.ctx.calls_itself(call.function)

    @property
    def _row(self) -> typed.Expr:
        return typed.Var(self.variable, type=self.variable.type)

    def _name(self, expr: typed.Expr) -> str:
        for name, known in self.fields:
            if known == expr:
                return name
        name = WHOLE if isinstance(expr, typed.Var) else f"step_{len(self.fields) + 1}"
        self.fields.append((name, expr))
        return name


def is_picked(expr: typed.Expr, row: typed.Variable) -> bool:
    """Whether an expression is a step into a row, and into nothing else.

    A query whose elements hold the row itself is none: it would be there once for each.
    """
    if isinstance(expr, typed.Select) and _holds(expr, row):
        return False
    return _is_step(expr) and all(map(_is_total, nodes(expr))) and free_variables(expr) == {row}


def _holds(expr: typed.Expr, row: typed.Variable) -> bool:
    """Whether a row is used as it is, and not only stepped into."""
    if isinstance(expr, typed.Var):
        return expr.variable == row
    into = not isinstance(expr, typed.Select) and _is_step(expr)
    return not into and any(_holds(child, row) for child in children(expr))


def _is_step(expr: typed.Expr) -> bool:
    """Whether an expression looks into a tree, or makes one."""
    match expr:
        case typed.Navigate() | typed.MakeData():
            return True
        case typed.Compare() | typed.MakeTuple() | typed.MakeRecord() | typed.MakeCollection():
            return False
        case typed.Var() | typed.If() | typed.Concat():
            return False
        case typed.Aggregate(_, operand) | typed.Exists(operand):
            return _is_step(operand) or _holds_trees(operand.type)
        case typed.Select(qualifiers=qualifiers):
            return any(
                isinstance(each, typed.Generator) and (_holds_trees(each.domain.type))
                for each in qualifiers
            )
        case typed.Field() | typed.Item():
            return False
        case _:
            return any(_holds_trees(child.type) for child in children(expr))


def _holds_trees(type_: Type) -> bool:
    """Whether values are trees, or collections of trees."""
    while isinstance(type_, Collection):
        type_ = type_.element
    return isinstance(type_, Data | Any)


def _is_total(expr: typed.Expr) -> bool:
    """Whether an expression surely has a value, if its parts do, at little cost."""
    match expr:
        case typed.Builtin(name):
            return name in _BUILTINS
        case typed.Aggregate(name):
            return name in _AGGREGATES
        case _:
            return isinstance(expr, _TOTAL)


# --- Above joins and groups ---
#
# A relation may pass a row of a source on as it is, and one above it call Python for a step into
# it. The step is then picked with the row (`picking`), and the relations between pass what was
# picked on beside the row, or in its place where nobody asks for the row itself.


Sources = Sequence[tuple[str, Scan]]


def carried(
    relations: Relations,
    final: exp.Select,
    places: Sequence[PythonPlace],
    sources: Sources,
    fresh: Callable[[str], str],
) -> tuple[Relations, exp.Select, Sources]:
    """The same query with steps picked that Python would take in rows of a source."""
    steps = {place.name: place for place in places if _is_tree_step(place)}
    scans = {name: picking for name, scan in sources if (picking := _picking(scan)) is not None}
    if not steps or not scans:
        return relations, final, sources
    carrying = _Carrying({name: each.copy() for name, each in relations}, scans, fresh)
    done = [(name, carrying.replaced(each, steps)) for name, each in carrying.known.items()]
    whole = carrying.replaced(final.copy(), steps)
    assert isinstance(whole, exp.Select)
    given = {name: scan for name, scan in scans.items() if name in carrying.asked}
    return done, whole, [(name, given.get(name, scan)) for name, scan in sources]


def _is_tree_step(place: PythonPlace) -> bool:
    """Whether a place is a step from one tree, and leads from null to null."""
    if len(place.parameters) != 1 or not is_picked(place.body, place.parameters[0]):
        return False
    env = Environment(new_world(EMPTY_SCRIPT)).bind(place.parameters[0], None)
    return evaluate(place.body, env) is None


def _picking(scan: Scan) -> Scan | None:
    """A scan that picks at least its rows; None where that cannot be."""
    if scan.picks is not None:
        return scan
    if not is_parsed(scan.source) or not isinstance(scan.element, Data | Any):
        return None
    variable = typed.Variable("row", -1, scan.element)
    fields = ((WHOLE, typed.Var(variable, type=scan.element)),)
    return Scan(scan.source, Record(((WHOLE, scan.element),)), Picks(variable, fields))


@dataclass(slots=True)
class _Carrying:
    """The relations of a query, which get more columns, and what scans pick."""

    known: dict[str, exp.Expression]
    scans: dict[str, Scan]
    fresh: Callable[[str], str]
    asked: set[str] = field(default_factory=set)
    passed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The columns of relations that hold a step into another one of their columns."""

    def replaced(self, select: exp.Expression, steps: dict[str, PythonPlace]) -> exp.Expression:
        """A SELECT with columns in the place of calls."""
        for call in list(select.find_all(exp.Anonymous)):
            place, given = steps.get(call.name), call.expressions
            around = call.find_ancestor(exp.Select)
            if place is None or around is None or not isinstance(given[0], exp.Column):
                continue
            found = self._column(around, given[0].name, place)
            if found is not None:
                call.replace(tree.column(found))
        return select

    def _column(self, select: exp.Select, name: str, place: PythonPlace) -> str | None:
        """The column that holds a step into another one, for rows that a SELECT takes."""
        for table in _tables(select):
            if table in self.scans and name == WHOLE:
                return self._picked(table, place)
            inner = self.known.get(table)
            passed = None if inner is None else _passed(inner, name)
            if passed is not None and isinstance(inner, exp.Select):
                return self._carried(table, inner, passed, place)
        return None

    def _carried(self, table: str, inner: exp.Select, name: str, place: PythonPlace) -> str | None:
        key = table, name, place.name
        if key not in self.passed:
            below = self._column(inner, name, place)
            if below is None:
                return None
            self.passed[key] = self.fresh("step")
            inner.append("expressions", exp.alias_(tree.column(below), self.passed[key]))
        return self.passed[key]

    def _picked(self, view: str, place: PythonPlace) -> str | None:
        scan = self.scans[view]
        assert scan.picks is not None
        picks, (parameter,) = scan.picks, place.parameters
        if picks.variable.type != parameter.type:
            return None
        row = typed.Var(picks.variable, type=picks.variable.type)
        expr = substitute(place.body, {parameter: row})
        self.asked.add(view)
        for name, known in picks.fields:
            if known == expr:
                return name
        name = f"step_{len(picks.fields) + 1}"
        fields = (*picks.fields, (name, expr))
        element = Record(tuple((n, e.type) for n, e in fields))
        self.scans[view] = replace(scan, element=element, picks=replace(picks, fields=fields))
        return name


def _tables(select: exp.Select) -> list[str]:
    """The relations that a SELECT takes its rows from."""
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    found = [clause.this for clause in clauses if clause is not None]
    return [table.name for table in found if isinstance(table, exp.Table)]


def _passed(select: exp.Expression, name: str) -> str | None:
    """Which column a SELECT passes on under a name, row by row."""
    if (
        not isinstance(select, exp.Select)
        or select.args.get("group")
        or select.args.get("distinct")
    ):
        return None
    for each in select.expressions:
        if each.alias_or_name == name:
            column = each.this if isinstance(each, exp.Alias) else each
            return column.name if isinstance(column, exp.Column) else None
    return None
