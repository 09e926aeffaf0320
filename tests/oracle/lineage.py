"""Where the rows of an answer come from, by an evaluation that remembers.

lineage: { (row, { (name of a source, its row) }) }        debug: { (row, tree) }

Each value knows what it was made from.  Queries, unions, maps and conditionals are followed element
by element; of any other construct all that it uses counts.  The values are those of `evaluate`.
`algebra.lineage.queries`, which writes the same as a query, is compared with this.

Lists where the answer is a list.  A stored value counts as a source.  Nothing depends on the order
of the elements of a bag: in a tree they stand in the canonical order of their trees, and rows that
an order by leaves alike go by what is beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Collection as Known
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, get_args

from incmrql.reference.environment import Environment
from incmrql.reference.evaluate import evaluate, rows_of
from incmrql.reference.operators import collection, combine, elements
from incmrql.reference.queries import answer_positions, group_bindings, group_members, match_pattern
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Record, Value, encode, sort_values

_EXPRESSIONS = get_args(typed.Expr)


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A value, the operator that made it, and what it was made from.

    `parts` are the derivations of a collection's elements, if they are known one by one;
    `source` is the name of the source of which the value is a row, and `copy` tells rows of
    it apart that are identical.
    """

    value: Value
    operator: str
    inputs: tuple[Derived, ...] = ()
    parts: tuple[Derived, ...] | None = None
    source: str = ""
    copy: int = 0

    def elements(self) -> tuple[Derived, ...]:
        """The derivation of each element; where it is not known, all that the whole has."""
        if self.parts is not None:
            return self.parts
        return tuple([Derived(value, "element", (self,)) for value in elements(self.value)])


Leaves: TypeAlias = dict[int, tuple[Derived, ...]]
"""The rows of each source that was read, by the identity of the bag they came in."""

Rank: TypeAlias = Callable[[Derived], bytes]
"""Which of two identical rows comes first in an order: by what they were made from."""


@dataclass(frozen=True, slots=True)
class Row:
    """An environment with the derivation of every variable, and what the row was made from."""

    env: Environment
    origins: dict[int, Derived] = field(default_factory=dict)
    inputs: tuple[Derived, ...] = ()
    leaves: Leaves = field(default_factory=dict)
    rank: Rank = lambda _: b""

    def bind(self, pattern: typed.Pattern, bindings: dict[int, Value], origin: Derived) -> Row:
        """The row with the variables of a pattern: the origin itself, or parts of it."""
        if isinstance(pattern, typed.Bind):
            named = dict.fromkeys(bindings, origin)
        else:
            named = {n: Derived(value, "part", (origin,)) for n, value in bindings.items()}
        return replace(self, env=self.env.extend(bindings), origins={**self.origins, **named})

    def use(self, *inputs: Derived) -> Row:
        """The row, made from something more."""
        return replace(self, inputs=(*self.inputs, *inputs))

    def outermost(self) -> Row:
        """The place where a named query starts."""
        return Row(self.env.outermost(), leaves=self.leaves, rank=self.rank)


def derive(expr: typed.Expr, row: Row) -> Derived:
    """The value of an expression with what it was made from."""
    match expr:
        case typed.Var(variable):
            return row.origins[variable.number]
        case typed.Read(source):
            return _read(source, row)
        case typed.Stored(key):
            return _stored_value(key, row)
        case typed.Global(key):
            named = derive(row.env.world.script.queries[key], row.outermost())
            return Derived(named.value, f"query {key.partition('@')[0]}", (named,), named.parts)
        case typed.Trace(operand, text):
            inner = derive(operand, row)
            row.env.world.on_trace(text, inner.value)
            return Derived(inner.value, f"trace {text}", (inner,), inner.parts)
        case typed.Select():
            return _select(expr, row)
        case typed.Combine():
            return _combine(expr, row)
        case typed.MapOver():
            return _map(expr, row)
        case typed.If(condition, then, otherwise):
            test = derive(condition, row)
            branch = derive(then if test.value else otherwise, row)
            return Derived(branch.value, "if", (test, branch), branch.parts)
        case typed.Case():
            return _case(expr, row)
        case _:
            return _other(expr, row)


def _read(source: typed.Source, row: Row) -> Derived:
    values = rows_of(source, row.env)
    if id(values) not in row.leaves:
        path = "" if source.path is None else evaluate(source.path, row.env)
        name = source.name or path
        row.leaves[id(values)] = _leaves(values, f"source {name}", name)
    return Derived(values, "read", (), row.leaves[id(values)])


def _stored_value(key: str, row: Row) -> Derived:
    """A stored value: it has no lineage of its own, so it counts as a source."""
    value, name = row.env.world.stored[key], key.partition("@")[0]
    operator = f"stored {name}"
    if not isinstance(value, list):
        return Derived(value, operator, source=name)
    if id(value) not in row.leaves:
        row.leaves[id(value)] = _leaves(value, operator, name)
    return Derived(value, operator, (), row.leaves[id(value)])


