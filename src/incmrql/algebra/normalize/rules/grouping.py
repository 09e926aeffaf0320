"""Rules that compute once what a query asks for several times: one grouping, one shared term."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import comprehension
from incmrql.algebra.normalize.rewrite import query_rule
from incmrql.algebra.normalize.rules.joins import at, conditions_last, leaf_paths
from incmrql.algebra.rows import Names
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Query,
    Repeat,
    Shared,
    Sort,
    Term,
    Values,
    element,
)
from incmrql.algebra.walk import (
    Register,
    children,
    distinct_variables,
    fingerprint,
    map_variables,
    terms,
)
from incmrql.algebra.walk import map_children as map_term_children
from incmrql.algebra.walk import map_children as map_terms
from incmrql.types import typed
from incmrql.types.model import UNIT, Collection, bag
from incmrql.types.walk import free_variables, is_random, map_children, nodes, substitute


@dataclass(frozen=True, slots=True)
class _Use:
    """A map over groups, and where the members of the groups come from.

    `filters` are the conditions of the rows that are about the key alone, and `tests` the same
    as conditions on a group.
    """

    term: CMap
    row: typed.Variable
    qualifiers: tuple[typed.Qualifier, ...]
    filters: tuple[typed.Qualifier, ...]
    tests: tuple[typed.Expr, ...]
    key: typed.Expr
    member: typed.Expr
    source: Term


@query_rule(
    "share-groups",
    law="cMap(F(k, a(s)), G), cMap(H(k, b(s)), G)  =  cMap(F, T), cMap(H, T)"
    " where T = cMap({(k, a(s), b(s))}, G)",
)
def share_groups(query: Query, names: Names) -> Query | None:
    """Rows that are grouped by one key for several purposes are grouped once.

    What the uses compute of the groups (their aggregates) stands side by side in one map, and
    each use makes the rest of its answer of that.  Where a use leaves out rows by their key, it
    leaves out the groups instead.
    """
    register = Register()
    for _, term in query.parts:
        register.enter(term)
    families: dict[object, dict[int, _Use]] = {}
    for _, part in query.parts:
        for term in terms(part):
            use = _use(term, names) if register.is_closed(term) else None
            if use is not None:
                same = register.number(use.source), fingerprint(use.row, use.qualifiers, use.key)
                families.setdefault(same, {})[register.number(term)] = use
    for family in families.values():
        if len(family) > 1:
            shared = _over_one_grouping(list(family.values()), names)
            if shared is not None:
                return _with_replacements(query, register, dict(zip(family, shared, strict=True)))
    return None


def _use(term: Term, names: Names) -> _Use | None:
    match term:
        case CMap(_, body, GroupBy(CMap(row, inner, source))):
            written, pair = comprehension(inner, names)
            binds, conditions = conditions_last(row, written)
            if not isinstance(pair, typed.MakeTuple) or is_random(body) or is_random(inner):
                return None
            key, member = pair.items
            tested = [(c, _test(c.condition, key, term.variable)) for c in conditions]
            rest = (*binds, *(c for c, test in tested if test is None))
            filters = tuple(c for c, test in tested if test is not None)
            tests = tuple(test for _, test in tested if test is not None)
            return _Use(term, row, rest, filters, tests, key, member, source)
        case CMap(_, body, GroupBy(source)) if not is_random(body):
            row = names.variable("pair", element(source))
            key, member = build.item(build.var(row), 0), build.item(build.var(row), 1)
            return _Use(term, row, (), (), (), key, member, source)
        case _:
            return None


def _test(condition: typed.Expr, key: typed.Expr, group: typed.Variable) -> typed.Expr | None:
    """The condition on the group that a condition on the key of a row is, if it is one."""
    parts = [(leaf, at(group, (0, *path))) for leaf, path in leaf_paths(key)]
    test = build.replace_parts(condition, parts)
    return test if free_variables(test) <= {group} else None


def _over_one_grouping(uses: Sequence[_Use], names: Names) -> list[Term] | None:
    """The uses over one map over one grouping, in the same order."""
    if len({fingerprint(use.row, use.qualifiers, use.filters) for use in uses}) == 1:
        uses = [replace(use, tests=()) for use in uses]
        common = (*uses[0].qualifiers, *uses[0].filters)
    else:
        common = uses[0].qualifiers
    first = uses[0]
    members: dict[str, typed.Expr] = {}
    for use in uses:
        if use.member.type != UNIT:
            _note(use, first, names, members)
    columns = [_column(use, members) for use in uses]
    parts = list(members.values())
    pair = build.tuple_of(first.key, build.key_of(parts))
    rows = CMap(first.row, build.select(pair, common), first.source)
    groups = GroupBy(rows)
    group = names.variable("group", element(groups))
    split = _Split(group, names)
    bodies = [split.answer(use, column) for use, column in zip(uses, columns, strict=True)]
    if any(body is None for body in bodies):
        return None
    whole = CMap(group, build.bag_of(split.row()), groups)
    terms: list[Term] = []
    for body in bodies:
        assert body is not None
        one = names.variable("group", element(whole))
        terms.append(CMap(one, split.over(one, body), whole))
    return terms


def _note(use: _Use, first: _Use, names: Names, members: dict[str, typed.Expr]) -> None:
    """Add a use's member to those of all, written in the variables of the first use."""
    here = distinct_variables(use.row, use.qualifiers, use.key)
    same = dict(zip(here, distinct_variables(first.row, first.qualifiers, first.key), strict=True))
    member: typed.Expr = map_variables(
        use.member, lambda v: same[v] if v in same else same.setdefault(v, names.like(v))
    )
    members.setdefault(_name(use), member)


