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
    """`bool byte short int long float double string date timestamp`."""

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
    """`{int}` or `[int]`."""

    kind: Literal["bag", "list"]
    element: Type

    __hash__ = _Nested.__hash__

    def __str__(self) -> str:
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
