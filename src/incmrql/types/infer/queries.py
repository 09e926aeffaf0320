"""Type inference of queries, case, quantifiers and loops.

A query's clauses see different names: `from` adds variables one by one, and after `group by` the
variables that are not keys hold bags.
"""

from __future__ import annotations

from incmrql.errors import Span
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.infer.conversions import condition, fit, widen
from incmrql.types.infer.operators import collection, common_type, compare
from incmrql.types.infer.patterns import PatternInference
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
from incmrql.types.resolve import report_duplicates
from incmrql.types.scope import (
    Entry,
    GroupKey,
    GroupRows,
    Inference,
    Scope,
    names_in,
    placeholder,
)

_PARTITION = "partition"
"""The name of the bag of all rows of a group."""


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
    """The typed from clause, its variables, and the scope after it.

    Rows match a name that several patterns bind only where all of its values are equal.
    """
    patterns = PatternInference(inference)
    qualifiers: list[typed.Qualifier] = []
    inner = scope
    for bind in binds:
        before = len(patterns.repetitions)
        match bind:
            case ast.Generator(pattern, domain):
                rows = inference.infer(domain, inner)
                element = _element_type(inference, rows)
                qualifiers.append(typed.Generator(patterns.infer(pattern, element), rows))
            case ast.Binding(pattern, value):
                node = inference.infer(value, inner)
                qualifiers.append(typed.Binding(patterns.infer(pattern, node.type), node))
        for first, second, span in patterns.repetitions[before:]:
            left = typed.Var(first, type=first.type, span=span)
            right = typed.Var(second, type=second.type, span=span)
            qualifiers.append(typed.Condition(compare(inference, "=", left, right, span)))
        inner = scope.without_group().bind_variables(patterns.variables)
    return tuple(qualifiers), tuple(patterns.variables), inner


def _element_type(inference: Inference, domain: typed.Expr) -> Type:
    if domain.type in (JSON, ANY):
        return domain.type
    rows = collection(inference, domain, 'the right side of "in"').type
    return rows.element if isinstance(rows, Collection) else NOTHING


# --- Grouping ---


def _grouping(
    inference: Inference,
    keys: tuple[ast.Key, ...],
    rows: tuple[typed.Variable, ...],
    inner: Scope,
    outer: Scope,
) -> tuple[typed.Group | None, Scope]:
    """The typed group-by, and the scope after it."""
    if not keys:
        return None, inner
    bound = PatternInference(inference)
    exprs: list[typed.Expr] = []
    patterns: list[typed.Pattern] = []
    unnamed: list[tuple[ast.Expr, typed.Variable]] = []
    for key in keys:
        for pattern, expr in _key_parts(key):
            node = inference.infer(expr, inner)
            exprs.append(node)
            if pattern is not None:
                patterns.append(bound.infer(pattern, node.type))
            else:
                variable = inference.variable(expr.span.text or "key", node.type)
                patterns.append(typed.Bind(variable))
                unnamed.append((expr, variable))
    bound.report_duplicates()
    key_names = {variable.name for variable in bound.variables}
    lifted = tuple(
        (row, inference.variable(row.name, bag(row.type)))
        for row in rows
        if row.name not in key_names
    )
    record = Record(tuple((row.name, row.type) for row in rows))
    partition = inference.variable(_PARTITION, bag(record))
    names: list[tuple[str, Entry]] = [(_PARTITION, partition)]
    names += [(row.name, values) for row, values in lifted]
    names += [(variable.name, variable) for variable in bound.variables]
    grouped = outer.bind(names)
    group_keys = tuple(
        GroupKey(expr, variable, {name: grouped.names.get(name) for name in names_in(expr)})
        for expr, variable in unnamed
    )
    inference.group_keys.update(bound.variables, (variable for _, variable in unnamed))
    inference.lifted.update(values for _, values in lifted)
    group = typed.Group(tuple(exprs), tuple(patterns), lifted, partition, rows)
    return group, Scope(grouped.names, (*group_keys, *outer.keys), GroupRows(partition, lifted))


def _key_parts(key: ast.Key) -> list[tuple[ast.Pattern | None, ast.Expr]]:
    """A key as pairs of pattern and expression; an unnamed tuple is one pair per component."""
    if key.expr is None:
        assert key.pattern is not None
        return [(key.pattern, _expression_of(key.pattern))]
    if key.pattern is None and isinstance(key.expr, ast.TupleExpr):
        return [(None, item) for item in key.expr.items]
    return [(key.pattern, key.expr)]


def _expression_of(pattern: ast.Pattern) -> ast.Expr:
    """The expression with the same text as a pattern of names and tuples."""
    match pattern:
        case ast.NamePattern(name):
            return ast.Name(name, span=pattern.span)
        case ast.TuplePattern(items):
            return ast.TupleExpr(tuple(map(_expression_of, items)), span=pattern.span)
        case _:
            raise AssertionError(f"not a key: {pattern}")


# --- Case and quantifiers ---


