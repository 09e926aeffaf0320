"""Rules that keep groups narrow: only what is used of a row travels to its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from incmrql.algebra import rows
from incmrql.algebra.comprehensions import comprehension
from incmrql.algebra.normalize.rewrite import term_rule
from incmrql.algebra.normalize.rules.joins import Path, at
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, element
from incmrql.errors import NOWHERE
from incmrql.types import typed
from incmrql.types.model import BOOL, UNIT, Collection, Record, Tuple, Type, is_scalar
from incmrql.types.walk import (
    children,
    conjuncts,
    free_variables,
    is_random,
    map_children,
    nodes,
    rename_binders,
    root_variable,
    substitute,
    used_variables,
)


class _Whole(Exception):
    """An element is used as a whole, so nothing of it can be left out."""


@dataclass(slots=True)
class _Uses:
    """What a body takes of the members of a group: chains of fields, for each loop over them."""

    chains: dict[typed.Expr, int] = field(default_factory=dict)
    counted: bool = False
    """Whether the members are counted, so that they must not become null."""

    @property
    def as_tuple(self) -> bool:
        """Whether the parts that are used form a tuple: one alone may be null."""
        return self.counted or len(self.chains) != 1

    def add(self, chain: typed.Expr, variable: typed.Variable) -> None:
        """Note a chain `v.A.B`, whatever the loop calls its variable."""
        renamed = _rename(chain, variable)
        if renamed not in self.chains:
            self.chains[_placeless(renamed)] = len(self.chains)


_ELEMENT = typed.Variable("element", 0, Tuple(()))


def _rename(chain: typed.Expr, variable: typed.Variable) -> typed.Expr:
    """A chain over the one name that all loops share here."""
    own = typed.Var(replace(_ELEMENT, type=variable.type), type=variable.type)
    return substitute(chain, {variable: own})


def _placeless(expr: typed.Expr) -> typed.Expr:
    return map_children(_placeless, replace(expr, span=NOWHERE))


@term_rule(
    "narrow-groups",
    law="cMap(f, groupBy(cMap(x -> {(k, v)}, X)))  =  the same with the parts of v that f uses",
)
def narrow_groups(term: Term, names: Names) -> Term | None:
    """A row brings along what is asked of it; a join likewise, on either side."""
    match term:
        case CMap(group, body, GroupBy(inner)):
            return _narrow(names, (group, body), inner, (1,), GroupBy)
        case CMap(group, body, CoGroup(left, right)):
            narrowed = _narrow(names, (group, body), left, (1, 0), lambda t: CoGroup(t, right))
            if narrowed is None:
                narrowed = _narrow(names, (group, body), right, (1, 1), lambda t: CoGroup(left, t))
            return narrowed
        case _:
            return None


@term_rule("count-present", law="count(X)  =  count({() | x in X, x = x})")
def count_present(term: Term, names: Names) -> Term | None:
    """To count members that may be null, it need only come along whether they are.

    Done where nothing else takes a member as a whole.
    """
    match term:
        case CMap(group, body, GroupBy(inner)):
            paths: list[Path] = [(1,)]
            below = [inner]
        case CMap(group, body, CoGroup(left, right)):
            paths, below = [(1, 0), (1, 1)], [left, right]
        case _:
            return None
    for path, side in zip(paths, below, strict=True):
        members = at(group, path)
        assert isinstance(members.type, Collection)
        if not isinstance(members.type.element, Record | Tuple) or _is_unit_or_made(side, names):
            continue
        counted = _present_counted(body, members, names)
        try:
            if counted != body and _uses(counted, group, path, is_there=False).chains:
                return CMap(group, counted, term.source)
        except _Whole:
            continue
    return None


def _is_unit_or_made(side: Term, names: Names) -> bool:
    """Whether the members of a side are never null."""
    if not isinstance(side, CMap):
        return False
    qualifiers, pair = comprehension(side.body, names)
    return isinstance(pair, typed.MakeTuple) and _is_there(pair.items[1], qualifiers)


def _present_counted(body: typed.Expr, members: typed.Expr, names: Names) -> typed.Expr:
    assert isinstance(members.type, Collection)
    element_type = members.type.element

    def visit(node: typed.Expr) -> typed.Expr:
        if isinstance(node, typed.Aggregate) and _counts(node, members):
            one = names.variable("each", element_type)
            test = typed.Compare("=", rows.var(one), rows.var(one), type=BOOL)
            some = rows.for_each(one, members, rows.unit(), typed.Condition(test))
            return replace(node, operand=some)
        return map_children(visit, node)

    return visit(body)


def _narrow(
    names: Names,
    over: tuple[typed.Variable, typed.Expr],
    inner: Term,
    path: Path,
    above: Callable[[Term], Term],
) -> Term | None:
    """The map over groups whose members are cut down to what it uses, if that is less."""
    group, body = over
    if not isinstance(inner, CMap):
        one = names.variable("pair", element(inner))
        same = rows.tuple_of(*(rows.item(rows.var(one), i) for i in (0, 1)))
        inner = CMap(one, rows.bag_of(same), inner)
    qualifiers, pair = comprehension(inner.body, names)
    if not isinstance(pair, typed.MakeTuple):
        return None
    key, value = pair.items
    try:
        uses = _uses(body, group, path, is_there=_is_there(value, qualifiers))
    except _Whole:
        return None
    if _is_all(uses, value):
        return None
    parts = [
        substitute(rename_binders(c, names.like), {_variable_of(c): value}) for c in uses.chains
    ]
    small = rows.tuple_of(*parts) if uses.as_tuple else parts[0]
    cut = CMap(inner.variable, rows.select(rows.tuple_of(key, small), qualifiers), inner.source)
    source = above(cut)
    fresh = names.variable(group.name, element(source))
    return CMap(fresh, _over_new_group(body, (group, fresh), path, uses), source)


def _variable_of(chain: typed.Expr) -> typed.Variable:
    return next(v for v in used_variables(chain) if v.number == _ELEMENT.number)


def _is_all(uses: _Uses, value: typed.Expr) -> bool:
    """Whether the chains are all components of the value, one by one: nothing can be cut."""
    if not uses.chains or value.type == UNIT:
        return value.type == UNIT
    if not isinstance(value.type, Tuple | Record):
        return True
    single = all(
        isinstance(chain, typed.Field | typed.Item) and isinstance(chain.subject, typed.Var)
        for chain in uses.chains
    )
    count = len(value.type.items if isinstance(value.type, Tuple) else value.type.fields)
    return single and isinstance(value.type, Tuple) and len(uses.chains) == count


def _is_there(value: typed.Expr, qualifiers: Sequence[typed.Qualifier]) -> bool:
    """Whether a value is never null: just made, or a row of which a part was compared."""
    if isinstance(value, typed.MakeTuple | typed.MakeRecord):
        return True
    compared = [
        operand
        for qualifier in qualifiers
        if isinstance(qualifier, typed.Condition)
        for condition in conjuncts(qualifier.condition)
        if isinstance(condition, typed.Compare)
        for operand in (condition.left, condition.right)
    ]
    return isinstance(value, typed.Var) and any(
        root_variable(operand) == value.variable and operand != value for operand in compared
    )


def _uses(body: typed.Expr, group: typed.Variable, path: Path, *, is_there: bool) -> _Uses:
    """The chains that `body` takes of the members at `path`; raises `_Whole`.

    Counting members that are never null, or asking whether there are any, takes nothing of them.
    """
    members, uses = at(group, path), _Uses()
    others = _other_parts(group, path)

    def visit(node: typed.Expr) -> None:
        if group not in used_variables(node):
            return
        if node == members or (isinstance(node, typed.Var) and node.variable == group):
            raise _Whole
        if node in others:
            return
        if _counts(node, members) and (is_there or isinstance(node, typed.Exists)):
            uses.counted |= isinstance(node, typed.Aggregate)
            return
        for loop, parts in _loops(node, members):
            for part in parts:
                _chains_of(part, loop, uses)
        for child in _children_but(node, members):
            visit(child)

    visit(body)
    kept = [chain for chain in uses.chains if not _is_covered(chain, uses)]
    return _Uses({chain: n for n, chain in enumerate(kept)}, uses.counted)


def _counts(node: typed.Expr, members: typed.Expr) -> bool:
    match node:
        case typed.Aggregate("count", operand) | typed.Exists(operand):
            return operand == members
        case _:
            return False


def _is_covered(chain: typed.Expr, uses: _Uses) -> bool:
    """Whether a chain `v.A.B`, or an aggregate of it, comes along with a shorter one, `v.A`."""
    if not isinstance(chain, typed.Field | typed.Item):
        return all(_comes_along(child, uses) for child in children(chain))
    while isinstance(chain, typed.Field | typed.Item):
        chain = chain.subject
        if chain in uses.chains:
            return True
    return False


def _comes_along(node: typed.Expr, uses: _Uses) -> bool:
    """Whether all that an expression takes of an element comes along anyway."""
    if node in uses.chains:
        return True
    if isinstance(node, typed.Var) and node.variable.number == _ELEMENT.number:
        return False
    return all(_comes_along(child, uses) for child in children(node))


def _other_parts(group: typed.Variable, path: Path) -> list[typed.Expr]:
    """The key, and the other side of a coGroup: their use says nothing about these members."""
    others: list[Path] = [(0,)]
    if len(path) == 2:
        others.append((1, 1 - path[1]))
    return [at(group, other) for other in others]


def _loops(
    node: typed.Expr, members: typed.Expr
) -> list[tuple[typed.Variable, Sequence[typed.Expr]]]:
    """The loops over the members that a node is, each with the expressions it ranges over."""
    match node:
        case typed.MapOver(variable, subject, body, _) if subject == members:
            return [(variable, [body])]
        case typed.Select():
            loops: list[tuple[typed.Variable, Sequence[typed.Expr]]] = []
            for qualifier in node.qualifiers:
                match qualifier:
                    case typed.Generator(typed.Bind(variable), domain) if domain == members:
                        if node.group is not None:
                            raise _Whole
                        loops.append((variable, _children_but(node, members)))
                    case _:
                        pass
            return loops
        case _:
            return []


def _children_but(node: typed.Expr, members: typed.Expr) -> list[typed.Expr]:
    """The expressions inside a node, without the members that it ranges over."""
    domains: list[typed.Expr] = []
    match node:
        case typed.MapOver(subject=subject):
            domains = [subject]
        case typed.Select():
            domains = [
                q.domain
                for q in node.qualifiers
                if isinstance(q, typed.Generator) and isinstance(q.pattern, typed.Bind)
            ]
        case _:
            pass
    skipped = [domain for domain in domains if domain == members]
    parts = list(children(node))
    for domain in skipped:
        parts.remove(domain)
    return parts


def _chains_of(expr: typed.Expr, variable: typed.Variable, uses: _Uses) -> None:
    if variable not in used_variables(expr):
        return
    if isinstance(expr, typed.Var) and expr.variable == variable:
        raise _Whole
    if root_variable(expr) == variable or _is_reduced(expr, variable):
        uses.add(expr, variable)
        return
    for child in children(expr):
        _chains_of(child, variable, uses)


def _is_reduced(expr: typed.Expr, variable: typed.Variable) -> bool:
    """Whether an expression makes a small value of a member: of a collection, or if it is there."""
    if _is_presence(expr, variable):
        return True
    if not isinstance(expr, typed.Aggregate | typed.Exists) or free_variables(expr) != {variable}:
        return False
    constants = [node for node in nodes(expr) if isinstance(node, typed.Const)]
    return all(is_scalar(c.type) for c in constants) and not is_random(expr)


def _is_presence(expr: typed.Expr, variable: typed.Variable) -> bool:
    match expr:
        case typed.Compare("=", typed.Var(left), typed.Var(right)):
            return left == right == variable
        case _:
            return False


def _start(node: typed.Expr, loops: set[typed.Variable]) -> typed.Variable | None:
    """The loop's variable that a chain, or what is made of one, starts from."""
    start = root_variable(node)
    if start is None:
        start = next((v for v in loops if _is_reduced(node, v)), None)
    return start if start in loops else None


