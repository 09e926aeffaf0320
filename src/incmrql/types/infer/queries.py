"""Select queries, quantifiers and loops: which names mean what, before and after grouping."""

from __future__ import annotations

from incmrql.errors import Span
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.infer.operators import collection, common_type, compare
from incmrql.types.infer.patterns import Bound, infer_pattern
from incmrql.types.lattice import join
from incmrql.types.model import (
    ANY,
    BOOL,
    JSON,
    LONG,
    NOTHING,
    Collection,
    Function,
    Record,
    Tuple,
    Type,
    bag,
)
from incmrql.types.resolve import condition, fit, refuse_repeated, widen
from incmrql.types.scope import Entry, GroupKey, GroupRows, Inference, Scope, names_in

PARTITION = "partition"


def infer_select(inference: Inference, expr: ast.Select, scope: Scope) -> typed.Expr:
    """`select … from … where … group by … having … order by … limit …`."""
    qualifiers, rows, inner = infer_binds(inference, expr.binds, scope)
    where = _condition(inference, expr.where, inner, "the where condition")
    group, inner = _grouping(inference, expr.keys, rows, inner, scope)
    having = _condition(inference, expr.having, inner, "the having condition")
    head = inference.infer(expr.head, inner)
    if isinstance(head.type, Function):
        head = inference.problem("T601", head.span, "a function cannot be a row", "here")
    order = tuple(
        typed.Order(inference.infer(key.expr, inner), key.descending) for key in expr.order
    )
    limit = None
    if expr.limit is not None:
        limit = fit(inference, inference.infer(expr.limit, scope), LONG, "the limit")
    kind = Collection("list" if order else "bag", head.type)
    return typed.Select(expr.distinct, head, qualifiers, where, group, having, order, limit,
                        type=kind, span=expr.span)  # fmt: skip


def _condition(
    inference: Inference, expr: ast.Expr | None, scope: Scope, what: str
) -> typed.Expr | None:
    return None if expr is None else condition(inference, inference.infer(expr, scope), what)


def infer_binds(
    inference: Inference, binds: tuple[ast.Bind, ...], scope: Scope
) -> tuple[tuple[typed.Qualifier, ...], tuple[typed.Variable, ...], Scope]:
    """The typed from clause, its variables, and the names in view after it.

    A variable that several patterns bind means equality.
    """
    bound = Bound()
    qualifiers: list[typed.Qualifier] = []
    inner = scope
    for bind in binds:
        before = len(bound.again)
        match bind:
            case ast.Generator(pattern, domain):
                source = inference.infer(domain, inner)
                element = _element(inference, source)
                qualifiers.append(
                    typed.Generator(infer_pattern(inference, pattern, element, bound), source)
                )
            case ast.Binding(pattern, value):
                node = inference.infer(value, inner)
                qualifiers.append(
                    typed.Binding(infer_pattern(inference, pattern, node.type, bound), node)
                )
        for first, second, span in bound.again[before:]:
            qualifiers.append(typed.Condition(_same(inference, first, second, span)))
        inner = scope.ungrouped().bind_variables(bound.variables)
    return tuple(qualifiers), tuple(bound.variables), inner


def _same(
    inference: Inference, first: typed.Variable, second: typed.Variable, span: Span
) -> typed.Expr:
    left = typed.Var(first, type=first.type, span=span)
    right = typed.Var(second, type=second.type, span=span)
    return compare(inference, "=", left, right, span)


def _element(inference: Inference, domain: typed.Expr) -> Type:
    if domain.type in (JSON, ANY):
        return domain.type
    domain_type = collection(inference, domain, "what a from clause ranges over").type
    return domain_type.element if isinstance(domain_type, Collection) else NOTHING


# --- grouping ----------------------------------------------------------------------------


