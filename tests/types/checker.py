"""Local invariants of a typed script, looked at node by node.

    problems(script) -> what is wrong with it, as sentences; none if nothing is

The checker knows nothing of names, spans or how a tree came to be.  It asks of every node
whether its type follows from those of its parts, and of every variable whether it is bound
before it is used, and once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from incmrql.types import typed
from incmrql.types.lattice import castable, widens
from incmrql.types.model import (
    ANY,
    BOOL,
    DOUBLE,
    INT,
    JSON,
    LONG,
    NOTHING,
    STRING,
    XML,
    Collection,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from tests.types.check_calls import check_aggregate, check_builtin
from tests.types.check_patterns import binders, check_pattern
from tests.types.inhabits import inhabits

Names = Mapping[int, typed.Variable]
"""The variables in scope, by number."""


def problems(script: typed.Script) -> list[str]:
    """What is wrong with a script."""
    checker = Checker(script)
    checker.check_script()
    return checker.problems


def expressions(script: typed.Script) -> Iterator[typed.Expr]:
    """Every expression of a script that is not inside another one."""
    yield from script.queries.values()
    yield from (item.expr for item in script.items)
    yield from (function.body for function in script.functions.values())
    for aggregation in script.aggregations.values():
        yield aggregation.zero
        yield aggregation.merge.body
        if aggregation.unit is not None:
            yield aggregation.unit.body


@dataclass(slots=True)
class Checker:
    """One walk over a script."""

    script: typed.Script
    problems: list[str] = field(default_factory=list)
    bound: dict[int, typed.Variable] = field(default_factory=dict)
    known: dict[str, Type] = field(default_factory=dict)
    """The named queries and stored values seen so far."""

    def check_script(self) -> None:
        """Functions and aggregations, then queries and items, each by itself."""
        stored = {item.target: item.expr.type for item in self.script.items
                  if item.kind == "store-value"}  # fmt: skip
        self.known = {key: query.type for key, query in self.script.queries.items()} | stored
        self.require(not set(stored) & set(self.script.queries), "a key is used twice")
        for function in self.script.functions.values():
            self.check(function.body, self.bind({}, function.parameters))
            self.require(function.body.type == function.result, f"result of {function.name}")
        for aggregation in self.script.aggregations.values():
            self._aggregation(aggregation)
        self._queries()
        for item in self.script.items:
            self.check(item.expr, {})

    def _aggregation(self, aggregation: typed.Aggregation) -> None:
        name, type_ = aggregation.name, aggregation.type
        self.check(aggregation.zero, {})
        self._lambda(aggregation.merge, (type_, type_), type_, {}, f"merge of {name}")
        self.require(aggregation.zero.type == type_, f"zero of {name}")
        if aggregation.unit is None:
            self.require(aggregation.element == type_, f"element of {name}")
        else:
            self._lambda(aggregation.unit, (aggregation.element,), type_, {}, f"unit of {name}")

    def _queries(self) -> None:
        """A named query may refer to earlier ones alone."""
        all_known, self.known = (
            self.known,
            {
                item.target: item.expr.type
                for item in self.script.items
                if item.kind == "store-value"
            },
        )
        for key, query in self.script.queries.items():
            self.check(query, {})
            self.known[key] = query.type
        self.known = all_known

    # --- notes ---------------------------------------------------------------------------

    def require(self, holds: bool, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.problems.append(what)

    def bind(self, names: Names, variables: tuple[typed.Variable, ...]) -> Names:
        """The names in scope with these variables, whose numbers must be new."""
        for variable in variables:
            earlier = self.bound.setdefault(variable.number, variable)
            self.require(earlier is variable, f"{variable.name} has the number of {earlier.name}")
        return {**names, **{variable.number: variable for variable in variables}}

    def _lambda(
        self,
        function: typed.Lambda,
        takes: tuple[Type, ...],
        gives: Type,
        names: Names,
        what: str,
    ) -> None:
        types = tuple(parameter.type for parameter in function.parameters)
        self.require(types == takes, f"{what} takes {types}")
        self.require(function.body.type == gives, f"{what} gives {function.body.type}")
        self.check(function.body, self.bind(names, function.parameters))

    # --- expressions ---------------------------------------------------------------------

    def check(self, expr: typed.Expr, names: Names) -> None:
        """Note what is wrong with an expression and everything below it."""
        match expr:
            case typed.Select():
                self._select(expr, names)
                return
            case typed.MapOver(variable, subject, body):
                self.check(subject, names)
                self.check(body, self.bind(names, (variable,)))
            case typed.Case(subject, branches):
                self.check(subject, names)
                for branch in branches:
                    self._pattern(branch.pattern, subject.type)
                    self.check(branch.body, self.bind(names, tuple(binders(branch.pattern))))
            case typed.Repeat(variables, initial, step, _, limit):
                for part in (*initial, *([limit] if limit is not None else [])):
                    self.check(part, names)
                inner = self.bind(names, variables)
                for part in step:
                    self.check(part, inner)
            case typed.Fold(function, zero, operand):
                self.check(zero, names)
                self.check(operand, names)
                takes = (zero.type, element_of(operand.type))
                self._lambda(function, takes, expr.type, names, "the function of fold")
            case typed.Read(source):
                for place in (source.path, source.host, source.port):
                    if place is not None:
                        self.check(place, names)
            case _:
                for part in children(expr):
                    self.check(part, names)
        reason = self._wrong(expr, names)
        self.require(reason is None, f"{type(expr).__name__} {str(expr.span.text)!r}: {reason}")

    def _pattern(self, pattern: typed.Pattern, subject: Type) -> None:
        self.problems.extend(check_pattern(pattern, subject, self.script.data))

    def _select(self, query: typed.Select, outer: Names) -> None:
        names = outer
        for qualifier in query.qualifiers:
            names = self._qualifier(qualifier, names)
        if query.where is not None:
            self.check(query.where, names)
            self.require(query.where.type == BOOL, "where is a condition")
        if query.group is not None:
            names = self._group(query.group, names, outer)
        if query.having is not None:
            self.check(query.having, names)
            self.require(query.having.type == BOOL, "having is a condition")
        for part in (query.head, *(key.expr for key in query.order)):
            self.check(part, names)
        if query.limit is not None:
            self.check(query.limit, outer)
            self.require(query.limit.type == LONG, "a limit is a long")
        wanted = list_of(query.head.type) if query.order else bag(query.head.type)
        self.require(query.type == wanted, f"the query is {query.type}, its rows say {wanted}")

    def _qualifier(self, qualifier: typed.Qualifier, names: Names) -> Names:
        match qualifier:
            case typed.Generator(pattern, domain):
                self.check(domain, names)
                fits = isinstance(domain.type, Collection) or domain.type in (JSON, ANY, NOTHING)
                self.require(fits, f"a domain is {domain.type}")
                self._pattern(pattern, element_of(domain.type))
                return self.bind(names, tuple(binders(pattern)))
            case typed.Binding(pattern, value):
                self.check(value, names)
                self._pattern(pattern, value.type)
                return self.bind(names, tuple(binders(pattern)))
            case typed.Condition(condition):
                self.check(condition, names)
                self.require(condition.type == BOOL, "a condition is a bool")
                return names

    def _group(self, group: typed.Group, names: Names, outer: Names) -> Names:
        for key, pattern in zip(group.keys, group.patterns, strict=True):
            self.check(key, names)
            self._pattern(pattern, key.type)
        for row in group.rows:
            self.require(names.get(row.number) is row, f"{row.name} is no variable of the rows")
        for row, many in group.lifted:
            self.require(row in group.rows, f"{row.name} is lifted and no row")
            self.require(many.type == bag(row.type), f"{many.name} is {many.type} in the group")
        fields = tuple((row.name, row.type) for row in group.rows)
        self.require(group.partition.type == bag(Record(fields)), "partition")
        keys = tuple(variable for pattern in group.patterns for variable in binders(pattern))
        lifted = tuple(many for _, many in group.lifted)
        return self.bind(outer, (*keys, *lifted, group.partition))

    def _wrong(self, expr: typed.Expr, names: Names) -> str | None:
        """Why the node's type does not follow from its parts, if it does not."""
        for rule in (self._wrong_name, wrong_value, wrong_operation, wrong_access):
            if (reason := rule(expr, names)) is not None:
                return reason
        return self._wrong_call(expr)

    def _wrong_name(self, expr: typed.Expr, names: Names) -> str | None:
        match expr:
            case typed.Var(variable):
                if names.get(variable.number) is not variable:
                    return f"{variable.name} is not in scope"
                return differs(expr.type, variable.type)
            case typed.Global(key) | typed.Stored(key):
                if key not in self.known:
                    return f"{key} is not defined before"
                return differs(expr.type, self.known[key])
            case typed.Const(value):
                fits = inhabits(value, expr.type, self.script.data)
                return None if fits else f"{value!r} is no {expr.type}"
            case typed.MakeData(constructor, content):
                if constructor not in self.script.data[constructor.owner]:
                    return "unknown constructor"
                return differs(expr.type, Data(constructor.owner)) or differs(
                    content.type, constructor.content
                )
            case _:
                return None

    def _wrong_call(self, expr: typed.Expr) -> str | None:
        match expr:
            case typed.Call(name, arguments):
                function = self.script.functions[name]
                takes = Tuple(tuple(parameter.type for parameter in function.parameters))
                return differs(types_of(arguments), takes) or differs(expr.type, function.result)
            case typed.PythonCall(name, arguments):
                python = self.script.python[name]
                return differs(types_of(arguments), Tuple(python.parameters)) or differs(
                    expr.type, python.result
                )
            case typed.UserAggregate(name, operand):
                aggregation = self.script.aggregations[name]
                return differs(element_of(operand.type), aggregation.element) or differs(
                    expr.type, aggregation.type
                )
            case typed.Builtin():
                return check_builtin(expr)
            case typed.Aggregate():
                return check_aggregate(expr)
            case _:
                return None


