"""From a query in normal form to its program of changes: one node for each term.

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
    element,
    pair,
)
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import Register, map_children, terms, variables_of
from incmrql.errors import NOWHERE, Diagnostic, InternalError, QueryError, Span
from incmrql.plan.additivity import Additivity
from incmrql.plan.factoring import Factoring, Views
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
    Part,
    Plan,
    Repeated,
    edge,
)
from incmrql.types import typed
from incmrql.types.model import bag
from incmrql.types.show import show_source
from incmrql.types.walk import nodes, substitute, used_variables

# --- Streams and `random` behind names ---


def refuse_random(query: Query, script: typed.Script, span: Span) -> None:
    """Raise A102 if a query over a stream asks for random numbers."""
    found = [term for _, part in query.parts for term in terms(part)]
    if not any(isinstance(term, Scan) and term.source.streaming for term in found):
        return
    for expr in [query.result, *(expr for term in found for expr in _exprs(term))]:
        for node in reachable(expr, script, set()):
            if isinstance(node, typed.Builtin) and node.function == "random":
                where = node.span if node.span.text else span
                message = "random has another value each time, and an answer over a stream has one"
                hint = "Keep the value first: store x := random(9); and use x."
                problem = Diagnostic("A102", message, where, "not a function of the data", hint)
                raise QueryError(problem)


def follows_streams(expr: typed.Expr, script: typed.Script) -> bool:
    """Whether an expression reads a stream, itself or through what it calls and names."""
    every = reachable(expr, script, set())
    return any(isinstance(node, typed.Read) and node.source.streaming for node in every)


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
    """All expressions inside, those of called functions, aggregations and named queries too."""
    for node in nodes(expr):
        yield node
        inner: tuple[typed.Expr, ...] = ()
        match node:
            case typed.Call(name):
                key, inner = f"function {name}", (script.functions[name].body,)
            case typed.Global(name):
                key, inner = f"query {name}", (script.queries[name],)
            case typed.UserAggregate(name):
                made = script.aggregations[name]
                unit = () if made.unit is None else (made.unit.body,)
                key, inner = f"aggregation {name}", (made.merge.body, made.zero, *unit)
            case _:
                continue
        if key not in seen:
            seen.add(key)
            for each in inner:
                yield from reachable(each, script, seen)


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
    """The plans of several queries that share their sources: the last one has the nodes of all."""
    plans: list[Plan] = []
    planning: Planner | None = None
    for query in queries:
        planning = Planner(query, script, planning)
        plans.append(planning.plan())
    return tuple(plans)


class Planner:
    """The nodes made so far, and where the rows of terms and parts come from.

    Those of the items `before` stay where they are, and their sources are used again.
    """

    def __init__(self, query: Query, script: typed.Script, before: Planner | None = None) -> None:
        self.query, self.script = query, script
        self.names = Names(max((variable.number for variable in variables_of(query)), default=0))
        self.nodes: list[Node] = [] if before is None else before.nodes
        self.edges: list[Edge] = [] if before is None else before.edges
        self.shared: dict[typed.Variable, int] = {}
        self.given: dict[typed.Variable, int] = {}
        self.lists: dict[typed.Variable, Sort] = {}
        self.register = Register()
        self.entered: set[int] = set()
        self.made: dict[int, int] = {}
        self.sources: dict[str, int] = {} if before is None else before.sources
        self.declared = _declared(query)

    def plan(self) -> Plan:
        """The plan of the query."""
        wanted = used_variables(self.query.result)
        parts = []
        for variable, term in self.query.parts:
            self.enter(term)
            order = term.descending if isinstance(term, Sort) and term.ordered else None
            if isinstance(term, Sort) and order is not None:
                place = self.pairs(term)
                self.lists[variable] = term
            else:
                place = self.place(term)
            self.shared[variable] = place
            if variable in wanted:
                parts.append(Part(variable, place, order))
        nodes, edges = tuple(self.nodes), tuple(self.edges)
        return Plan(nodes, edges, tuple(parts), self.query.result, self.query, self.script)

    def enter(self, term: Term) -> None:
        """Make a term known, so that equal ones are one node."""
        self.register.enter(term)
        self.entered.update(map(id, terms(term)))

    def add(self, node: Node) -> int:
        """The place of a new node."""
        self.nodes.append(node)
        self.edges.append(edge(node, self.edges))
        return len(self.nodes) - 1

    def place(self, term: Term) -> int:
        """The place of the node that has the rows of a term."""
        if id(term) not in self.entered:
            return self.node(term)
        number = self.register.number(term)
        if number not in self.made:
            self.made[number] = self.node(term)
        return self.made[number]

    def node(self, term: Term) -> int:
        """The node that a term becomes."""
        match term:
            case Scan():
                return self.source(term)
            case Values(expr):
                return self.add(Constant(expr))
            case Shared(variable) if variable in self.lists:
                return self.values(self.shared[variable], self.lists[variable])
            case Shared(variable):
                return self.shared[variable]
            case Loop(variable) if variable in self.given:
                return self.given[variable]
            case Loop():
                raise InternalError("a loop variable outside of its loop")
            case CMap(variable, body, (GroupBy() | CoGroup()) as groups):
                return self.grouped(variable, body, groups)
            case GroupBy() | CoGroup():
                group = self.names.variable("group", element(term))
                return self.grouped(group, build.bag_of(build.var(group)), term)
            case CMap(variable, body, source):
                return self.linear(self.place(source), variable, body)
            case Union(parts):
                return self.add(Merge(tuple(map(self.place, parts))))
            case Sort():
                return self.values(self.pairs(term), term)
            case Repeat():
                return self.repeated(term)
            case _:
                assert_never(term)

    def source(self, scan: Scan) -> int:
        """The input of a source, one for all its uses."""
        source = self._declared(scan.source)
        key = repr(source)
        if key not in self.sources:
            options = dict(source.options)
            can_delete = "deletes" in options or "sign" in options
            can_delete |= options.get("on_modified") == "replace"
            if source.format == "registered" or source.host is not None:  # pushed by anybody
                can_delete = not options.get("insert_only", False)
            can_delete = can_delete and source.streaming
            ledger = can_delete and not options.get("trusted_deletes", False)
            name = self._name(source)
            unique = tuple(options.get("key", ()))
            node = Input(source, scan.element, name, not can_delete, ledger, unique)
            self.sources[key] = self.add(node)
        return self.sources[key]

    def _declared(self, source: typed.Source) -> typed.Source:
        """A registered source with what is declared of it anywhere in the query."""
        if source.format != "registered":
            return source
        return replace(source, options=tuple(self.declared[source.name].items()))

    def _name(self, source: typed.Source) -> str:
        """How batches name a source: as the query does, with a number where that is not unique."""
        shown = show_source(source)
        taken = {node.name for node in self.nodes if isinstance(node, Input)}
        others = [f"{shown} {n}" for n in range(2, len(taken) + 2)]
        return next(name for name in [shown, *others] if name not in taken)

    def linear(self, place: int, variable: typed.Variable, body: typed.Expr) -> int:
        """A map over a node, fused with the map that the node is."""
        below = self.nodes[place]
        if isinstance(below, Linear):
            return self.add(Linear(below.input, (*below.steps, (variable, body))))
        return self.add(Linear(place, ((variable, body),)))

    def pairs(self, term: Sort) -> int:
        """The pairs (key, value) of sorted rows, as many as there may be."""
        below = self.place(term.source)
        if term.limit is None:
            return below
        grows = self.edges[below].insert_only
        return self.add(Ordered(below, term.descending, term.limit, grows))

    def values(self, place: int, term: Sort) -> int:
        """The values of sorted pairs, as a bag."""
        one = self.names.variable("pair", element(term.source))
        return self.linear(place, one, build.bag_of(build.item(build.var(one), 1)))

    def grouped(self, group: typed.Variable, body: typed.Expr, groups: GroupBy | CoGroup) -> int:
        """A function of groups: a join, a map, or what its answer asks of them."""
        below = (groups.source,) if isinstance(groups, GroupBy) else (groups.left, groups.right)
        judge = Additivity(group, len(below))
        body = Views(judge, self.names, self.script.functions).written_out(body)
        sides = judge.additive(body)
        if sides is not None and len(sides) == 2:
            left, right = map(self.place, below)
            kept = [i for i, other in ((0, right), (1, left)) if not self.edges[other].invariant]
            columns = judge.columns([body], 0), judge.columns([body], 1)
            key, single = pair(below[0])[0], self._single((left, right))
            return self.add(Join(left, right, group, body, key, tuple(kept), columns, single))
        if sides is not None and len(sides) == 1:
            (side,) = sides
            return self._alone(group, body, below, side)
        return self._asking(judge, body, below)

    def _alone(
        self, group: typed.Variable, body: typed.Expr, below: Sequence[Term], side: int
    ) -> int:
        """A body that goes through one side row by row: each row is a group of its own."""
        row = self.names.variable("row", element(below[side]))
        key, value = build.item(build.var(row), 0), build.item(build.var(row), 1)
        bags = [
            build.bag_of(value) if place == side else build.empty(pair(each)[1])
            for place, each in enumerate(below)
        ]
        rows = bags[0] if len(bags) == 1 else build.tuple_of(*bags)
        alone = substitute(body, {group: build.tuple_of(key, rows)})
        return self.linear(self.place(below[side]), row, alone)

    def _asking(self, judge: Additivity, body: typed.Expr, below: Sequence[Term]) -> int:
        places = tuple(map(self.place, below))
        edges = [self.edges[place] for place in places]
        growing = [side for side, each in enumerate(edges) if each.insert_only]
        asking = Factoring(judge, self.names, growing, self.script.aggregations)
        answer = asking.rewritten(body)
        sides = judge.additive(answer)
        linear = next(iter(sides)) if sides is not None and len(sides) == 1 else None
        reads = judge.read(answer)
        asked = {each.side for each in asking.requests}
        walked = {each.side for each in asking.requests if each.reads_rows}
        tabled = {each.side for each in asking.tables}
        readers = [answer, *(each.expr for each in asking.requests if each.reads_rows)]
        moving = {side for side, each in enumerate(edges) if not each.invariant}
        kept = reads | (walked & moving) if moving else frozenset[int]()
        if linear is not None and moving <= {linear} and linear not in asked:
            kept -= {linear}  # what its rows meet never changes
        return self.add(
            Groups(
                places,
                judge.group,
                answer,
                pair(below[0])[0],
                tuple(asking.accumulators),
                tuple(asking.requests),
                tuple(sorted(reads)),
                tuple(sorted(kept)),
                linear,
                is_fold=all(edges[side].constant for side in reads | walked | tabled),
                is_final=not moving,
                tables=tuple(asking.tables),
                columns=tuple(judge.columns(readers, side) for side in range(len(below))),
                single=self._single(places),
            )
        )

    def _single(self, places: Sequence[int]) -> tuple[int, ...]:
        """The sides of which a key has one row at most."""
        return tuple(side for side, place in enumerate(places) if self.edges[place].single)

    def repeated(self, term: Repeat) -> int:
        """A loop: what does not depend on its variables comes from nodes of its own."""
        places: list[int] = []
        variables: list[typed.Variable] = []
        inner = frozenset(v for t in terms(term) if isinstance(t, Repeat) for v in t.variables)

        def outside(part: Term) -> Term:
            loops = [t for t in terms(part) if isinstance(t, Loop) and t.variable in inner]
            if loops or isinstance(part, Values):
                return map_children(outside, part)
            places.append(self.place(part))
            variables.append(self.names.variable("input", bag(element(part))))
            return Shared(variables[-1])

        loop = map_children(outside, term)
        assert isinstance(loop, Repeat)
        return self.add(Repeated(tuple(places), tuple(variables), loop))


def _declared(query: Query) -> dict[str, dict[str, Any]]:
    """The options of registered sources: what one use declares is so for all."""
    found: dict[str, dict[str, Any]] = {}
    for _, part in query.parts:
        for term in terms(part):
            if isinstance(term, Scan) and term.source.format == "registered":
                found.setdefault(term.source.name, {}).update(term.source.options)
    return found
