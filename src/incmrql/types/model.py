"""The types of the language.

Frozen and compared by structure.  `NOTHING` is the type of `null` and of the elements of an
empty collection: it is below every other type.  `ANY` is above every other type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from incmrql.values import show


@dataclass(frozen=True, slots=True)
class Basic:
    """`bool byte short int long float double string date timestamp`, and types of Spark alone.

    Spark's are `binary`, `timestamp_ntz` and the intervals, as `interval day to second`; the
    language has no names for them.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """`decimal(p, s)`; `decimal` alone is `decimal(38, 18)`."""

    precision: int = 38
    scale: int = 18

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Any:
    """Every value is an `any`."""

    def __str__(self) -> str:
        return "any"


@dataclass(frozen=True, slots=True)
class Nothing:
    """The type of null alone."""

    def __str__(self) -> str:
        return "null"


class _Nested:
    """A type made of other types: remembers its hash and its representation.

    Rewriting compares and prints the types of wide rows many times.
    """

    __slots__ = ("_hash", "_repr")
    _hash: int
    _repr: str

    def __hash__(self) -> int:
        known: int | None = getattr(self, "_hash", None)
        if known is None:
            known = hash((type(self).__name__, *self._values()))
            object.__setattr__(self, "_hash", known)
        return known

    def __repr__(self) -> str:
        known: str | None = getattr(self, "_repr", None)
        if known is None:
            values = zip(type(self).__slots__, self._values(), strict=True)
            known = f"{type(self).__name__}({', '.join(f'{n}={value!r}' for n, value in values)})"
            object.__setattr__(self, "_repr", known)
        return known

    def _values(self) -> list[object]:
        return [getattr(self, name) for name in type(self).__slots__]


@dataclass(frozen=True, slots=True, repr=False)
class Tuple(_Nested):
    """`(int, string)`; `()` has one value."""

    items: tuple[Type, ...]

    __hash__ = _Nested.__hash__

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True, repr=False)
class Record(_Nested):
    """`< A: int, B: string >`, fields in declared order."""

    fields: tuple[tuple[str, Type], ...]

    __hash__ = _Nested.__hash__

    def __str__(self) -> str:
        return f"< {', '.join(f'{_label(name)}: {type_}' for name, type_ in self.fields)} >"

    @property
    def names(self) -> tuple[str, ...]:
        """The field names."""
        return tuple(name for name, _ in self.fields)

    def field(self, name: str) -> Type | None:
        """The type of a field, if there is one of that name."""
        return next((type_ for other, type_ in self.fields if other == name), None)


def _label(name: str) -> str:
    """A field's name, in quotes if it is not an identifier, as names from data may be."""
    return name if name.isidentifier() and name.isascii() else show(name)


@dataclass(frozen=True, slots=True, repr=False)
class Collection(_Nested):
    """`{int}` or `[int]`; in plans of Spark `map(string, int)` too.

    A map is the list of its entries, records of `key` and `value`, in the order in which they were
    put into it, since functions of Spark show that order.  No two entries have the same key.
    """

    kind: Literal["bag", "list", "map"]
    element: Type

    __hash__ = _Nested.__hash__

    def __str__(self) -> str:
        if self.kind == "map":
            key, value = entry_types(self)
            return f"map({key}, {value})"
        return f"{{{self.element}}}" if self.kind == "bag" else f"[{self.element}]"