def _leaves(values: list[Value], operator: str, source: str) -> tuple[Derived, ...]:
    """The rows of a source; the numbers of identical ones count up."""
    copies: Counter[bytes] = Counter()
    leaves = []
    for value in values:
        key = encode(value)
        copies[key] += 1
        leaves.append(Derived(value, operator, source=source, copy=copies[key]))
    return tuple(leaves)


def _other(expr: typed.Expr, row: Row) -> Derived:
    """Any other construct: all that its operands, or the code below its binders, use."""
    binds = isinstance(expr, typed.Repeat | typed.Fold | typed.Call | typed.UserAggregate)
    used = _uses(expr, row.env.world.script, row.origins, set()) if binds else _children(expr)
    inputs = tuple([derive(part, row) for part in used])
    return Derived(evaluate(expr, row.env), type(expr).__name__.lower(), inputs)


def _children(node: Any) -> list[typed.Expr]:
    """The expressions directly below a node."""
    children: list[typed.Expr] = []
    for part in _parts_of(node):
        children.extend([part] if isinstance(part, _EXPRESSIONS) else _children(part))
    return children


def _parts_of(node: Any) -> Iterator[Any]:
    """The nodes directly inside a node, a tuple of nodes or a lambda."""
    if isinstance(node, tuple):
        yield from node
    elif isinstance(node, _EXPRESSIONS) or type(node).__module__.startswith(typed.__name__):
        for part in fields(node):
            if part.name not in ("type", "span"):
                yield getattr(node, part.name)


def _uses(
    expr: typed.Expr, script: typed.Script, known: Known[int], called: set[str]
) -> list[typed.Expr]:
    """The sources, queries and known variables that an expression mentions anywhere."""
    match expr:
        case typed.Read() | typed.Global() | typed.Stored():
            return [expr]
        case typed.Var(variable):
            return [expr] if variable.number in known else []
        case typed.Call(name) if name not in called:
            called.add(name)
            below = [*_children(expr), script.functions[name].body]
        case typed.UserAggregate(name):
            below = [*_children(expr), *_children(script.aggregations[name])]
        case _:
            below = _children(expr)
    uses: list[typed.Expr] = []
    for part in below:
        uses.extend(_uses(part, script, known, called))
    return uses


def _combine(expr: typed.Combine, row: Row) -> Derived:
    left, right = derive(expr.left, row), derive(expr.right, row)
    value = combine(expr.op, left.value, right.value)
    parts = (*left.elements(), *right.elements())
    if expr.op != "union":
        parts = _pick(value, left.elements() if expr.op == "except" else parts, row.rank)
    return Derived(value, expr.op, (), parts)


def _pick(values: Iterable[Value], given: Iterable[Derived], rank: Rank) -> tuple[Derived, ...]:
    """Each value with the derivations of the given elements that are identical to it."""
    same: dict[bytes, list[Derived]] = {}
    for part in given:
        same.setdefault(encode(part.value), []).append(part)
    for parts in same.values():
        parts.sort(key=rank)
    return tuple([Derived(value, "row", tuple(same[encode(value)])) for value in values])


def _map(expr: typed.MapOver, row: Row) -> Derived:
    subject = derive(expr.subject, row)
    if subject.value is None:
        return Derived(None, "map", (subject,))
    bodies: list[Derived] = []
    for element in subject.elements():
        bound = row.bind(typed.Bind(expr.variable), {expr.variable.number: element.value}, element)
        body = derive(expr.body, bound)
        derived = Derived(body.value, "each", (element, body), body.parts)
        bodies.extend(body.elements() if expr.flatten else [derived])
    kind = expr.type if isinstance(expr.type, Collection) else expr.subject.type
    return Derived(collection(kind, [body.value for body in bodies]), "map", (), tuple(bodies))


def _case(expr: typed.Case, row: Row) -> Derived:
    subject = derive(expr.subject, row)
    for branch in expr.branches:
        bindings = match_pattern(branch.pattern, subject.value)
        if bindings is not None:
            body = derive(branch.body, row.bind(branch.pattern, bindings, subject))
            return Derived(body.value, "case", (subject, body), body.parts)
    return Derived(None, "case", (subject,))


def _select(query: typed.Select, row: Row) -> Derived:
    rows = [row]
    for qualifier in query.qualifiers:
        rows = [longer for shorter in rows for longer in _rows_of_qualifier(qualifier, shorter)]
    rows = _filter(query.where, rows)
    if query.group is not None:
        rows = _group_rows(query.group, rows, row)
    rows = _filter(query.having, rows)
    heads = [derive(query.head, binding) for binding in rows]
    values = [head.value for head in heads]
    parts = [
        Derived(head.value, "select", (*binding.inputs, head), head.parts)
        for head, binding in zip(heads, rows, strict=True)
    ]
    places = list(range(len(parts)))
    if query.order or query.limit is not None:
        places.sort(key=lambda place: row.rank(parts[place]))
    ranked = [values[place] for place in places], [rows[place].env for place in places]
    chosen = [places[position] for position in answer_positions(query, *ranked, row.env)]
    answer = [values[place] for place in chosen]
    kept = _pick(answer, parts, row.rank) if query.distinct else tuple([parts[p] for p in chosen])
    return Derived(answer if query.order else Bag(answer), "query", (), kept)


