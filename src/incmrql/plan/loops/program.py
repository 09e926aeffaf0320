"""A loop as a program of changes of its own: from rows of its inputs and variables to a step.

*Plain*: rows are those of one step.  *Numbered*: rows are pairs (step, row), and those of a step
are the difference to the step before, so that what a step does not change is not there:

    X_i  =  the sum of all rows with numbers up to i

    numbered(f, X)           (i, e) for each e in f(x), (i, x) in X
    numbered(X ⋈ Y)          (max(i, j), xy) for (i, x) in X, (j, y) in Y of one key
    numbered(groups of X)    groups by (i, key); the rows of a group are those up to i

An input of a loop has the number 0: it is the same in all steps, and kept once.
"""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.algebra import rows as build
from incmrql.algebra.normalize.rules.joins import at
from incmrql.algebra.rows import Names
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    element,
    pair,
)
from incmrql.algebra.walk import terms, variables_of
from incmrql.errors import InternalError
from incmrql.plan.additivity import Additivity
from incmrql.plan.nodes import LoopParam, Repeated
from incmrql.plan.planner import Planner
from incmrql.plan.program import LoopProgram
from incmrql.types import typed
from incmrql.types.model import BOOL, LONG, Collection, Tuple, Type, bag
from incmrql.types.walk import map_children, substitute


def step_program(node: Repeated, script: typed.Script) -> LoopProgram:
    """The program of one step."""
    names = _names(node)
    term = node.term
    step, flags = _flagless(term, term.step, names)
    return _plan(node, term.initial, step, flags, script)


def numbered_program(node: Repeated, script: typed.Script) -> LoopProgram | str:
    """The program of all steps, over rows with the numbers of steps; or why there is none."""
    reason = why_not(node)
    if reason:
        return reason
    term = node.term
    names = _names(node)
    step, flags = _flagless(term, term.step, names)
    numbering = _Numbering(names)
    initial = [numbering.term(each) for each in term.initial]
    numbered_flags = [None if each is None else numbering.term(each) for each in flags]
    return _plan(
        node, initial, [numbering.term(each) for each in step], numbered_flags, script, tagged=True
    )


def why_not(node: Repeated) -> str:
    """Why a loop has no numbered program; nothing if it has one."""
    term = node.term
    for each in (t for whole in (*term.initial, *term.step) for t in terms(whole)):
        if isinstance(each, Sort):
            return "rows are taken by their order in each step"
        if isinstance(each, Repeat):
            return "there is another loop inside of it"
    return ""


def _names(node: Repeated) -> Names:
    found = [*node.variables, *variables_of(node.term)]
    return Names(max((variable.number for variable in found), default=0))


def _flagless(
    loop: Repeat, step: Sequence[Term], names: Names
) -> tuple[list[Term], list[Term | None]]:
    """The rows of a step without flags, and the flags that are true."""
    rows: list[Term] = []
    flags: list[Term | None] = []
    for term, flagged in zip(step, loop.flagged, strict=True):
        if not flagged:
            rows.append(term)
            flags.append(None)
            continue
        one, other = (names.variable("flagged", element(term)) for _ in range(2))
        rows.append(CMap(one, build.bag_of(build.item(build.var(one), 0)), term))
        goes_on = build.item(build.var(other), 1)
        flags.append(CMap(other, build.when(goes_on, build.bag_of(build.unit())), term))
    return rows, flags


def _plan(
    node: Repeated,
    initial: Sequence[Term],
    step: Sequence[Term],
    flags: Sequence[Term | None],
    script: typed.Script,
    *,
    tagged: bool = False,
) -> LoopProgram:
    asked = [*initial, *step, *[each for each in flags if each is not None]]
    none = typed.Const(None, type=Tuple(()))
    parts = tuple(
        (typed.Variable("part", place, bag(element(term))), term)
        for place, term in enumerate(asked)
    )
    planning = Planner(Query(parts, none), script)
    planning.names = Names(max(planning.names.last, _names(node).last))
    inputs, variables = [], []
    for variable in node.variables:
        inputs.append(planning.add(LoopParam(_element(variable.type))))
        planning.shared[variable] = inputs[-1]
    for variable in node.term.variables:
        known = _numbered(variable) if tagged else variable
        variables.append(planning.add(LoopParam(_element(known.type))))
        planning.given[known] = variables[-1]
    for term in asked:
        planning.enter(term)
    return LoopProgram(
        inputs=tuple(inputs),
        variables=tuple(variables),
        initial=tuple(map(planning.place, initial)),
        step=tuple(map(planning.place, step)),
        flags=tuple(None if each is None else planning.place(each) for each in flags),
        nodes=tuple(planning.nodes),
        edges=tuple(planning.edges),
    )