def _name(use: _Use) -> str:
    """What the members of all uses that are the same are called."""
    return fingerprint(use.row, use.qualifiers, use.key, use.member)


def _column(use: _Use, members: dict[str, typed.Expr]) -> Callable[[typed.Expr], typed.Expr]:
    """What a use's member is, of a member of the grouping for all."""
    if use.member.type == UNIT:
        return lambda _: build.unit()
    if len(members) == 1:
        return lambda member: member
    place = list(members).index(_name(use))
    return lambda member: build.item(member, place)


_REDUCING = typed.Aggregate | typed.UserAggregate | typed.Exists | typed.Fold


class _Split:
    """Bodies over one group, taken apart: what they compute of its members, and the rest."""

    def __init__(self, group: typed.Variable, names: Names) -> None:
        self.group = group
        self.names = names
        self.pieces: dict[str, typed.Expr] = {}
        self.places: dict[typed.Variable, int] = {}

    def answer(self, use: _Use, column: Callable[[typed.Expr], typed.Expr]) -> typed.Expr | None:
        """The body of a use with variables for its pieces; None if it uses the group whole."""
        old = use.term.variable
        key, members = at(old, (0,)), at(old, (1,))
        here = new_members = at(self.group, (1,))
        assert isinstance(here.type, Collection)
        member = self.names.variable("each", here.type.element)
        part = column(build.var(member))
        if part != build.var(member):
            new_members = typed.MapOver(member, here, part, False, type=bag(part.type))

        def move(node: typed.Expr) -> typed.Expr:
            parts = [(key, at(self.group, (0,))), (members, new_members)]
            return build.replace_parts(node, parts)

        def visit(node: typed.Expr) -> typed.Expr:
            uses_members = any(inner == members for inner in nodes(node))
            if not uses_members:
                return move(node)
            if node == members or (isinstance(node, _REDUCING) and free_variables(node) <= {old}):
                return self._piece(move(node))
            return map_children(visit, node)

        body = visit(use.term.body)
        for test in reversed(use.tests):
            body = build.when(visit(test), body)
        return None if old in free_variables(body) else body

    def _piece(self, expr: typed.Expr) -> typed.Expr:
        """A variable in the place of what is computed of the members."""
        same = fingerprint(self.group, expr)
        self.pieces.setdefault(same, expr)
        variable = self.names.variable("piece", expr.type)
        self.places[variable] = list(self.pieces).index(same)
        return build.var(variable)

    def row(self) -> typed.Expr:
        """The key and all pieces."""
        return build.tuple_of(build.item(build.var(self.group), 0), *self.pieces.values())

    def over(self, row: typed.Variable, body: typed.Expr) -> typed.Expr:
        """A body over a row of key and pieces."""
        own = build.replace_parts(body, [(at(self.group, (0,)), at(row, (0,)))])
        return substitute(own, {v: at(row, (1 + place,)) for v, place in self.places.items()})


