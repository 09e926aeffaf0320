"""Which operations can fail, the condition that one does, and the rows for which it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeAlias

from incmrql.algebra import rows
from incmrql.algebra.comprehensions import pattern_variables
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    DATE,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Basic,
    Decimal,
    Type,
    is_float,
    is_integer,
)
from incmrql.types.show import show_expr, show_variable
from incmrql.types.walk import children, free_variables, root_variable, substitute
from incmrql.values.numbers import INTEGER_RANGES, decimal_result

# --- Which operations can fail ---
#
# may_fail(e) is false only if e has a value whenever none of its operands is null.
#
# Integers are bounded by their types: `a + b` of two ints that were widened to long always fits;
# computed as int it may not.


Interval: TypeAlias = tuple[int, int]

_WIDEST: Final = 38
"""Digits of the widest decimal."""
_NOT_NEGATIVE: Final = frozenset(("count",))


def may_fail(expr: typed.Expr) -> bool:
    """Whether an operation may have no result although none of its operands is null."""
    match expr:
        case (
            typed.Arithmetic(mode="try" | "legacy")
            | typed.Negate(mode="try" | "legacy")
            | typed.Builtin(mode="try" | "legacy")
        ):
            return False
        case typed.Builtin(mode="ansi"):
            return True
        case typed.Cast(operand, mode):
            return mode == "ansi" and cast_may_fail(operand.type, expr.type)
        case typed.Arithmetic(op, left, right) if is_float(expr.type):
            return op in ("/", "%") and _may_be_zero(right)
        case typed.Arithmetic(op, left, right) if isinstance(expr.type, Decimal):
            if op in ("/", "%") and _may_be_zero(right):
                return True
            return op != "%" and not _fits_decimal(op, left.type, right.type, expr.type)
        case typed.Arithmetic(op, left, right) if is_integer(expr.type):
            if op in ("/", "%") and _may_be_zero(right):
                return True
            return op != "%" and not _fits(_result(op, _interval(left), _interval(right)), expr)
        case typed.Negate(operand) if is_integer(expr.type):
            low, high = _interval(operand)
            return not _fits((-high, -low), expr)
        case typed.Builtin("abs", (operand,)) if is_integer(expr.type):
            low, high = _interval(operand)
            return not _fits((0, max(abs(low), abs(high))), expr)
        case typed.Aggregate("sum"):
            return isinstance(expr.type, Decimal) or is_integer(expr.type)
        case typed.Aggregate("avg"):
            return isinstance(expr.type, Decimal) and expr.type.precision == _WIDEST
        case _:
            return False


def cast_may_fail(source: Type, target: Type) -> bool:
    """Whether a cast in Spark's ANSI mode may have no result for a value that is not null."""
    match source, target:
        case _ if NOTHING in (source, target) or target in (STRING, source):
            return False
        case _ if source == STRING:
            return True
        case _, _ if target in (BOOL, DATE) or is_float(target):
            return False
        case _, Decimal(precision, scale):
            return not _fits_digits(_digits(source), (precision - scale, scale))
        case _ if is_integer(target) and is_integer(source):
            low, high = _of_type(source)
            limits = _of_type(target)
            return not limits[0] <= low <= high <= limits[1]
        case Decimal(precision, scale), _ if is_integer(target):
            return precision - scale >= len(str(_of_type(target)[1]))
        case _ if source == BOOL:
            return False
        case _:
            return (source, target) not in ((TIMESTAMP, LONG), (DATE, TIMESTAMP))


def _digits(type_: Type) -> tuple[int, int] | None:
    """Digits before and after the point that the numbers of a type may have."""
    if isinstance(type_, Decimal):
        return type_.precision - type_.scale, type_.scale
    if type_ == BOOL:
        return 1, 0
    return (len(str(_of_type(type_)[1])), 0) if is_integer(type_) else None


def _fits_digits(digits: tuple[int, int] | None, room: tuple[int, int]) -> bool:
    """Whether there is room for all digits; rounding may add one before the point."""
    if digits is None:
        return False
    return digits[0] + (digits[1] > room[1]) <= room[0]


def _may_be_zero(divisor: typed.Expr) -> bool:
    """Whether a divisor is not a constant other than zero."""
    while isinstance(divisor, typed.Widen):
        divisor = divisor.operand
    return not isinstance(divisor, typed.Const) or divisor.value is None or divisor.value == 0


def _interval(expr: typed.Expr) -> Interval:
    """The integers that an expression may be; those of its type if no more is known."""
    bounds = _of_type(expr.type)
    match expr:
        case typed.Const(value) if isinstance(value, int):
            return value, value
        case typed.Widen(operand) if is_integer(operand.type):
            return _interval(operand)
        case typed.Aggregate(function) if function in _NOT_NEGATIVE:
            return 0, bounds[1]
        case typed.Arithmetic(op, left, right) if is_integer(expr.type):
            result = _result(op, _interval(left), _interval(right))
            return result if _fits(result, expr) else bounds
        case _:
            return bounds


