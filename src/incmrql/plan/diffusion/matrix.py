"""A step as a matrix: which row of a loop's variable adds how much to which row of the next.

A step is *affine* if every row of it is made of labels, which no value of the variable has part
in, and of one double

    y  =  constant + coefficient * x + ...        a sum over rows x of the variable

The term that is derived here has, over rows of the variable whose value is 0.0, a row for every
part of such a sum:

    (row, (origin, coefficient))      `row` with its constant in the place of y

and one with the origin null for every row that is there whatever the variable holds.  It stands
for the matrix, so that its norms are computed from the data and not assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from incmrql.algebra import rows as build
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Loop, Term, Union, element
from incmrql.algebra.walk import terms, variables_of
from incmrql.plan.additivity import Additivity
from incmrql.plan.diffusion.slopes import (
    NotAffineError,
    Path,
    Slopes,
    doubles,
    leaves,
    simplify,
    with_zeros,
)
from incmrql.plan.nodes import Repeated
from incmrql.types import typed
from incmrql.types.model import DOUBLE, Collection, Tuple, Type, bag
from incmrql.types.walk import substitute

Rows: TypeAlias = typed.Expr
_ZERO: Final = typed.Const(0.0, type=DOUBLE)


@dataclass(frozen=True, slots=True)
class Carrier:
    """A derived term, and where its rows have the value.

    `keys` are the components that no two rows share, if that is known.  It is `steady` if
    constants do not depend on which rows the variable has.
    """

    term: Term
    path: Path
    keys: tuple[Path, ...] | None = None
    steady: bool = True


@dataclass(frozen=True, slots=True)
class StepMatrix:
    """The derived step of a loop, as a loop that is never run, and where rows have values."""

    entries: Repeated
    path: Path
    steady: bool


def matrix(node: Repeated) -> StepMatrix | str:
    """The matrix of a loop with one variable; or why its step is not affine."""
    (variable,), (step,) = node.term.variables, node.term.step
    if node.term.flagged[0]:
        return "flags say when it ends, so that the number of steps is not known"
    row = _element(variable.type)
    reason = "its rows have no double"
    for path in doubles(row):
        found = [*node.variables, *variables_of(node.term)]
        names = Names(max((each.number for each in found), default=0))
        try:
            derived = _Deriving(names, path, row).term(step)
        except NotAffineError as problem:
            reason = str(problem)
            continue
        if derived is None:
            reason = "its step does not read the variable"
        elif derived.path != path:
            reason = "the value does not come back to its place"
        else:
            loop = replace(node.term, step=(derived.term,))
            return StepMatrix(replace(node, term=loop), path, derived.steady)
    return reason


class _Deriving:
    """Terms whose rows stand beside their origins and coefficients."""

    def __init__(self, names: Names, path: Path, row: Type) -> None:
        self.names, self.path, self.row = names, path, row

    def term(self, term: Term) -> Carrier | None:
        """The derived term; None if the variable has no part in it."""
        if not any(isinstance(each, Loop) for each in terms(term)):
            return None
        match term:
            case Loop(variable):
                one = self.names.variable("origin", _element(variable.type))
                unit = typed.Const(1.0, type=DOUBLE)
                body = build.bag_of(_entry(build.var(one), build.var(one), unit))
                return Carrier(CMap(one, body, term), self.path)
            case Union(parts):
                return self.union(parts)
            case CMap(group, body, GroupBy(source)):
                return self.summed(group, body, source)
            case CMap(group, body, CoGroup(left, right)):
                return self.met(group, body, (left, right))
            case CMap(variable, body, source):
                below = self.carried(source)
                one = self.entry(below)
                inner = substitute(body, {variable: build.item(build.var(one), 0)})
                return self.mapped(below, one, inner)
            case _:
                raise NotAffineError("rows are taken by their order, or grouped as they are")

    def carried(self, term: Term) -> Carrier:
        found = self.term(term)
        assert found is not None
        return found

    def entry(self, below: Carrier) -> typed.Variable:
        return self.names.variable("entry", element(below.term))

    def union(self, parts: tuple[Term, ...]) -> Carrier:
        """Rows that the variable has no part in are there whatever it holds."""
        found = [(part, self.term(part)) for part in parts]
        carriers = [each for _, each in found if each is not None]
        if len({each.path for each in carriers}) > 1 or not all(c.steady for c in carriers):
            raise NotAffineError("the parts of a union have their values in different places")
        made = [self.alone(part) if each is None else each.term for part, each in found]
        return Carrier(Union(tuple(made)), carriers[0].path)

    def alone(self, term: Term) -> Term:
        """Rows without an origin."""
        row = self.names.variable("row", element(term))
        return CMap(row, build.bag_of(self.without_origin(build.var(row))), term)

    def without_origin(self, row: typed.Expr) -> typed.Expr:
        return _entry(row, typed.Const(None, type=self.row), _ZERO)

    def mapped(
        self, below: Carrier, one: typed.Variable, body: Rows, *, based: bool = False
    ) -> Carrier:
        """A map over rows, one at a time; what is `based` is there without the variable."""
        slopes = Slopes({one: (0, *below.path)})
        made = slopes.rows(simplify(body), lambda head, slope: _times(one, head, slope))
        keys = slopes.copied(one, below.keys)
        steady = based or (below.steady and slopes.is_homogeneous)
        if not steady and keys is None:
            raise NotAffineError("a constant is added to rows that are not told apart")
        return Carrier(CMap(one, made, below.term), slopes.path, keys, steady)

    def summed(self, group: typed.Variable, body: Rows, source: Term) -> Carrier:
        """Sums of groups: each row of a group brings its own part."""
        below = self.steady(source)
        if below.path[0] == 0:
            raise NotAffineError("rows of the variable are grouped by their value")
        judge = Additivity(group, 1)
        if judge.read(with_zeros(body, judge, 0)):
            raise NotAffineError("rows of the variable are in a group that is not only summed up")
        one = self.entry(below)
        key, value = _parts(build.item(build.var(one), 0))
        alone = build.tuple_of(key, build.bag_of(value))
        keys = tuple((0, *each) for each, _ in leaves(key.type))
        return self.mapped(replace(below, keys=keys), one, substitute(body, {group: alone}))

    def met(self, group: typed.Variable, body: Rows, sides: tuple[Term, Term]) -> Carrier:
        """Rows of the variable that meet others."""
        found = [self.term(each) for each in sides]
        if all(each is not None for each in found):
            raise NotAffineError("rows of the variable meet one another")
        side = 0 if found[0] is not None else 1
        judge = Additivity(group, 2)
        if _goes_through(body, judge, side):
            return self.joined(group, body, sides, side)
        rest = judge.additive(with_zeros(body, judge, side))
        if rest != frozenset((1 - side,)):
            raise NotAffineError("rows of the variable are read in another way than summed up")
        joined = self.joined(group, body, sides, side, based=True)
        base = self.based(group, body, sides, side)
        return Carrier(Union((joined.term, base)), joined.path)

    def joined(
        self,
        group: typed.Variable,
        body: Rows,
        sides: tuple[Term, Term],
        side: int,
        *,
        based: bool = False,
    ) -> Carrier:
        """Each row of the variable with all that it meets."""
        below = self.steady(sides[side]) if based else self.carried(sides[side])
        one, beside = self.entry(below), self.entry(below)
        key = build.item(build.item(build.var(beside), 0), 0)
        keyed = CMap(beside, build.bag_of(build.tuple_of(key, build.var(beside))), below.term)
        terms_ = [keyed if place == side else each for place, each in enumerate(sides)]
        whole = self.names.variable("group", element(CoGroup(*terms_)))
        bags = build.item(build.var(whole), 1)
        own, value = _parts(build.item(build.var(one), 0))
        rows = [build.bag_of(value) if p == side else build.item(bags, p) for p in (0, 1)]
        alone = build.tuple_of(own, build.tuple_of(*rows))
        made = self.mapped(below, one, substitute(body, {group: alone}), based=based)
        assert isinstance(made.term, CMap)
        each = typed.MapOver(
            one, build.item(bags, side), made.term.body, True, type=made.term.body.type
        )
        return replace(made, term=CMap(whole, each, CoGroup(*terms_)))

    def based(self, group: typed.Variable, body: Rows, sides: tuple[Term, Term], side: int) -> Term:
        """The rows of the other side, which are there without the variable."""
        free = sides[1 - side]
        row = self.names.variable("row", element(free))
        key, value = _parts(build.var(row))
        none = build.empty(_pair_value(sides[side]))
        rows = [none if place == side else build.bag_of(value) for place in (0, 1)]
        alone = build.tuple_of(key, build.tuple_of(*rows))
        inner = simplify(substitute(body, {group: alone}))
        made = self.names.variable("made", _element(inner.type))
        body = typed.MapOver(
            made,
            inner,
            self.without_origin(build.var(made)),
            False,
            type=bag(self.without_origin(build.var(made)).type),
        )
        return CMap(row, body, free)

    def steady(self, source: Term) -> Carrier:
        below = self.carried(source)
        if not below.steady:
            raise NotAffineError("constants of rows that may not be there are summed up")
        return below


def _goes_through(body: Rows, judge: Additivity, side: int) -> bool:
    """Whether a body goes through the rows of a side once, and reads them nowhere else."""
    match body:
        case typed.If(condition, then, typed.MakeCollection(())):
            return side not in judge.read(condition) and _goes_through(then, judge, side)
        case typed.MapOver(_, subject, inner):
            alone = judge.additive(subject) == frozenset((side,))
            return alone and side not in judge.read(inner)
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            rest = [head] if where is None else [head, where]
            rest += [q.value for q in qualifiers if isinstance(q, typed.Binding)]
            rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
            domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
            reading = [each for each in domains if side in judge.read(each)]
            if len(reading) != 1 or any(side in judge.read(each) for each in rest):
                return False
            return judge.additive(reading[0]) == frozenset((side,))
        case _:
            return False


def _entry(row: typed.Expr, origin: typed.Expr, slope: typed.Expr) -> typed.Expr:
    return build.tuple_of(row, build.tuple_of(origin, slope))


def _times(one: typed.Variable, head: typed.Expr, slope: typed.Expr) -> typed.Expr:
    origin, before = _parts(build.item(build.var(one), 1))
    return _entry(head, origin, typed.Arithmetic("*", before, slope, type=DOUBLE))


def _parts(both: typed.Expr) -> tuple[typed.Expr, typed.Expr]:
    return build.item(both, 0), build.item(both, 1)


def _pair_value(term: Term) -> Type:
    row = element(term)
    assert isinstance(row, Tuple)
    return row.items[1]


def _element(type_: Type) -> Type:
    assert isinstance(type_, Collection), type_
    return type_.element
