"""Terms to SQL: each step is a named relation, and the query is one text.

A cMap becomes the SELECT that its body's shape says: `{e}` columns, `if` a filter, a generator
over a collection of the row an explode.  Over a group, generators become joins, and everything
else asks the group for aggregates (`groups.Side`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    element,
)
from incmrql.diagnostics import InternalError
from incmrql.sql import arrays, operators, patterns, tree
from incmrql.sql.collections import array_of
from incmrql.sql.context import Context
from incmrql.sql.expressions import identical
from incmrql.sql.groups import Relation, Side
from incmrql.sql.shapes import (
    Cell,
    Env,
    Many,
    NotNative,
    Parts,
    Shape,
    is_structure,
    leaves,
    map_leaves,
    split,
)
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Tuple, Type
from incmrql.types.walk import root


@dataclass(slots=True)
class Builder:
    """The relations of one query, in order, and the views that they start from."""

    ctx: Context
    relations: list[tuple[str, exp.Expression]] = field(default_factory=list)
    sources: list[tuple[str, Scan]] = field(default_factory=list)
    constants: list[tuple[str, Values]] = field(default_factory=list)
    loops: dict[int, str] = field(default_factory=dict)
    """The views of the variables of loops, by their numbers."""
    repeats: list[tuple[str, Repeat]] = field(default_factory=list)
    shared: Mapping[int, Term] = field(default_factory=dict)
    """Terms that several places name, by the numbers of their variables."""
    made: dict[int, Relation] = field(default_factory=dict)

    def define(self, select: exp.Expression, hint: str = "t") -> str:
        """A name for a relation."""
        name = self.ctx.fresh(hint)
        self.relations.append((name, select))
        return name


def relation(term: Term, b: Builder) -> Relation:
    """A term as a relation."""
    match term:
        case Scan():
            packed = may_hold_null(term.source)
            return _view(_known(b.sources, term, "source"), element(term), b, packed=packed)
        case Values():
            return _view(_known(b.constants, term, "values"), element(term), b, packed=True)
        case Loop(variable):
            return _view(b.loops[variable.number], element(term), b)
        case Shared(variable):
            if variable.number not in b.made:
                b.made[variable.number] = relation(b.shared[variable.number], b)
            return _copied(b.made[variable.number], b)
        case Repeat():
            return _view(_known(b.repeats, term, "loop"), element(term), b)
        case CMap():
            return _cmap(term, b)
        case GroupBy() | CoGroup():
            return _cmap(_groups_themselves(term), b)
        case Union(parts):
            return _union([relation(part, b) for part in parts], element(term), b)
        case Sort():
            return _sorted(term, b)
        case _:
            assert_never(term)


def _known(kept: list, term: Term, hint: str) -> str:  # type: ignore[type-arg]
    """The name of a view: one for equal terms."""
    for name, other in kept:
        if other == term:
            return str(name)
    kept.append((f"{hint}_{len(kept) + 1}", term))
    return str(kept[-1][0])


def may_hold_null(source: typed.Source) -> bool:
    """Whether a row of a source may be null itself, and so has to stay in one column."""
    return source.format in ("json", "python")


def columns_of(type_: Type) -> tuple[tuple[str, Type], ...]:
    """The columns of a view of rows of a type: its fields, or one `value`."""
    return type_.fields if isinstance(type_, Record) and type_.fields else (("value", type_),)


def _view(name: str, type_: Type, b: Builder, *, packed: bool = False) -> Relation:
    """A view under columns of its own."""
    columns = (("value", type_),) if packed else columns_of(type_)
    fresh = [(b.ctx.fresh(column), column, part) for column, part in columns]
    chosen = [exp.alias_(tree.column(column), own) for own, column, _ in fresh]
    made = b.define(exp.select(*chosen).from_(exp.to_table(name)))
    cells = tuple(Cell(tree.column(own), part) for own, _, part in fresh)
    is_row = not packed and isinstance(type_, Record) and type_.fields
    return Relation(made, Parts(cells, type_) if is_row else cells[0])


def _groups_themselves(term: GroupBy | CoGroup) -> CMap:
    variable = typed.Variable("group", -1, element(term))
    itself = typed.Var(variable, type=variable.type)
    body = typed.MakeCollection((itself,), type=Collection("bag", variable.type))
    return CMap(variable, body, term)


@dataclass(slots=True)
class Flow:
    """The SELECT of a cMap as it is put together."""

    env: Env
    sides: list[Side]
    tests: list[exp.Expression] = field(default_factory=list)
    exploded: list[tuple[exp.Expression, str]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    """The sides whose rows are gone through, in order."""
    copies: dict[int, Relation] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    """Expressions that are not null in every row."""
    empty: bool = False


def _cmap(term: CMap, b: Builder) -> Relation:
    match term.source:
        case GroupBy(source):
            return _grouped(term, [source], b)
        case CoGroup(left, right):
            return _grouped(term, [left, right], b)
        case _:
            source = relation(term.source, b)
            flow = Flow(Env({term.variable: source.row}), [])
            flow.present |= set(source.present)
            head = _emit(term.body, flow.env, flow, b)
            return _selected(head, exp.to_table(source.name), flow, element(term), b)


def _grouped(term: CMap, sources: list[Term], b: Builder) -> Relation:
    iterated = _iterated(term.body, term.variable)
    sides = []
    for number, source in enumerate(sources):
        found = _with_canonical_key(relation(source, b), b)
        key, value = split(found.row, b.ctx.dialect).parts
        sides.append(Side(found, key, value, term.variable, number in iterated))
    keys = _one_key(sides, b)
    flow = Flow(Env(), sides)
    for side in sides:
        if side.iterated or len(sides) == 1:
            flow.present |= set(side.relation.present)
    key = keys[iterated[0]] if iterated else _either(keys)
    bags = tuple(Many(s, s.value, Collection("bag", s.value.type)) for s in sides)
    inner = tree.parts_of(term.variable.type)[1][1]
    beside: Shape = bags[0] if len(sides) == 1 else Parts(bags, inner)
    flow.env = Env({term.variable: Parts((key, beside), term.variable.type)})
    head = _settled(_emit(term.body, flow.env, flow, b), b)
    source = _joined(flow, b)
    return _selected(head, source, flow, element(term), b)


def _settled(shape: Shape, b: Builder) -> Shape:
    """A shape whose bags of the group are asked for, so that the group can be formed."""
    match shape:
        case Parts(parts, type_):
            return Parts(tuple(_settled(each, b) for each in parts), type_)
        case Many():
            return Cell(b.ctx.whole(shape), shape.type, present=True)
        case _:
            return shape


def _with_canonical_key(source: Relation, b: Builder) -> Relation:
    """A relation of pairs whose keys are equal exactly when they are identical."""
    key = split(source.row, b.ctx.dialect).parts[0]
    if not any(arrays.holds_bag(cell.type) for cell in leaves(key)):
        return source
    return _rekeyed(
        source,
        map_leaves(
            lambda cell: Cell(
                arrays.canonical(cell.tree, cell.type, b.ctx), cell.type, cell.present
            ),
            key,
        ),
        b,
    )


def _rekeyed(source: Relation, key: Shape, b: Builder) -> Relation:
    """The same pairs with another form of the key, in a column of its own."""
    value = split(source.row, b.ctx.dialect).parts[1]
    flow = Flow(Env(), [])
    flow.present |= set(source.present)
    row, chosen, present = _as_columns(Parts((key, value), source.row.type), flow, b)
    name = b.define(exp.select(*chosen).from_(source.name))
    return Relation(name, row, present)


def _one_key(sides: list[Side], b: Builder) -> list[Shape]:
    """The keys of the sides, in parts that correspond."""
    if len(sides) == 2 and not _alike(sides[0].key, sides[1].key):
        for side in sides:
            whole = Cell(b.ctx.whole(side.key), side.key.type, isinstance(side.key, Parts))
            side.relation = _rekeyed(side.relation, whole, b)
            side.key, side.value = split(side.relation.row, b.ctx.dialect).parts
    return [side.key for side in sides]


def _alike(left: Shape, right: Shape) -> bool:
    if isinstance(left, Parts) and isinstance(right, Parts):
        return all(map(_alike, left.parts, right.parts))
    return isinstance(left, Cell) and isinstance(right, Cell)


def _either(keys: list[Shape]) -> Shape:
    """The key where rows of one side may be missing."""
    if len(keys) == 1:
        return keys[0]
    pairs = zip(leaves(keys[0]), leaves(keys[1]), strict=True)
    merged = [tree.call("coalesce", a.tree, c.tree) for a, c in pairs]
    trees = iter(merged)
    return map_leaves(lambda cell: Cell(next(trees), cell.type), keys[0])


def _iterated(body: typed.Expr, group: typed.Variable) -> list[int]:
    """The sides of a group whose rows the body goes through, in order."""
    match body:
        case typed.If(_, then, typed.MakeCollection(())):
            return _iterated(then, group)
        case typed.Widen(operand):
            return _iterated(operand, group)
        case typed.Select(group=None, order=(), limit=None, distinct=False):
            places = [
                _side(q.domain, group) for q in body.qualifiers if isinstance(q, typed.Generator)
            ]
            return [place for place in places if place is not None]
        case _:
            place = _side(body, group)
            return [] if place is None else [place]


def _side(domain: typed.Expr, group: typed.Variable) -> int | None:
    """Which side's bag an expression is, if it is one."""
    if root(domain) != group:
        return None
    match domain:
        case typed.Item(typed.Item(typed.Var(), 1), index):
            return index
        case typed.Item(typed.Var(), 1) if isinstance(domain.type, Collection):
            return 0
        case _:
            return None