@dataclass(frozen=True, slots=True)
class Data:
    """A declared data type, known by its name; its constructors are in the `Catalog`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Function(_Nested):
    """The type of a lambda or a function name that is passed as an argument."""

    parameters: tuple[Type, ...]
    result: Type

    __hash__ = _Nested.__hash__

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> {self.result}"


Type: TypeAlias = Basic | Decimal | Any | Nothing | Tuple | Record | Collection | Data | Function

BOOL, BYTE, SHORT, INT, LONG = (Basic(n) for n in ("bool", "byte", "short", "int", "long"))
FLOAT, DOUBLE, STRING = Basic("float"), Basic("double"), Basic("string")
DATE, TIMESTAMP = Basic("date"), Basic("timestamp")
DECIMAL, ANY, NOTHING, UNIT = Decimal(), Any(), Nothing(), Tuple(())
XML, JSON = Data("XML"), Data("JSON")
EXACT_SUM = Data("exact sum")
"""A sum of doubles that is not rounded yet; only rewrite rules introduce it."""

BASIC_NAMES = ("bool", "byte", "short", "int", "long", "float", "double", "string", "date",
               "timestamp")  # fmt: skip
INTEGERS = (BYTE, SHORT, INT, LONG)
FLOATS = (FLOAT, DOUBLE)

# --- Types that only plans of Spark have ---

BINARY, TIMESTAMP_NTZ = Basic("binary"), Basic("timestamp_ntz")


def _intervals(*units: str) -> dict[tuple[int, int], Basic]:
    """The interval types of units, by the numbers of their first and last unit."""
    names = {
        (first, last): units[first] if first == last else f"{units[first]} to {units[last]}"
        for first in range(len(units))
        for last in range(first, len(units))
    }
    return {ends: Basic(f"interval {name}") for ends, name in names.items()}


YEAR_MONTH_INTERVALS = _intervals("year", "month")
"""Numbers of months, by their first and last unit: they differ in how they are written."""
DAY_TIME_INTERVALS = _intervals("day", "hour", "minute", "second")
"""Numbers of microseconds, by their first and last unit."""
YEAR_TO_MONTH, DAY_TO_SECOND = YEAR_MONTH_INTERVALS[0, 1], DAY_TIME_INTERVALS[0, 3]
_YEAR_MONTH_TYPES = frozenset(YEAR_MONTH_INTERVALS.values())
_DAY_TIME_TYPES = frozenset(DAY_TIME_INTERVALS.values())


@dataclass(frozen=True, slots=True)
class Constructor:
    """One alternative of a data type: its position in the declaration and its content."""

    name: str
    position: int
    content: Type
    owner: str


def constructors(owner: str, *alternatives: tuple[str, Type]) -> tuple[Constructor, ...]:
    """The constructors of a data type, numbered in order."""
    return tuple(
        Constructor(name, position, content, owner)
        for position, (name, content) in enumerate(alternatives)
    )


def bag(element: Type) -> Collection:
    """`{element}`."""
    return Collection("bag", element)


def list_of(element: Type) -> Collection:
    """`[element]`."""
    return Collection("list", element)


def map_of(key: Type, value: Type) -> Collection:
    """The maps from keys to values."""
    return Collection("map", Record((("key", key), ("value", value))))


def entry_types(type_: Collection) -> tuple[Type, Type]:
    """The types of the keys and values of a map."""
    assert isinstance(type_.element, Record)
    (_, key), (_, value) = type_.element.fields
    return key, value


def is_map(type_: Type) -> bool:
    """Whether values are maps."""
    return isinstance(type_, Collection) and type_.kind == "map"


def contains_map(type_: Type) -> bool:
    """Whether values of a type have maps in them."""
    match type_:
        case Collection(_, element):
            return is_map(type_) or contains_map(element)
        case Record(fields):
            return any(contains_map(inner) for _, inner in fields)
        case Tuple(items):
            return any(map(contains_map, items))
        case _:
            return False


PREDEFINED = {
    "XML": constructors(
        "XML",
        ("Node", Tuple((STRING, bag(Tuple((STRING, STRING))), list_of(XML)))),
        ("CData", STRING),
    ),
    "JSON": constructors(
        "JSON",
        ("JObject", bag(Tuple((STRING, JSON)))),
        ("JArray", list_of(JSON)),
        ("Jstring", STRING),
        ("Jlong", LONG),
        ("Jdouble", DOUBLE),
        ("Jbool", BOOL),
        ("Jnull", UNIT),
    ),
}
"""The data types that are declared in every script."""


def is_integer(type_: Type) -> bool:
    """Whether a type is an integer type of any width."""
    return type_ in INTEGERS


def is_float(type_: Type) -> bool:
    """Whether values are floating point."""
    return type_ in FLOATS


def is_year_month(type_: Type) -> bool:
    """Whether values are intervals of whole months."""
    return type_ in _YEAR_MONTH_TYPES


def is_day_time(type_: Type) -> bool:
    """Whether values are intervals of microseconds."""
    return type_ in _DAY_TIME_TYPES


SPARK_TYPES = frozenset({BINARY, TIMESTAMP_NTZ}) | _YEAR_MONTH_TYPES | _DAY_TIME_TYPES
"""Scalar types for which the language has no names."""


def storage_type(type_: Basic) -> Basic:
    """The type of the numbers that columns hold for an interval; of other types themselves."""
    if is_year_month(type_):
        return INT
    return LONG if is_day_time(type_) else type_


def is_numeric(type_: Type) -> bool:
    """Whether arithmetic applies."""
    return is_integer(type_) or is_float(type_) or isinstance(type_, Decimal)


def is_scalar(type_: Type) -> bool:
    """Whether `=` compares as SQL does, rather than by identity."""
    return isinstance(type_, Basic | Decimal | Nothing)


# --- Rows of line sources ---


def column_types(row: Type) -> tuple[Type, ...] | None:
    """The types of the columns of a file, or None if a row of this type cannot be a line."""
    match row:
        case Record(fields):
            types = tuple(type_ for _, type_ in fields)
        case Tuple(items):
            types = items
        case _:
            types = (row,)
    is_line = all(isinstance(type_, Basic | Decimal | Any) for type_ in types)
    return types if is_line and types else None


def element_type(row: Type) -> Type:
    """The type of a line source's elements: its row type without the columns of type any.

    A tuple with one column left becomes that column's type, since there are no tuples of one.
    """
    match row:
        case Record(fields):
            return Record(tuple((name, type_) for name, type_ in fields if type_ != ANY))
        case Tuple(items):
            read = tuple(item for item in items if item != ANY)
            return read[0] if len(read) == 1 else Tuple(read)
        case _:
            return row