def _of_type(type_: Type) -> Interval:
    name = type_.name if isinstance(type_, Basic) else "long"
    values = INTEGER_RANGES.get(name, INTEGER_RANGES["long"])
    return values[0], values[-1]


def _fits(interval: Interval, expr: typed.Expr) -> bool:
    low, high = _of_type(expr.type)
    return low <= interval[0] and interval[1] <= high


def _result(op: str, left: Interval, right: Interval) -> Interval:
    """An interval that contains all results."""
    match op:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            ends = [a * b for a in left for b in right]
            return min(ends), max(ends)
        case "/":
            if right[0] > 0:
                return min(left[0], 0), max(left[1], 0)
            most = max(abs(left[0]), abs(left[1])) // (2 if right[1] < -1 else 1)
            return -most, most
        case _:
            most = max(abs(right[0]), abs(right[1]))
            return -most, most


def _fits_decimal(op: str, left: Type, right: Type, result: Decimal) -> bool:
    """Whether a decimal result has room for all digits that its operands may give it."""
    if not isinstance(left, Decimal) or not isinstance(right, Decimal):
        return False
    digits = decimal_result(op, (left.precision, left.scale), (right.precision, right.scale))
    return result.precision < _WIDEST and digits == (result.precision, result.scale)


# --- Fragments of watches ---


@dataclass(frozen=True, slots=True)
class Check:
    """The condition that a site fails; the row that is shown has what `operation` uses."""

    condition: typed.Expr
    site: int
    operation: typed.Expr


@dataclass(frozen=True, slots=True)
class Fragment:
    """Rows that fail: those of `qualifiers` for which one of the checks holds.

    `pair`, if given, is the pair (site, row) itself, and there are no checks.
    """

    qualifiers: tuple[typed.Qualifier, ...]
    checks: tuple[Check, ...]
    pair: typed.Expr | None = None