def _emit(body: typed.Expr, env: Env, flow: Flow, b: Builder) -> Shape:
    """What a body makes of a row: joins, filters and explodes go to the flow."""
    ctx = b.ctx
    match body:
        case typed.MakeCollection((item,)):
            return ctx.lower(item, env, ctx)
        case typed.MakeCollection(()):
            flow.empty = True
            assert isinstance(body.type, Collection)
            return Cell(tree.typed_null(body.type.element, ctx.dialect), body.type.element)
        case typed.If(condition, then, typed.MakeCollection(())):
            _require(condition, env, flow, b)
            return _emit(then, env, flow, b)
        case typed.Widen(operand) if isinstance(operand.type, Collection):
            inner = _emit(operand, env, flow, b)
            variable = typed.Variable("x", -1, inner.type)
            assert isinstance(body.type, Collection)
            widened = typed.Widen(typed.Var(variable, type=inner.type), type=body.type.element)
            return ctx.lower(widened, env.bind(variable, inner), ctx)
        case typed.Select(group=None, order=(), limit=None, distinct=False):
            for qualifier in body.qualifiers:
                env = _qualified(qualifier, env, flow, b)
            if body.where is not None:
                _require(body.where, env, flow, b)
            if body.having is not None:
                _require(body.having, env, flow, b)
            return ctx.lower(body.head, env, ctx)
        case _:
            return _elements(body, env, flow, b)


