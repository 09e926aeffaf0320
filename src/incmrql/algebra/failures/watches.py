"""Watches: queries for the rows of a query whose arithmetic fails.

Overflow, division by zero and a sum that does not fit give null.  A *watch* is a bag of pairs
(site, row): the rows for which such an operation fails where its result is consumed, each with
the first operation, from left to right, that does.

    failed(a op b)     failed(a), failed(b), or a and b are not null and a op b is
    failed(a and b)    failed(a), or a is not false and failed(b); `or`, `if`, `case` and
                       `coalesce` likewise
    failed(sum(X))     failed in an element, or the sum is null

What consumes a value, and for which rows:

    a condition        the rows of the generators that it is about, where the conditions
                       before it hold and the join keys among these generators are equal;
                       where nothing else relates these generators, what is about one of them
                       fails in its rows, with a partner or without
    a group key, the   the rows of the from clause for which all conditions hold; what is
    argument of an     aggregated counts whether `having` holds or not
    aggregate
    head, order by     the rows, or groups, of the answer

A plain select in a from clause is read as part of the select around it, so its columns fail where
they are used.  Of other queries in from clauses, the columns that are used count.  A view, whose
rows several queries share, is watched once: the columns that any of them uses, in all rows of it.

Watches are derived from the typed tree, before any rewriting, and are planned as ordinary queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import (
    exprs_after_where,
    flatten_clauses,
    pattern_bindings,
    pattern_variables,
    qualifier_value,
)
from incmrql.algebra.failures.conditions import (
    Check,
    Fragment,
    bound_by,
    disjunction,
    failure_condition,
    fault_text,
    guard,
    is_constant,
    is_join,
    is_not_true,
    may_fail,
    merge_fragments,
    path_name,
    record_of_variables,
    site_and_row,
    substitute_in,
    used_paths,
    with_qualifiers,
)
from incmrql.algebra.failures.readers import Reader, ViewReaders, used_columns
from incmrql.algebra.failures.sites import Site
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope, last_number
from incmrql.algebra.translate.queries import NO_VIEWS, Views
from incmrql.errors import Span
from incmrql.types import typed
from incmrql.types.model import BOOL, Tuple, bag, is_integer
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
class FailureWatches:
    """The watches of an expression, the sites that they number, and what is not watched."""

    bags: tuple[typed.Expr, ...]
    """Each a bag of pairs (number of a site, row)."""
    sites: tuple[Site, ...]
    unwatched: tuple[Span, ...]
    """Loops, folds, user aggregations and recursive functions with arithmetic that may fail."""


def failure_watches(
    exprs: Sequence[typed.Expr], script: typed.Script, views: Views = NO_VIEWS
) -> list[FailureWatches]:
    """The watches of the expressions of items; none where nothing in them can fail.

    The first one has those of the views that the items use.
    """
    scope, readers = SourceScope(script, views=views.variables), ViewReaders()
    finders = [_FailureFinder(scope, Names(last_number(script, e)), readers) for e in exprs]
    fragments = [finder.visit(expr) for finder, expr in zip(finders, exprs, strict=True)]
    for key in reversed(views.by_key if exprs else ()):  # a view comes after those that it reads
        fragments[0] += finders[0].visit_view(key)
    return [
        FailureWatches(
            tuple(
                rename_binders(finder.bag(fragment), finder.names.like)
                for fragment in merge_fragments(own)
            ),
            tuple(finder.sites),
            tuple(dict.fromkeys(finder.unwatched)),
        )
        for finder, own in zip(finders, fragments, strict=True)
    ]


@dataclass(slots=True)
class _FailureFinder:
    """Finds the fragments of an expression, over the variables in scope where it stands."""

    scope: SourceScope
    names: Names
    readers: ViewReaders
    sites: list[Site] = field(default_factory=list)
    unwatched: list[Span] = field(default_factory=list)
    _numbers: dict[tuple[Span, str], int] = field(default_factory=dict)
    _lifted: dict[typed.Variable, typed.Expr] = field(default_factory=dict)
    """For each variable of an enclosing group: an element of it, over the row it comes from."""
    named: dict[typed.Variable, typed.Expr] = field(default_factory=dict)
    """Queries that bindings name: a watch names them too, and fails where it consumes them."""
    _row_fragments: list[Fragment] = field(default_factory=list)
    """Failures in what aggregates consume of the rows of the innermost group."""
    _called: tuple[str, ...] = ()

    def visit(self, expr: typed.Expr) -> list[Fragment]:
        """What fails where the value of an expression is consumed."""
        match expr:
            case typed.Logic(op, left, right):
                stops = left if op == "or" else typed.Not(left, type=BOOL)
                return self.visit(left) + guard(is_not_true(stops), self.visit(right))
            case typed.If(condition, then, otherwise):
                yes, no = self.visit(then), self.visit(otherwise)
                chosen = guard(condition, yes) + guard(is_not_true(condition), no)
                return self.visit(condition) + chosen
            case typed.Case(subject, branches):
                return self.visit(subject) + self._branches(expr, branches)
            case typed.Builtin("spark.coalesce", (first, second)):
                missing = typed.IsNull(first, type=BOOL)
                return self.visit(first) + guard(missing, self.visit(second))
            case typed.MapOver():
                return self._map(expr)
            case typed.Select():
                return self._select(expr)
            case typed.Window():
                return self._window(expr)
            case typed.Var(variable) if variable in self._lifted:
                self._row_fragments += self.visit(self._lifted[variable])
                return []
            case typed.Var(variable) if variable in self.named:
                return self.visit(rename_binders(self.named[variable], self.names.like))
            case typed.Global(key) if key in self.scope.views:
                self.readers.whole.add(key)
                return []
            case typed.Global(key):
                return self.visit(rename_binders(self.scope.script.queries[key], self.names.like))
            case typed.Call():
                return self._call(expr)
            case typed.Repeat(initial=initial):
                self._skip(expr, expr.step)
                return self._visit_all(initial)
            case typed.Fold(function, zero, operand):
                self._skip(expr, (function.body,))
                return self.visit(zero) + self.visit(operand)
            case typed.UserAggregate(name, operand):
                self._skip(expr, children(self.scope.script.aggregations[name]))
                return self.visit(operand)
            case _:
                below = self._visit_all(children(expr))
                if not may_fail(expr) or is_constant(expr):
                    return below
                check = Check(failure_condition(expr), self._site(expr), expr)
                return [*below, Fragment((), (check,))]

    def visit_view(self, key: str) -> list[Fragment]:
        """What fails in the columns of a view that are read, and in all that they are made of."""
        query, readers = self.scope.script.queries[key], self.readers.some.get(key, [])
        if key in self.readers.whole:
            return self.visit(rename_binders(query, self.names.like))
        if not readers:
            return []
        return self.visit(rename_binders(self.used_columns(query, readers), self.names.like))

    def used_columns(self, query: typed.Expr, readers: Sequence[Reader]) -> typed.Expr:
        """A query reduced to the columns that its readers use."""
        return used_columns(query, readers, self.scope, self.readers, self.names)

    def _visit_all(self, exprs: Iterable[typed.Expr]) -> list[Fragment]:
        return [fragment for expr in exprs for fragment in self.visit(expr)]

    def _site(self, expr: typed.Expr) -> int:
        text = " ".join(expr.span.text.split()) or type(expr).__name__.lower()
        key = expr.span, text
        if key not in self._numbers:
            self._numbers[key] = len(self.sites)
            self.sites.append(Site(expr.span, text, fault_text(expr)))
        return self._numbers[key]

    def _skip(self, expr: typed.Expr, parts: Iterable[typed.Expr]) -> None:
        """Record an expression as not watched, if its parts may fail."""
        if any(map(may_fail, _nodes_with_called(parts, self.scope.script))):
            self.unwatched.append(expr.span)

    def _branches(self, expr: typed.Case, branches: tuple[typed.Branch, ...]) -> list[Fragment]:
        """What fails in the body of the first branch that matches."""
        fragments: list[Fragment] = []
        no, yes = (typed.Const(value, type=BOOL) for value in (False, True))
        for index, branch in enumerate(branches):
            inside = self.visit(branch.body)
            before = [typed.Branch(earlier.pattern, no) for earlier in branches[:index]]
            binding: list[typed.Qualifier] = [typed.Binding(branch.pattern, expr.subject)]
            if before:
                last = typed.Branch(branch.pattern, yes)
                first = typed.Case(expr.subject, (*before, last), type=BOOL)
                binding.insert(0, typed.Condition(rename_binders(first, self.names.like)))
            fragments += with_qualifiers(binding, inside)
        return fragments

    def _call(self, expr: typed.Call) -> list[Fragment]:
        """What fails in the arguments of a function, and in its body."""
        function = self.scope.script.functions[expr.function]
        in_arguments = self._visit_all(expr.arguments)
        if expr.function in self._called:
            self._skip(expr, (function.body,))
            return in_arguments
        outer, self._called = self._called, (*self._called, expr.function)
        fresh = {variable: self.names.like(variable) for variable in function.parameters}
        renamed_body = rename_binders(function.body, self.names.like)
        body = substitute(renamed_body, {old: build.var(new) for old, new in fresh.items()})
        binds = [
            typed.Binding(typed.Bind(new), argument)
            for new, argument in zip(fresh.values(), expr.arguments, strict=True)
        ]
        inside = with_qualifiers(binds, self.visit(body))
        self._called = outer
        return in_arguments + inside

    # --- Collections ---

    def _map(self, expr: typed.MapOver) -> list[Fragment]:
        row = self._row_of(expr.subject)
        if row is not None:
            body = build.reduce_projections(substitute(expr.body, {expr.variable: row}))
            if self._is_over_row(body):
                self._row_fragments += self.visit(body)
                return []
        bind = typed.Generator(typed.Bind(expr.variable), expr.subject)
        return self.visit(expr.subject) + with_qualifiers((bind,), self.visit(expr.body))

    def _window(self, expr: typed.Window) -> list[Fragment]:
        """What fails in the rows, in what functions read of a row, and in their results."""
        # The whole rows count: rows with equal sort keys are in the order of the whole row.
        fragments = self.visit(expr.operand)
        parts = [order.expr for order in expr.order]
        for function in expr.functions:
            match function:
                case typed.Pick(_, argument, _, _, default):
                    parts += [argument, default]
                case typed.Total(_, argument, _, result):
                    parts.append(argument)
                    fragments += self._over_frames(expr, function, self.visit(result))
                case typed.Rank():
                    pass
        row = self._row_of(expr.operand)
        for part in parts:
            if row is not None:
                over_row = build.reduce_projections(substitute(part, {expr.row: row}))
                self._row_fragments += self.visit(over_row)
            else:
                bind = typed.Generator(typed.Bind(expr.row), expr.operand)
                fragments += with_qualifiers((bind,), self.visit(part))
        return fragments

    def _over_frames(
        self, expr: typed.Window, function: typed.Total, fragments: Sequence[Fragment]
    ) -> list[Fragment]:
        """What fails in the result of a function, as fragments over the rows whose frame fails."""
        if isinstance(function.argument, typed.Widen) and is_integer(function.argument.type):
            # No sum of shorter integers has enough rows to be too large for a long.
            return []
        over_rows: list[Fragment] = []
        for check in (check for fragment in fragments for check in fragment.checks):
            fails = replace(function, result=check.condition)
            one_function = replace(
                expr,
                functions=(fails,),
                type=bag(Tuple((expr.row.type, Tuple((BOOL,))))),
            )
            renamed = rename_binders(one_function, self.names.like)
            one = self.names.variable("windowed", Tuple((expr.row.type, Tuple((BOOL,)))))
            failed = build.item(build.item(build.var(one), 1), 0)
            generator = typed.Generator(typed.Bind(one), renamed)
            over_rows.append(Fragment((generator,), (replace(check, condition=failed),)))
        return over_rows

    def _row_of(self, subject: typed.Expr) -> typed.Expr | None:
        """An element of a group's variable, over the row that it comes from."""
        return self._lifted.get(subject.variable) if isinstance(subject, typed.Var) else None

    def _is_over_row(self, expr: typed.Expr) -> bool:
        """Whether an expression reads nothing of the group but the row itself."""
        return not free_variables(expr) & self._lifted.keys()

    def _select(self, select: typed.Select) -> list[Fragment]:
        aggregated = self._over_row(select)
        if aggregated is not None:
            self._row_fragments += self.visit(aggregated)
            return []
        rows = _FromClause(self, select)
        fragments = rows.domains + rows.conditions
        if select.group is not None:
            fragments += rows.fragments_of(select.group.keys)
        else:
            fragments += rows.fragments_of([select.head, *(order.expr for order in select.order)])
        if select.limit is not None:
            fragments += self.visit(select.limit)
        if select.group is not None:
            fragments += self._group(select, select.group, rows)
        return fragments

    def _over_row(self, select: typed.Select) -> typed.Select | None:
        """A select over the members of a group as one over a single row, if it is such a select."""
        match select:
            case typed.Select(
                qualifiers=(typed.Generator(pattern, domain), *rest), group=None, limit=None
            ):
                row = self._row_of(domain)
                if row is None:
                    return None
                one = replace(select, qualifiers=(typed.Binding(pattern, row), *rest))
                return one if self._is_over_row(one) else None
            case _:
                return None

    def _group(self, select: typed.Select, group: typed.Group, rows: _FromClause) -> list[Fragment]:
        """What fails in the groups of a select, and in the rows that are aggregated there."""
        keys = {
            variable: value
            for pattern, key in zip(group.patterns, group.keys, strict=True)
            for variable, value in pattern_bindings(pattern, key).items()
        }
        record = build.record_of((row.name, rows.expand(build.var(row))) for row in group.rows)
        outer, self._row_fragments = (self._lifted, self._row_fragments), []
        own = {lifted: rows.expand(build.var(row)) for row, lifted in group.lifted}
        self._lifted = {**outer[0], **own, group.partition: record}
        having = self.visit(select.having) if select.having is not None else []
        after = [select.head, *(order.expr for order in select.order)]
        of_groups = having + guard(select.having, self._visit_all(after))
        of_rows = [substitute_in(fragment, keys) for fragment in self._row_fragments]
        self._lifted, self._row_fragments = outer
        return rows.over_rows(of_rows) + [
            self._over_groups(select, group, fragment) for fragment in merge_fragments(of_groups)
        ]

    def _over_groups(
        self, select: typed.Select, group: typed.Group, fragment: Fragment
    ) -> Fragment:
        """A fragment over the variables of a group as one with qualifiers that make the groups."""
        shown = [v for pattern in group.patterns for v in pattern_variables(pattern)]
        plain = replace(select, distinct=False, order=(), limit=None)
        if not fragment.qualifiers and fragment.pair is None:
            head = site_and_row(fragment.checks, record_of_variables(shown))
            having = disjunction([check.condition for check in fragment.checks])
            pairs = replace(plain, head=head, having=having, type=build.bag_of(head).type)
            one = self.names.variable("failed", head.type)
            return Fragment((typed.Generator(typed.Bind(one), pairs),), (), build.var(one))
        inner = self.bag(fragment, shown)
        bags = replace(plain, head=inner, having=None, type=build.bag_of(inner).type)
        bag = self.names.variable("failures", inner.type)
        element = inner.type.element  # type: ignore[union-attr]
        one = self.names.variable("failed", element)
        over_bags = typed.Generator(typed.Bind(bag), bags)
        over_pairs = typed.Generator(typed.Bind(one), build.var(bag))
        return Fragment((over_bags, over_pairs), (), build.var(one))

    def bag(self, fragment: Fragment, shown: Sequence[typed.Variable] | None = None) -> typed.Expr:
        """The pairs (site, row) of a fragment."""
        if fragment.pair is not None:
            return build.select(fragment.pair, fragment.qualifiers)
        row = record_of_variables(shown) if shown is not None else self._shown_row(fragment)
        condition = typed.Condition(disjunction([check.condition for check in fragment.checks]))
        return build.select(site_and_row(fragment.checks, row), (*fragment.qualifiers, condition))

    def _shown_row(self, fragment: Fragment) -> typed.Expr:
        """The row that failed: as a whole, or of joined rows what the operations use."""
        generators = [q for q in fragment.qualifiers if isinstance(q, typed.Generator)]
        bound = [v for q in fragment.qualifiers for v in bound_by(q) if v not in self.named]
        if sum(self.scope.reads(generator.domain) for generator in generators) <= 1:
            return record_of_variables(bound)
        paths: dict[str, typed.Expr] = {}
        for check in fragment.checks:
            for path in used_paths(check.operation):
                if root_variable(path) in bound:
                    paths.setdefault(path_name(path), path)
        return build.record_of(paths.items())