# --- rules that need nothing but the node ------------------------------------------------


def differs(actual: Type, wanted: Type) -> str | None:
    """How two types that should be one differ."""
    return None if actual == wanted else f"is {actual}, not {wanted}"


def types_of(exprs: tuple[typed.Expr, ...]) -> Tuple:
    """The types of several expressions."""
    return Tuple(tuple(expr.type for expr in exprs))


def element_of(type_: Type) -> Type:
    """What a collection holds, or a tree that is ranged over."""
    return type_.element if isinstance(type_, Collection) else type_


def wrong_value(expr: typed.Expr, _names: Names) -> str | None:
    """Values that are made, and leaves."""
    match expr:
        case typed.ScriptArguments():
            return differs(expr.type, list_of(STRING))
        case typed.Read():
            is_bag = isinstance(expr.type, Collection) and expr.type.kind == "bag"
            return None if is_bag else "rows are a bag"
        case typed.MakeTuple(items):
            return differs(expr.type, types_of(items))
        case typed.MakeRecord(items):
            if not isinstance(expr.type, Record):
                return "a record has the type of one"
            types = tuple(type_ for _, type_ in expr.type.fields)
            return differs(types_of(items), Tuple(types))
        case typed.MakeCollection(items):
            if not isinstance(expr.type, Collection):
                return "a collection has the type of one"
            return _first(differs(item.type, expr.type.element) for item in items)
        case typed.Concat(parts):
            return _first(differs(part.type, expr.type) for part in parts)
        case typed.RangeOf(first, last):
            bounds = differs(first.type, LONG) or differs(last.type, LONG)
            return bounds or differs(element_of(expr.type), LONG)
        case _:
            return None