def _qualified(qualifier: typed.Qualifier, env: Env, flow: Flow, b: Builder) -> Env:
    match qualifier:
        case typed.Generator(pattern, domain):
            found = _elements(domain, env, flow, b)
            tests, env = patterns.matched(pattern, found, env, b.ctx)
        case typed.Binding(pattern, value):
            tests, env = patterns.matched(pattern, b.ctx.lower(value, env, b.ctx), env, b.ctx)
        case typed.Condition(condition):
            _require(condition, env, flow, b)
            return env
        case _:
            assert_never(qualifier)
    flow.tests += tests
    return env


def _elements(domain: typed.Expr, env: Env, flow: Flow, b: Builder) -> Shape:
    """One element of a domain: a row of a side, or what an array is exploded to."""
    shape = b.ctx.lower(domain, env, b.ctx)
    if isinstance(shape, Many) and shape.head is shape.side.value and not shape.tests:
        number = next(n for n, side in enumerate(flow.sides) if side is shape.side)
        return _taken(number, flow, b)
    if not isinstance(shape.type, Collection):
        array: exp.Expression = _tree_elements(domain, env, b)
        type_ = typed_element(domain)
    else:
        array, type_ = b.ctx.whole(shape), shape.type.element
    column = b.ctx.fresh("item")
    flow.exploded.append((array, column))
    return Cell(tree.column(column), type_)


def typed_element(domain: typed.Expr) -> Type:
    """The type of the elements of a JSON array."""
    return domain.type


