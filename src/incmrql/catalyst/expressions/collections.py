"""Structs, arrays, and functions of the elements of arrays."""

from __future__ import annotations

from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.expressions.maps import value_at
from incmrql.catalyst.expressions.rules import (
    Rule,
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
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import (
    BOOL,
    INT,
    LONG,
    NOTHING,
    STRING,
    Collection,
    Record,
    Tuple,
    Type,
    is_integer,
    is_map,
    list_of,
)


def element_of(array: typed.Expr, node: PlanNode) -> Type:
    """The type of the elements of an array."""
    if array.type == NOTHING:
        return NOTHING  # of an array that is refused
    if not isinstance(array.type, Collection):
        raise Refused("C104", f"{node.name} of {array.type} is not converted yet", node=node)
    return array.type.element


# --- Making and taking apart ---


def _struct(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The values of a struct; every second child is a name, which the type has too."""
    return typed.MakeRecord(tuple(scope.expressions(node["children"][1::2])), type=type_of(node))


def _field(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    subject = scope.expression(node["child"])
    if not isinstance(subject.type, Record):
        return null(type_of(node))  # of a struct that is refused
    return build.field(subject, subject.type.names[node["ordinal"]])


def _array(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return typed.MakeCollection(tuple(scope.expressions(node["children"])), type=type_of(node))


def _item(node: PlanNode, scope: ColumnScope) -> typed.Expr:
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


def _size(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    array = scope.expression(node["child"])
    element_of(array, node)
    if not node["legacySizeOfNull"]:
        return call("spark.size", [array], INT)
    return call("spark.coalesce", [call("spark.size", [array], INT), const(-1, INT)], INT)


# --- Functions of elements ---


def _parameters(
    function: PlanNode, scope: ColumnScope, count: int
) -> tuple[list[typed.Variable], ColumnScope]:
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
    array: typed.Expr, function: PlanNode, scope: ColumnScope, node: PlanNode
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


def _transform(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    array = scope.expression(node["argument"])
    variable, subject, _, body = _over(array, node["function"], scope, node)
    return typed.MapOver(variable, subject, body, False, type=list_of(body.type))


def _filter(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The elements for which a condition is true, in their order."""
    array = scope.expression(node["argument"])
    variable, subject, element, body = _over(array, node["function"], scope, node)
    type_ = list_of(element.type)
    kept = typed.MakeCollection((element,), type=type_)
    none = typed.MakeCollection((), type=type_)
    return typed.MapOver(variable, subject, when(body, kept, none), True, type=type_)


def _some(
    array: typed.Expr,
    function: PlanNode,
    scope: ColumnScope,
    node: PlanNode,
    *,
    of_null: bool = False,
) -> typed.Expr:
    """Whether a condition is true, or null, of some element; never null."""
    variable, subject, _, body = _over(array, function, scope, node)
    test = is_null(body) if of_null else body
    tests = typed.MapOver(variable, subject, test, False, type=list_of(BOOL))
    return typed.Aggregate("some", tests, type=BOOL)


def _exists(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    function, three = node["function"], node["followThreeValuedLogic"]

    def over(array: typed.Expr) -> typed.Expr:
        some = _some(array, function, scope, node)
        rest: typed.Expr = const(False, BOOL)
        if three:
            unknown = _some(array, function, scope, node, of_null=True)
            rest = when(unknown, null(BOOL), const(False, BOOL))
        return when(is_null(array), null(BOOL), when(some, const(True, BOOL), rest))

    return let(scope, scope.expression(node["argument"]), over)


def _for_all(node: PlanNode, scope: ColumnScope) -> typed.Expr:
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


def _aggregate(node: PlanNode, scope: ColumnScope) -> typed.Expr:
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


# --- Functions of arrays ---


def _element(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """An element by its place from 1, or from the end; there is no place 0."""
    array, index = scope.expressions((node["left"], node["right"]))
    if is_map(array.type):
        return value_at(array, index, node, scope)
    type_ = element_of(array, node)
    default = node.fields.get("defaultValueOutOfBound")
    if isinstance(default, PlanNode):
        missing = scope.expression(default)
    elif node["failOnError"]:
        missing = failure("the index is outside of the array", type_)
    else:
        missing = null(type_)

    def at(a: typed.Expr, i: typed.Expr) -> typed.Expr:
        size = typed.Widen(call("spark.size", [a], INT), type=LONG)
        place = typed.Widen(i, type=LONG) if i.type != LONG else i
        zero, one = const(0, LONG), const(1, LONG)
        first = when(compare(">", place, zero), _sum("-", place, one), _sum("+", size, place))
        inside = typed.Logic(
            "and", compare(">=", first, zero), compare("<", first, size), type=BOOL
        )
        no_place = failure("an array has no place 0", type_)
        known = when(inside, typed.At(a, first, type=type_), missing)
        unknown = either([is_null(a), is_null(i)])
        return when(unknown, null(type_), when(compare("=", place, zero), no_place, known))

    return let(scope, array, lambda a: let(scope, index, lambda i: at(a, i)))


def _sum(op: typed.ArithmeticOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    return typed.Arithmetic(op, left, right, "try", type=LONG)


def _struct_fields(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """A field of every struct of an array."""
    array = scope.expression(node["child"])
    element = element_of(array, node)
    if not isinstance(element, Record):
        raise Refused("C104", f"a field of {element} is not converted yet", node=node)
    variable = scope.names.variable("element", element)
    body = build.field(build.var(variable), element.names[node["ordinal"]])
    return typed.MapOver(variable, array, body, False, type=list_of(body.type))


def _of_arrays(function: str, *names: str, mode: typed.Mode = "try") -> Rule:
    """A function whose first operand is an array."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operands = scope.expressions([node[name] for name in names])
        element_of(operands[0], node)
        return call(function, operands, type_of(node), mode)

    return rule(convert, *names)


def _array_insert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """An array with a value at a place, which fails at the place 0."""
    array, place, item = scope.expressions(
        (node["srcArrayExpr"], node["posExpr"], node["itemExpr"])
    )
    if node["legacyNegativeIndex"] or element_of(array, node) != item.type:
        raise Refused("C104", "array_insert of another type, or by old rules", node=node)

    def insert(a: typed.Expr, p: typed.Expr) -> typed.Expr:
        type_ = type_of(node)
        no_place = failure("an array has no place 0", type_)
        inserted = call("spark.array_insert", [a, p, item], type_)
        zero = when(compare("=", p, const(0, INT)), no_place, inserted)
        return when(either([is_null(a), is_null(p)]), null(type_), zero)

    return let(scope, array, lambda a: let(scope, place, lambda p: insert(a, p)))


def _array_repeat(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    value, times = scope.expressions((node["left"], node["right"]))
    return call("spark.array_repeat", [value, times], type_of(node))


def _join(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operands = scope.expressions((node["array"], node["delimiter"]))
    replacement = node.fields.get("nullReplacement")
    if isinstance(replacement, PlanNode):
        operands.append(scope.expression(replacement))
    return call("spark.array_join", operands, STRING)


def _reverse(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operand = scope.expression(node["child"])
    function = "spark.reverse" if operand.type == STRING else "spark.array_reverse"
    return call(function, [operand], operand.type)


def _sequence(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The integers between two bounds."""
    type_ = type_of(node)
    assert isinstance(type_, Collection)
    if not is_integer(type_.element):
        raise Refused("C104", f"a sequence of {type_.element} is not converted yet", node=node)
    bounds = scope.expressions((node["start"], node["stop"]))
    first, last = (b if b.type == LONG else typed.Widen(b, type=LONG) for b in bounds)
    step = node.fields.get("stepOpt")
    if isinstance(step, PlanNode):
        by = scope.expression(step)
        by = by if by.type == LONG else typed.Widen(by, type=LONG)
    else:
        by = when(compare("<=", first, last), const(1, LONG), const(-1, LONG))
    numbers = call("spark.sequence", [first, last, by], list_of(LONG), "ansi")
    if type_.element == LONG:
        return numbers
    variable = scope.names.variable("number", LONG)
    body = typed.Cast(build.var(variable), "ansi", type=type_.element)
    return typed.MapOver(variable, numbers, body, False, type=type_)


def _raise(node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    """An error that the query raises itself, where its value is used."""
    return failure("the query raises an error here", type_of(node))


def _update_struct(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """A struct with fields set, added or dropped."""
    subject, target = scope.expression(node["structExpr"]), type_of(node)
    if not isinstance(subject.type, Record) or not isinstance(target, Record):
        raise Refused("C104", f"fields of {subject.type} are not converted yet", node=node)

    def over(value: typed.Expr) -> typed.Expr:
        assert isinstance(value.type, Record)
        assert isinstance(target, Record)
        fields = {name.lower(): build.field(value, name) for name in value.type.names}
        for change in node["fieldOps"]:
            if change.name == "WithField":
                fields[change["name"].lower()] = scope.expression(change["valExpr"])
            elif change.name == "DropField":
                fields.pop(change["name"].lower(), None)
            else:
                raise Refused("C101", f"{change.name} of Spark is not known here", node=node)
        record = typed.MakeRecord(tuple(fields[name.lower()] for name in target.names), type=target)
        return when(is_null(value), null(target), record)

    return let(scope, subject, over)


COLLECTIONS: Final[Rules] = {
    "CreateNamedStruct": rule(_struct, "children"),
    "GetStructField": rule(_field, "child", "ordinal", ignores=("name",)),
    "CreateArray": rule(_array, "children", ignores=("useStringTypeWhenEmpty",)),
    "GetArrayItem": rule(_item, "child", "ordinal", "failOnError"),
    "Size": rule(_size, "child", "legacySizeOfNull"),
    "ElementAt": rule(_element, "left", "right", "defaultValueOutOfBound", "failOnError"),
    "GetArrayStructFields": rule(
        _struct_fields, "child", "ordinal", ignores=("field", "numFields", "containsNull")
    ),
    "ArrayContains": _of_arrays("spark.array_contains", "left", "right"),
    "ArrayPosition": _of_arrays("spark.array_position", "left", "right"),
    "ArrayRemove": _of_arrays("spark.array_remove", "left", "right"),
    "ArrayDistinct": _of_arrays("spark.array_distinct", "child"),
    "ArrayUnion": _of_arrays("spark.array_union", "left", "right"),
    "ArrayIntersect": _of_arrays("spark.array_intersect", "left", "right"),
    "ArrayExcept": _of_arrays("spark.array_except", "left", "right"),
    "ArraysOverlap": _of_arrays("spark.arrays_overlap", "left", "right"),
    "Slice": _of_arrays("spark.slice", "x", "start", "length", mode="ansi"),
    "ArrayInsert": rule(
        _array_insert, "srcArrayExpr", "posExpr", "itemExpr", "legacyNegativeIndex"
    ),
    "ArrayJoin": rule(_join, "array", "delimiter", "nullReplacement"),
    "Flatten": _of_arrays("spark.flatten", "child"),
    "ArrayRepeat": rule(_array_repeat, "left", "right"),
    "ArrayMin": _of_arrays("spark.array_min", "child"),
    "ArrayMax": _of_arrays("spark.array_max", "child"),
    "SortArray": _of_arrays("spark.sort_array", "base", "ascendingOrder"),
    "Reverse": rule(_reverse, "child"),
    "Sequence": rule(_sequence, "start", "stop", "stepOpt", ignores=("timeZoneId",)),
    "RaiseError": rule(_raise, ignores=("errorClass", "errorParms", "dataType")),
    "UpdateFields": rule(_update_struct, "structExpr", "fieldOps"),
    "ArrayTransform": rule(_transform, "argument", "function"),
    "ArrayFilter": rule(_filter, "argument", "function"),
    "ArrayExists": rule(_exists, "argument", "function", "followThreeValuedLogic"),
    "ArrayForAll": rule(_for_all, "argument", "function"),
    "ArrayAggregate": rule(_aggregate, "argument", "zero", "merge", "finish"),
}
"""Classes of structs and arrays."""