def _first(reasons: Iterator[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)


def wrong_operation(expr: typed.Expr, _names: Names) -> str | None:
    """Operators, conversions and conditionals."""
    match expr:
        case typed.Arithmetic():
            return _wrong_arithmetic(expr)
        case typed.Negate(operand):
            computed = expr.type in (INT, LONG, DOUBLE, NOTHING) or isinstance(expr.type, Decimal)
            return differs(operand.type, expr.type) if computed else f"negated as {expr.type}"
        case typed.Compare(_, left, right):
            return differs(left.type, right.type) or differs(expr.type, BOOL)
        case typed.Logic(_, left, right):
            return _first(differs(type_, BOOL) for type_ in (left.type, right.type, expr.type))
        case typed.Not(operand):
            return differs(operand.type, BOOL) or differs(expr.type, BOOL)
        case typed.IsNull():
            return differs(expr.type, BOOL)
        case typed.Exists(operand):
            is_collection = isinstance(operand.type, Collection)
            return differs(expr.type, BOOL) if is_collection else f"exists of {operand.type}"
        case typed.Combine(_, left, right):
            wanted = bag(element_of(expr.type))
            return _first(differs(type_, wanted) for type_ in (left.type, right.type, expr.type))
        case typed.Widen(operand):
            fits = operand.type != expr.type and widens(operand.type, expr.type)
            return None if fits else f"{operand.type} does not widen to {expr.type}"
        case typed.Cast(operand):
            fits = castable(operand.type, expr.type)
            return None if fits else f"{operand.type} cannot be cast to {expr.type}"
        case typed.If(condition, then, otherwise):
            branches = differs(then.type, expr.type) or differs(otherwise.type, expr.type)
            return branches or differs(condition.type, BOOL)
        case typed.Case(_, branches):
            return _first(differs(branch.body.type, expr.type) for branch in branches)
        case typed.Trace(operand):
            return differs(operand.type, expr.type)
        case typed.Repeat():
            return _wrong_repeat(expr)
        case typed.Fold(_, zero, _):
            return differs(zero.type, expr.type)
        case _:
            return None


def _wrong_arithmetic(expr: typed.Arithmetic) -> str | None:
    left, right = expr.left.type, expr.right.type
    if isinstance(expr.type, Decimal):
        fits = isinstance(left, Decimal) and isinstance(right, Decimal)
        return None if fits else f"a decimal of {left} and {right}"
    if expr.type == STRING and expr.op != "+":
        return f"strings with {expr.op}"
    if expr.type not in (INT, LONG, DOUBLE, STRING, NOTHING):
        return f"computed as {expr.type}"
    return differs(left, expr.type) or differs(right, expr.type)


def _wrong_repeat(expr: typed.Repeat) -> str | None:
    types = tuple(variable.type for variable in expr.variables)
    whole = types[0] if len(types) == 1 else Tuple(types)
    steps = tuple(
        Collection(type_.kind, Tuple((type_.element, BOOL)))
        if flagged and isinstance(type_, Collection)
        else type_
        for type_, flagged in zip(types, expr.flagged, strict=True)
    )
    limit = LONG if expr.limit is None else expr.limit.type
    return (
        differs(types_of(expr.initial), Tuple(types))
        or differs(types_of(expr.step), Tuple(steps))
        or differs(expr.type, whole)
        or differs(limit, LONG)
    )


def wrong_access(expr: typed.Expr, _names: Names) -> str | None:
    """Taking values apart."""
    match expr:
        case typed.Field(subject, name):
            field_type = subject.type.field(name) if isinstance(subject.type, Record) else None
            return differs(expr.type, field_type) if field_type is not None else f"no field {name}"
        case typed.Item(subject, index):
            items = subject.type.items if isinstance(subject.type, Tuple) else ()
            return differs(expr.type, items[index]) if index < len(items) else f"no item {index}"
        case typed.Navigate():
            return _wrong_step(expr)
        case typed.At(subject, index):
            if subject.type in (JSON, ANY):
                fits = index.type in (LONG, STRING)
                return differs(expr.type, subject.type) if fits else f"index {index.type}"
            is_list = subject.type == list_of(element_of(subject.type))
            wanted = differs(expr.type, element_of(subject.type)) or differs(index.type, LONG)
            return wanted if is_list else f"indexed {subject.type}"
        case typed.LookUp(subject, key):
            return differs(element_of(subject.type), Tuple((key.type, expr.type)))
        case typed.SliceOf(subject, first, last):
            is_list = subject.type == list_of(element_of(subject.type))
            bounds = differs(first.type, LONG) or differs(last.type, LONG)
            return bounds or (differs(expr.type, subject.type) if is_list else "not a list")
        case typed.MapOver(variable, subject, body, flatten):
            return _wrong_map(expr, variable, subject, (body, flatten))
        case _:
            return None


def _wrong_step(expr: typed.Navigate) -> str | None:
    wanted: dict[str, tuple[Type, Type]] = {
        "children": (XML, list_of(XML)),
        "attribute": (XML, STRING),
        "attributes": (XML, bag(Tuple((STRING, STRING)))),
        "member": (JSON, JSON),
        "dynamic": (ANY, ANY),
    }
    subject, result = wanted[expr.kind]
    return differs(expr.subject.type, subject) or differs(expr.type, result)


def _wrong_map(
    expr: typed.MapOver,
    variable: typed.Variable,
    subject: typed.Expr,
    inside: tuple[typed.Expr, bool],
) -> str | None:
    body, flatten = inside
    if not isinstance(subject.type, Collection):
        return f"mapped over {subject.type}"
    if flatten and not isinstance(body.type, Collection):
        return f"flattens {body.type}"
    one = element_of(body.type) if flatten else body.type
    return differs(variable.type, subject.type.element) or differs(
        expr.type, Collection(subject.type.kind, one)
    )


# --- walking -----------------------------------------------------------------------------


def children(expr: typed.Expr) -> tuple[typed.Expr, ...]:
    """The expressions directly below one that binds no variables."""
    match expr:
        case (
            typed.Const() | typed.Var() | typed.Global() | typed.Stored()
            | typed.ScriptArguments() | typed.Read()
        ):  # fmt: skip
            return ()
        case (
            typed.MakeTuple(parts) | typed.MakeRecord(parts) | typed.MakeCollection(parts)
            | typed.Concat(parts) | typed.Call(_, parts) | typed.PythonCall(_, parts)
            | typed.Builtin(_, parts)
        ):  # fmt: skip
            return parts
        case (
            typed.MakeData(_, part) | typed.Negate(part) | typed.Not(part) | typed.Exists(part)
            | typed.IsNull(part)
            | typed.Widen(part) | typed.Cast(part) | typed.Field(part, _) | typed.Item(part, _)
            | typed.Navigate(_, part, _) | typed.Trace(part, _) | typed.UserAggregate(_, part)
        ):  # fmt: skip
            return (part,)
        case (
            typed.RangeOf(first, second) | typed.Arithmetic(_, first, second)
            | typed.Compare(_, first, second) | typed.Logic(_, first, second)
            | typed.Combine(_, first, second) | typed.At(first, second)
            | typed.LookUp(first, second)
        ):  # fmt: skip
            return (first, second)
        case typed.SliceOf(subject, first, last):
            return (subject, first, last)
        case typed.If(condition, then, otherwise):
            return (condition, then, otherwise)
        case typed.Aggregate(_, operand, extra):
            return (operand,) if extra is None else (operand, extra)
        case typed.MapOver() | typed.Case() | typed.Repeat() | typed.Fold() | typed.Select():
            raise AssertionError("these bind variables")
        case typed.Window():
            raise AssertionError("only queries of Spark have windows")
        case _:
            assert_never(expr)