def _tree_elements(domain: typed.Expr, env: Env, b: Builder) -> exp.Expression:
    """The elements of a JSON array, in Python."""
    variable = typed.Variable("x", -3, domain.type)
    itself = typed.Var(variable, type=domain.type)
    generator = typed.Generator(typed.Bind(variable), domain)
    whole = Collection("bag", domain.type)
    query = typed.Select(False, itself, (generator,), None, None, None, (), None, type=whole)
    return b.ctx.whole(b.ctx.python(query, env, "the elements of a tree"))


def _taken(number: int, flow: Flow, b: Builder) -> Shape:
    """A row of a side; the second time that of a copy."""
    if number in flow.taken:
        copy = _copied(flow.sides[number].relation, b)
        flow.copies[len(flow.taken)] = copy
        flow.taken.append(number)
        return split(copy.row, b.ctx.dialect).parts[1]
    flow.taken.append(number)
    return flow.sides[number].value


def _copied(source: Relation, b: Builder) -> Relation:
    """A relation under other columns."""
    names = [_name(cell) for cell in leaves(source.row)]
    fresh = {name: b.ctx.fresh(name) for name in names}
    chosen = [exp.alias_(tree.column(name), own) for name, own in fresh.items()]
    name = b.define(exp.select(*chosen).from_(source.name))
    row = map_leaves(
        lambda cell: Cell(tree.column(fresh[_name(cell)]), cell.type, cell.present), source.row
    )
    present = frozenset(fresh[each] for each in source.present)
    return Relation(name, row, present)


def _name(cell: Cell) -> str:
    if not isinstance(cell.tree, exp.Column):
        raise InternalError("a relation's row is made of columns")
    return cell.tree.name


def _require(condition: typed.Expr, env: Env, flow: Flow, b: Builder) -> None:
    """Rows for which a condition is not true are left out."""
    match condition:
        case typed.Logic("and", left, right):
            _require(left, env, flow, b)
            _require(right, env, flow, b)
        case typed.Compare("=", left, right) if left == right:
            present = b.ctx.lower(left, env, b.ctx)
            if isinstance(present, Parts):
                return
            found = b.ctx.whole(present)
            flow.present.add(tree.print_tree(found, b.ctx.dialect))
            flow.tests.append(tree.not_null(found))
        case _:
            if not _partner_test(condition, env, flow):
                test = b.ctx.tree(condition, env)
                flow.tests.append(operators.condition(test, b.ctx.dialect))


def _partner_test(condition: typed.Expr, env: Env, flow: Flow) -> bool:
    """Whether a condition only asks for the presence of partners: a semi- or anti-join."""
    match condition:
        case typed.Exists(operand):
            kind = "semi"
        case typed.Not(typed.Exists(operand)):
            kind = "anti"
        case _:
            return False
    variable = root(operand)
    place = None if variable is None else _side(operand, variable)
    shape = None if variable is None else env.values.get(variable)
    if place is None or len(flow.sides) < 2 or not isinstance(shape, Parts):
        return False
    if shape is not next(iter(flow.env.values.values())):
        return False
    side, other = flow.sides[place], flow.sides[1 - place]
    if side.iterated or side.wanted or side.test or not other.iterated:
        return False
    side.test = "semi" if kind == "semi" else "anti"
    return True


def _joined(flow: Flow, b: Builder) -> exp.Expression:
    """The relation that the body's columns come from."""
    if flow.taken:
        return _row_by_row(flow, b)
    if len(flow.sides) == 1:
        return exp.to_table(_by_key(flow.sides[0], b, alone=True))
    left, right = flow.sides
    first, second = _by_key(left, b, alone=True), _by_key(right, b, alone=True)
    on = _same_keys(left, right, b)
    return _join(exp.to_table(first), second, "FULL OUTER", on)


def _row_by_row(flow: Flow, b: Builder) -> exp.Expression:
    first = flow.taken[0]
    found: exp.Expression = exp.to_table(_with_windows(flow.sides[first], b))
    for position, number in enumerate(flow.taken[1:], 1):
        side = flow.sides[number]
        if position in flow.copies:
            copy = flow.copies[position]
            key = split(copy.row, b.ctx.dialect).parts[0]
            name, on = copy.name, _equal(flow.sides[first], side, b, key)
        else:
            name, on = _with_windows(side, b), _same_keys(flow.sides[first], side, b)
        found = _join(found, name, "CROSS" if not on else "INNER", on)
    for number, side in enumerate(flow.sides):
        if number in flow.taken or not (side.wanted or side.test):
            continue
        on = _same_keys(flow.sides[first], side, b)
        if side.test and not side.wanted:
            found = _join(found, side.relation.name, f"LEFT {side.test.upper()}", on)
            continue
        if side.test:
            raise InternalError("a side is both tested and aggregated")
        name = _by_key(side, b, alone=False)
        found = _join(found, name, "LEFT" if on else "CROSS", on)
    return found


