"""Steps into trees above joins and groups, taken where the trees are parsed.

A relation may pass a row of a source on as it is, and one above it call Python for a step into
it.  The step is then picked with the row (`picking`), and the relations between pass what was
picked on beside the row, or in its place where nobody asks for the row itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from incmrql.algebra.term import Picks, Scan
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.sql import tree
from incmrql.sql.context import PythonPlace
from incmrql.sql.merging import Relations
from incmrql.sql.picking import WHOLE, is_parsed, is_picked
from incmrql.types import typed
from incmrql.types.model import Any, Data, Record
from incmrql.types.walk import substitute

Sources = Sequence[tuple[str, Scan]]


def carried(
    relations: Relations,
    final: exp.Select,
    places: Sequence[PythonPlace],
    sources: Sources,
    fresh: Callable[[str], str],
) -> tuple[Relations, exp.Select, Sources]:
    """The same query with steps picked that Python would take in rows of a source."""
    steps = {place.name: place for place in places if _is_step(place)}
    scans = {name: picking for name, scan in sources if (picking := _picking(scan)) is not None}
    if not steps or not scans:
        return relations, final, sources
    carrying = _Carrying({name: each.copy() for name, each in relations}, scans, fresh)
    done = [(name, carrying.replaced(each, steps)) for name, each in carrying.known.items()]
    whole = carrying.replaced(final.copy(), steps)
    assert isinstance(whole, exp.Select)
    given = {name: scan for name, scan in scans.items() if name in carrying.asked}
    return done, whole, [(name, given.get(name, scan)) for name, scan in sources]


def _is_step(place: PythonPlace) -> bool:
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