def infer_case(
    inference: Inference,
    subject: ast.Expr,
    branches: tuple[tuple[ast.Pattern, ast.Expr], ...],
    scope: Scope,
    span: Span,
) -> typed.Expr:
    """`case e { … }`, and `let p = e in b` as a case with one branch."""
    node = inference.infer(subject, scope)
    typed_branches: list[typed.Branch] = []
    for pattern, body in branches:
        patterns = PatternInference(inference)
        typed_pattern = patterns.infer(pattern, node.type)
        patterns.report_duplicates()
        typed_body = inference.infer(body, scope.bind_variables(patterns.variables))
        typed_branches.append(typed.Branch(typed_pattern, typed_body))
    bodies = [branch.body for branch in typed_branches]
    common = common_type(inference, bodies, "the branches of case", span)
    if common is None:
        return placeholder(span)
    fitted = tuple(typed.Branch(b.pattern, widen(b.body, common)) for b in typed_branches)
    return typed.Case(node, fitted, type=common, span=span)


def infer_quantifier(inference: Inference, expr: ast.Quantifier, scope: Scope) -> typed.Expr:
    """`some p in e: c`, as an aggregate of the query whose rows are the values of c."""
    qualifiers, _, inner = infer_binds(inference, expr.binds, scope)
    body = condition(inference, inference.infer(expr.body, inner), f"the condition of {expr.kind}")
    rows = typed.Select(False, body, qualifiers, None, None, None, (), None, type=bag(BOOL),
                        span=expr.span)  # fmt: skip
    return typed.Aggregate(expr.kind, rows, type=BOOL, span=expr.span)


# --- Loops ---

_MOST_ROUNDS = 4
"""A loop is refused if the types of its variables still widen after this many rounds."""


def infer_repeat(inference: Inference, expr: ast.Repeat, scope: Scope) -> typed.Expr:
    """`repeat x = e step s limit n`; the type of x is the least common type of e and s."""
    report_duplicates(inference, expr.names, "variables of this loop", expr.span)
    initial = _loop_values(inference, inference.infer(expr.initial, scope), expr, expr.initial.span)
    if initial is None:
        return placeholder(expr.span)
    limit = None
    if expr.limit is not None:
        limit = fit(inference, inference.infer(expr.limit, scope), LONG, "the limit of repeat")
    types = [node.type for node in initial]
    for _ in range(_MOST_ROUNDS):
        variables = tuple(map(inference.variable, expr.names, types))
        mark = len(inference.problems)
        step_node = inference.infer(expr.step, scope.bind_variables(variables))
        steps = _loop_values(inference, step_node, expr, expr.step.span)
        if steps is None or len(inference.problems) > mark:
            return placeholder(expr.span, _loop_type(types))
        flagged = tuple(map(_has_flag, types, (s.type for s in steps)))
        wider = [join(t, _without_flag(s.type, f))
                 for t, s, f in zip(types, steps, flagged, strict=True)]  # fmt: skip
        if None in wider:
            at = wider.index(None)
            message = f'"{expr.names[at]}" starts as {types[at]}, but its step is {steps[at].type}'
            hint = "Start and step must have the same type; rows may carry a flag: (row, bool)."
            return inference.problem("T602", expr.step.span, message, "step", hint)
        settled = [t for t in wider if t is not None]
        if settled == types:
            starts = tuple(map(widen, initial, types))
            ends = tuple(
                widen(s, _with_flag(t, f)) for s, t, f in zip(steps, types, flagged, strict=True)
            )
            type_ = _loop_type(types)
            return typed.Repeat(variables, starts, ends, flagged, limit, type=type_, span=expr.span)
        types = settled
    message = "the type of this loop grows with each step"
    hint = "Start with a value of the type that the loop should have, such as {} as {T}."
    return inference.problem("T602", expr.span, message, "loop", hint)


def _loop_values(
    inference: Inference, node: typed.Expr, expr: ast.Repeat, span: Span
) -> tuple[typed.Expr, ...] | None:
    """The value of each loop variable, or None after a problem."""
    count = len(expr.names)
    if count == 1:
        return (node,)
    if isinstance(node, typed.MakeTuple) and len(node.items) == count:
        return node.items
    if isinstance(node.type, Tuple) and len(node.type.items) == count:
        return tuple(
            typed.Item(node, i, type=type_, span=span) for i, type_ in enumerate(node.type.items)
        )
    message = f"a loop over {count} variables needs a tuple of {count} values, not {node.type}"
    hint = "Write one value for each variable: (a, b)."
    inference.problem("T602", span, message, f"is {node.type}", hint)
    return None


def _loop_type(types: list[Type]) -> Type:
    return types[0] if len(types) == 1 else Tuple(tuple(types))


def _has_flag(start: Type, step: Type) -> bool:
    """True if the rows of a step carry flags: they fit only without the flag."""
    match start, step:
        case Collection(_, element), Collection(_, Tuple((row, flag))):
            fits = join(element, step.element)
            return (fits is None or fits == ANY) and flag == BOOL and join(element, row) is not None
        case _:
            return False


def _without_flag(step: Type, flagged: bool) -> Type:
    match step:
        case Collection(kind, Tuple((row, _))) if flagged:
            return Collection(kind, row)
        case _:
            return step


def _with_flag(type_: Type, flagged: bool) -> Type:
    if flagged and isinstance(type_, Collection):
        return Collection(type_.kind, Tuple((type_.element, BOOL)))
    return type_