def _join(
    left: exp.Expression, right: str, kind: str, on: list[exp.Expression]
) -> exp.Expression:
    """`left KIND JOIN right ON …` as the table of a FROM clause."""
    condition = tree.conjunction(on)
    if condition is None and kind not in ("CROSS", "INNER"):
        condition = tree.boolean(True)
    words = kind.split()
    join = exp.Join(this=exp.to_table(right), on=condition)
    if words[0] in ("LEFT", "FULL"):
        join.set("side", words[0])
        words = words[1:]
    if words:
        join.set("kind", words[0])
    left.append("joins", join)
    return left


def _same_keys(left: Side, right: Side, b: Builder) -> list[exp.Expression]:
    return _equal(left, right, b, right.key)


def _equal(left: Side, right: Side, b: Builder, other: Shape) -> list[exp.Expression]:
    """The conditions under which two keys are identical.

    Where one side has no null, plain equality says the same and is what engines do best.
    """
    conditions = []
    for a, c in zip(leaves(left.key), leaves(other), strict=True):
        plain = _never_null(a, left.relation) or _never_null(c, right.relation)
        kind = exp.EQ if plain else exp.NullSafeEQ
        conditions.append(tree.binary(kind, a.tree, c.tree))
    return conditions


def _never_null(cell: Cell, source: Relation) -> bool:
    if cell.present:
        return True
    return isinstance(cell.tree, exp.Column) and cell.tree.name in source.present


def _by_key(side: Side, b: Builder, *, alone: bool) -> str:
    """One row for each key, with the aggregates that are wanted."""
    keys = list(leaves(side.key))
    wanted = [exp.alias_(value, name) for name, value in side.wanted.values()]
    if not keys:
        select = exp.select(*(wanted or [exp.alias_(tree.call("count", tree.number(1)), "n")]))
        select = select.from_(side.relation.name)
        if alone:  # there is no group without a row
            select = select.having(tree.binary(exp.GT, tree.call("count", tree.number(1)),
                                               tree.number(0)))  # fmt: skip
        return b.define(select)
    select = exp.select(*[cell.tree for cell in keys], *wanted).from_(side.relation.name)
    return b.define(select.group_by(*[cell.tree for cell in keys]))


def _with_windows(side: Side, b: Builder) -> str:
    """The rows of a side, each with the aggregates of its group."""
    if not side.wanted:
        return side.relation.name
    keys = [cell.tree for cell in leaves(side.key)]
    rows = [tree.column(_name(cell)) for cell in leaves(side.relation.row)]
    beside = [
        exp.alias_(exp.Window(this=value, partition_by=[key.copy() for key in keys]), name)
        for name, value in side.wanted.values()
    ]
    return b.define(exp.select(*rows, *beside).from_(side.relation.name))


def _selected(
    head: Shape, source: exp.Expression, flow: Flow, type_: Type, b: Builder
) -> Relation:
    """The relation of a body's elements."""
    dialect = b.ctx.dialect
    row, chosen, present = _as_columns(head, flow, b)
    select = exp.select(*chosen).from_(source)
    for join in source.args.pop("joins", None) or []:
        select.append("joins", join)
    for array, column in flow.exploded:
        if dialect is Dialect.SPARK:
            names = exp.TableAlias(
                this=exp.to_identifier(b.ctx.fresh("each")), columns=[exp.to_identifier(column)]
            )
            lateral = exp.Lateral(this=tree.call("explode", array), view=True, alias=names)
            select.append("laterals", lateral)
        else:
            unnest = exp.Unnest(
                expressions=[array],
                alias=exp.TableAlias(
                    this=exp.to_identifier(b.ctx.fresh("each")), columns=[exp.to_identifier(column)]
                ),
            )
            select.append("joins", exp.Join(this=unnest, kind="CROSS"))
    tests = [*flow.tests, *([tree.boolean(False)] if flow.empty else [])]
    condition = tree.conjunction(tests)
    if condition is not None:
        select = select.where(condition)
    return Relation(b.define(select), row, present)


