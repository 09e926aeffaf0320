"""Scalar expressions of plans: which are converted, and to what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from incmrql.algebra.rows import var
from incmrql.catalyst import PlanNode, PlanValue
from incmrql.catalyst.classes import ONLY_BELOW
from incmrql.catalyst.expressions import SCALARS, convert_expression
from incmrql.catalyst.expressions.dispatch import RULES
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope, Conversion
from incmrql.catalyst.types import model_type
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import NOTHING, Type
from incmrql.types.show import show_expr
from incmrql.values import Value
from tests.catalyst.pool import read_plans


def no_plan(node: PlanNode, _scope: object = None) -> Any:
    raise AssertionError(f"{node.name} is no scalar expression")


def subquery(node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    return typed.Const(None, type=model_type(node["$type"]))


def scope_of(columns: dict[int, Type]) -> ColumnScope:
    """A scope in which every column is a variable of its own."""
    conversion = Conversion(no_plan, no_plan, convert_expression, subquery)
    values = {
        key: var(conversion.names.variable(f"c{key}_", type_)) for key, type_ in columns.items()
    }
    return ColumnScope(conversion, values)


def inside(value: PlanValue) -> Iterator[PlanNode]:
    if isinstance(value, PlanNode):
        yield value
        for name, part in value.fields.items():
            if name != "$type":
                yield from inside(part)
    elif isinstance(value, tuple):
        for part in value:
            yield from inside(part)


def columns_of(plan: PlanNode) -> dict[int, Type]:
    """The columns that occur in a plan, those with a type that is refused without one."""
    columns: dict[int, Type] = {}
    for node in inside(plan):
        if node.name in ("AttributeReference", "Alias", "NamedLambdaVariable"):
            try:
                columns[node["exprId"]] = model_type(node["$type"])
            except Refused:
                columns[node["exprId"]] = NOTHING
    return columns


@pytest.mark.parametrize("pool", ["tpch", "tpcds"])
def test_every_scalar_expression_of_a_benchmark_is_converted(pool: str) -> None:
    unknown = set()
    for analyzed in read_plans(pool).values():
        scope = scope_of(columns_of(analyzed.plan))
        for node in inside(analyzed.plan):
            if node.name in RULES and _is_whole(node):
                scope.expression(node)
        unknown |= {problem.message for problem in scope.conversion.refusals.problems}
    assert not unknown


def _is_whole(node: PlanNode) -> bool:
    """Whether an expression has no aggregates in it, and is no interval, as its parts may be."""
    structural = ("AggregateExpression", "WindowExpression", "ListQuery")
    is_interval = node["$type"].name.endswith("IntervalType")
    return not is_interval and not any(part.name in structural for part in inside(node))


def test_expressions_of_all_shapes_are_converted_or_refused() -> None:
    """Nothing else is raised than a refusal, and every class has a row or is refused by name."""
    for pool in ("shapes", "frames"):
        for analyzed in read_plans(pool).values():
            scope = scope_of(columns_of(analyzed.plan))
            for node in inside(analyzed.plan):
                if node.name in RULES:
                    scope.expression(node)
            for problem in scope.conversion.refusals.problems:
                assert problem.code in ("C101", "C102", "C103", "C104", "C105")


# --- single expressions ---

INT = PlanNode("IntegerType")
LONG = PlanNode("LongType")
DOUBLE = PlanNode("DoubleType")
STRING = PlanNode("StringType", {"typeName": "string"})
DATE = PlanNode("DateType")
TIMESTAMP = PlanNode("TimestampType")
BOOLEAN = PlanNode("BooleanType")
MONTHS = PlanNode("YearMonthIntervalType", {"startField": 1, "endField": 1})
DAYS = PlanNode("DayTimeIntervalType", {"startField": 0, "endField": 0})


def literal(value: PlanValue, type_: PlanNode) -> PlanNode:
    return PlanNode("Literal", {"value": value, "dataType": type_, "$type": type_})


def node(class_name: str, type_: PlanNode, **fields: PlanValue) -> PlanNode:
    return PlanNode(class_name, {**fields, "$type": type_})


def column(number: int, type_: PlanNode) -> PlanNode:
    fields: dict[str, PlanValue] = {
        "name": "c", "dataType": type_, "nullable": True, "metadata": "{}", "exprId": number,
        "qualifier": (),
    }  # fmt: skip
    return PlanNode("AttributeReference", {**fields, "$type": type_})


def convert(expression: PlanNode) -> typed.Expr:
    columns = {n["exprId"]: model_type(n["dataType"]) for n in inside(expression)
               if n.name == "AttributeReference"}  # fmt: skip
    return convert_expression(expression, scope_of(columns))


def notation_of(expression: PlanNode) -> str:
    return show_expr(convert(expression))


def value_of(expression: PlanNode) -> Value:
    return evaluate(convert(expression), Environment(new_world(EMPTY_SCRIPT)))


def context(mode: str) -> PlanNode:
    return PlanNode("NumericEvalContext", {"evalMode": mode, "allowDecimalPrecisionLoss": True})


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("ANSI", "c1_1 + c2_2"), ("TRY", "try(c1_1 + c2_2)"), ("LEGACY", "legacy(c1_1 + c2_2)")],
)
def test_the_evaluation_mode_is_kept(mode: str, expected: str) -> None:
    sides = {"left": column(1, INT), "right": column(2, INT)}
    assert notation_of(node("Add", INT, **sides, evalContext=context(mode))) == expected
    assert notation_of(node("Add", INT, **sides, evalMode=mode)) == expected


def test_operations_on_constants_are_computed_at_once() -> None:
    months = literal(-1, MONTHS)
    day = literal(10_591, DATE)  # 1998-12-31
    assert notation_of(node("DateAddYMInterval", DATE, date=day, interval=months)) == (
        'date("1998-11-30")'
    )
    days = node("ExtractANSIIntervalDays", INT, child=literal(-90 * 86_400_000_000, DAYS))
    assert value_of(node("DateAdd", DATE, startDate=day, days=days)) == date(1998, 10, 2)


def test_a_constant_interval_is_taken_from_a_timestamp() -> None:
    """Spark writes `at - INTERVAL 30 MINUTES` as the sum of it and its opposite."""
    half_an_hour = literal(1_800_000_000, DAYS)
    before = node("UnaryMinus", DAYS, child=half_an_hour, failOnError=True)
    moment = literal(0, TIMESTAMP)
    assert value_of(
        node("TimestampAddInterval", TIMESTAMP, start=moment, interval=before, timeZoneId="UTC")
    ) == datetime(1969, 12, 31, 23, 30, tzinfo=UTC)
    after = node("UnaryMinus", DAYS, child=before, failOnError=True)
    assert value_of(
        node("TimestampAddInterval", TIMESTAMP, start=moment, interval=after, timeZoneId="UTC")
    ) == datetime(1970, 1, 1, 0, 30, tzinfo=UTC)


def test_a_constant_operation_that_fails_is_left_to_fail_where_it_is_used() -> None:
    sides = {"left": literal(1, INT), "right": literal(2**31 - 1, INT)}
    assert isinstance(
        convert(node("Add", INT, **sides, evalContext=context("ANSI"))), typed.Arithmetic
    )


def test_null_safe_equality_compares_tuples() -> None:
    same = node("EqualNullSafe", BOOLEAN, left=column(1, INT), right=literal(None, INT))
    assert notation_of(same) == "(c1_1) = (null)"


def test_in_is_a_disjunction_that_may_be_null() -> None:
    values = tuple(literal(n, INT) for n in (1, 2, None))
    assert value_of(node("In", BOOLEAN, value=literal(2, INT), list=values)) is True
    assert value_of(node("In", BOOLEAN, value=literal(3, INT), list=values)) is None
    assert value_of(node("In", BOOLEAN, value=literal(3, INT), list=values[:2])) is False


def test_cases_have_null_where_no_branch_holds() -> None:
    branches = (
        (literal(False, BOOLEAN), literal(1, INT)),
        (literal(None, BOOLEAN), literal(2, INT)),
    )
    assert value_of(node("CaseWhen", INT, branches=branches, elseValue=None)) is None
    assert value_of(node("CaseWhen", INT, branches=branches, elseValue=literal(3, INT))) == 3


def test_structs_and_arrays() -> None:
    fields = tuple(
        PlanNode("StructField", {"name": n, "dataType": INT, "nullable": True, "metadata": "{}"})
        for n in "ab"
    )
    struct = PlanNode("StructType", {"fields": fields})
    names = literal("a", STRING), literal("b", STRING)
    struct_value = node(
        "CreateNamedStruct", struct, children=(names[0], literal(1, INT), names[1], literal(2, INT))
    )
    assert value_of(node("GetStructField", INT, child=struct_value, ordinal=1, name="B")) == 2


def array(*values: int | None) -> PlanNode:
    type_ = PlanNode("ArrayType", {"elementType": INT, "containsNull": True})
    return node("CreateArray", type_, children=tuple(literal(v, INT) for v in values))


@pytest.mark.parametrize(("index", "expected"), [(0, 5), (1, None), (2, None), (-1, None)])
def test_elements_of_arrays_count_from_0(index: int, expected: int | None) -> None:
    item = node(
        "GetArrayItem", INT, child=array(5, None), ordinal=literal(index, INT), failOnError=True
    )
    assert value_of(item) == expected


def lambda_of(body: PlanNode, *parameters: PlanNode) -> PlanNode:
    return PlanNode("LambdaFunction", {"function": body, "arguments": parameters, "hidden": False})


def parameter(number: int, type_: PlanNode = INT) -> PlanNode:
    fields: dict[str, PlanValue] = {
        "name": "x", "dataType": type_, "nullable": True, "exprId": number,
    }  # fmt: skip
    return PlanNode("NamedLambdaVariable", {**fields, "$type": type_})


def greater(number: int) -> PlanNode:
    x = parameter(90)
    return lambda_of(node("GreaterThan", BOOLEAN, left=x, right=literal(number, INT)), x)


def test_functions_of_elements() -> None:
    x, i = parameter(90), parameter(91)
    sum_ = lambda_of(node("Add", INT, left=x, right=i, evalContext=context("ANSI")), x, i)
    ints = PlanNode("ArrayType", {"elementType": INT, "containsNull": True})
    numbers = array(5, 7, 9)
    assert value_of(node("ArrayTransform", ints, argument=numbers, function=sum_)) == [5, 8, 11]
    assert value_of(node("ArrayFilter", ints, argument=numbers, function=greater(6))) == [7, 9]
    finish = lambda_of(parameter(92), parameter(92))
    total = node(
        "ArrayAggregate", INT, argument=numbers, zero=literal(1, INT), merge=sum_, finish=finish
    )
    assert value_of(total) == 22


@pytest.mark.parametrize(
    ("values", "some", "every"),
    [((1, 9), True, False), ((1, None), None, False), ((9, None), True, None), ((), False, True),
     ((1,), False, False), ((9,), True, True)],
)  # fmt: skip
def test_quantifiers_are_three_valued(
    values: tuple[int | None, ...], some: bool | None, every: bool | None
) -> None:
    exists = node(
        "ArrayExists", BOOLEAN, argument=array(*values), function=greater(5),
        followThreeValuedLogic=True,
    )  # fmt: skip
    assert value_of(exists) is some
    assert value_of(node("ArrayForAll", BOOLEAN, argument=array(*values), function=greater(5))) is (
        every
    )


# --- refusals ---


def refusal(expression: PlanNode) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        convert(expression)
    return caught.value.code, caught.value.message


def test_unknown_classes_and_fields_are_refused_by_name() -> None:
    assert refusal(node("Frobnicate", INT)) == (
        "C101",
        f"Frobnicate of Spark is not known here; {ONLY_BELOW}",
    )
    new = node("Not", BOOLEAN, child=literal(True, BOOLEAN), strict=True)
    assert refusal(new) == ("C102", "Not has strict = True, which is not known here")


def test_zones_that_are_not_known_are_refused() -> None:
    cast = node(
        "Cast", TIMESTAMP, child=column(1, STRING), dataType=TIMESTAMP,
        timeZoneId="Europe/Atlantis", evalMode="ANSI",
    )  # fmt: skip
    assert refusal(cast)[1] == (
        "Cast computes in the time zone Europe/Atlantis, which is not known here"
    )


@pytest.mark.parametrize("word", ["now", " Today", "yesterday UTC"])
def test_words_for_the_time_of_the_query_are_refused(word: str) -> None:
    cast = node(
        "Cast", DATE, child=literal(word, STRING), dataType=DATE, timeZoneId="UTC", evalMode="ANSI"
    )
    assert refusal(cast)[0] == "C103"


def test_types_without_values_are_refused() -> None:
    for name in ("CalendarIntervalType", "VariantType"):
        assert refusal(literal((), PlanNode(name)))[0] == "C105"
    collated = PlanNode("StringType", {"typeName": "string collate UTF8_LCASE"})
    assert refusal(column(1, collated))[1] == (
        "the type string collate UTF8_LCASE compares strings by rules of its own"
    )


def test_every_class_has_one_row() -> None:
    assert set(RULES) <= set(SCALARS)
    assert all(SCALARS[name].level != "converted" for name in set(SCALARS) - set(RULES))
