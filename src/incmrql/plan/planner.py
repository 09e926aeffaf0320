"""Translate a query in normal form to a plan: one node for each term.

    cMap over groups   additive in both sides      Join
                       additive in one side        Linear: the groups are not needed
                       anything else               Groups: accumulators, and rows where F needs them

Equal terms are one node, and equal sources one input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, assert_never

from incmrql.algebra import rows as build
from incmrql.algebra.normalize.strategy import normal_form
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
    View,
    element,
    pair,
)
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import Register, map_children, terms, variables_of
from incmrql.errors import NOWHERE, Diagnostic, InternalError, QueryError, Span
from incmrql.plan.additivity import Additivity
from incmrql.plan.factoring import Factoring, ViewExpansion
from incmrql.plan.nodes import (
    Constant,
    Edge,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Node,
    Ordered,
    Plan,
    Repeated,
    ResultPart,
    Table,
    WindowRead,
    edge_of,
)
from incmrql.plan.windows import expand_windows, ordered_pairs, prefix_requests, window_read
from incmrql.types import typed
from incmrql.types.model import bag
from incmrql.types.show import show_source
from incmrql.types.walk import nodes, substitute, used_variables

# --- Streams and `random` behind names ---


def refuse_random(query: Query, script: typed.Script, span: Span) -> None:
    """Raise A102 if a query over a stream uses `random`."""
    all_terms = [term for _, part in query.parts for term in terms(part)]
    if not any(isinstance(term, Scan) and term.source.streaming for term in all_terms):
        return
    for expr in [query.result, *(expr for term in all_terms for expr in _exprs(term))]:
        for node in reachable(expr, script, set()):
            if isinstance(node, typed.Builtin) and node.function == "random":
                where = node.span if node.span.text else span
                message = "random has another value each time, and an answer over a stream has one"
                hint = "Keep the value first: store x := random(9); and use x."
                problem = Diagnostic("A102", message, where, "not a function of the data", hint)
                raise QueryError(problem)


def follows_streams(expr: typed.Expr, script: typed.Script) -> bool:
    """Whether an expression reads a stream, itself or through what it calls and names."""
    expressions = reachable(expr, script, set())
    return any(isinstance(node, typed.Read) and node.source.streaming for node in expressions)


def _exprs(term: Term) -> Iterator[typed.Expr]:
    """The expressions of a term itself."""
    match term:
        case CMap(body=expr) | Values(expr):
            yield expr
        case Sort(limit=limit) | Repeat(limit=limit):
            if limit is not None:
                yield limit
        case _:
            pass


def reachable(expr: typed.Expr, script: typed.Script, seen: set[str]) -> Iterator[typed.Expr]:
    """All sub-expressions, also those of called functions, aggregations and named queries."""
    for node in nodes(expr):
        yield node
        bodies: tuple[typed.Expr, ...] = ()
        match node:
            case typed.Call(name):
                key, bodies = f"function {name}", (script.functions[name].body,)
            case typed.Global(name):
                key, bodies = f"query {name}", (script.queries[name],)
            case typed.UserAggregate(name):
                aggregation = script.aggregations[name]
                unit = () if aggregation.unit is None else (aggregation.unit.body,)
                key, bodies = (
                    f"aggregation {name}",
                    (aggregation.merge.body, aggregation.zero, *unit),
                )
            case _:
                continue
        if key not in seen:
            seen.add(key)
            for body in bodies:
                yield from reachable(body, script, seen)


# --- Planning ---


def plan_of(item: typed.ScriptItem, script: typed.Script) -> Plan:
    """The plan of an item of a script; may raise `QueryError`."""
    query, _ = normal_form(translate(item.expr, script))
    return plan_query(query, script, item.span)


def plan_query(query: Query, script: typed.Script, span: Span = NOWHERE) -> Plan:
    """The plan of a query in normal form; may raise `QueryError`."""
    refuse_random(query, script, span)
    return Planner(query, script).plan()


def plan_queries(queries: Sequence[Query], script: typed.Script) -> tuple[Plan, ...]:
    """The plans of several queries over shared sources; the last plan has the nodes of all."""
    plans: list[Plan] = []
    planner: Planner | None = None
    for query in queries:
        planner = Planner(query, script, planner)
        plans.append(planner.plan())
    return tuple(plans)


class Planner:
    """Plans one query: adds nodes to a list, and remembers the node of each term.

    With `previous`, its nodes come first, and its sources and views are reused.  Terms that are
    registered first share a node with every equal term.
    """

    def __init__(self, query: Query, script: typed.Script, previous: Planner | None = None) -> None:
        self.query, self.script = query, script
        self.names = Names(max((variable.number for variable in variables_of(query)), default=0))
        self.nodes: list[Node] = [] if previous is None else previous.nodes
        self.edges: list[Edge] = [] if previous is None else previous.edges
        self.shared: dict[typed.Variable, int] = {}
        self.loop_params: dict[typed.Variable, int] = {}
        self.lists: dict[typed.Variable, Sort] = {}
        self.register = Register()
        self.registered: set[int] = set()
        self.index_of_term: dict[int, int] = {}
        self.sources: dict[str, int] = {} if previous is None else previous.sources
        self.views: dict[View, int] = {} if previous is None else previous.views
        self.source_options = _source_options(query)

    def plan(self) -> Plan:
        """The plan of the query."""
        for view in self.query.views:
            self._add_view(view)
        result_variables = used_variables(self.query.result)
        parts = []
        for variable, term in self.query.own_parts:
            self.register_term(term)
            order = term.descending if isinstance(term, Sort) and term.ordered else None
            if isinstance(term, Sort) and order is not None:
                index = self._add_sort(term)
                self.lists[variable] = term
            else:
                index = self.index_of(term)
            self.shared[variable] = index
            if variable in result_variables:
                parts.append(ResultPart(variable, index, order))
        nodes, edges = tuple(self.nodes), tuple(self.edges)
        views = tuple((view.name, self.views[view]) for view in self.query.views)
        return Plan(nodes, edges, tuple(parts), self.query.result, self.query, self.script, views)

    def _add_view(self, view: View) -> None:
        """Plan a view, unless a query before has planned it."""
        if view not in self.views:
            for variable, term in view.parts:
                self.register_term(term)
                self.shared[variable] = self.index_of(term)
            self.views[view] = self.shared[view.variable]
        self.shared[view.variable] = self.views[view]

    def register_term(self, term: Term) -> None:
        """Number a term and its sub-terms, so that equal ones become one node."""
        self.register.enter(term)
        self.registered.update(map(id, terms(term)))

    def add(self, node: Node) -> int:
        """Append a node; its index."""
        self.nodes.append(node)
        self.edges.append(edge_of(node, self.edges))
        return len(self.nodes) - 1

    def index_of(self, term: Term) -> int:
        """The index of the node with the rows of a term, which is added if there is none yet."""
        if id(term) not in self.registered:
            return self._add_term(term)
        number = self.register.number(term)
        if number not in self.index_of_term:
            self.index_of_term[number] = self._add_term(term)
        return self.index_of_term[number]

    def _add_term(self, term: Term) -> int:
        """Add the node, or nodes, of a term; the index of the one with its rows."""
        match term:
            case Scan():
                return self._add_source(term)
            case Values(expr):
                return self.add(Constant(expr))
            case Shared(variable) if variable in self.lists:
                return self._add_values(self.shared[variable], self.lists[variable])
            case Shared(variable):
                return self.shared[variable]
            case Loop(variable) if variable in self.loop_params:
                return self.loop_params[variable]
            case Loop():
                raise InternalError("a loop variable outside of its loop")
            case CMap(variable, body, (GroupBy() | CoGroup()) as groups):
                return self._add_groups(variable, body, groups)
            case GroupBy() | CoGroup():
                group = self.names.variable("group", element(term))
                return self._add_groups(group, build.bag_of(build.var(group)), term)
            case CMap(variable, body, source):
                return self._add_linear(self.index_of(source), variable, body)
            case Union(parts):
                return self.add(Merge(tuple(map(self.index_of, parts))))
            case Sort():
                return self._add_values(self._add_sort(term), term)
            case Repeat():
                return self._add_loop(term)
            case _:
                assert_never(term)

    def _add_source(self, scan: Scan) -> int:
        """The index of the input of a source; all uses of a source share one input."""
        source = self._with_options(scan.source)
        key = repr(source)
        if key not in self.sources:
            options = dict(source.options)
            can_delete = "deletes" in options or "sign" in options
            can_delete |= options.get("on_modified") == "replace"
            # Rows of registered sources and sockets come with weights: any of them may be deleted.
            if source.format == "registered" or source.host is not None:
                can_delete = not options.get("insert_only", False)
            can_delete = can_delete and source.streaming
            is_computed = source.reader is not None and bool(source.reader.computed)
            # A deletion takes computed values from the ledger.
            ledger = can_delete and (is_computed or not options.get("trusted_deletes", False))
            name = self._name(source)
            unique = tuple(options.get("key", ()))
            node = Input(source, scan.element, name, not can_delete, ledger, unique)
            self.sources[key] = self.add(node)
        return self.sources[key]

    def _with_options(self, source: typed.Source) -> typed.Source:
        """A registered source with all options that any of its uses in the query declares."""
        if source.format != "registered":
            return source
        return replace(source, options=tuple(self.source_options[source.name].items()))

    def _name(self, source: typed.Source) -> str:
        """A unique name of a source: its text in the query, numbered if that is already in use."""
        text = show_source(source)
        names_in_use = {node.name for node in self.nodes if isinstance(node, Input)}
        numbered = [f"{text} {n}" for n in range(2, len(names_in_use) + 2)]
        return next(name for name in [text, *numbered] if name not in names_in_use)

    def _add_linear(self, index: int, variable: typed.Variable, body: typed.Expr) -> int:
        """Add a map over a node; if the node is itself a map, and no view, the two become one."""
        below = self.nodes[index]
        if isinstance(below, Linear) and index not in self.views.values():
            return self.add(Linear(below.input, (*below.steps, (variable, body))))
        return self.add(Linear(index, ((variable, body),)))

    def _add_sort(self, term: Sort) -> int:
        """Add a sort with a limit; the index of its pairs (key, value)."""
        below = self.index_of(term.source)
        if term.limit is None:
            return below
        grows = self.edges[below].insert_only
        return self.add(Ordered(below, term.descending, term.limit, grows))

    def _add_values(self, index: int, term: Sort) -> int:
        """Add the map from sorted pairs to their values."""
        row = self.names.variable("pair", element(term.source))
        return self._add_linear(index, row, build.bag_of(build.item(build.var(row), 1)))

    def _add_groups(
        self, group: typed.Variable, body: typed.Expr, groups: GroupBy | CoGroup
    ) -> int:
        """Add a function of groups, as a join, as a map, or as `Groups` with accumulators."""
        below = (groups.source,) if isinstance(groups, GroupBy) else (groups.left, groups.right)
        additivity = Additivity(group, len(below))
        body = expand_windows(body, self.names)
        window = window_read(body, additivity, self.names)
        if window is not None:
            return self._add_window(additivity, body, window, below[0])
        body = ViewExpansion(additivity, self.names, self.script.functions).expand(body)
        sides = additivity.additive(body)
        if sides is not None and len(sides) == 2:
            left, right = map(self.index_of, below)
            kept = [
                i for i, partner in ((0, right), (1, left)) if not self.edges[partner].invariant
            ]
            columns = additivity.columns([body], 0), additivity.columns([body], 1)
            key, single = pair(below[0])[0], self._single_sides((left, right))
            return self.add(Join(left, right, group, body, key, tuple(kept), columns, single))
        if sides is not None and len(sides) == 1:
            (side,) = sides
            return self._add_one_sided(group, body, below, side)
        return self._add_factored(additivity, body, below)

    def _add_one_sided(
        self, group: typed.Variable, body: typed.Expr, below: Sequence[Term], side: int
    ) -> int:
        """Add a body that maps one side row by row, as a map over groups of a single row."""
        row = self.names.variable("row", element(below[side]))
        key, value = build.item(build.var(row), 0), build.item(build.var(row), 1)
        bags = [
            build.bag_of(value) if index == side else build.empty(pair(term)[1])
            for index, term in enumerate(below)
        ]
        rows = bags[0] if len(bags) == 1 else build.tuple_of(*bags)
        single_row = substitute(body, {group: build.tuple_of(key, rows)})
        return self._add_linear(self.index_of(below[side]), row, single_row)

    def _add_factored(self, additivity: Additivity, body: typed.Expr, below: Sequence[Term]) -> int:
        """Add `Groups` for a body, with its aggregates factored out into requests."""
        indices = tuple(map(self.index_of, below))
        edges = [self.edges[index] for index in indices]
        growing = [side for side, edge in enumerate(edges) if edge.insert_only]
        factoring = Factoring(additivity, self.names, growing, self.script.aggregations)
        answer = factoring.rewrite(body)
        sides = additivity.additive(answer)
        linear = next(iter(sides)) if sides is not None and len(sides) == 1 else None
        reads = additivity.sides_read(answer)
        requested = {request.side for request in factoring.requests}
        scanned = {request.side for request in factoring.requests if request.reads_rows}
        in_tables = {table.side for table in factoring.tables}
        readers = [answer, *(request.expr for request in factoring.requests if request.reads_rows)]
        varying = {side for side, edge in enumerate(edges) if not edge.invariant}
        kept = reads | (scanned & varying) if varying else frozenset[int]()
        if linear is not None and varying <= {linear} and linear not in requested:
            # The other side never changes and no request is over this one, so a row of this side
            # changes the output once, when it arrives, and is never looked up again.
            kept -= {linear}
        return self.add(
            Groups(
                indices,
                additivity.group,
                answer,
                pair(below[0])[0],
                tuple(factoring.accumulators),
                tuple(factoring.requests),
                tuple(sorted(reads)),
                tuple(sorted(kept)),
                linear,
                is_fold=all(edges[side].constant for side in reads | scanned | in_tables),
                is_final=not varying,
                tables=tuple(factoring.tables),
                columns=tuple(additivity.columns(readers, side) for side in range(len(below))),
                single=self._single_sides(indices),
            )
        )

    def _add_window(
        self, additivity: Additivity, body: typed.Expr, window: WindowRead, below: Term
    ) -> int:
        """Add `Groups` for a body over a window, whose rows are kept in order."""
        index = self.index_of(below)
        edge = self.edges[index]
        factoring = Factoring(additivity, self.names, [0] if edge.insert_only else [])
        order = tuple(key.descending for key in window.window.order)
        factoring.tables.append(Table(0, ordered_pairs(window.window, self.names), order))
        before = tuple(
            tuple(_variable(factoring.rewrite(request)) for request in requests)
            for requests in prefix_requests(window, self.names)
        )
        return self.add(
            Groups(
                (index,),
                additivity.group,
                body,
                pair(below)[0],
                tuple(factoring.accumulators),
                tuple(factoring.requests),
                (0,),
                () if edge.invariant else (0,),
                None,
                is_fold=edge.constant,
                is_final=edge.invariant,
                tables=tuple(factoring.tables),
                columns=(None,),
                single=self._single_sides((index,)),
                window=replace(window, before=before),
            )
        )

    def _single_sides(self, indices: Sequence[int]) -> tuple[int, ...]:
        """The sides with at most one row per key."""
        return tuple(side for side, index in enumerate(indices) if self.edges[index].single)

    def _add_loop(self, term: Repeat) -> int:
        """Add a loop; sub-terms that do not depend on its variables become its inputs."""
        indices: list[int] = []
        variables: list[typed.Variable] = []
        inner = frozenset(v for t in terms(term) if isinstance(t, Repeat) for v in t.variables)

        def outside(part: Term) -> Term:
            loops = [t for t in terms(part) if isinstance(t, Loop) and t.variable in inner]
            if loops or isinstance(part, Values):
                return map_children(outside, part)
            indices.append(self.index_of(part))
            variables.append(self.names.variable("input", bag(element(part))))
            return Shared(variables[-1])

        loop = map_children(outside, term)
        assert isinstance(loop, Repeat)
        return self.add(Repeated(tuple(indices), tuple(variables), loop))


def _variable(expr: typed.Expr) -> typed.Variable:
    assert isinstance(expr, typed.Var)
    return expr.variable


def _source_options(query: Query) -> dict[str, dict[str, Any]]:
    """The options of registered sources, by name: what one use declares applies to all."""
    declared: dict[str, dict[str, Any]] = {}
    for _, part in query.parts:
        for term in terms(part):
            if isinstance(term, Scan) and term.source.format == "registered":
                declared.setdefault(term.source.name, {}).update(term.source.options)
    return declared