def _as_columns(
    head: Shape, flow: Flow, b: Builder
) -> tuple[Shape, list[exp.Expression], frozenset[str]]:
    """A shape as columns with names of their own."""
    chosen: list[exp.Expression] = []
    present: set[str] = set()

    def named(shape: Shape, hint: str) -> Shape:
        match shape:
            case Parts(parts, type_):
                names = [name for name, _ in tree.parts_of(type_)]
                pairs = zip(parts, names, strict=True)
                return Parts(tuple(named(p, n if n[0] != "_" else hint) for p, n in pairs), type_)
            case Cell(found, type_, never_null):
                column = b.ctx.fresh(found.name if isinstance(found, exp.Column) else hint)
                chosen.append(exp.alias_(found, column))
                text = tree.print_tree(found, b.ctx.dialect)
                if never_null or text in flow.present:
                    present.add(column)
                return Cell(tree.column(column), type_, never_null)
            case _:
                return named(Cell(b.ctx.whole(shape), shape.type, present=True), hint)

    row = named(head, "c")
    if not chosen:
        chosen.append(exp.alias_(tree.boolean(True), b.ctx.fresh("unit")))
    return row, chosen, frozenset(present)


def _union(parts: list[Relation], type_: Type, b: Builder) -> Relation:
    """The rows of several relations, in the same columns."""
    rows = [part.row for part in parts]
    if any(not _alike(rows[0], row) for row in rows[1:]):
        rows = [Cell(b.ctx.whole(row), type_) for row in rows]
    first = list(leaves(rows[0]))
    names = [b.ctx.fresh(_hint(cell)) for cell in first]
    whole: exp.Expression | None = None
    for part, row in zip(parts, rows, strict=True):
        cells = [exp.alias_(cell.tree, name) for cell, name in zip(leaves(row), names, strict=True)]
        select = exp.select(*(cells or [exp.alias_(tree.boolean(True), "unit0")])).from_(part.name)
        whole = select if whole is None else exp.Union(
            this=whole, expression=select, distinct=False
        )  # fmt: skip
    assert whole is not None
    columns = iter(names)
    row = map_leaves(lambda cell: Cell(tree.column(next(columns)), cell.type), rows[0])
    return Relation(b.define(whole), row)


def _hint(cell: Cell) -> str:
    return cell.tree.name if isinstance(cell.tree, exp.Column) else "c"


def _sorted(term: Sort, b: Builder) -> Relation:
    source = relation(term.source, b)
    pair = split(source.row, b.ctx.dialect)
    value = pair.parts[1]
    columns = list(leaves(value))
    select = exp.select(*[cell.tree for cell in columns] or [tree.boolean(True)])
    select = select.from_(source.name)
    if term.limit is not None:
        select = select.order_by(*order_of(term, source, b))
        select = select.limit(tree.number(limit_of(term.limit, b)))
    return Relation(b.define(select), value, source.present)


def order_of(term: Sort, source: Relation, b: Builder) -> list[exp.Expression]:
    """The sort keys, then the value in canonical order."""
    key, value = split(source.row, b.ctx.dialect).parts
    keys = split(key, b.ctx.dialect).parts
    order: list[exp.Expression] = []
    for shape, down in zip(keys, term.descending, strict=True):
        for cell in leaves(shape):
            order.append(_ordered(cell, b, down=down))
    order += [_ordered(cell, b, down=False) for cell in leaves(value)]
    return order


def _ordered(cell: Cell, b: Builder, *, down: bool) -> exp.Expression:
    found = arrays.canonical(cell.tree, cell.type, b.ctx)
    return exp.Ordered(this=found, desc=down, nulls_first=not down)


def limit_of(limit: typed.Expr, b: Builder) -> int:
    """How many rows a limit leaves: none where it is null or negative."""
    return max(b.ctx.evaluated(limit) or 0, 0)


__all__ = ["Builder", "NotNative", "Tuple", "array_of", "columns_of", "identical", "is_structure",
           "order_of", "relation"]  # fmt: skip