class _FromClause:
    """The from and where clauses of a select, and what fails in them."""

    def __init__(self, finder: _FailureFinder, select: typed.Select) -> None:
        self.finder = finder
        clauses = flatten_clauses(select, finder.scope, finder.names)
        self.known: dict[typed.Variable, typed.Expr] = {}
        self.qualifiers: list[typed.Qualifier] = []
        self.domains: list[Fragment] = []
        uses = [*clauses.conditions, *exprs_after_where(select)]
        for index, qualifier in enumerate(clauses.qualifiers):
            rest = map(qualifier_value, clauses.qualifiers[index + 1 :])
            self._add(qualifier, [*rest, *uses])
        self.where = [self.expand(condition) for condition in clauses.conditions]
        self.conditions = self._conditions()

    def expand(self, expr: typed.Expr) -> typed.Expr:
        """An expression with bound variables replaced by what they are bound to."""
        return build.reduce_projections(substitute(expr, self.known))

    def _add(self, qualifier: typed.Qualifier, uses: Sequence[typed.Expr]) -> None:
        """Add a qualifier, of which the expressions after it use some columns."""
        match qualifier:
            case typed.Binding(pattern, value):
                expanded = self.expand(value)
                parts = pattern_bindings(pattern, expanded)
                if isinstance(pattern, typed.Bind) and self._is_query(expanded):
                    # Written out at each use, a query would be translated and planned as often.
                    self.finder.named[pattern.variable] = expanded
                    self.qualifiers.append(typed.Binding(pattern, expanded))
                    return
                is_small = sum(1 for _ in nodes(expanded)) <= _LARGEST
                if is_small and set(pattern_variables(pattern)) == parts.keys():
                    self.known |= parts
                    return
                self.domains += with_qualifiers(self.qualifiers, self.finder.visit(expanded))
                self.qualifiers.append(typed.Binding(pattern, expanded))
            case typed.Generator(pattern, domain):
                expanded = self.expand(domain)
                rows = self._named_query(expanded)
                used = self.finder.used_columns(rows, [(pattern, uses)])
                inside = self.finder.visit(used)
                before = self.qualifiers if free_variables(expanded) & self._bound() else []
                self.domains += with_qualifiers(before, inside)
                self.qualifiers.append(typed.Generator(pattern, expanded))
            case typed.Condition():
                raise AssertionError("conditions are not among the qualifiers of clauses")

    def _is_query(self, expr: typed.Expr) -> bool:
        is_select = any(isinstance(node, typed.Select | typed.MapOver) for node in nodes(expr))
        return is_select and self.finder.scope.reads(expr)

    def _named_query(self, domain: typed.Expr) -> typed.Expr:
        """The query that a domain is the name of; any other domain as it is."""
        if isinstance(domain, typed.Var) and domain.variable in self.finder.named:
            return rename_binders(self.finder.named[domain.variable], self.finder.names.like)
        return domain

    def _bound(self) -> set[typed.Variable]:
        return {variable for qualifier in self.qualifiers for variable in bound_by(qualifier)}

    def _conditions(self) -> list[Fragment]:
        """What fails in the conditions: each for the rows of the generators that it is about."""
        fragments: list[Fragment] = []
        for index, condition in enumerate(self.where):
            for part, variables in self._parts(index, self.finder.visit(condition)):
                needed = self._needed_qualifiers(variables)
                joins, guards = self._other_conditions(index, needed)
                base = (*needed, *map(typed.Condition, joins))
                fragments += with_qualifiers(base, guard(build.conjunction(guards), [part]))
        return fragments

    def _parts(
        self, index: int, fragments: list[Fragment]
    ) -> Iterator[tuple[Fragment, frozenset[typed.Variable]]]:
        """What fails in a condition, and the variables whose rows it is looked for in.

        Without an equality, each row of one generator would be paired with each of another: so an
        operation on one of them, such as the cast of a join key, is looked for in its rows alone.
        """
        variables = free_variables(self.where[index])
        needed = self._needed_qualifiers(variables)
        joins, guards = self._other_conditions(index, needed)
        is_product = _is_product(needed) and not joins
        splits = is_product and not any(
            _is_product(self._needed_qualifiers(free_variables(other))) for other in guards
        )
        for fragment in fragments:
            if not splits or fragment.qualifiers or fragment.pair is not None:
                yield fragment, variables
                continue
            for check in fragment.checks:
                own = free_variables(check.condition)
                # What is about no row at all, like 1 / 0, fails only where there are rows.
                rows_of = own if self._needed_qualifiers(own) else variables
                yield replace(fragment, checks=(check,)), rows_of

    def _other_conditions(
        self, index: int, needed: Sequence[typed.Qualifier]
    ) -> tuple[list[typed.Expr], list[typed.Expr]]:
        """The other conditions on what some qualifiers bind: joins, and those before this one."""
        outside = self._bound() - {v for qualifier in needed for v in bound_by(qualifier)}
        others = [
            (i, other)
            for i, other in enumerate(self.where)
            if i != index and not free_variables(other) & outside
        ]
        joins = [other for _, other in others if is_join(other, needed)]
        return joins, [other for i, other in others if i < index and other not in joins]

    def _needed_qualifiers(self, variables: AbstractSet[typed.Variable]) -> list[typed.Qualifier]:
        """The qualifiers that bind variables, with those that they depend on."""
        wanted = set(variables)
        needed: list[typed.Qualifier] = []
        for qualifier in reversed(self.qualifiers):
            if wanted & set(bound_by(qualifier)):
                needed.insert(0, qualifier)
                wanted |= free_variables(qualifier_value(qualifier))
        return needed

    def fragments_of(self, exprs: Sequence[typed.Expr]) -> list[Fragment]:
        """What fails in expressions over the rows for which all conditions hold."""
        inside = [f for expr in exprs for f in self.finder.visit(self.expand(expr))]
        return self._for_all_conditions(inside)

    def over_rows(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """Fragments over the variables of the select as fragments with its clauses before them."""
        return self._for_all_conditions([substitute_in(f, self.known) for f in fragments])

    def _for_all_conditions(self, fragments: list[Fragment]) -> list[Fragment]:
        # One generator: the conditions guard, so that all of a row is checked in one pass.
        # Several: they are qualifiers, so that equalities among them become join keys.
        if len(self.qualifiers) == 1:
            guarded = guard(build.conjunction(self.where), fragments)
            return with_qualifiers(self.qualifiers, guarded)
        return with_qualifiers([*self.qualifiers, *map(typed.Condition, self.where)], fragments)


def _is_product(qualifiers: Sequence[typed.Qualifier]) -> bool:
    """Whether several generators are among some qualifiers, none of which goes through another."""
    bound: set[typed.Variable] = set()
    independent = 0
    for qualifier in qualifiers:
        is_over_others = free_variables(qualifier_value(qualifier)) & bound
        independent += isinstance(qualifier, typed.Generator) and not is_over_others
        bound |= set(bound_by(qualifier))
    return independent > 1


def _nodes_with_called(parts: Iterable[typed.Expr], script: typed.Script) -> Iterator[typed.Expr]:
    """The nodes of expressions, and of the queries, functions and aggregations that they use."""
    entered: set[tuple[str, str]] = set()
    waiting = list(parts)
    bodies: tuple[typed.Expr, ...]
    while waiting:
        for node in nodes(waiting.pop()):
            yield node
            match node:
                case typed.Global(key):
                    name, bodies = ("query", key), (script.queries[key],)
                case typed.Call(key):
                    name, bodies = ("function", key), (script.functions[key].body,)
                case typed.UserAggregate(key):
                    name, bodies = ("aggregation", key), (*children(script.aggregations[key]),)
                case _:
                    continue
            if name not in entered:
                entered.add(name)
                waiting += bodies
