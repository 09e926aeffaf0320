"""Structs, arrays, and functions of the elements of arrays."""

from __future__ import annotations

from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.expressions.rules import (
    Rules,
    call,
    compare,
    const,
    either,
    failure,
    is_null,
    let,
    null,
    rule,
    type_of,
    when,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import Scope
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, Collection, Record, Tuple, Type, list_of


def element_of(array: typed.Expr, node: PlanNode) -> Type:
    """The type of the elements of an array."""
    if not isinstance(array.type, Collection):
        raise Refused("C104", f"{node.name} of {array.type} is not converted yet", node=node)
    return array.type.element


# --- Making and taking apart ---


def _struct(node: PlanNode, scope: Scope) -> typed.Expr:
    """The values of a struct; every second child is a name, which the type has too."""
    return typed.MakeRecord(tuple(scope.expressions(node["children"][1::2])), type=type_of(node))


def _field(node: PlanNode, scope: Scope) -> typed.Expr:
    subject = scope.expression(node["child"])
    if not isinstance(subject.type, Record):
        return null(type_of(node))  # of a struct that is refused
    return build.field(subject, subject.type.names[node["ordinal"]])


def _array(node: PlanNode, scope: Scope) -> typed.Expr:
    return typed.MakeCollection(tuple(scope.expressions(node["children"])), type=type_of(node))


def _item(node: PlanNode, scope: Scope) -> typed.Expr:
    """An element by its place, from 0; null or a failure where there is none."""
    array, index = scope.expressions((node["child"], node["ordinal"]))
    return let(
        scope,
        array,
        lambda a: let(
            scope, index, lambda i: element_at(a, i, fails=bool(node["failOnError"]), node=node)
        ),
    )


def element_at(array: typed.Expr, index: typed.Expr, *, fails: bool, node: PlanNode) -> typed.Expr:
    """The element at an index from 0."""
    type_ = element_of(array, node)
    size = call("spark.size", [array], INT)
    place = typed.Widen(index, type=LONG) if index.type != LONG else index
    inside = typed.Logic(
        "and",
        compare(">=", place, const(0, LONG)),
        compare("<", place, typed.Widen(size, type=LONG)),
        type=BOOL,
    )
    element = typed.At(array, place, type=type_)
    if not fails:
        return when(inside, element, null(type_))
    missing = either([is_null(array), is_null(index)])
    outside = failure("the index is outside of the array", type_)
    return when(inside, element, when(missing, null(type_), outside))


def _size(node: PlanNode, scope: Scope) -> typed.Expr:
    array = scope.expression(node["child"])
    element_of(array, node)
    if not node["legacySizeOfNull"]:
        return call("spark.size", [array], INT)
    return call("spark.coalesce", [call("spark.size", [array], INT), const(-1, INT)], INT)


# --- Functions of elements ---


def _parameters(function: PlanNode, scope: Scope, count: int) -> tuple[list[typed.Variable], Scope]:
    """The variables of a lambda, and the scope of its body."""
    arguments = function["arguments"]
    if function.name != "LambdaFunction" or len(arguments) != count:
        raise Refused("C104", "a function with these parameters is not converted", node=function)
    variables = [scope.names.variable(a["name"], type_of(a)) for a in arguments]
    values = {
        argument["exprId"]: build.var(variable)
        for argument, variable in zip(arguments, variables, strict=True)
    }
    return variables, scope.with_columns(values)


def _over(
    array: typed.Expr, function: PlanNode, scope: Scope, node: PlanNode
) -> tuple[typed.Variable, typed.Expr, typed.Expr, typed.Expr]:
    """The variable of elements, the collection, the element and the body of a lambda over it.

    A lambda with two parameters gets the place of the element too, from 0.
    """
    element = element_of(array, node)
    if len(function["arguments"]) == 1:
        (variable,), inner = _parameters(function, scope, 1)
        return variable, array, build.var(variable), inner.expression(function["function"])
    pair = scope.names.variable("pair", Tuple((element, LONG)))
    first = build.item(build.var(pair), 0)
    place = typed.Cast(build.item(build.var(pair), 1), "try", type=INT)
    arguments = function["arguments"]
    if len(arguments) != 2:
        raise Refused("C104", "a function with these parameters is not converted", node=function)
    inner = scope.with_columns({arguments[0]["exprId"]: first, arguments[1]["exprId"]: place})
    numbered = call("index", [array], list_of(pair.type))
    known = when(is_null(array), null(list_of(pair.type)), numbered)
    return pair, known, first, inner.expression(function["function"])


def _transform(node: PlanNode, scope: Scope) -> typed.Expr:
    array = scope.expression(node["argument"])
    variable, subject, _, body = _over(array, node["function"], scope, node)
    return typed.MapOver(variable, subject, body, False, type=list_of(body.type))


def _filter(node: PlanNode, scope: Scope) -> typed.Expr:
    """The elements for which a condition is true, in their order."""
    array = scope.expression(node["argument"])
    variable, subject, element, body = _over(array, node["function"], scope, node)
    type_ = list_of(element.type)
    kept = typed.MakeCollection((element,), type=type_)
    none = typed.MakeCollection((), type=type_)
    return typed.MapOver(variable, subject, when(body, kept, none), True, type=type_)


def _some(
    array: typed.Expr, function: PlanNode, scope: Scope, node: PlanNode, *, of_null: bool = False
) -> typed.Expr:
    """Whether a condition is true, or null, of some element; never null."""
    variable, subject, _, body = _over(array, function, scope, node)
    test = is_null(body) if of_null else body
    tests = typed.MapOver(variable, subject, test, False, type=list_of(BOOL))
    return typed.Aggregate("some", tests, type=BOOL)


def _exists(node: PlanNode, scope: Scope) -> typed.Expr:
    function, three = node["function"], node["followThreeValuedLogic"]

    def over(array: typed.Expr) -> typed.Expr:
        some = _some(array, function, scope, node)
        rest: typed.Expr = const(False, BOOL)
        if three:
            unknown = _some(array, function, scope, node, of_null=True)
            rest = when(unknown, null(BOOL), const(False, BOOL))
        return when(is_null(array), null(BOOL), when(some, const(True, BOOL), rest))

    return let(scope, scope.expression(node["argument"]), over)


def _for_all(node: PlanNode, scope: Scope) -> typed.Expr:
    function = node["function"]

    def over(array: typed.Expr) -> typed.Expr:
        variable, subject, _, body = _over(array, function, scope, node)
        opposite = typed.Not(body, type=BOOL)
        tests = typed.MapOver(variable, subject, opposite, False, type=list_of(BOOL))
        fails = typed.Aggregate("some", tests, type=BOOL)
        unknown = _some(array, function, scope, node, of_null=True)
        rest = when(unknown, null(BOOL), const(True, BOOL))
        return when(is_null(array), null(BOOL), when(fails, const(False, BOOL), rest))

    return let(scope, scope.expression(node["argument"]), over)


def _aggregate(node: PlanNode, scope: Scope) -> typed.Expr:
    """A fold over an array in its order, and a function of its result."""
    merge, finish = node["merge"], node["finish"]
    array, zero = scope.expressions((node["argument"], node["zero"]))
    element_of(array, node)
    parameters, inside = _parameters(merge, scope, 2)
    function = typed.Lambda(tuple(parameters), inside.expression(merge["function"]))
    if function.body.type != parameters[0].type or zero.type != parameters[0].type:
        raise Refused("C104", "an aggregate of several types is not converted yet", node=node)

    def over(value: typed.Expr) -> typed.Expr:
        total = typed.Fold(function, zero, value, type=zero.type)
        return when(is_null(value), null(total.type), total)

    folded = let(scope, array, over)
    (last,), after = _parameters(finish, scope, 1)
    body = after.expression(finish["function"])
    finished = typed.Case(folded, (typed.Branch(typed.Bind(last), body),), type=body.type)
    return let(scope, array, lambda value: when(is_null(value), null(body.type), finished))


COLLECTIONS: Final[Rules] = {
    "CreateNamedStruct": rule(_struct, "children"),
    "GetStructField": rule(_field, "child", "ordinal", ignores=("name",)),
    "CreateArray": rule(_array, "children", ignores=("useStringTypeWhenEmpty",)),
    "GetArrayItem": rule(_item, "child", "ordinal", "failOnError"),
    "Size": rule(_size, "child", "legacySizeOfNull"),
    "ArrayTransform": rule(_transform, "argument", "function"),
    "ArrayFilter": rule(_filter, "argument", "function"),
    "ArrayExists": rule(_exists, "argument", "function", "followThreeValuedLogic"),
    "ArrayForAll": rule(_for_all, "argument", "function"),
    "ArrayAggregate": rule(_aggregate, "argument", "zero", "merge", "finish"),
}
"""Classes of structs and arrays."""
