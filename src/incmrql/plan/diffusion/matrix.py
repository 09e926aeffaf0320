"""Derives the matrix of a loop's step: how much each row of the variable adds to each next row.

A step is *affine* if every row of it consists of labels, which do not depend on any value of the
variable, and of one double

    y  =  constant + coefficient * x + ...        a sum over rows x of the variable

The derived term has, for rows of the variable with the value 0.0, a row for every summand:

    (row, (origin, coefficient))      `row` with its constant in place of y

and a row with a null origin for every row that exists whatever the variable holds.  The matrix is
thus computed from the data, and so are its norms.
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
class DerivedTerm:
    """A derived term, and the path of the value in its rows.

    `keys` are components that no two rows share, if known.  The term is `steady` if its constants
    do not depend on which rows the variable has.
    """

    term: Term
    path: Path
    keys: tuple[Path, ...] | None = None
    steady: bool = True


@dataclass(frozen=True, slots=True)
class StepMatrix:
    """The derived step of a loop, as a loop that is never run, and the path of values in rows."""

    entries: Repeated
    path: Path
    steady: bool


def matrix(node: Repeated) -> StepMatrix | str:
    """The matrix of a loop with one variable; or the reason why its step is not affine."""
    (variable,), (step,) = node.term.variables, node.term.step
    if node.term.flagged[0]:
        return "flags say when it ends, so that the number of steps is not known"
    row = _element(variable.type)
    reason = "its rows have no double"
    for path in doubles(row):
        variables = [*node.variables, *variables_of(node.term)]
        names = Names(max((item.number for item in variables), default=0))
        try:
            derived = _MatrixDeriver(names, path, row).term(step)
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


class _MatrixDeriver:
    """Rewrites terms so that each row comes with its origin and coefficient."""

    def __init__(self, names: Names, path: Path, row: Type) -> None:
        self.names, self.path, self.row = names, path, row

    def term(self, term: Term) -> DerivedTerm | None:
        """The derived term; None if the term does not read the variable."""
        if not any(isinstance(part, Loop) for part in terms(term)):
            return None
        match term:
            case Loop(variable):
                origin = self.names.variable("origin", _element(variable.type))
                unit = typed.Const(1.0, type=DOUBLE)
                body = build.bag_of(_entry(build.var(origin), build.var(origin), unit))
                return DerivedTerm(CMap(origin, body, term), self.path)
            case Union(parts):
                return self.union(parts)
            case CMap(group, body, GroupBy(source)):
                return self.sum_groups(group, body, source)
            case CMap(group, body, CoGroup(left, right)):
                return self.join_or_sum(group, body, (left, right))
            case CMap(variable, body, source):
                below = self.derive(source)
                entry = self.entry_variable(below)
                inner = substitute(body, {variable: build.item(build.var(entry), 0)})
                return self.map_rows(below, entry, inner)
            case _:
                raise NotAffineError("rows are taken by their order, or grouped as they are")

    def derive(self, term: Term) -> DerivedTerm:
        """The derived term of a term that is known to read the variable."""
        derived = self.term(term)
        assert derived is not None
        return derived

    def entry_variable(self, below: DerivedTerm) -> typed.Variable:
        return self.names.variable("entry", element(below.term))

    def union(self, parts: tuple[Term, ...]) -> DerivedTerm:
        """A union; parts that do not read the variable contribute rows without an origin."""
        derived = [(part, self.term(part)) for part in parts]
        carriers = [carrier for _, carrier in derived if carrier is not None]
        if len({carrier.path for carrier in carriers}) > 1 or not all(c.steady for c in carriers):
            raise NotAffineError("the parts of a union have their values in different places")
        terms_ = [
            self.rows_without_origin(part) if carrier is None else carrier.term
            for part, carrier in derived
        ]
        return DerivedTerm(Union(tuple(terms_)), carriers[0].path)

    def rows_without_origin(self, term: Term) -> Term:
        """The rows of a term that does not read the variable, each with a null origin."""
        row = self.names.variable("row", element(term))
        return CMap(row, build.bag_of(self.without_origin(build.var(row))), term)

    def without_origin(self, row: typed.Expr) -> typed.Expr:
        return _entry(row, typed.Const(None, type=self.row), _ZERO)

    def map_rows(
        self, below: DerivedTerm, entry: typed.Variable, body: Rows, *, has_base: bool = False
    ) -> DerivedTerm:
        """A map over rows; with `has_base`, another term has the rows without origins."""
        slopes = Slopes({entry: (0, *below.path)})
        entries = slopes.rows(simplify(body), lambda head, slope: _times(entry, head, slope))
        keys = slopes.key_paths(entry, below.keys)
        steady = has_base or (below.steady and slopes.is_homogeneous)
        # A constant must count once per row. If two entries may give the same row, or the rows
        # themselves come and go, it would be added once per entry.
        if not steady and keys is None:
            raise NotAffineError("a constant is added to rows that are not told apart")
        return DerivedTerm(CMap(entry, entries, below.term), slopes.path, keys, steady)

    def sum_groups(self, group: typed.Variable, body: Rows, source: Term) -> DerivedTerm:
        """Sums over groups: each row of a group contributes a summand of its own."""
        below = self.steady_term(source)
        if below.path[0] == 0:
            raise NotAffineError("rows of the variable are grouped by their value")
        additivity = Additivity(group, 1)
        if additivity.sides_read(with_zeros(body, additivity, 0)):
            raise NotAffineError("rows of the variable are in a group that is not only summed up")
        entry = self.entry_variable(below)
        key, value = _parts(build.item(build.var(entry), 0))
        single_row = build.tuple_of(key, build.bag_of(value))
        keys = tuple((0, *path) for path, _ in leaves(key.type))
        return self.map_rows(
            replace(below, keys=keys), entry, substitute(body, {group: single_row})
        )

    def join_or_sum(
        self, group: typed.Variable, body: Rows, sides: tuple[Term, Term]
    ) -> DerivedTerm:
        """A function of two sides, one of which reads the variable: a join or a sum per group."""
        derived = [self.term(side) for side in sides]
        if all(side is not None for side in derived):
            raise NotAffineError("rows of the variable meet one another")
        side = 0 if derived[0] is not None else 1
        additivity = Additivity(group, 2)
        if _maps_side(body, additivity, side):
            return self.join_rows(group, body, sides, side)
        rest = additivity.additive(with_zeros(body, additivity, side))
        if rest != frozenset((1 - side,)):
            raise NotAffineError("rows of the variable are read in another way than summed up")
        joined = self.join_rows(group, body, sides, side, has_base=True)
        base = self.base_rows(group, body, sides, side)
        return DerivedTerm(Union((joined.term, base)), joined.path)

    def join_rows(
        self,
        group: typed.Variable,
        body: Rows,
        sides: tuple[Term, Term],
        side: int,
        *,
        has_base: bool = False,
    ) -> DerivedTerm:
        """Each row of the variable with all rows of the other side that have its key."""
        below = self.steady_term(sides[side]) if has_base else self.derive(sides[side])
        entry, keyed_entry = self.entry_variable(below), self.entry_variable(below)
        key = build.item(build.item(build.var(keyed_entry), 0), 0)
        keyed = CMap(
            keyed_entry, build.bag_of(build.tuple_of(key, build.var(keyed_entry))), below.term
        )
        terms_ = [keyed if index == side else term for index, term in enumerate(sides)]
        whole = self.names.variable("group", element(CoGroup(*terms_)))
        bags = build.item(build.var(whole), 1)
        own, value = _parts(build.item(build.var(entry), 0))
        rows = [build.bag_of(value) if p == side else build.item(bags, p) for p in (0, 1)]
        single_row = build.tuple_of(own, build.tuple_of(*rows))
        mapped = self.map_rows(
            below, entry, substitute(body, {group: single_row}), has_base=has_base
        )
        assert isinstance(mapped.term, CMap)
        entries = typed.MapOver(
            entry, build.item(bags, side), mapped.term.body, True, type=mapped.term.body.type
        )
        return replace(mapped, term=CMap(whole, entries, CoGroup(*terms_)))

    def base_rows(
        self, group: typed.Variable, body: Rows, sides: tuple[Term, Term], side: int
    ) -> Term:
        """The results for the rows of the other side alone, which exist without the variable."""
        free = sides[1 - side]
        row = self.names.variable("row", element(free))
        key, value = _parts(build.var(row))
        none = build.empty(_pair_value(sides[side]))
        rows = [none if index == side else build.bag_of(value) for index in (0, 1)]
        single_row = build.tuple_of(key, build.tuple_of(*rows))
        inner = simplify(substitute(body, {group: single_row}))
        result = self.names.variable("made", _element(inner.type))
        body = typed.MapOver(
            result,
            inner,
            self.without_origin(build.var(result)),
            False,
            type=bag(self.without_origin(build.var(result)).type),
        )
        return CMap(row, body, free)

    def steady_term(self, source: Term) -> DerivedTerm:
        below = self.derive(source)
        if not below.steady:
            raise NotAffineError("constants of rows that may not be there are summed up")
        return below


def _maps_side(body: Rows, additivity: Additivity, side: int) -> bool:
    """Whether a body iterates over the rows of a side once, and reads them nowhere else."""
    match body:
        case typed.If(condition, then, typed.MakeCollection(())):
            return side not in additivity.sides_read(condition) and _maps_side(
                then, additivity, side
            )
        case typed.MapOver(_, subject, inner):
            is_alone = additivity.additive(subject) == frozenset((side,))
            return is_alone and side not in additivity.sides_read(inner)
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            rest = [head] if where is None else [head, where]
            rest += [q.value for q in qualifiers if isinstance(q, typed.Binding)]
            rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
            domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
            reading = [domain for domain in domains if side in additivity.sides_read(domain)]
            if len(reading) != 1 or any(side in additivity.sides_read(expr) for expr in rest):
                return False
            return additivity.additive(reading[0]) == frozenset((side,))
        case _:
            return False


def _entry(row: typed.Expr, origin: typed.Expr, slope: typed.Expr) -> typed.Expr:
    return build.tuple_of(row, build.tuple_of(origin, slope))


def _times(entry: typed.Variable, head: typed.Expr, slope: typed.Expr) -> typed.Expr:
    origin, before = _parts(build.item(build.var(entry), 1))
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
