"""Where the arithmetic of a query fails, as queries: rows that are used although they overflow.

Overflow and division by zero give null, and so does a sum that does not fit.  A *watch* of a query
is a bag of pairs (site, row): the rows for which such an operation fails where its result is
consumed, and which operation that is, the first one from left to right.

    failed(a op b)     failed(a), failed(b), or a and b are not null and a op b is
    failed(a and b)    failed(a), or a is not false and failed(b); `or`, `if`, `case` likewise
    failed(sum(X))     failed in an element, or the sum is null

What consumes:

    a condition        for the rows of the generators that it is about, where the conditions
                       before it hold and rows agree on the join keys among these generators
    a group key, the   for the rows of the from clause for which all conditions hold; what is
    argument of an     aggregated counts whether `having` holds or not
    aggregate
    head, order by     for the rows, or groups, of the answer

A query in a from clause that only selects is read as part of the query around it, so its columns
fail where they are used.  Of other queries in from clauses those columns count that are used.

Watches are derived from the typed tree, before any rewriting, and are planned as ordinary queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import flatten_clauses, pattern_bindings, pattern_variables
from incmrql.algebra.failures.conditions import (
    Check,
    Fragment,
    any_of,
    bound_by,
    clauses_after,
    fails,
    fault,
    guarded,
    is_constant,
    is_join,
    is_not_true,
    may_fail,
    merged,
    path_name,
    pattern_of,
    row_of_variables,
    site_and_row,
    substituted,
    under,
    used_paths,
    uses_part,
    value_of,
)
from incmrql.algebra.failures.sites import Site
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope, last_number
from incmrql.errors import Span
from incmrql.types import typed
from incmrql.types.model import BOOL, Record
from incmrql.types.walk import (
    children,
    free_variables,
    nodes,
    rename_binders,
    root_variable,
    substitute,
)

_LARGEST = 400
"""Nodes of an expression that may stand in the place of a variable."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A bag of pairs (number of a site, row) as an expression."""

    expr: typed.Expr


@dataclass(frozen=True, slots=True)
class Watched:
    """The watches of an expression, the sites that they number, and what is not watched."""

    watches: tuple[Watch, ...]
    sites: tuple[Site, ...]
    unwatched: tuple[Span, ...]
    """Loops, folds and functions that call themselves, with arithmetic that may fail."""


def watched(expr: typed.Expr, script: typed.Script) -> Watched:
    """The watches of an item's expression; none if nothing in it can fail."""
    walk = _Walk(SourceScope(script), Names(last_number(script, expr)))
    found = merged(walk.visit(expr))
    watches = tuple(Watch(rename_binders(walk.bag(each), walk.names.like)) for each in found)
    return Watched(watches, tuple(walk.sites), tuple(dict.fromkeys(walk.unwatched)))


