"""Reference, DuckDB, Spark and the pinned kernel agree on every scalar operation, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from incmrql.engine.columns import pinned
from incmrql.errors import InternalError
from incmrql.io.arrow.values import plain_type, value_reader
from incmrql.io.json.values import to_json
from incmrql.lower import builtins, conversions, spark_functions
from incmrql.lower.literals import constant
from incmrql.lower.tree import Dialect, column, print_tree
from incmrql.reference.builtins import NULL_AWARE, STRICT
from incmrql.reference.spark.builtins import SPARK_NULL_AWARE, SPARK_STRICT
from incmrql.types.builtins import KEYS, key_of
from incmrql.types.model import (
    ANY,
    BOOL,
    BYTE,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    STRING,
    Decimal,
    Record,
    Tuple,
    Type,
    bag,
    is_scalar,
    list_of,
)
from incmrql.values import Bag, Value, identical, show
from incmrql.values import Record as RecordValue
from tests.lower.agreement import (
    COLLECTIONS,
    SCALARS,
    Case,
    arithmetic_cases,
    builtin_cases,
    comparison_cases,
    conversion_cases,
    differences,
    questions,
    stored_type,
)
from tests.lower.edges import edges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "arithmetic": arithmetic_cases,
    "comparisons": comparison_cases,
    "conversions": conversion_cases,
    "builtins": builtin_cases,
}
DIALECTS = tuple(Dialect)


@cache
def cases(family: str) -> tuple[Case, ...]:
    return tuple(FAMILIES[family]())


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_duckdb(family: str) -> None:
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        problems = []
        for question in questions(cases(family), 1):
            text, able = question.query(Dialect.DUCKDB)
            connection.register("arguments", question.table())
            table = connection.sql(text).to_arrow_table().sort_by("row0")
            for i, case in enumerate(able):
                problems += differences(case, table[f"r{i}"])
    assert not problems


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("family", FAMILIES)
def test_spark(family: str, ansi: str, spark: SparkSession) -> None:
    usual = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        problems = []
        for question in questions(cases(family), 8):
            text, able = question.query(Dialect.SPARK)
            spark.createDataFrame(question.table()).createOrReplaceTempView("arguments")
            table = spark.sql(text).toArrow().sort_by("row0")
            for i, case in enumerate(able):
                problems += differences(case, table[f"r{i}"])
    finally:
        spark.conf.set("spark.sql.ansi.enabled", usual or "false")
    assert not problems


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_pinned(family: str) -> None:
    problems = []
    for question in questions(cases(family), 1):
        table = question.table()
        for case in question.cases:
            if case.pin is not None:
                columns = [table[name] for name in question.names(case)]
                problems += differences(case, case.pin(columns))
    assert not problems


# --- what is native where -----------------------------------------------------------------


def signature(case: Case) -> str:
    shown = ["decimal" if isinstance(t, Decimal) else str(t) for t in case.parameters]
    return f"{case.name}({', '.join(shown)})"


def is_native(case: Case, dialect: Dialect) -> bool:
    return case.lower([column(f"a{i}") for i in range(len(case.parameters))], dialect) is not None


PINNED: dict[str, tuple[Dialect, ...]] = {
    # every library rounds these in its own way
    "acos(double)": DIALECTS,
    "asin(double)": DIALECTS,
    "atan(double)": DIALECTS,
    "cos(double)": DIALECTS,
    "exp(double)": DIALECTS,
    "log(double)": DIALECTS,
    "pow(double, double)": DIALECTS,
    "sin(double)": DIALECTS,
    "tan(double)": DIALECTS,
    # no engine rounds the number that a double exactly is
    "round(double, long)": DIALECTS,
    # both want the number of digits as a constant; where it is one, this is native
    "round(decimal, long)": DIALECTS,
    # the shortest digits: Java has them from 19 on only
    "string(double)": (Dialect.SPARK,),
    "string(float)": (Dialect.SPARK,),
    # RE2 as Arrow runs it
    "matches(string, string)": DIALECTS,
    "replaceAll(string, string, string)": DIALECTS,
    "replaceFirst(string, string, string)": DIALECTS,
    "split(string, string)": DIALECTS,
    # letters as Python knows them
    "toLowerCase(string)": DIALECTS,
    "toUpperCase(string)": DIALECTS,
}
"""The built-ins of scalars without a native form, and in which dialects."""
ELSEWHERE = ("random", "text", "tag", *COLLECTIONS)
"""Built-ins that are never native, or lowered with the collections that they are about."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_which_builtins_are_native(dialect: Dialect) -> None:
    pinned = {signature(case) for case in cases("builtins") if not is_native(case, dialect)}
    assert pinned == {name for name, where in PINNED.items() if dialect in where}


