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
from incmrql.lower.context import Context, PythonExpression
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
    | typed.Logic | typed.Not | typed.IsNull | typed.Exists | typed.Navigate | typed.At
    | typed.LookUp | typed.SliceOf | typed.MapOver | typed.Field | typed.Item | typed.Cast
    | typed.Widen | typed.If | typed.Case | typed.Select
)  # fmt: skip


def pick_steps(term: CMap, ctx: Context) -> CMap | None:
    """The same over what is picked of the rows; None where nothing is to be picked."""
    scan = term.source
    if not isinstance(scan, Scan) or scan.picks is not None or not is_parsed(scan.source):
        return None
    picker = _Picker(term.variable, ctx)
    picker.body(term.body)
    if not any(_is_step(expr) for _, expr in picker.fields):
        return None
    row = Record(tuple((name, expr.type) for name, expr in picker.fields))
    variable = typed.Variable(term.variable.name, term.variable.number, row)
    body = _by_parts(term.body, picker.body(term.body, typed.Var(variable, type=row)))
    scan_ = Scan(scan.source, row, Picks(term.variable, tuple(picker.fields)))
    return CMap(variable, body, scan_)


def _by_parts(before: typed.Expr, body: typed.Expr) -> typed.Expr:
    """A body that was picked as a whole, with elements known by their parts as before."""
    if not (isinstance(before, typed.Select) and isinstance(body, typed.Field)):
        return body
    item = typed.Variable("item", -1, before.head.type)
    head = _rebuild(before.head, typed.Var(item, type=item.type))
    through = (typed.Generator(typed.Bind(item), body),)
    return typed.Select(False, head, through, None, None, None, (), None, type=body.type)


def _rebuild(like: typed.Expr, whole: typed.Expr) -> typed.Expr:
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
    return replace(like, items=tuple(map(_rebuild, items, parts)))


def is_parsed(source: typed.Source) -> bool:
    """Whether rows are parsed one by one, and none of them deletes another."""
    options = dict(source.options)
    signed = "deletes" in options or "sign" in options
    return source.format in PARSED and source.host is None and not signed


def is_never_null(scan: Scan, name: str) -> bool:
    """Whether a field of what is picked is there in every row."""
    return name == WHOLE and scan.source.row in (JSON, XML)


def without_picks(scan: Scan, names: set[str]) -> Scan:
    """A scan that picks less; one field stays, as rows are made of columns."""
    assert scan.picks is not None
    remaining = [field_ for field_ in scan.picks.fields if field_[0] not in names]
    remaining = remaining or [field_ for field_ in scan.picks.fields if field_[0] != WHOLE][:1]
    row = Record(tuple((name, expr.type) for name, expr in remaining))
    return Scan(scan.source, row, Picks(scan.picks.variable, tuple(remaining)))


@dataclass(slots=True)
class _Picker:
    """The fields that are picked so far of the rows that a variable stands for."""

    variable: typed.Variable
    ctx: Context
    fields: list[tuple[str, typed.Expr]] = field(default_factory=list)

    def body(self, expr: typed.Expr, row: typed.Expr | None = None) -> typed.Expr:
        """An expression with fields of a row in the place of what is picked.

        Without a row, the fields are only noted.
        """
        if expr == self._row or is_pickable(expr, self.variable):
            name = self._name(expr)
            return expr if row is None else typed.Field(row, name, type=expr.type, span=expr.span)
        if isinstance(expr, typed.Call) and self._is_inlined(expr):
            function = self.ctx.script.functions[expr.function]
            substitution = dict(zip(function.parameters, expr.arguments, strict=True))
            return self.body(substitute(function.body, substitution), row)
        return map_children(lambda child: self.body(child, row), expr)

    def _is_inlined(self, call: typed.Call) -> bool:
        """Whether a function is given the row or steps into it, and does not call itself."""
        parts = [part for argument in call.arguments for part in nodes(argument)]
        is_plain = all(isinstance(part, typed.Var | typed.Const | typed.Navigate) for part in parts)
        uses = any(part == self._row for part in parts)
        return is_plain and uses and not self.ctx.calls_itself(call.function)

    @property
    def _row(self) -> typed.Expr:
        return typed.Var(self.variable, type=self.variable.type)

    def _name(self, expr: typed.Expr) -> str:
        for name, picked in self.fields:
            if picked == expr:
                return name
        name = WHOLE if isinstance(expr, typed.Var) else f"step_{len(self.fields) + 1}"
        self.fields.append((name, expr))
        return name


def is_pickable(expr: typed.Expr, row: typed.Variable) -> bool:
    """Whether an expression is a step into a row, and into nothing else.

    A query whose elements hold the row itself is none: it would be there once for each.
    """
    if isinstance(expr, typed.Select) and _uses_row(expr, row):
        return False
    return _is_step(expr) and all(map(_is_total, nodes(expr))) and free_variables(expr) == {row}


def _uses_row(expr: typed.Expr, row: typed.Variable) -> bool:
    """Whether a row is used as it is, and not only stepped into."""
    if isinstance(expr, typed.Var):
        return expr.variable == row
    into = not isinstance(expr, typed.Select) and _is_step(expr)
    return not into and any(_uses_row(child, row) for child in children(expr))


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
            return _is_step(operand) or _has_trees(operand.type)
        case typed.Select(qualifiers=qualifiers):
            return any(
                isinstance(qualifier, typed.Generator) and (_has_trees(qualifier.domain.type))
                for qualifier in qualifiers
            )
        case typed.Field() | typed.Item():
            return False
        case _:
            return any(_has_trees(child.type) for child in children(expr))