def _grouping(
    inference: Inference,
    keys: tuple[ast.Key, ...],
    rows: tuple[typed.Variable, ...],
    inner: Scope,
    outer: Scope,
) -> tuple[typed.Group | None, Scope]:
    """The group-by, and the names in view after it."""
    if not keys:
        return None, inner
    bound = Bound()
    exprs: list[typed.Expr] = []
    patterns: list[typed.Pattern] = []
    plain: list[tuple[ast.Expr, typed.Variable]] = []
    for key in keys:
        for pattern, expr in _parts(key):
            node = inference.infer(expr, inner)
            exprs.append(node)
            if pattern is not None:
                patterns.append(infer_pattern(inference, pattern, node.type, bound))
            else:
                variable = inference.variable(expr.span.text or "key", node.type)
                patterns.append(typed.Bind(variable))
                plain.append((expr, variable))
    _refuse_twice(inference, bound)
    taken = {variable.name for variable in bound.variables}
    lifted = tuple(
        (row, inference.variable(row.name, bag(row.type))) for row in rows if row.name not in taken
    )
    record = Record(tuple((row.name, row.type) for row in rows))
    partition = inference.variable(PARTITION, bag(record))
    names: list[tuple[str, Entry]] = [(PARTITION, partition)]
    names += [(row.name, many) for row, many in lifted]
    names += [(variable.name, variable) for variable in bound.variables]
    grouped = outer.bind(names)
    found = tuple(
        GroupKey(expr, variable, {name: grouped.names.get(name) for name in names_in(expr)})
        for expr, variable in plain
    )
    inference.group_keys.update(bound.variables, (variable for _, variable in plain))
    inference.lifted.update(many for _, many in lifted)
    group = typed.Group(tuple(exprs), tuple(patterns), lifted, partition, rows)
    of_rows = GroupRows(partition, lifted)
    return group, Scope(grouped.names, (*found, *outer.keys), of_rows)


def _parts(key: ast.Key) -> list[tuple[ast.Pattern | None, ast.Expr]]:
    """A key as (pattern, expression) pairs; a plain tuple is taken apart."""
    if key.expr is None:
        assert key.pattern is not None
        return [(key.pattern, expression_of(key.pattern))]
    if key.pattern is None and isinstance(key.expr, ast.TupleExpr):
        return [(None, item) for item in key.expr.items]
    return [(key.pattern, key.expr)]


def expression_of(pattern: ast.Pattern) -> ast.Expr:
    """The expression that a pattern of names and tuples spells."""
    match pattern:
        case ast.NamePattern(name):
            return ast.Name(name, span=pattern.span)
        case ast.TuplePattern(items):
            return ast.TupleExpr(tuple(map(expression_of, items)), span=pattern.span)
        case _:
            raise AssertionError(f"not a key: {pattern}")


def _refuse_twice(inference: Inference, bound: Bound) -> None:
    for first, _, span in bound.again:
        message = f'"{first.name}" is bound twice in this pattern'
        inference.problem("T402", span, message, "bound before", "Choose another name.")


# --- case and let ------------------------------------------------------------------------


def infer_case(
    inference: Inference,
    subject: ast.Expr,
    branches: tuple[tuple[ast.Pattern, ast.Expr], ...],
    scope: Scope,
    span: Span,
) -> typed.Expr:
    """`case e { … }`, and `let p = e in b` with its one branch."""
    node = inference.infer(subject, scope)
    typed_branches: list[typed.Branch] = []
    for pattern, body in branches:
        bound = Bound()
        matched = infer_pattern(inference, pattern, node.type, bound)
        _refuse_twice(inference, bound)
        inner = inference.infer(body, scope.bind_variables(bound.variables))
        typed_branches.append(typed.Branch(matched, inner))
    bodies = [branch.body for branch in typed_branches]
    common = common_type(inference, bodies, "the branches of case", span)
    if common is None:
        return typed.Const(None, type=NOTHING, span=span)
    fitted = tuple(typed.Branch(b.pattern, widen(b.body, common)) for b in typed_branches)
    return typed.Case(node, fitted, type=common, span=span)


def infer_quantifier(inference: Inference, expr: ast.Quantifier, scope: Scope) -> typed.Expr:
    """`some p in e: c` asks whether c holds for some row: an aggregate of a query."""
    qualifiers, _, inner = infer_binds(inference, expr.binds, scope)
    body = condition(inference, inference.infer(expr.body, inner), f"the condition of {expr.kind}")
    rows = typed.Select(False, body, qualifiers, None, None, None, (), None, type=bag(BOOL),
                        span=expr.span)  # fmt: skip
    return typed.Aggregate(expr.kind, rows, type=BOOL, span=expr.span)