def _over_new_group(
    body: typed.Expr, groups: tuple[typed.Variable, typed.Variable], path: Path, uses: _Uses
) -> typed.Expr:
    """The body over the new group: chains of the old members became parts of the new ones."""
    before, after = groups
    members, fresh = at(before, path), at(after, path)
    assert isinstance(fresh.type, Collection)
    small = fresh.type.element
    others = {old: at(after, p) for old, p in zip(
        _other_parts(before, path), [(0,), (1, 1 - path[-1])], strict=False)}  # fmt: skip
    loops: set[typed.Variable] = set()

    def visit(node: typed.Expr) -> typed.Expr:
        if used_variables(node).isdisjoint((before, *loops)):
            return node
        if node == members:
            return fresh
        if node in others:
            return others[node]
        for loop, _ in _loops(node, members):
            loops.add(loop)
        start = _start(node, loops)
        if start and (place := uses.chains.get(_rename(node, start))) is not None:
            one = typed.Var(replace(start, type=small), type=small, span=node.span)
            return rows.item(one, place) if uses.as_tuple else one
        return _over_new_members(map_children(visit, node), loops, small)

    return visit(body)


def _over_new_members(node: typed.Expr, loops: set[typed.Variable], small: Type) -> typed.Expr:
    """A loop over the new members, with its variable in their type."""
    match node:
        case typed.MapOver(variable=variable) if variable in loops:
            return replace(node, variable=replace(variable, type=small))
        case typed.Select():
            qualifiers = tuple(
                replace(q, pattern=typed.Bind(replace(q.pattern.variable, type=small)))
                if isinstance(q, typed.Generator)
                and isinstance(q.pattern, typed.Bind)
                and q.pattern.variable in loops
                else q
                for q in node.qualifiers
            )
            return replace(node, qualifiers=qualifiers)
        case _:
            return node


RULES = (narrow_groups,)
COUNTING = (count_present,)
"""For the end: it may turn out before that the members are never null."""