def merge_fragments(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Combine fragments over the same qualifiers, so that their rows are read once."""
    merged: dict[str, Fragment] = {}
    for fragment in fragments:
        key = repr(fragment.qualifiers) if fragment.pair is None else repr(fragment)
        checks = (*merged[key].checks, *fragment.checks) if key in merged else fragment.checks
        merged[key] = replace(fragment, checks=checks)
    return list(merged.values())


def guard(condition: typed.Expr | None, fragments: Iterable[Fragment]) -> list[Fragment]:
    """Restrict fragments to where a condition is true."""
    if condition is None:
        return list(fragments)
    return [_guard_one(condition, fragment) for fragment in fragments]


def _guard_one(condition: typed.Expr, fragment: Fragment) -> Fragment:
    if fragment.qualifiers or fragment.pair is not None:
        qualifiers = (typed.Condition(condition), *fragment.qualifiers)
        return replace(fragment, qualifiers=qualifiers)
    checks = [replace(c, condition=both(condition, c.condition)) for c in fragment.checks]
    return replace(fragment, checks=tuple(checks))


def with_qualifiers(
    qualifiers: Sequence[typed.Qualifier], fragments: Iterable[Fragment]
) -> list[Fragment]:
    """Fragments with more qualifiers before their own."""
    return [replace(f, qualifiers=(*qualifiers, *f.qualifiers)) for f in fragments]


def substitute_in(fragment: Fragment, values: Mapping[typed.Variable, typed.Expr]) -> Fragment:
    """A fragment with expressions in the places of variables."""
    if not values:
        return fragment

    def expand(expr: typed.Expr) -> typed.Expr:
        return rows.reduce_projections(substitute(expr, values))

    def with_expanded(qualifier: typed.Qualifier) -> typed.Qualifier:
        match qualifier:
            case typed.Generator(pattern, domain):
                return typed.Generator(pattern, expand(domain))
            case typed.Binding(pattern, value):
                return typed.Binding(pattern, expand(value))
            case typed.Condition(condition):
                return typed.Condition(expand(condition))

    return Fragment(
        tuple(map(with_expanded, fragment.qualifiers)),
        tuple(Check(expand(c.condition), c.site, expand(c.operation)) for c in fragment.checks),
        None if fragment.pair is None else expand(fragment.pair),
    )


def site_and_row(checks: Sequence[Check], row: typed.Expr) -> typed.Expr:
    """The pair (site, row) with the first site that fails."""
    site: typed.Expr = typed.Const(checks[-1].site, type=LONG)
    for check in reversed(checks[:-1]):
        site = typed.If(check.condition, typed.Const(check.site, type=LONG), site, type=LONG)
    return rows.tuple_of(site, row)


# --- Parts of queries ---


def pattern_of(qualifier: typed.Qualifier) -> typed.Pattern:
    """The pattern of a qualifier; a condition binds nothing."""
    return typed.Anything() if isinstance(qualifier, typed.Condition) else qualifier.pattern


def bound_by(qualifier: typed.Qualifier) -> list[typed.Variable]:
    """The variables that a qualifier binds."""
    return pattern_variables(pattern_of(qualifier))


def is_join(condition: typed.Expr, needed: Sequence[typed.Qualifier]) -> bool:
    """Whether a condition is an equality between two generators."""
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return False
    left, right = (
        {i for i, q in enumerate(needed) if free_variables(side) & set(bound_by(q))}
        for side in (condition.left, condition.right)
    )
    return bool(left and right) and not left & right


def uses_part(pattern: typed.Pattern, part: int | str, uses: Sequence[typed.Expr]) -> bool:
    """Whether expressions use a component or field of the value that a pattern matches."""
    match pattern:
        case typed.Bind(variable):
            return any(_uses_part(expr, variable, part) for expr in uses)
        case typed.TupleOf(patterns) if isinstance(part, int):
            names = set(pattern_variables(patterns[part]))
            plain = isinstance(patterns[part], typed.Bind | typed.Anything)
            return not plain or any(names & free_variables(expr) for expr in uses)
        case typed.Anything():
            return False
        case _:
            return True


def _uses_part(expr: typed.Expr, variable: typed.Variable, part: int | str) -> bool:
    match expr:
        case typed.Field(typed.Var(subject), name) if subject == variable:
            return name == part
        case typed.Item(typed.Var(subject), index) if subject == variable:
            return index == part
        case typed.Var(subject):
            return subject == variable
        case _:
            return any(_uses_part(child, variable, part) for child in children(expr))


# --- Conditions ---


def both(one: typed.Expr, other: typed.Expr) -> typed.Expr:
    """`one and other`."""
    return typed.Logic("and", one, other, type=BOOL)


def disjunction(conditions: Sequence[typed.Expr]) -> typed.Expr:
    """True where one of some conditions is."""
    return reduce(lambda one, other: typed.Logic("or", one, other, type=BOOL), conditions)


def is_not_true(expr: typed.Expr) -> typed.Expr:
    """True where a condition is false or null."""
    no, yes = (typed.Const(value, type=BOOL) for value in (False, True))
    return typed.If(expr, no, yes, type=BOOL)


def failure_condition(expr: typed.Expr) -> typed.Expr:
    """True where an operation has no result although none of its operands is null."""
    match expr:
        case typed.Arithmetic(_, left, right) if is_float(expr.type):
            zero = typed.Const(0.0, type=expr.type)
            return both(rows.is_present(left), typed.Compare("=", right, zero, type=BOOL))
        case typed.Aggregate("avg", operand):
            some = typed.Aggregate("count", operand, type=LONG)
            none = typed.Const(0, type=LONG)
            there = typed.Compare(">", some, none, type=BOOL)
            return both(there, is_not_true(rows.is_present(expr)))
        case typed.Aggregate():
            return is_not_true(rows.is_present(expr))
        case _:
            operands = [operand for operand in children(expr) if not is_constant(operand)]
            known = rows.conjunction([rows.is_present(operand) for operand in operands])
            no, yes = (typed.Const(value, type=BOOL) for value in (False, True))
            # One expression, not conjuncts: a join would drop null operands early. Its sides would
            # then differ from those of the answer's join and be kept a second time.
            return typed.If(rows.is_present(expr), no, known or yes, type=BOOL)


def is_constant(expr: typed.Expr) -> bool:
    """Whether a value is known from the text and is not null."""
    return isinstance(expr, typed.Const) and expr.value is not None


def fault_text(expr: typed.Expr) -> str:
    """What it means for a user that an operation has no result."""
    match expr:
        case typed.Aggregate(function):
            return f"the {function} does not fit {expr.type}"
        case typed.Arithmetic("/" | "%") if is_float(expr.type):
            return "division by zero"
        case typed.Builtin("spark.fail", (typed.Const(message),)):
            return str(message)
        case typed.Cast(operand):
            return f"a value of type {operand.type} has no form of type {expr.type}"
        case typed.Arithmetic("/" | "%"):
            return f"division by zero, or the result does not fit {expr.type}"
        case _:
            return f"the result does not fit {expr.type}"


# --- Rows ---


def record_of_variables(variables: Sequence[typed.Variable]) -> typed.Expr:
    """The record of variables, with underscores after names that occur twice."""
    fields: dict[str, typed.Expr] = {}
    for variable in variables:
        name = variable.name
        while name in fields:
            name += "_"
        fields[name] = rows.var(variable)
    return rows.record_of(fields.items())


def used_paths(expr: typed.Expr) -> list[typed.Expr]:
    """The fields and components of variables that an expression uses."""
    if root_variable(expr) is not None:
        return [expr]
    return [path for child in children(expr) for path in used_paths(child)]


def path_name(path: typed.Expr) -> str:
    """A field or component of a variable as the query writes it."""
    variable = root_variable(path)
    assert variable is not None, path
    return variable.name + show_expr(path).removeprefix(show_variable(variable))