class _Numbering:
    """Terms over pairs (step, row)."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def term(self, term: Term) -> Term:
        """The same term with the numbers of steps."""
        match term:
            case Shared() | Values():
                row = self.names.variable("row", element(term))
                return CMap(
                    row, build.bag_of(_with_number(typed.Const(0, type=LONG), build.var(row))), term
                )
            case Loop(variable):
                return Loop(_numbered(variable))
            case CMap(variable, body, (GroupBy() | CoGroup()) as groups):
                return self.grouped(variable, body, groups)
            case GroupBy() | CoGroup():
                group = self.names.variable("group", element(term))
                return self.grouped(group, build.bag_of(build.var(group)), term)
            case CMap(variable, body, source):
                row = self.names.variable("numbered", _pair(element(source)))
                step, value = _parts(build.var(row))
                inner = _simple(substitute(body, {variable: value}))
                return CMap(row, self.each(step, inner), self.term(source))
            case Union(parts):
                return Union(tuple(map(self.term, parts)))
            case Scan() | Sort() | Repeat():
                raise InternalError("a term that has no numbers")

    def each(self, step: typed.Expr, rows: typed.Expr) -> typed.Expr:
        """The elements of a bag, each with a number."""
        match rows:
            case typed.MakeCollection((row,)):
                return build.bag_of(_with_number(step, row))
            case typed.MakeCollection(()):
                return build.empty(_pair(_element(rows.type)))
            case typed.If(condition, then, typed.MakeCollection(())):
                return build.when(condition, self.each(step, then))
            case _:
                one = self.names.variable("one", _element(rows.type))
                return build.for_each(one, rows, _with_number(step, build.var(one)))

    def grouped(self, group: typed.Variable, body: typed.Expr, groups: GroupBy | CoGroup) -> Term:
        """A function of groups: a join keeps numbers beside rows, others group by them."""
        below = (groups.source,) if isinstance(groups, GroupBy) else (groups.left, groups.right)
        sides = Additivity(group, len(below)).additive(body)
        if sides is not None and len(sides) == 2:
            return self.joined(group, body, below)
        inner = [self.by_step(each) for each in below]
        fresh: Term = GroupBy(inner[0]) if len(inner) == 1 else CoGroup(inner[0], inner[1])
        whole = self.names.variable("group", element(fresh))
        step, key = _parts(at(whole, (0,)))
        known = build.tuple_of(key, at(whole, (1,)))
        return CMap(whole, self.each(step, _simple(substitute(body, {group: known}))), fresh)

    def by_step(self, source: Term) -> Term:
        """Pairs ((step, key), value)."""
        row = self.names.variable("numbered", _pair(element(source)))
        step, both = _parts(build.var(row))
        key, value = _parts(both)
        body = build.bag_of(build.tuple_of(_with_number(step, key), value))
        return CMap(row, body, self.term(source))

    def joined(self, group: typed.Variable, body: typed.Expr, below: Sequence[Term]) -> Term:
        """Pairs of rows, with the greater number."""
        sides = [self.by_key(each) for each in below]
        whole = self.names.variable("group", element(CoGroup(*sides)))
        one, other = (self.names.variable("side", pair(each)[1]) for each in sides)
        (left, first), (right, second) = _parts(build.var(one)), _parts(build.var(other))
        later = typed.Compare(">", left, right, type=BOOL)
        step = typed.If(later, left, right, type=LONG)
        rows = build.tuple_of(build.bag_of(first), build.bag_of(second))
        inner = _simple(substitute(body, {group: build.tuple_of(at(whole, (0,)), rows)}))
        made = self.names.variable("made", _element(body.type))
        qualifiers = [
            typed.Generator(typed.Bind(one), at(whole, (1, 0))),
            typed.Generator(typed.Bind(other), at(whole, (1, 1))),
            typed.Generator(typed.Bind(made), inner),
        ]
        head = _with_number(step, build.var(made))
        return CMap(whole, build.select(head, qualifiers), CoGroup(*sides))

    def by_key(self, source: Term) -> Term:
        """Pairs (key, (step, value))."""
        row = self.names.variable("numbered", _pair(element(source)))
        step, both = _parts(build.var(row))
        key, value = _parts(both)
        body = build.bag_of(build.tuple_of(key, _with_number(step, value)))
        return CMap(row, body, self.term(source))


def _numbered(variable: typed.Variable) -> typed.Variable:
    """A variable of a loop whose rows have numbers."""
    return typed.Variable(variable.name, variable.number, bag(_pair(_element(variable.type))))


def _with_number(step: typed.Expr, row: typed.Expr) -> typed.Expr:
    return build.tuple_of(step, row)


def _parts(both: typed.Expr) -> tuple[typed.Expr, typed.Expr]:
    return build.item(both, 0), build.item(both, 1)


def _pair(row: Type) -> Type:
    return Tuple((LONG, row))


def _element(type_: Type) -> Type:
    if not isinstance(type_, Collection):
        raise InternalError(f"{type_} is not a collection")
    return type_.element


def _simple(expr: typed.Expr) -> typed.Expr:
    """Components of tuples that are made on the spot, taken at once."""
    expr = map_children(_simple, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case _:
            return expr
