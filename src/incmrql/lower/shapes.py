"""The shape of a value in SQL: one expression, separate parts, or the bag of a group.

The parts of a tuple or record stay separate expressions as long as only its parts are used, so
that no struct is built and unused parts vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from incmrql.errors import InternalError
from incmrql.lower import tree
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Tuple, Type

if TYPE_CHECKING:
    from incmrql.lower.relations.builder import GroupSide


class NotNative(Exception):
    """An expression has no form in SQL; the reason is shown to users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Cell:
    """One SQL expression.

    `present` says that it is never null, `narrow` that it is an integer of 32 bits or less in a
    wider type.
    """

    tree: exp.Expression
    type: Type
    present: bool = False
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """A tuple or record as separate parts; never null itself."""

    parts: tuple[Shape, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class GroupBag:
    """A bag with one element for every row of a group on one side that passes the tests.

    `head` is the element and `tests` are conditions, both over the columns of the side.
    """

    side: GroupSide
    head: Shape
    type: Type
    tests: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Hidden:
    """A value that is not accessible inside an aggregate."""

    type: Type


Shape: TypeAlias = Cell | Parts | GroupBag | Hidden


@dataclass(frozen=True, slots=True)
class Env:
    """The shapes of the variables in scope.

    `lambdas` is set inside the lambda of a higher-order function, where Python functions cannot
    be called.
    """

    values: Mapping[typed.Variable, Shape] = field(default_factory=dict)
    lambdas: bool = False

    def bind(self, variable: typed.Variable, shape: Shape) -> Env:
        """With one more variable."""
        return replace(self, values={**self.values, variable: shape})

    def inside(self) -> Env:
        """The same variables, inside a lambda."""
        return replace(self, lambdas=True)


def part(shape: Shape, index: int) -> Shape:
    """A component of a tuple or a field of a record, by its index."""
    name, type_ = tree.parts_of(shape.type)[index]
    match shape:
        case Parts(parts):
            return parts[index]
        case Cell(expression):
            return Cell(tree.get(expression, name), type_)
        case Hidden():
            return Hidden(type_)
        case _:
            raise InternalError(f"{shape.type} with parts is a bag")


def split(shape: Shape) -> Parts:
    """A tuple or record that is never null, as its parts."""
    if isinstance(shape, Parts):
        return shape
    count = len(tree.parts_of(shape.type))
    return Parts(tuple(part(shape, index) for index in range(count)), shape.type)


def leaves(shape: Shape) -> Iterator[Cell]:
    """The expressions in a shape, in order."""
    match shape:
        case Cell():
            yield shape
        case Parts(parts):
            for part_ in parts:
                yield from leaves(part_)
        case _:
            raise InternalError("the bag of a group is not a column")


def map_leaves(f: Callable[[Cell], Cell], shape: Shape) -> Shape:
    """A shape with its expressions replaced."""
    match shape:
        case Cell():
            return f(shape)
        case Parts(parts, type_):
            return Parts(tuple(map_leaves(f, part_) for part_ in parts), type_)
        case _:
            raise InternalError("the bag of a group is not a column")


def struct(parts: tuple[exp.Expression, ...], type_: Type, dialect: Dialect) -> exp.Expression:
    """A tuple or record as one value."""
    names = [name for name, _ in tree.parts_of(type_)]
    if not names:
        return tree.boolean(True)
    if dialect is Dialect.SPARK:
        arguments = [
            argument for pair in zip(map(tree.text, names), parts, strict=True) for argument in pair
        ]
        return tree.call("named_struct", *arguments)
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value)
        for name, value in zip(names, parts, strict=True)
    ]
    return exp.Struct(expressions=fields)


def is_structure(type_: Type) -> bool:
    """Whether values are tuples or records with parts."""
    return isinstance(type_, Tuple | Record)


def is_collection(type_: Type) -> bool:
    """Whether values are bags or lists."""
    return isinstance(type_, Collection)