@dataclass(slots=True)
class _Walk:
    """One pass over an expression; fragments are over the variables in scope where it stands."""

    scope: SourceScope
    names: Names
    sites: list[Site] = field(default_factory=list)
    unwatched: list[Span] = field(default_factory=list)
    _numbers: dict[tuple[Span, str], int] = field(default_factory=dict)
    _lifted: dict[typed.Variable, typed.Expr] = field(default_factory=dict)
    """The variables of groups around, and what an element is in the row that it comes from."""
    _of_rows: list[Fragment] = field(default_factory=list)
    """What aggregates consume of the rows of the innermost group."""
    _called: tuple[str, ...] = ()

    def visit(self, expr: typed.Expr) -> list[Fragment]:
        """What fails where the value of an expression is consumed."""
        match expr:
            case typed.Logic(op, left, right):
                stops = left if op == "or" else typed.Not(left, type=BOOL)
                return self.visit(left) + guarded(is_not_true(stops), self.visit(right))
            case typed.If(condition, then, otherwise):
                yes, no = self.visit(then), self.visit(otherwise)
                chosen = guarded(condition, yes) + guarded(is_not_true(condition), no)
                return self.visit(condition) + chosen
            case typed.Case(subject, branches):
                return self.visit(subject) + self._branches(expr, branches)
            case typed.MapOver():
                return self._mapped(expr)
            case typed.Select():
                return self._select(expr)
            case typed.Var(variable) if variable in self._lifted:
                self._of_rows += self.visit(self._lifted[variable])
                return []
            case typed.Global(key):
                return self.visit(rename_binders(self.scope.script.queries[key], self.names.like))
            case typed.Call():
                return self._call(expr)
            case typed.Repeat(initial=initial):
                self._skip(expr, expr.step)
                return [each for start in initial for each in self.visit(start)]
            case typed.Fold(function, zero, operand):
                self._skip(expr, (function.body,))
                return self.visit(zero) + self.visit(operand)
            case _:
                below = [each for child in children(expr) for each in self.visit(child)]
                return below + self._own(expr)

    def _own(self, expr: typed.Expr) -> list[Fragment]:
        """What fails in an operation itself."""
        if not may_fail(expr) or is_constant(expr):
            return []
        return [Fragment((), (Check(fails(expr), self._site(expr), expr),))]

    def _site(self, expr: typed.Expr) -> int:
        text = " ".join(expr.span.text.split()) or type(expr).__name__.lower()
        key = expr.span, text
        if key not in self._numbers:
            self._numbers[key] = len(self.sites)
            self.sites.append(Site(expr.span, text, fault(expr)))
        return self._numbers[key]

    def _skip(self, expr: typed.Expr, parts: Sequence[typed.Expr]) -> None:
        """Note an expression whose parts are not watched."""
        if any(may_fail(node) for part in parts for node in nodes(part)):
            self.unwatched.append(expr.span)

    def _branches(self, expr: typed.Case, branches: tuple[typed.Branch, ...]) -> list[Fragment]:
        """What fails in the body of the first branch that matches."""
        found: list[Fragment] = []
        no, yes = (typed.Const(value, type=BOOL) for value in (False, True))
        for place, branch in enumerate(branches):
            inside = self.visit(branch.body)
            before = [typed.Branch(each.pattern, no) for each in branches[:place]]
            binding: list[typed.Qualifier] = [typed.Binding(branch.pattern, expr.subject)]
            if before:
                last = typed.Branch(branch.pattern, yes)
                first = typed.Case(expr.subject, (*before, last), type=BOOL)
                binding.insert(0, typed.Condition(rename_binders(first, self.names.like)))
            found += under(binding, inside)
        return found

    def _call(self, expr: typed.Call) -> list[Fragment]:
        """What fails in the arguments of a function, and in its body."""
        function = self.scope.script.functions[expr.function]
        given = [each for argument in expr.arguments for each in self.visit(argument)]
        if expr.function in self._called:
            self._skip(expr, (function.body,))
            return given
        outer, self._called = self._called, (*self._called, expr.function)
        fresh = {variable: self.names.like(variable) for variable in function.parameters}
        renamed_body = rename_binders(function.body, self.names.like)
        body = substitute(renamed_body, {old: build.var(new) for old, new in fresh.items()})
        binds = [
            typed.Binding(typed.Bind(new), argument)
            for new, argument in zip(fresh.values(), expr.arguments, strict=True)
        ]
        inside = under(binds, self.visit(body))
        self._called = outer
        return given + inside

    # --- collections -----------------------------------------------------------------------

    def _mapped(self, expr: typed.MapOver) -> list[Fragment]:
        row = self._row_of(expr.subject)
        if row is not None:
            body = build.reduce_projections(substitute(expr.body, {expr.variable: row}))
            if self._is_of_rows(body):
                self._of_rows += self.visit(body)
                return []
        bind = typed.Generator(typed.Bind(expr.variable), expr.subject)
        return self.visit(expr.subject) + under((bind,), self.visit(expr.body))

    def _row_of(self, subject: typed.Expr) -> typed.Expr | None:
        """What an element of a group's variable is in its row."""
        return self._lifted.get(subject.variable) if isinstance(subject, typed.Var) else None

    def _is_of_rows(self, expr: typed.Expr) -> bool:
        """Whether an expression looks at nothing of the group but the row itself."""
        return not free_variables(expr) & self._lifted.keys()

    def _select(self, select: typed.Select) -> list[Fragment]:
        aggregated = self._over_rows(select)
        if aggregated is not None:
            self._of_rows += self.visit(aggregated)
            return []
        rows = _From(self, select)
        found = rows.domains + rows.conditions
        consumed = list(select.group.keys) if select.group is not None else []
        if select.group is None:
            consumed += [select.head, *(order.expr for order in select.order)]
        found += rows.consumed(consumed)
        if select.limit is not None:
            found += self.visit(select.limit)
        if select.group is not None:
            found += self._grouped(select, select.group, rows)
        return found

    def _over_rows(self, select: typed.Select) -> typed.Select | None:
        """A query over the members of a group as one over a single row, if it is such a query."""
        match select:
            case typed.Select(
                qualifiers=(typed.Generator(pattern, domain), *rest), group=None, limit=None
            ):
                row = self._row_of(domain)
                if row is None:
                    return None
                one = replace(select, qualifiers=(typed.Binding(pattern, row), *rest))
                return one if self._is_of_rows(one) else None
            case _:
                return None

    def _grouped(self, select: typed.Select, group: typed.Group, rows: _From) -> list[Fragment]:
        """What fails in the groups of a query, and in the rows that are aggregated there."""
        keys = {
            variable: value
            for pattern, key in zip(group.patterns, group.keys, strict=True)
            for variable, value in pattern_bindings(pattern, key).items()
        }
        record = build.record_of((row.name, rows.written(build.var(row))) for row in group.rows)
        outer, self._of_rows = (self._lifted, self._of_rows), []
        own = {lifted: rows.written(build.var(row)) for row, lifted in group.lifted}
        self._lifted = {**outer[0], **own, group.partition: record}
        having = self.visit(select.having) if select.having is not None else []
        after = [select.head, *(order.expr for order in select.order)]
        found = having + guarded(select.having, [f for e in after for f in self.visit(e)])
        aggregated = [self._with_keys(each, keys) for each in self._of_rows]
        self._lifted, self._of_rows = outer
        return rows.under(aggregated) + [
            self._of_groups(select, group, each) for each in merged(found)
        ]

    def _with_keys(self, fragment: Fragment, keys: Mapping[typed.Variable, typed.Expr]) -> Fragment:
        """A fragment over rows that names the keys of its group, with what the keys are."""
        if not keys:
            return fragment
        return substituted(fragment, keys)

    def _of_groups(self, select: typed.Select, group: typed.Group, fragment: Fragment) -> Fragment:
        """A fragment over the groups of a query as one over nothing."""
        shown = [v for pattern in group.patterns for v in pattern_variables(pattern)]
        plain = replace(select, distinct=False, order=(), limit=None)
        if not fragment.qualifiers and fragment.ready is None:
            head = site_and_row(fragment.checks, row_of_variables(shown))
            having = any_of([check.condition for check in fragment.checks])
            pairs = replace(plain, head=head, having=having, type=build.bag_of(head).type)
            one = self.names.variable("failed", head.type)
            return Fragment((typed.Generator(typed.Bind(one), pairs),), (), build.var(one))
        inner = self.bag(fragment, shown)
        bags = replace(plain, head=inner, having=None, type=build.bag_of(inner).type)
        bag = self.names.variable("failures", inner.type)
        element = inner.type.element  # type: ignore[union-attr]
        one = self.names.variable("failed", element)
        over = typed.Generator(typed.Bind(bag), bags)
        each = typed.Generator(typed.Bind(one), build.var(bag))
        return Fragment((over, each), (), build.var(one))

    def bag(self, fragment: Fragment, shown: Sequence[typed.Variable] | None = None) -> typed.Expr:
        """The pairs (site, row) of a fragment."""
        if fragment.ready is not None:
            return build.select(fragment.ready, fragment.qualifiers)
        row = row_of_variables(shown) if shown is not None else self._shown(fragment)
        condition = typed.Condition(any_of([check.condition for check in fragment.checks]))
        return build.select(site_and_row(fragment.checks, row), (*fragment.qualifiers, condition))

    def _shown(self, fragment: Fragment) -> typed.Expr:
        """The row that failed: whole, or what its operations use where several are joined."""
        generators = [q for q in fragment.qualifiers if isinstance(q, typed.Generator)]
        bound = [v for q in fragment.qualifiers for v in pattern_variables(pattern_of(q))]
        if sum(self.scope.reads(each.domain) for each in generators) <= 1:
            return row_of_variables(bound)
        paths: dict[str, typed.Expr] = {}
        for check in fragment.checks:
            for path in used_paths(check.operation):
                if root_variable(path) in bound:
                    paths.setdefault(path_name(path), path)
        return build.record_of(paths.items())


