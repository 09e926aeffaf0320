"""Expressions over rows to SQL: one rule per construct.

    lower(typed expression, environment, context) -> shape

A construct that SQL cannot express raises `NotNative`.  The smallest enclosing expression that is
outside of all lambdas then becomes a call of a Python function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlglot import exp

from incmrql.lower import builtins, conversions, literals, operators, spark_functions, tree
from incmrql.lower.context import (
    BEYOND_ROWS,
    PYTHON_PREFIX,
    Context,
    construct_name,
    python_reason,
)
from incmrql.lower.expressions import access, arrays, linear, patterns
from incmrql.lower.expressions.aggregates import aggregate, fold, user_aggregate
from incmrql.lower.expressions.collections import (
    collection_builtin,
    comprehension,
    items_of,
    map_over,
)
from incmrql.lower.shapes import Cell, Env, GroupBag, NotNative, Parts, Shape, is_structure
from incmrql.lower.spark_casts import cast_in_mode
from incmrql.types import typed
from incmrql.types.model import (
    ANY,
    BYTE,
    INT,
    LONG,
    NOTHING,
    SHORT,
    Any,
    Collection,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    is_scalar,
)
from incmrql.types.spark_functions import SPARK_FUNCTIONS
from incmrql.types.walk import nodes

_COLLECTION_BUILTINS = (
    "member", "elem", "distinct", "sort", "reverse", "flatten", "zip", "index", "range",
)  # fmt: skip


def lower(expr: typed.Expr, env: Env, ctx: Context) -> Shape:
    """The shape of an expression in SQL."""
    try:
        return _native(expr, env, ctx)
    except NotNative as problem:
        if env.lambdas:
            raise
        return ctx.call_python(expr, env, problem.reason)


def _native(expr: typed.Expr, env: Env, ctx: Context) -> Shape:
    match expr:
        case typed.Const(value):
            return Cell(literals.constant(value, expr.type, ctx.dialect), expr.type)
        case typed.Var(variable):
            return _variable(variable, env)
        case typed.Global(key):
            return ctx.lower(ctx.script.queries[key], Env(lambdas=env.lambdas), ctx)
        case typed.Stored(key) if key not in ctx.stored:
            return Cell(ctx.stored_placeholder(key), expr.type)
        case typed.Stored(key):
            return Cell(literals.constant(ctx.stored[key], expr.type, ctx.dialect), expr.type)
        case typed.ScriptArguments():
            words = list(ctx.arguments)
            return Cell(literals.constant(words, expr.type, ctx.dialect), expr.type, present=True)
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return Parts(tuple(ctx.lower(item, env, ctx) for item in items), expr.type)
        case typed.MakeCollection(items):
            array = arrays.make([ctx.tree(i, env) for i in items], _element(expr.type), ctx)
            return Cell(array, expr.type, present=True)
        case typed.RangeOf(first, last):
            return collection_builtin("range", (first, last), expr.type, env, ctx)
        case typed.Arithmetic(_, left, right):
            both = ctx.tree(left, env), ctx.tree(right, env)
            native = operators.arithmetic_in_mode(expr, *both, ctx.dialect)
            if native is None and not env.lambdas:
                native = _decimals_by_column(expr, both, env, ctx)
            return _native_or_raise(expr, native)
        case typed.Negate(operand, mode):
            return _native_or_raise(
                expr, operators.negate(expr.type, ctx.tree(operand, env), ctx.dialect, mode)
            )
        case typed.Compare():
            return _compare(expr, env, ctx)
        case typed.Logic(op, left, right):
            _require_total((right,), ctx)
            both = ctx.tree(left, env), ctx.tree(right, env)
            join = operators.conjunction if op == "and" else operators.disjunction
            return _native_or_raise(expr, join(*both))
        case typed.Not(operand):
            return _native_or_raise(expr, operators.negation(ctx.tree(operand, env)))
        case typed.IsNull(operand):
            return _is_null(ctx.lower(operand, env, ctx), expr.type, ctx)
        case typed.Exists(operand):
            return aggregate("exists", operand, None, expr.type, env, ctx)
        case typed.Combine():
            return _combine(expr, env, ctx)
        case typed.Concat(parts):
            arrays_ = [items_of(part, env, ctx) for part in parts]
            return Cell(arrays.concat(arrays_, ctx), expr.type, present=True)
        case typed.Widen(operand):
            subject = ctx.lower(operand, env, ctx)
            many = (
                linear.widen_elements(expr, subject, ctx) if isinstance(subject, GroupBag) else None
            )
            return many or _widen(subject, operand.type, expr.type, ctx)
        case typed.Cast(operand, "total"):
            return _cast(ctx.lower(operand, env, ctx), operand.type, expr.type, ctx)
        case typed.Cast(operand, mode):
            source = ctx.tree(operand, env)
            return _native_or_raise(
                expr, cast_in_mode(source, operand.type, expr.type, mode, ctx.dialect)
            )
        case typed.Field(subject, name):
            names = subject.type.names if isinstance(subject.type, Record) else ()
            return ctx.part(ctx.lower(subject, env, ctx), names.index(name))
        case typed.Item(subject, index):
            return ctx.part(ctx.lower(subject, env, ctx), index)
        case typed.At():
            return access.at(expr, env, ctx)
        case typed.LookUp():
            return access.look_up(expr, env, ctx)
        case typed.SliceOf():
            return access.slice_of(expr, env, ctx)
        case typed.MapOver():
            return map_over(expr, env, ctx)
        case typed.If(condition, then, otherwise):
            _require_total((then, otherwise), ctx)
            test = ctx.tree(condition, env)
            return _choice(
                [(test, ctx.lower(then, env, ctx))], ctx.lower(otherwise, env, ctx), expr.type, ctx
            )
        case typed.Case():
            return _case(expr, env, ctx)
        case typed.Call(name, arguments):
            return _call(name, arguments, env, ctx)
        case typed.Builtin(name, arguments) if name in _COLLECTION_BUILTINS:
            return collection_builtin(name, arguments, expr.type, env, ctx)
        case typed.Builtin():
            return _builtin(expr, env, ctx)
        case typed.Aggregate(name, operand, extra):
            return aggregate(name, operand, extra, expr.type, env, ctx)
        case typed.UserAggregate():
            return user_aggregate(expr, env, ctx)
        case typed.Fold():
            return fold(expr, env, ctx)
        case typed.Select():
            return comprehension(expr, env, ctx)
        case (
            typed.PythonCall()
            | typed.Navigate()
            | typed.MakeData()
            | typed.Repeat()
            | typed.Trace()
            | typed.Read()
            | typed.Window()
        ):
            raise NotNative(python_reason(expr))
        case _:
            assert_never(expr)


def _require_total(branches: Sequence[typed.Expr], ctx: Context) -> None:
    """Raise `NotNative` if a branch may fail or never end."""
    # Spark evaluates Python functions for all rows, even in a branch that a row does not take.
    for branch in branches:
        for node in nodes(branch):
            match node:
                case typed.PythonCall(name):
                    raise NotNative(f'Python function "{name}" in a branch')
                case typed.Call(name) if ctx.may_fail(name):
                    raise NotNative(f"{name} in a branch")
                case _:
                    pass


def _variable(variable: typed.Variable, env: Env) -> Shape:
    if variable not in env.values:
        raise NotNative(BEYOND_ROWS)
    shape = env.values[variable]
    if env.lambdas and _calls_python(shape):
        raise NotNative("a value that Python makes, used for every element")
    return shape


def _calls_python(shape: Shape) -> bool:
    """Whether a value is computed by Python, which cannot be called in a lambda."""
    match shape:
        case Cell(expression):
            calls = expression.find_all(exp.Anonymous)
            return any(call.name.startswith(PYTHON_PREFIX) for call in calls)
        case Parts(parts):
            return any(map(_calls_python, parts))
        case _:
            return False


def _native_or_raise(expr: typed.Expr, native: exp.Expression | None) -> Cell:
    """The native form of an expression; raises `NotNative` if the dialect has none."""
    if native is None:
        raise NotNative(f"no native {construct_name(expr)} has the same bits everywhere")
    return Cell(native, expr.type)


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, Collection) else NOTHING


def _decimals_by_column(
    expr: typed.Arithmetic,
    both: tuple[exp.Expression, exp.Expression],
    env: Env,
    ctx: Context,
) -> exp.Expression | None:
    """Arithmetic of decimals that DuckDB lacks, on whole columns.

    A product that may have more than 38 digits is native for the rows where it has not.
    """
    if ctx.dialect is tree.Dialect.SPARK or not isinstance(expr.type, Decimal):
        return None
    narrow = operators.narrow_product(expr, *both)
    reason = f"{expr.op} on {expr.type} has too many digits"
    if operators.is_rounded_once(expr):
        types = expr.left.type, expr.right.type
        cells = [Cell(side.copy(), type_) for side, type_ in zip(both, types, strict=True)]
        pinned = ctx.call_pinned(expr.op, cells, expr.type, reason).tree
    elif narrow is not None:
        pinned = ctx.call_python(expr, env, reason).tree
    else:
        return None
    return pinned if narrow is None else tree.case([narrow], pinned)


def _is_null(shape: Shape, type_: Type, ctx: Context) -> Cell:
    """Whether a value is null; separate parts and the rows of a group never are."""
    if _is_present(shape):
        return Cell(tree.boolean(False), type_, present=True)
    return Cell(tree.is_null(ctx.whole(shape)), type_, present=True)


def _compare(expr: typed.Compare, env: Env, ctx: Context) -> Cell:
    op, type_ = expr.op, expr.left.type
    if op == "=" and expr.left == expr.right:
        operand = ctx.lower(expr.left, env, ctx)
        if isinstance(operand, Parts):
            return Cell(tree.boolean(True), expr.type, present=True)
        present = tree.not_null(ctx.whole(operand))
        return Cell(tree.case([(present, tree.boolean(True))], None), expr.type)
    left, right = ctx.lower(expr.left, env, ctx), ctx.lower(expr.right, env, ctx)
    if op == "=" and isinstance(left, Parts) and isinstance(right, Parts):
        return Cell(identical(left, right, ctx), expr.type, present=True)
    both = [arrays.canonical(ctx.whole(side), type_, ctx) for side in (left, right)]
    if is_scalar(type_):
        return _native_or_raise(expr, operators.compare(op, both[0], both[1]))
    if ctx.dialect is tree.Dialect.DUCKDB and not isinstance(type_, Data | Any):
        raise NotNative("DuckDB orders and compares nested nulls its own way")
    return Cell(tree.binary(_COMPARISONS[op], both[0], both[1]), expr.type)


_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
}  # fmt: skip


def identical(left: Shape, right: Shape, ctx: Context) -> exp.Expression:
    """Whether two values have the same canonical bytes; null is identical to null."""
    if isinstance(left, Parts) and isinstance(right, Parts):
        equalities = [identical(a, b, ctx) for a, b in zip(left.parts, right.parts, strict=True)]
        return tree.conjunction(equalities) or tree.boolean(True)
    both = [arrays.canonical(ctx.whole(side), side.type, ctx) for side in (left, right)]
    return tree.binary(exp.NullSafeEQ, both[0], both[1])


def _combine(expr: typed.Combine, env: Env, ctx: Context) -> Cell:
    if expr.op != "union":
        raise NotNative(f"{expr.op} of bags inside a row")
    both = [items_of(side, env, ctx) for side in (expr.left, expr.right)]
    return Cell(arrays.concat(both, ctx), expr.type, present=True)


def _widen(shape: Shape, source: Type, target: Type, ctx: Context) -> Shape:
    return _convert(shape, source, target, ctx, cast=False)


def _cast(shape: Shape, source: Type, target: Type, ctx: Context) -> Shape:
    return _convert(shape, source, target, ctx, cast=True)


def _convert(shape: Shape, source: Type, target: Type, ctx: Context, *, cast: bool) -> Shape:
    """A value in another type, part by part and element by element."""
    if source == target:
        return shape
    if source == NOTHING:
        return Cell(tree.typed_null(target, ctx.dialect), target)
    match source, target:
        case _ if target == ANY or isinstance(source, Data | Any) or isinstance(target, Data):
            raise NotNative(f"conversion from {source} to {target}")
        case ((Tuple() | Record()), (Tuple() | Record())):
            return _convert_parts(shape, source, target, ctx, cast=cast)
        case Collection(kind, element), Collection(target_kind, target_element):
            array = ctx.whole(shape)
            if kind == "bag" and target_kind == "list":
                array = arrays.in_canonical_order(array, element, ctx)
            if element != target_element:
                array = arrays.transform(
                    array,
                    lambda x: ctx.whole(
                        _convert(Cell(x, element), element, target_element, ctx, cast=cast)
                    ),
                    ctx,
                )
            if kind == "bag" and target_kind == "list" and element != target_element:
                array = arrays.in_canonical_order(array, target_element, ctx)
            return Cell(array, target, present=_is_present(shape))
        case _:
            convert = conversions.cast if cast else conversions.widen
            converted = convert(ctx.whole(shape), source, target, ctx.dialect)
            if converted is None:
                raise NotNative(f"no native conversion from {source} to {target} is the same")
            narrow = source in (BYTE, SHORT, INT) and target == LONG
            return Cell(converted, target, present=_is_present(shape), narrow=narrow)


def _is_present(shape: Shape) -> bool:
    return isinstance(shape, Parts | GroupBag) or (isinstance(shape, Cell) and shape.present)


def _convert_parts(shape: Shape, source: Type, target: Type, ctx: Context, *, cast: bool) -> Shape:
    names = [name for name, _ in tree.parts_of(source)]
    types = dict(tree.parts_of(source))
    parts = []
    for name, part_type in tree.parts_of(target):
        if name not in names:
            raise NotNative(f"conversion from {source} to {target}")
        source_part = ctx.part(shape, names.index(name))
        parts.append(_convert(source_part, types[name], part_type, ctx, cast=cast))
    converted = Parts(tuple(parts), target)
    if isinstance(shape, Parts):
        return converted
    return Cell(arrays.or_null(ctx.whole(shape), ctx.whole(converted)), target)


def _choice(
    branches: Sequence[tuple[exp.Expression, Shape]], otherwise: Shape, type_: Type, ctx: Context
) -> Shape:
    """The first value whose test is true; part by part if all shapes are `Parts`."""
    shapes = [shape for _, shape in branches] + [otherwise]
    if is_structure(type_) and all(isinstance(shape, Parts) for shape in shapes):
        parts = []
        for index, (_, part_type) in enumerate(tree.parts_of(type_)):
            part_branches = [(test, ctx.part(shape, index)) for test, shape in branches]
            parts.append(_choice(part_branches, ctx.part(otherwise, index), part_type, ctx))
        return Parts(tuple(parts), type_)
    trees = [(test, ctx.whole(shape)) for test, shape in branches]
    present = all(map(_is_present, shapes))
    return Cell(tree.case(trees, ctx.whole(otherwise)), type_, present=present)


def _case(expr: typed.Case, env: Env, ctx: Context) -> Shape:
    _require_total([branch.body for branch in expr.branches], ctx)
    subject = ctx.lower(expr.subject, env, ctx)
    branches: list[tuple[exp.Expression, Shape]] = []
    for branch in expr.branches:
        tests, inner = patterns.match_pattern(branch.pattern, subject, env, ctx)
        body = ctx.lower(branch.body, inner, ctx)
        condition = tree.conjunction(tests)
        if condition is None:
            return _choice(branches, body, expr.type, ctx) if branches else body
        branches.append((condition, body))
    null = Cell(tree.typed_null(expr.type, ctx.dialect), expr.type)
    return _choice(branches, null, expr.type, ctx)


def _call(name: str, arguments: tuple[typed.Expr, ...], env: Env, ctx: Context) -> Shape:
    """A function's body with its arguments substituted; recursive functions are not native."""
    if ctx.calls_itself(name):
        raise NotNative(f"{name} calls itself")
    function = ctx.script.functions[name]
    inner = Env(lambdas=env.lambdas)
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        inner = inner.bind(parameter, ctx.lower(argument, env, ctx))
    return _native(function.body, inner, ctx)


def _builtin(expr: typed.Builtin, env: Env, ctx: Context) -> Shape:
    if expr.function == "random":
        raise NotNative("random numbers")
    types = tuple(argument.type for argument in expr.arguments)
    if expr.function == "inv":
        return ctx.lower(expr.arguments[0], env, ctx)
    if expr.function == "pow" and _is_two(expr.arguments[1]):
        square = typed.Arithmetic("*", expr.arguments[0], expr.arguments[0], type=expr.type)
        return ctx.lower(square, env, ctx)
    values = [
        arrays.canonical(ctx.tree(argument, env), argument.type, ctx) for argument in expr.arguments
    ]
    table = spark_functions if expr.function in SPARK_FUNCTIONS else builtins
    return _native_or_raise(
        expr, table.builtin(expr.function, values, types, expr.type, ctx.dialect)
    )


def _is_two(expr: typed.Expr) -> bool:
    """Whether this is the constant 2: a square is one multiplication, by definition."""
    inner = expr.operand if isinstance(expr, typed.Widen) else expr
    return isinstance(inner, typed.Const) and inner.value == 2