# --- loops -------------------------------------------------------------------------------

_MOST_ROUNDS = 4
"""How often a loop's variables may have to widen before their types settle."""


def infer_repeat(inference: Inference, expr: ast.Repeat, scope: Scope) -> typed.Expr:
    """`repeat x = e step s limit n`; the variable's type is that of both e and s."""
    refuse_repeated(inference, expr.names, "variables of this loop", expr.span)
    initial = _parts_of(inference, inference.infer(expr.initial, scope), expr, expr.initial.span)
    if initial is None:
        return typed.Const(None, type=NOTHING, span=expr.span)
    limit = None
    if expr.limit is not None:
        limit = fit(inference, inference.infer(expr.limit, scope), LONG, "the limit of repeat")
    types = [node.type for node in initial]
    for _ in range(_MOST_ROUNDS):
        variables = tuple(map(inference.variable, expr.names, types))
        mark = len(inference.problems)
        step_node = inference.infer(expr.step, scope.bind_variables(variables))
        steps = _parts_of(inference, step_node, expr, expr.step.span)
        if steps is None or len(inference.problems) > mark:
            return typed.Const(None, type=_loop_type(types), span=expr.span)
        flagged = tuple(map(_is_flagged, types, (s.type for s in steps)))
        wider = [join(t, _unflagged(s.type, f))
                 for t, s, f in zip(types, steps, flagged, strict=True)]  # fmt: skip
        if None in wider:
            at = wider.index(None)
            message = (
                f'"{expr.names[at]}" starts as {types[at]}, and its step gives {steps[at].type}'
            )
            hint = "Start and step must have one type; rows may carry a flag: (row, bool)."
            return inference.problem("T602", expr.step.span, message, "step", hint)
        settled = [t for t in wider if t is not None]
        if settled == types:
            starts = tuple(map(widen, initial, types))
            fitted = tuple(
                widen(s, _with_flag(t, f)) for s, t, f in zip(steps, types, flagged, strict=True)
            )
            return typed.Repeat(variables, starts, fitted, flagged, limit,
                                type=_loop_type(types), span=expr.span)  # fmt: skip
        types = settled
    message = "the types of this loop do not settle: each step makes a deeper one"
    hint = "Start with a value of the type that the loop should have: {} as {T}."
    return inference.problem("T602", expr.span, message, "loop", hint)


def _parts_of(
    inference: Inference, node: typed.Expr, expr: ast.Repeat, span: Span
) -> tuple[typed.Expr, ...] | None:
    """The value of each loop variable."""
    count = len(expr.names)
    if count == 1:
        return (node,)
    if isinstance(node, typed.MakeTuple) and len(node.items) == count:
        return node.items
    if isinstance(node.type, Tuple) and len(node.type.items) == count:
        return tuple(
            typed.Item(node, i, type=type_, span=span) for i, type_ in enumerate(node.type.items)
        )
    message = f"a loop over {count} variables needs a tuple of {count}, and this is {node.type}"
    hint = "Give one value for each variable: (a, b)."
    inference.problem("T602", span, message, f"is {node.type}", hint)
    return None


def _loop_type(types: list[Type]) -> Type:
    return types[0] if len(types) == 1 else Tuple(tuple(types))


def _is_flagged(wanted: Type, step: Type) -> bool:
    """Whether the rows of a step carry flags: they do not fit as rows, but would without."""
    match wanted, step:
        case Collection(_, element), Collection(_, Tuple((row, flag))):
            fits = join(element, step.element)
            return (fits is None or fits == ANY) and flag == BOOL and join(element, row) is not None
        case _:
            return False


def _unflagged(step: Type, flagged: bool) -> Type:
    match step:
        case Collection(kind, Tuple((row, _))) if flagged:
            return Collection(kind, row)
        case _:
            return step


def _with_flag(type_: Type, flagged: bool) -> Type:
    if flagged and isinstance(type_, Collection):
        return Collection(type_.kind, Tuple((type_.element, BOOL)))
    return type_