def _with_replacements(query: Query, register: Register, replacements: dict[int, Term]) -> Query:
    def visit(term: Term) -> Term:
        new = replacements.get(register.number(term))
        return map_terms(visit, term) if new is None else new

    parts = tuple((variable, visit(term)) for variable, term in query.parts)
    return Query(parts, query.result)


# --- Shared terms ---
#
# They come last: a term that is written out at each of its uses can be fused and narrowed there.


@query_rule("share-terms", law="q(T, …, T)  =  q(s, …, s) where s = T")
def share_terms(query: Query, names: Names) -> Query | None:
    """Equal terms are computed once, loops' too if they do not depend on the loop.

    Shared are maps over groups, sorted rows and loops.  Other maps keep nothing and are fused
    with what uses them, and groups belong to the map over them: these stay where they are.
    """
    register = Register()
    for _, term in query.parts:
        register.enter(term)
    several = _used_more_than_once(query, register)
    return _Sharing(register, several, names).query(query) if several else None


def _used_more_than_once(query: Query, register: Register) -> set[int]:
    uses: Counter[int] = Counter()
    several: set[int] = set()

    def visit(term: Term) -> None:
        number = register.number(term)
        uses[number] += 1
        if uses[number] > 1 and is_worth_sharing(term, register):
            several.add(number)
            return
        for child in children(term):
            visit(child)

    for _, term in query.parts:
        for part in children(term) if _is_in_order(term) else (term,):
            visit(part)
    return several


def is_worth_sharing(term: Term, register: Register) -> bool:
    """Whether a term that occurs twice should be, and can be, computed once."""
    match term:
        case CMap(source=GroupBy() | CoGroup()) | Sort() | Repeat():
            return register.is_closed(term) and not any(map(is_by_chance, terms(term)))
        case _:
            return False


def is_by_chance(term: Term) -> bool:
    """Whether a node may have other elements each time it is evaluated."""
    match term:
        case CMap(body=expr) | Values(expr):
            return is_random(expr)
        case Sort(limit=limit) | Repeat(limit=limit):
            return limit is not None and is_random(limit)
        case _:
            return False


def _is_in_order(term: Term) -> bool:
    """Whether a part is a list: its order would be lost if it were shared as rows."""
    return isinstance(term, Sort) and term.ordered


class _Sharing:
    """The parts made so far, and the variable of each shared term."""

    def __init__(self, register: Register, several: set[int], names: Names) -> None:
        self.register = register
        self.several = several
        self.names = names
        self.parts: list[tuple[typed.Variable, Term]] = []
        self.shared: dict[int, typed.Variable] = {}

    def query(self, query: Query) -> Query:
        for variable, term in query.parts:
            number = self.register.number(term)
            if number in self.several and number not in self.shared and not _is_in_order(term):
                body = map_term_children(self.term, term)
                self.shared[number] = variable
            elif _is_in_order(term):
                body = map_term_children(self.term, term)
            else:
                body = self.term(term)
            self.parts.append((variable, body))
        return Query(tuple(self.parts), query.result)

    def term(self, term: Term) -> Term:
        """A term with what is shared replaced; the shared terms become parts before it."""
        number = self.register.number(term)
        if number not in self.several:
            return map_term_children(self.term, term)
        if number not in self.shared:
            variable = self.names.variable("shared", bag(element(term)))
            body = map_term_children(self.term, term)
            self.shared[number] = variable
            self.parts.append((variable, body))
        return Shared(self.shared[number])


RULES = (share_groups, share_terms)
