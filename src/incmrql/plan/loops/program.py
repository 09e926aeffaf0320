"""The program of changes of a loop's body: from rows of its inputs and variables to the next step.

*Plain*: the rows are those of one step.  *Numbered*: the rows are pairs (step, row), and those of a
step are its difference to the step before, so that rows that a step leaves alone are not stored:

    X_i  =  the sum of all rows with numbers up to i

    numbered(f, X)           (i, e) for each e in f(x), (i, x) in X
    numbered(X ⋈ Y)          (max(i, j), xy) for (i, x) in X, (j, y) in Y of one key
    numbered(groups of X)    groups by (i, key); the rows of a group are those up to i

The rows of an input have the number 0: they are the same in all steps, and kept once.
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
    loop = node.term
    step, flags = _split_flags(loop, loop.step, names)
    return _plan(node, loop.initial, step, flags, script)


def numbered_program(node: Repeated, script: typed.Script) -> LoopProgram | str:
    """The program of all steps, over rows with step numbers; or the reason why there is none."""
    reason = unnumbered_reason(node)
    if reason:
        return reason
    loop = node.term
    names = _names(node)
    step, flags = _split_flags(loop, loop.step, names)
    numbering = _Numbering(names)
    initial = [numbering.term(term) for term in loop.initial]
    numbered_flags = [None if term is None else numbering.term(term) for term in flags]
    return _plan(
        node,
        initial,
        [numbering.term(term) for term in step],
        numbered_flags,
        script,
        numbered=True,
    )


def unnumbered_reason(node: Repeated) -> str:
    """The reason why a loop has no numbered program; empty if it has one."""
    loop = node.term
    for term in (t for whole in (*loop.initial, *loop.step) for t in terms(whole)):
        if isinstance(term, Sort):
            return "rows are taken by their order in each step"
        if isinstance(term, Repeat):
            return "there is another loop inside of it"
    return ""


def _names(node: Repeated) -> Names:
    variables = [*node.variables, *variables_of(node.term)]
    return Names(max((variable.number for variable in variables), default=0))


def _split_flags(
    loop: Repeat, step: Sequence[Term], names: Names
) -> tuple[list[Term], list[Term | None]]:
    """The rows of a step without their flags, and a row () for each flag that is true."""
    rows: list[Term] = []
    flags: list[Term | None] = []
    for term, flagged in zip(step, loop.flagged, strict=True):
        if not flagged:
            rows.append(term)
            flags.append(None)
            continue
        flagged_row, flag_row = (names.variable("flagged", element(term)) for _ in range(2))
        rows.append(CMap(flagged_row, build.bag_of(build.item(build.var(flagged_row), 0)), term))
        is_true = build.item(build.var(flag_row), 1)
        flags.append(CMap(flag_row, build.when(is_true, build.bag_of(build.unit())), term))
    return rows, flags


def _plan(
    node: Repeated,
    initial: Sequence[Term],
    step: Sequence[Term],
    flags: Sequence[Term | None],
    script: typed.Script,
    *,
    numbered: bool = False,
) -> LoopProgram:
    planned_terms = [*initial, *step, *[flag for flag in flags if flag is not None]]
    none = typed.Const(None, type=Tuple(()))
    parts = tuple(
        (typed.Variable("part", index, bag(element(term))), term)
        for index, term in enumerate(planned_terms)
    )
    planner = Planner(Query(parts, none), script)
    planner.names = Names(max(planner.names.last, _names(node).last))
    inputs, variables = [], []
    for variable in node.variables:
        inputs.append(planner.add(LoopParam(_element(variable.type))))
        planner.shared[variable] = inputs[-1]
    for variable in node.term.variables:
        loop_variable = _numbered_variable(variable) if numbered else variable
        variables.append(planner.add(LoopParam(_element(loop_variable.type))))
        planner.loop_params[loop_variable] = variables[-1]
    for term in planned_terms:
        planner.register_term(term)
    return LoopProgram(
        inputs=tuple(inputs),
        variables=tuple(variables),
        initial=tuple(map(planner.index_of, initial)),
        step=tuple(map(planner.index_of, step)),
        flags=tuple(None if flag is None else planner.index_of(flag) for flag in flags),
        nodes=tuple(planner.nodes),
        edges=tuple(planner.edges),
    )


class _Numbering:
    """Rewrites terms to terms over pairs (step, row)."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def term(self, term: Term) -> Term:
        """The same term over pairs (step, row)."""
        match term:
            case Shared() | Values():
                row = self.names.variable("row", element(term))
                return CMap(
                    row, build.bag_of(_with_number(typed.Const(0, type=LONG), build.var(row))), term
                )
            case Loop(variable):
                return Loop(_numbered_variable(variable))
            case CMap(variable, body, (GroupBy() | CoGroup()) as groups):
                return self.groups(variable, body, groups)
            case GroupBy() | CoGroup():
                group = self.names.variable("group", element(term))
                return self.groups(group, build.bag_of(build.var(group)), term)
            case CMap(variable, body, source):
                row = self.names.variable("numbered", _pair(element(source)))
                step, value = _parts(build.var(row))
                inner = _simplify_components(substitute(body, {variable: value}))
                return CMap(row, self.with_step(step, inner), self.term(source))
            case Union(parts):
                return Union(tuple(map(self.term, parts)))
            case Scan() | Sort() | Repeat():
                raise InternalError("a term that has no numbers")

    def with_step(self, step: typed.Expr, rows: typed.Expr) -> typed.Expr:
        """The elements of a bag, each paired with the number of a step."""
        match rows:
            case typed.MakeCollection((row,)):
                return build.bag_of(_with_number(step, row))
            case typed.MakeCollection(()):
                return build.empty(_pair(_element(rows.type)))
            case typed.If(condition, then, typed.MakeCollection(())):
                return build.when(condition, self.with_step(step, then))
            case _:
                member = self.names.variable("one", _element(rows.type))
                return build.for_each(member, rows, _with_number(step, build.var(member)))

    def groups(self, group: typed.Variable, body: typed.Expr, groups: GroupBy | CoGroup) -> Term:
        """A function of groups: a join keeps numbers beside the rows, others group by them."""
        below = (groups.source,) if isinstance(groups, GroupBy) else (groups.left, groups.right)
        sides = Additivity(group, len(below)).additive(body)
        if sides is not None and len(sides) == 2:
            return self.join(group, body, below)
        inner = [self.by_step(side) for side in below]
        fresh: Term = GroupBy(inner[0]) if len(inner) == 1 else CoGroup(inner[0], inner[1])
        whole = self.names.variable("group", element(fresh))
        step, key = _parts(at(whole, (0,)))
        plain_group = build.tuple_of(key, at(whole, (1,)))
        return CMap(
            whole,
            self.with_step(step, _simplify_components(substitute(body, {group: plain_group}))),
            fresh,
        )

    def by_step(self, source: Term) -> Term:
        """Pairs ((step, key), value)."""
        row = self.names.variable("numbered", _pair(element(source)))
        step, both = _parts(build.var(row))
        key, value = _parts(both)
        body = build.bag_of(build.tuple_of(_with_number(step, key), value))
        return CMap(row, body, self.term(source))

    def join(self, group: typed.Variable, body: typed.Expr, below: Sequence[Term]) -> Term:
        """A join: pairs of rows, with the greater of their step numbers.

        A pair exists from the step on in which the later of its rows appears.
        """
        sides = [self.by_key(side) for side in below]
        whole = self.names.variable("group", element(CoGroup(*sides)))
        left_row, right_row = (self.names.variable("side", pair(side)[1]) for side in sides)
        (left, first), (right, second) = _parts(build.var(left_row)), _parts(build.var(right_row))
        later = typed.Compare(">", left, right, type=BOOL)
        step = typed.If(later, left, right, type=LONG)
        rows = build.tuple_of(build.bag_of(first), build.bag_of(second))
        inner = _simplify_components(
            substitute(body, {group: build.tuple_of(at(whole, (0,)), rows)})
        )
        result = self.names.variable("made", _element(body.type))
        qualifiers = [
            typed.Generator(typed.Bind(left_row), at(whole, (1, 0))),
            typed.Generator(typed.Bind(right_row), at(whole, (1, 1))),
            typed.Generator(typed.Bind(result), inner),
        ]
        head = _with_number(step, build.var(result))
        return CMap(whole, build.select(head, qualifiers), CoGroup(*sides))

    def by_key(self, source: Term) -> Term:
        """Pairs (key, (step, value))."""
        row = self.names.variable("numbered", _pair(element(source)))
        step, both = _parts(build.var(row))
        key, value = _parts(both)
        body = build.bag_of(build.tuple_of(key, _with_number(step, value)))
        return CMap(row, body, self.term(source))


def _numbered_variable(variable: typed.Variable) -> typed.Variable:
    """A variable of a loop, over pairs (step, row)."""
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


def _simplify_components(expr: typed.Expr) -> typed.Expr:
    """The expression with components of tuples that are built on the spot replaced."""
    expr = map_children(_simplify_components, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case _:
            return expr