def _rows_of_qualifier(qualifier: typed.Qualifier, row: Row) -> list[Row]:
    match qualifier:
        case typed.Generator(pattern, domain):
            return _matching(pattern, derive(domain, row).elements(), row)
        case typed.Binding(pattern, value):
            return _matching(pattern, (derive(value, row),), row)
        case typed.Condition(condition):
            return _filter(condition, [row])


def _matching(pattern: typed.Pattern, given: tuple[Derived, ...], row: Row) -> list[Row]:
    matches = [(part, match_pattern(pattern, part.value)) for part in given]
    return [
        row.bind(pattern, bindings, part).use(part)
        for part, bindings in matches
        if bindings is not None
    ]


def _filter(condition: typed.Expr | None, rows: list[Row]) -> list[Row]:
    if condition is None:
        return rows
    tested = [(row, derive(condition, row)) for row in rows]
    return [row.use(test) for row, test in tested if test.value is True]


def _group_rows(group: typed.Group, rows: list[Row], outer: Row) -> list[Row]:
    formed = []
    for key, places in group_members(group, [row.env for row in rows]):
        members = [rows[place] for place in places]
        bindings = group_bindings(group, key, [row.env for row in members])
        if bindings is not None:
            formed.append(_group_row(group, bindings, members, outer))
    return formed


def _group_row(
    group: typed.Group, bindings: dict[int, Value], members: list[Row], outer: Row
) -> Row:
    """A group: made from its members; each lifted variable knows its elements one by one."""
    origins = {number: Derived(value, "key") for number, value in bindings.items()}
    for variable, lifted in group.lifted:
        parts = tuple([row.origins[variable.number] for row in members])
        origins[lifted.number] = Derived(bindings[lifted.number], "group", (), parts)
    rows = [tuple([row.origins[v.number] for v in group.rows]) for row in members]
    partition = bindings[group.partition.number]
    records = [Derived(r, "row", origin) for r, origin in zip(partition, rows, strict=True)]
    origins[group.partition.number] = Derived(partition, "group", (), tuple(records))
    whole_rows = [Derived(r, "row", row.inputs) for r, row in zip(partition, members, strict=True)]
    whole = Derived(partition, "group", (), tuple(whole_rows))
    return replace(
        outer.use(whole),
        env=outer.env.extend(bindings),
        origins={**outer.origins, **origins},
    )


Made: TypeAlias = dict[int, tuple[Derived, Record]]
"""Trees by the identity of what they are of, which is kept so that nothing else gets it."""


def lineage(expr: typed.Expr, env: Environment) -> list[Value]:
    """Every row of an answer with the rows of sources that contributed to it."""
    return collection(
        expr.type,
        [
            (row.value, Bag([(leaf.source, leaf.value) for leaf in sources_of(row)]))
            for row in _answer(expr, env, _by_sources)
        ],
    )


def debug(expr: typed.Expr, env: Environment) -> list[Value]:
    """Every row of an answer with the tree of values that it was made from."""
    records: Made = {}
    answer = _answer(expr, env, lambda row: encode(_tree(row, records)))
    return collection(expr.type, [(row.value, _tree(row, records)) for row in answer])


def _answer(expr: typed.Expr, env: Environment, rank: Rank) -> tuple[Derived, ...]:
    derived = derive(expr, Row(env, rank=rank))
    return derived.elements() if isinstance(expr.type, Collection) else (derived,)


def _by_sources(derived: Derived) -> bytes:
    leaves = sources_of(derived)
    return encode(Bag([(leaf.source, leaf.value, leaf.copy) for leaf in leaves]))


def sources_of(derived: Derived) -> list[Derived]:
    """The rows of sources below a value, each once."""
    sources, pending, seen = [], [derived], set()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            pending.extend((*node.inputs, *(node.parts or ())))
            if node.source:
                sources.append(node)
    return sources


def _tree(derived: Derived, records: Made) -> Record:
    """A derivation as a value; what occurs twice in it is made once."""
    if id(derived) not in records:
        below = [_tree(part, records) for part in derived.inputs]
        parts = [_tree(part, records) for part in derived.parts or ()]
        below += sort_values(parts) if isinstance(derived.value, Bag) else parts
        names = ("operator", "value", "inputs")
        records[id(derived)] = derived, Record.of(names, (derived.operator, derived.value, below))
    return records[id(derived)][1]
