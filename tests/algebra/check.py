"""Are terms and their expressions well typed?  What rewriting must never break.

Every variable is bound where it is used; fields and components are there; operands, branches and
elements have the types that their nodes say.  A query that fails was spoiled by a rule.
`install` checks every query that is normalised from then on, after each phase.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from incmrql.algebra.comprehensions import pattern_variables
from incmrql.algebra.normalize import strategy
from incmrql.algebra.show import show_term
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
from incmrql.algebra.walk import children as terms_below
from incmrql.errors import InternalError
from incmrql.types import typed
from incmrql.types.builtins import aggregate_type
from incmrql.types.model import (
    ANY,
    BOOL,
    EXACT_SUM,
    JSON,
    LONG,
    NOTHING,
    Collection,
    Decimal,
    Record,
    Tuple,
    Type,
    is_float,
)
from incmrql.types.show import show_expr, show_variable
from incmrql.types.walk import children

Scope = frozenset[typed.Variable]
NOTHING_BOUND: Scope = frozenset()


def well_typed(query: Query) -> None:
    """Raise if a query is not well typed."""
    Checker().query(query)


def install() -> None:
    """Check queries after every phase of rewriting, in this process."""
    strategy.new_check = lambda: Checker().query


class Checker:
    """Checks queries one after the other; what they share is looked at once."""

    def __init__(self) -> None:
        self._fine: dict[tuple[int, int], object] = {}

    def query(self, query: Query) -> None:
        """Raise if a query is not well typed."""
        held = NOTHING_BOUND
        for variable, term in query.parts:
            self.term(term, held)
            if _element(variable.type) != element(term):
                _wrong_term(term, f"is not the {variable.type} of {show_variable(variable)}")
            held |= {variable}
        check_expr(query.result, held)

    def term(self, term: Term, held: Scope) -> None:
        """Raise if a term is not well typed; `held` are the variables that hold rows."""
        match term:
            case Scan():
                pass
            case Values(expr):
                self._body(None, expr)
            case Loop(variable) | Shared(variable):
                if variable not in held:
                    _wrong_term(term, "has no rows here")
            case CMap(variable, body, source):
                if element(source) != variable.type:
                    _wrong_term(term, f"ranges over elements of type {element(source)}")
                self._body(variable, body)
                _element(body.type)
            case GroupBy(source):
                pair(source)
            case CoGroup(left, right):
                if pair(left)[0] != pair(right)[0]:
                    _wrong_term(term, f"has keys {pair(left)[0]} and {pair(right)[0]}")
            case Union(parts):
                if any(element(part) != element(parts[0]) for part in parts):
                    _wrong_term(term, "has parts of several types")
            case Sort(source, descending, limit, _):
                key = pair(source)[0]
                if not isinstance(key, Tuple) or len(key.items) != len(descending):
                    _wrong_term(term, f"cannot sort by {key}")
                self._limit(limit)
            case Repeat(limit=limit):
                self._limit(limit)
                _check_loop(term)
                for start in term.initial:
                    self.term(start, held)
                for step in term.step:
                    self.term(step, held | frozenset(term.variables))
                return
        for child in terms_below(term):
            self.term(child, held)

    def _limit(self, limit: typed.Expr | None) -> None:
        if limit is not None:
            self._body(None, limit)

    def _body(self, variable: typed.Variable | None, body: typed.Expr) -> None:
        place = id(variable), id(body)
        if place not in self._fine:
            check_expr(body, NOTHING_BOUND if variable is None else frozenset((variable,)))
            self._fine[place] = variable, body  # kept, so that no other object gets these ids


def _check_loop(term: Repeat) -> None:
    for variable, start, step, flagged in zip(
        term.variables, term.initial, term.step, term.flagged, strict=True
    ):
        row = _element(variable.type)
        after = Tuple((row, BOOL)) if flagged else row
        if element(start) != row or element(step) != after:
            _wrong_term(term, f"gives {variable.type} other rows")


# --- expressions -------------------------------------------------------------------------------


def check_expr(expr: typed.Expr, scope: Scope) -> None:
    """Raise if an expression is not well typed, or uses what is not bound."""
    problem = _problem(expr, scope)
    if problem:
        raise InternalError(f"{problem}: {show_expr(expr)}")
    match expr:
        case typed.Var() | typed.Const():
            pass
        case typed.Field(subject, _) | typed.Item(subject, _):
            check_expr(subject, scope)
        case typed.MakeTuple(items) | typed.MakeRecord(items) | typed.MakeCollection(items):
            _check_all(items, scope)
        case typed.Select():
            _check_select(expr, scope)
        case typed.MapOver(variable, subject, body, _):
            check_expr(subject, scope)
            check_expr(body, scope | {variable})
        case typed.Case(subject, branches):
            check_expr(subject, scope)
            for branch in branches:
                check_expr(branch.body, scope.union(pattern_variables(branch.pattern)))
        case typed.Fold(function, zero, operand):
            _check_all((zero, operand), scope)
            check_expr(function.body, scope.union(function.parameters))
        case typed.Window(operand, row, order, functions):
            check_expr(operand, scope)
            _check_all((key.expr for key in order), scope | {row})
            for window_function in functions:
                match window_function:
                    case typed.Pick(_, argument, _, _, default):
                        _check_all((argument, default), scope | {row})
                    case typed.Total(_, argument, values, result):
                        check_expr(argument, scope | {row})
                        check_expr(result, scope | {values})
                    case typed.Rank():
                        pass
        case typed.Repeat(variables, initial, step, _, limit):
            _check_all(initial, scope)
            _check_all(step, scope.union(variables))
            _check_all(() if limit is None else (limit,), scope)
        case _:
            _check_all(children(expr), scope)


def _check_all(exprs: Iterable[typed.Expr], scope: Scope) -> None:
    for expr in exprs:
        check_expr(expr, scope)


def _check_select(select: typed.Select, scope: Scope) -> None:
    outside = scope
    for qualifier in select.qualifiers:
        match qualifier:
            case typed.Generator(pattern, domain):
                check_expr(domain, scope)
                _check_pattern(pattern, _generated_type(domain.type), select)
                scope = scope.union(pattern_variables(pattern))
            case typed.Binding(pattern, value):
                check_expr(value, scope)
                _check_pattern(pattern, value.type, select)
                scope = scope.union(pattern_variables(pattern))
            case typed.Condition(condition):
                check_expr(condition, scope)
    if select.where is not None:
        check_expr(select.where, scope)
    if select.group is not None:
        group = select.group
        _check_all(group.keys, scope)
        if not scope.issuperset(group.rows):
            raise InternalError(f"a group names variables that are not there: {show_expr(select)}")
        lifted = (many for _, many in group.lifted)
        scope = outside.union(pattern_variables(group.patterns), lifted, (group.partition,))
    if select.having is not None:
        check_expr(select.having, scope)
    check_expr(select.head, scope)
    _check_all((order.expr for order in select.order), scope)
    _check_all(() if select.limit is None else (select.limit,), outside)


def _check_pattern(pattern: typed.Pattern, type_: Type, select: typed.Select) -> None:
    match pattern:
        case typed.Bind(variable):
            fits = variable.type == type_
        case typed.TupleOf(items):
            fits = isinstance(type_, Tuple) and len(items) == len(type_.items)
            if isinstance(type_, Tuple) and fits:
                for item, part in zip(items, type_.items, strict=True):
                    _check_pattern(item, part, select)
        case _:
            return
    if not fits:
        raise InternalError(f"a pattern does not fit {type_}: {show_expr(select)}")


def _problem(expr: typed.Expr, scope: Scope) -> str:
    """What is wrong with a node itself; nothing if it is well typed."""
    match expr:
        case typed.Var(variable):
            if variable not in scope:
                return "unbound variable"
            fits = expr.type == variable.type
        case typed.Field(subject, name):
            fits = isinstance(subject.type, Record) and subject.type.field(name) == expr.type
        case typed.Item(subject, index):
            items = subject.type.items if isinstance(subject.type, Tuple) else ()
            fits = index < len(items) and items[index] == expr.type
        case typed.MakeTuple(items):
            fits = expr.type == Tuple(tuple(item.type for item in items))
        case typed.MakeRecord(items):
            fits = isinstance(expr.type, Record) and [t for _, t in expr.type.fields] == [
                item.type for item in items
            ]
        case typed.MakeCollection(items):
            inside = _element(expr.type)
            fits = all(item.type in (inside, NOTHING) for item in items)
        case typed.If(condition, then, otherwise):
            fits = condition.type in (BOOL, NOTHING) and then.type == otherwise.type == expr.type
        case typed.Compare(_, left, right):
            fits = left.type == right.type and expr.type == BOOL
        case typed.Logic(_, left, right):
            fits = {left.type, right.type} <= {BOOL, NOTHING} and expr.type == BOOL
        case typed.MapOver(variable, subject, body, flatten):
            body_element = _element(body.type) if flatten else body.type
            fits = variable.type == _element(subject.type) and body_element == _element(expr.type)
        case typed.Select():
            fits = _element(expr.type) == expr.head.type
        case typed.Aggregate():
            fits = _fits_aggregate(expr)
        case typed.Window():
            values = Tuple(tuple(function.type for function in expr.functions))
            is_rows = _element(expr.operand.type) == expr.row.type
            fits = is_rows and _element(expr.type) == Tuple((expr.row.type, values))
        case _:
            return ""
    return "" if fits else f"not well typed, {expr.type}"


def _fits_aggregate(expr: typed.Aggregate) -> bool:
    inside = _element(expr.operand.type)
    match expr.function:
        case "sum#part":
            return expr.type == EXACT_SUM if is_float(inside) else isinstance(expr.type, Decimal)
        case "sum#total":
            return isinstance(inside, Tuple) and len(inside.items) == 2 and inside.items[1] == LONG
        case "avg#total":
            return isinstance(inside, Tuple) and inside.items[1:] == (LONG, LONG)
        case function:
            return aggregate_type(function, inside) == (inside, expr.type)


def _generated_type(type_: Type) -> Type:
    """What a generator over a value of a type binds: a tree's elements are trees."""
    return type_ if type_ in (JSON, ANY) else _element(type_)


def _element(type_: Type) -> Type:
    if isinstance(type_, Collection):
        return type_.element
    raise InternalError(f"{type_} is not a collection")


def _wrong_term(term: Term, problem: str) -> NoReturn:
    raise InternalError(f"{problem}:\n{show_term(term)}")