class _From:
    """The from and where clauses of a query, and what fails in them."""

    def __init__(self, walk: _Walk, select: typed.Select) -> None:
        self.walk = walk
        clauses = flatten_clauses(select, walk.scope, walk.names)
        self.known: dict[typed.Variable, typed.Expr] = {}
        self.qualifiers: list[typed.Qualifier] = []
        self.domains: list[Fragment] = []
        uses = [*clauses.conditions, *clauses_after(select)]
        for place, qualifier in enumerate(clauses.qualifiers):
            rest = [value_of(each) for each in clauses.qualifiers[place + 1 :]]
            self._qualify(qualifier, [*rest, *uses])
        self.where = [self.written(each) for each in clauses.conditions]
        self.conditions = self._conditions()

    def written(self, expr: typed.Expr) -> typed.Expr:
        """An expression with what variables stand for in their places."""
        return build.reduce_projections(substitute(expr, self.known))

    def _qualify(self, qualifier: typed.Qualifier, uses: Sequence[typed.Expr]) -> None:
        match qualifier:
            case typed.Binding(pattern, value):
                written = self.written(value)
                parts = pattern_bindings(pattern, written)
                small = sum(1 for _ in nodes(written)) <= _LARGEST
                if small and set(pattern_variables(pattern)) == parts.keys():
                    self.known |= parts
                    return
                self.domains += under(self.qualifiers, self.walk.visit(written))
                self.qualifiers.append(typed.Binding(pattern, written))
            case typed.Generator(pattern, domain):
                written = self.written(domain)
                inside = self.walk.visit(_demanded(written, pattern, uses, self.walk))
                bound = {v for each in self.qualifiers for v in bound_by(each)}
                before = self.qualifiers if free_variables(written) & bound else []
                self.domains += under(before, inside)
                self.qualifiers.append(typed.Generator(pattern, written))
            case typed.Condition():
                raise AssertionError("conditions are apart")

    def _conditions(self) -> list[Fragment]:
        """What fails in the conditions: each for the rows of the generators that it is about."""
        found: list[Fragment] = []
        for place, condition in enumerate(self.where):
            inside = self.walk.visit(condition)
            if not inside:
                continue
            needed = self._needed(condition)
            bound = {v for each in needed for v in bound_by(each)}
            outside = {v for each in self.qualifiers for v in bound_by(each)} - bound
            reached = [
                (other, each)
                for other, each in enumerate(self.where)
                if other != place and not free_variables(each) & outside
            ]
            joins = [each for _, each in reached if is_join(each, needed)]
            guards = [e for other, e in reached if other < place and e not in joins]
            base = (*needed, *map(typed.Condition, joins))
            found += under(base, guarded(build.conjunction(guards), inside))
        return found

    def _needed(self, condition: typed.Expr) -> list[typed.Qualifier]:
        """The qualifiers that bind what a condition is about, with those that they depend on."""
        wanted = free_variables(condition)
        needed: list[typed.Qualifier] = []
        for qualifier in reversed(self.qualifiers):
            if wanted & set(bound_by(qualifier)):
                needed.insert(0, qualifier)
                wanted |= free_variables(value_of(qualifier))
        return needed

    def consumed(self, exprs: Sequence[typed.Expr]) -> list[Fragment]:
        """What fails in expressions over the rows for which all conditions hold."""
        inside = [each for e in exprs for each in self.walk.visit(self.written(e))]
        return self._under_all(inside)

    def under(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """Fragments over the variables of the rows as written in the query."""
        return self._under_all([substituted(each, self.known) for each in fragments])

    def _under_all(self, fragments: list[Fragment]) -> list[Fragment]:
        # One generator: the conditions guard, so that all of a row is checked in one pass.
        # Several: they are qualifiers, so that equalities among them become join keys.
        if len(self.qualifiers) == 1:
            return under(self.qualifiers, guarded(build.conjunction(self.where), fragments))
        return under([*self.qualifiers, *map(typed.Condition, self.where)], fragments)


def _demanded(
    domain: typed.Expr,
    pattern: typed.Pattern,
    uses: Sequence[typed.Expr],
    walk: _Walk,
) -> typed.Expr:
    """A domain whose head has nothing but the columns that the query around it uses."""
    match domain:
        case typed.Global(key):
            inner = rename_binders(walk.scope.script.queries[key], walk.names.like)
            return _demanded(inner, pattern, uses, walk)
        case typed.Combine("union", left, right):
            sides = [_demanded(each, pattern, uses, walk) for each in (left, right)]
            return replace(domain, left=sides[0], right=sides[1])
        case typed.Widen(operand):
            return replace(domain, operand=_demanded(operand, pattern, uses, walk))
        case typed.Select(distinct=False, head=typed.MakeTuple(items) as head):
            wanted = [uses_part(pattern, place, uses) for place in range(len(items))]
        case typed.Select(distinct=False, head=typed.MakeRecord(items) as head):
            assert isinstance(head.type, Record)
            wanted = [uses_part(pattern, name, uses) for name in head.type.names]
        case _:
            return domain
    kept = [item for item, keep in zip(items, wanted, strict=True) if keep]
    return domain if all(wanted) else replace(domain, head=build.tuple_of(*kept))