def test_the_tables_of_builtins_have_one_key() -> None:
    """Each signature has a meaning, and a native form unless it is pinned; there are no others."""
    keys = set(KEYS)
    meant = {*STRICT, *NULL_AWARE, *SPARK_STRICT, *SPARK_NULL_AWARE}
    assert meant == keys - {"random(long)"}
    of_spark = {key for key in keys if key.startswith("spark.")}
    assert {*spark_functions.NATIVE} <= of_spark
    of_scalars = {key for key in keys - of_spark if key.partition("(")[0] not in ELSEWHERE}
    parts = {"round(decimal, long)", "string(double)", "string(float)"}  # for some arguments
    assert {*builtins.NATIVE} == of_scalars - (PINNED.keys() - parts)
    # A native one is computed over columns as well, inside of expressions that are not native.
    assert {*pinned.COLUMNS} <= PINNED.keys() | of_spark


@pytest.mark.parametrize(
    ("name", "types", "key"),
    [
        ("round", (Decimal(10, 2), LONG), "round(decimal, long)"),
        ("round", (DOUBLE,), "round(double)"),
        ("abs", (BYTE,), "abs(int)"),
        ("date", (NOTHING,), "date(string)"),
        ("length", (BOOL,), "length(string)"),  # one signature: the types are not looked at
    ],
)
def test_the_key_of_a_call(name: str, types: tuple[Type, ...], key: str) -> None:
    assert key_of(name, types) == key


def test_a_call_without_a_signature_is_refused() -> None:
    with pytest.raises(InternalError, match=r"no signature of year takes \(bool\)"):
        key_of("year", (BOOL,))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_table_of_casts_says_what_is_native(dialect: Dialect) -> None:
    def names(case: Case) -> tuple[str, str]:
        source, target = (str(t).partition("(")[0] for t in (case.parameters[0], case.result))
        return source, target

    pinned = {names(case) for case in cases("conversions") if not is_native(case, dialect)}
    assert pinned == {pair for pair, where in conversions.PINNED.items() if dialect in where}


def test_sums_and_products_of_usual_decimals_are_native() -> None:
    """Amounts of up to 18 digits, and sums of these with longs."""
    usual = {Decimal(10, 2), Decimal(18, 4), Decimal(20, 0)}
    wanted = [
        case
        for case in cases("arithmetic")
        if usual.issuperset(case.parameters)
        and (case.name in "+-%" or Decimal(20, 0) not in case.parameters)
    ]
    missing = {
        f"{dialect}: {case}"
        for case in wanted
        for dialect in DIALECTS
        if not is_native(case, dialect)
    }
    assert missing == {
        "spark: /(decimal(10,2), decimal(18,4)): decimal(33,21)",
        "duckdb: /(decimal(10,2), decimal(10,2)): decimal(23,13)",
        "duckdb: /(decimal(10,2), decimal(18,4)): decimal(33,21)",
        "duckdb: /(decimal(18,4), decimal(10,2)): decimal(31,15)",
        "duckdb: /(decimal(18,4), decimal(18,4)): decimal(38,20)",
    }


# --- constants ----------------------------------------------------------------------------

PAIR = Tuple((INT, STRING))
PERSON = Record((("name", STRING), ("it's", INT), ('`q`"', list_of(PAIR))))
STRUCTURED: list[tuple[Type, Value]] = [
    (PAIR, (1, "a")),
    (PAIR, (None, None)),
    (PERSON, RecordValue.of(PERSON.names, ["\\", 1, [(1, "b"), (2, None)]])),
    (bag(INT), Bag([3, 1, 2])),
    (bag(INT), Bag([])),
    (list_of(list_of(STRING)), [["a"], [], None]),
    (Tuple(()), ()),
    (Record(()), RecordValue()),
    (ANY, to_json("x")),
    (ANY, (1, "a", date(2026, 1, 31), datetime(1, 1, 1, tzinfo=UTC))),
    (ANY, None),
]
CONSTANTS = [(type_, value) for type_ in SCALARS for value in edges(type_)] + STRUCTURED


def constants(dialect: Dialect) -> str:
    texts = (print_tree(constant(v, t, dialect), dialect) for t, v in CONSTANTS)
    return f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(texts))}"


def wrong_constants(table: Any) -> list[str]:
    problems = []
    for (type_, value), column_ in zip(CONSTANTS, table.columns, strict=True):
        array = column_.combine_chunks()
        value_read = value_reader(array.type, type_)(
            array.cast(plain_type(array.type)).to_pylist()[0]
        )
        other_type = is_scalar(type_) and array.type != stored_type(type_)
        if not identical(value_read, value) or other_type:
            problems.append(f"{show(value)} of {type_} is {show(value_read)} of {array.type}")
    return problems


def test_constants_in_duckdb() -> None:
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        assert not wrong_constants(connection.sql(constants(Dialect.DUCKDB)).to_arrow_table())


@pytest.mark.spark
def test_constants_in_spark(spark: SparkSession) -> None:
    assert not wrong_constants(spark.sql(constants(Dialect.SPARK)).toArrow())
