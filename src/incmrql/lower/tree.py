"""SQL trees: uses sqlglot as tree and printer, but not its translation between dialects.

Every function call has the name that the dialect uses, so that it is printed unchanged.  Where
Spark and DuckDB differ, the lowering distinguishes the dialects itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from sqlglot import exp

from incmrql.errors import InternalError
from incmrql.types.model import (
    BINARY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Any,
    Basic,
    Collection,
    Data,
    Decimal,
    Nothing,
    Record,
    Tuple,
    Type,
    storage_type,
)


class Dialect(StrEnum):
    """The SQL dialect that a tree is for."""

    SPARK = "spark"
    DUCKDB = "duckdb"


_BASIC = {
    BOOL: ("BOOLEAN", "BOOLEAN"),
    BYTE: ("TINYINT", "TINYINT"),
    SHORT: ("SMALLINT", "SMALLINT"),
    INT: ("INT", "INTEGER"),
    LONG: ("BIGINT", "BIGINT"),
    FLOAT: ("FLOAT", "FLOAT"),
    DOUBLE: ("DOUBLE", "DOUBLE"),
    STRING: ("STRING", "VARCHAR"),
    DATE: ("DATE", "DATE"),
    TIMESTAMP: ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
    TIMESTAMP_NTZ: ("TIMESTAMP_NTZ", "TIMESTAMP"),
    BINARY: ("BINARY", "BLOB"),
}


def type_text(type_: Type, dialect: Dialect) -> str:
    """The SQL type that holds the values of a type; `io.arrow.types` has the Arrow types."""
    match type_:
        case Basic():
            return _BASIC[storage_type(type_)][dialect is Dialect.DUCKDB]
        case Decimal(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case Nothing() | Record(()) | Tuple(()):
            return "BOOLEAN"  # only tells null from not null
        case Record() | Tuple():
            fields = [(name, type_text(part, dialect)) for name, part in parts_of(type_)]
            if dialect is Dialect.SPARK:
                return f"STRUCT<{', '.join(f'{quote(n, dialect)}: {t}' for n, t in fields)}>"
            return f"STRUCT({', '.join(f'{quote(n, dialect)} {t}' for n, t in fields)})"
        case Collection(_, element):
            inner = type_text(element, dialect)
            return f"ARRAY<{inner}>" if dialect is Dialect.SPARK else f"{inner}[]"
        case Data() | Any():
            return "BINARY" if dialect is Dialect.SPARK else "BLOB"
        case _:
            raise InternalError(f"values of type {type_} have no SQL form")


def parts_of(type_: Type) -> tuple[tuple[str, Type], ...]:
    """The fields of a record or tuple, with the names that they have in its struct."""
    match type_:
        case Record(fields):
            return fields
        case Tuple(items):
            return tuple((f"_{number}", item) for number, item in enumerate(items, 1))
        case _:
            raise InternalError(f"{type_} has no fields")


def quote(name: str, dialect: Dialect) -> str:
    """A name in the quotes of the dialect."""
    mark = "`" if dialect is Dialect.SPARK else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def call(name: str, *arguments: exp.Expression) -> exp.Expression:
    """A call of a function by its name in the dialect."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def column(name: str, table: str = "") -> exp.Expression:
    """A column, optionally of a named relation."""
    return exp.column(exp.to_identifier(name, quoted=not _is_plain(name)), table=table or None)


def _is_plain(name: str) -> bool:
    """Whether a name needs no quotes: our own lower-case names with a number."""
    return name.isascii() and name.isidentifier() and name == name.lower() and name[-1].isdigit()


def get(struct: exp.Expression, name: str) -> exp.Expression:
    """A field of a struct."""
    return exp.Dot(this=parenthesize(struct), expression=exp.to_identifier(name, quoted=True))


def parenthesize(tree: exp.Expression) -> exp.Expression:
    """The tree, in parentheses unless it is a single operand."""
    plain = exp.Column | exp.Literal | exp.Anonymous | exp.Dot | exp.Paren | exp.Cast | exp.Null
    return tree if isinstance(tree, plain | exp.Boolean | exp.Case | exp.Var) else exp.paren(tree)


def binary(kind: type[exp.Binary], left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """An operator between two operands."""
    return as_expression(kind(this=parenthesize(left), expression=parenthesize(right)))


def as_expression(node: exp.Expr) -> exp.Expression:
    """A node as an `Expression`; sqlglot's own types are looser."""
    assert isinstance(node, exp.Expression)
    return node


def number(value: int) -> exp.Expression:
    """An integer as it is written."""
    return exp.Literal.number(value)


def text(value: str) -> exp.Expression:
    """A string; `print_tree` escapes it."""
    return exp.Literal.string(value)


def boolean(value: bool) -> exp.Expression:
    """`true` or `false`."""
    return exp.Boolean(this=value)


def null() -> exp.Expression:
    """A null without a type."""
    return exp.Null()


def cast(tree: exp.Expression, type_: str, *, attempt: bool = False) -> exp.Expression:
    """`CAST(tree AS type)`, or with `attempt` TRY_CAST, which gives null if it fails."""
    kind = exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=type_)
    node = exp.TryCast if attempt else exp.Cast
    return node(this=tree, to=kind)


def typed_null(type_: Type, dialect: Dialect) -> exp.Expression:
    """A null of a type."""
    return cast(null(), type_text(type_, dialect))


def case(
    branches: Iterable[tuple[exp.Expression, exp.Expression]], otherwise: exp.Expression | None
) -> exp.Expression:
    """`CASE WHEN c THEN v … ELSE o END`."""
    ifs = [exp.If(this=condition, true=value) for condition, value in branches]
    return exp.Case(ifs=ifs, default=otherwise)


def conjunction(conditions: Sequence[exp.Expression]) -> exp.Expression | None:
    """All conditions as one."""
    whole: exp.Expression | None = None
    for condition in conditions:
        whole = condition if whole is None else binary(exp.And, whole, condition)
    return whole


def is_null(tree: exp.Expression) -> exp.Expression:
    """`tree IS NULL`."""
    return exp.Is(this=parenthesize(tree), expression=exp.Null())


def not_null(tree: exp.Expression) -> exp.Expression:
    """`tree IS NOT NULL`."""
    return exp.Not(this=is_null(tree))


def lambda_(parameters: Sequence[str], body: exp.Expression) -> exp.Expression:
    """A lambda, the argument of a higher-order function."""
    names = [exp.to_identifier(name) for name in parameters]
    return exp.Lambda(this=body, expressions=names)


def print_tree(tree: exp.Expression, dialect: Dialect, *, pretty: bool = False) -> str:
    """The text of a tree."""
    return tree.sql(dialect=_PRINTER[dialect], pretty=pretty, normalize_functions=False)


_PRINTER = {Dialect.SPARK: "databricks", Dialect.DUCKDB: "duckdb"}
"""sqlglot's names for the printers: only that of Databricks prints TRY_CAST, which Spark has."""