def _has_trees(type_: Type) -> bool:
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


def carry_steps(
    relations: Relations,
    final: exp.Select,
    python_calls: Sequence[PythonExpression],
    sources: Sources,
    fresh: Callable[[str], str],
) -> tuple[Relations, exp.Select, Sources]:
    """The same query with steps picked that Python would take in rows of a source."""
    steps = {call.name: call for call in python_calls if _is_tree_step(call)}
    scans = {
        name: picking for name, scan in sources if (picking := _picking_scan(scan)) is not None
    }
    if not steps or not scans:
        return relations, final, sources
    carrier = _StepCarrier({name: select.copy() for name, select in relations}, scans, fresh)
    carried = [
        (name, carrier.replace_calls(select, steps)) for name, select in carrier.selects.items()
    ]
    whole = carrier.replace_calls(final.copy(), steps)
    assert isinstance(whole, exp.Select)
    picked = {name: scan for name, scan in scans.items() if name in carrier.picked_views}
    return carried, whole, [(name, picked.get(name, scan)) for name, scan in sources]


def _is_tree_step(call: PythonExpression) -> bool:
    """Whether a place is a step from one tree, and leads from null to null."""
    if len(call.parameters) != 1 or not is_pickable(call.body, call.parameters[0]):
        return False
    env = Environment(new_world(EMPTY_SCRIPT)).bind(call.parameters[0], None)
    return evaluate(call.body, env) is None


def _picking_scan(scan: Scan) -> Scan | None:
    """A scan that picks at least its rows; None where that cannot be."""
    if scan.picks is not None:
        return scan
    if not is_parsed(scan.source) or not isinstance(scan.element, Data | Any):
        return None
    variable = typed.Variable("row", -1, scan.element)
    fields = ((WHOLE, typed.Var(variable, type=scan.element)),)
    return Scan(scan.source, Record(((WHOLE, scan.element),)), Picks(variable, fields))


@dataclass(slots=True)
class _StepCarrier:
    """The relations of a query, which get more columns, and what scans pick."""

    selects: dict[str, exp.Expression]
    scans: dict[str, Scan]
    fresh: Callable[[str], str]
    picked_views: set[str] = field(default_factory=set)
    carried_columns: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The columns of relations that hold a step into another one of their columns."""

    def replace_calls(
        self, select: exp.Expression, steps: dict[str, PythonExpression]
    ) -> exp.Expression:
        """A SELECT with columns in the place of calls."""
        for call in list(select.find_all(exp.Anonymous)):
            step, arguments = steps.get(call.name), call.expressions
            select_ = call.find_ancestor(exp.Select)
            if step is None or select_ is None or not isinstance(arguments[0], exp.Column):
                continue
            replacement = self._column(select_, arguments[0].name, step)
            if replacement is not None:
                call.replace(tree.column(replacement))
        return select

    def _column(self, select: exp.Select, name: str, step: PythonExpression) -> str | None:
        """The column that holds a step into another one, for rows that a SELECT takes."""
        for table in _tables(select):
            if table in self.scans and name == WHOLE:
                return self._picked_column(table, step)
            inner = self.selects.get(table)
            carried_columns = None if inner is None else _passed_column(inner, name)
            if carried_columns is not None and isinstance(inner, exp.Select):
                return self._carried_column(table, inner, carried_columns, step)
        return None

    def _carried_column(
        self, table: str, inner: exp.Select, name: str, step: PythonExpression
    ) -> str | None:
        key = table, name, step.name
        if key not in self.carried_columns:
            below = self._column(inner, name, step)
            if below is None:
                return None
            self.carried_columns[key] = self.fresh("step")
            inner.append("expressions", exp.alias_(tree.column(below), self.carried_columns[key]))
        return self.carried_columns[key]

    def _picked_column(self, view: str, step: PythonExpression) -> str | None:
        scan = self.scans[view]
        assert scan.picks is not None
        picks, (parameter,) = scan.picks, step.parameters
        if picks.variable.type != parameter.type:
            return None
        row = typed.Var(picks.variable, type=picks.variable.type)
        expr = substitute(step.body, {parameter: row})
        self.picked_views.add(view)
        for name, picked in picks.fields:
            if picked == expr:
                return name
        name = f"step_{len(picks.fields) + 1}"
        fields = (*picks.fields, (name, expr))
        element = Record(tuple((n, e.type) for n, e in fields))
        self.scans[view] = replace(scan, element=element, picks=replace(picks, fields=fields))
        return name


def _tables(select: exp.Select) -> list[str]:
    """The relations that a SELECT takes its rows from."""
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    sources = [clause.this for clause in clauses if clause is not None]
    return [table.name for table in sources if isinstance(table, exp.Table)]


def _passed_column(select: exp.Expression, name: str) -> str | None:
    """Which column a SELECT passes on under a name, row by row."""
    if (
        not isinstance(select, exp.Select)
        or select.args.get("group")
        or select.args.get("distinct")
    ):
        return None
    for definition in select.expressions:
        if definition.alias_or_name == name:
            column = definition.this if isinstance(definition, exp.Alias) else definition
            return column.name if isinstance(column, exp.Column) else None
    return None
