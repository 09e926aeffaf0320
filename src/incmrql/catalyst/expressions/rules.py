"""What the rules of all classes of expressions share: modes, types, constants, names for values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from incmrql.algebra import rows as build
from incmrql.catalyst.classes import Support, converted
from incmrql.catalyst.nodes import PlanNode, PlanValue
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.catalyst.types import model_type
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.reference.spark.zones import zone_of as known_zone
from incmrql.types import typed
from incmrql.types.model import BOOL, NOTHING, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type
from incmrql.types.walk import children
from incmrql.values import Value

Convert: TypeAlias = Callable[[PlanNode, ColumnScope], typed.Expr]
"""The typed expression of a node; raises `Refused` if it is not converted."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How the expressions of one class are converted, and which fields they may have."""

    support: Support
    convert: Convert


Rules: TypeAlias = Mapping[str, Rule]


def rule(
    convert: Convert, *reads: str, ignores: tuple[str, ...] = (), **expects: PlanValue
) -> Rule:
    """A rule that reads these fields, ignores others, and expects the values of the rest."""
    return Rule(converted(*reads, ignores=ignores, **expects), convert)


# --- Types and modes ---

_MODES: Final[dict[str, typed.Mode]] = {"ANSI": "ansi", "LEGACY": "legacy", "TRY": "try"}
MODES: Final = ("evalContext", "evalMode")
"""The fields with the evaluation mode, of which a class has one, depending on the version."""


def type_of(node: PlanNode) -> Type:
    """The type of an expression, as Spark's analyser says."""
    return model_type(node["$type"])


def mode_of(node: PlanNode) -> typed.Mode:
    """The evaluation mode of an expression."""
    context = node.fields.get("evalContext")
    if isinstance(context, PlanNode):
        return _MODES[context["evalMode"]]
    if "evalMode" in node.fields:
        return _MODES[node["evalMode"]]
    fails = node.fields.get("failOnError", node.fields.get("ansiEnabled", False))
    return "ansi" if fails else "legacy"


def require_one_type(node: PlanNode, operands: Sequence[typed.Expr]) -> None:
    """Raise `Refused` unless operands have one type; what is refused already has none."""
    types = {operand.type for operand in operands} - {NOTHING}
    if len(types) > 1:
        shown = " and ".join(sorted(map(str, types)))
        raise Refused("C104", f"{node.name} of {shown} is not converted yet", node=node)


# --- Time zones ---


def zone_of(node: PlanNode) -> str:
    """The time zone in which an expression computes; empty if that is UTC."""
    zone = node.fields.get("timeZoneId")
    if not isinstance(zone, str) or zone.upper() in _UTC:
        return ""
    if known_zone(zone) is None:
        message = f"{node.name} computes in the time zone {zone}, which is not known here"
        hint = "Set spark.sql.session.timeZone to a region, such as Europe/Paris, or to an offset."
        raise Refused("C104", message, hint, node)
    return zone


def in_zone(function: str, operands: Sequence[typed.Expr], zone: str) -> typed.Expr:
    """A timestamp that a function of a zone gives."""
    return call(function, [*operands, const(zone, STRING)], TIMESTAMP, "ansi")


def local_time(moment: typed.Expr, zone: str) -> typed.Expr:
    """What a clock in a zone shows, as a timestamp of UTC with the same numbers."""
    return in_zone("spark.local_time_in", [moment], zone) if zone else moment


def moment_of(local: typed.Expr, zone: str) -> typed.Expr:
    """The moment at which a clock in a zone shows what a timestamp of UTC has."""
    return in_zone("spark.moment_in", [local], zone) if zone else local


def first_moment(day: typed.Expr, zone: str, mode: typed.Mode = "ansi") -> typed.Expr:
    """The first moment of a date in a zone."""
    if zone:
        return in_zone("spark.start_of_day", [day], zone)
    return typed.Cast(day, mode, type=TIMESTAMP)


_UTC: Final = frozenset(
    ("UTC", "Z", "GMT", "ETC/UTC", "ETC/GMT", "UT", "+00:00", "ZULU", "ETC/ZULU", "UNIVERSAL",
     "ETC/UNIVERSAL", "UCT", "ETC/UCT", "GREENWICH", "ETC/GREENWICH", "GMT0", "ETC/GMT0")
)  # fmt: skip


# --- Building ---


def const(value: Value, type_: Type) -> typed.Expr:
    """A constant."""
    return typed.Const(value, type=type_)


def null(type_: Type) -> typed.Expr:
    """The null of a type."""
    return typed.Const(None, type=type_)


def is_null(operand: typed.Expr) -> typed.Expr:
    """Whether a value is null."""
    return typed.IsNull(operand, type=BOOL)


_FOLDED: Final = typed.Arithmetic | typed.Negate | typed.Cast | typed.Widen | typed.Builtin


def fold_constant(expr: typed.Expr) -> typed.Expr:
    """The value of an operation on constants; one that fails stays, and fails when it is used."""
    if not isinstance(expr, _FOLDED):
        return expr
    operands = list(children(expr))
    if not operands or not all(isinstance(operand, typed.Const) for operand in operands):
        return expr
    value = evaluate(expr, Environment(new_world(EMPTY_SCRIPT)))
    unknown = value is None and all(
        isinstance(operand, typed.Const) and operand.value is not None for operand in operands
    )
    return expr if unknown else typed.Const(value, type=expr.type)


def as_timestamp(operand: typed.Expr) -> typed.Expr:
    """A timestamp without a zone as one in UTC, in which its functions are computed."""
    return widened(operand, TIMESTAMP) if operand.type == TIMESTAMP_NTZ else operand


def as_type(value: typed.Expr, type_: Type) -> typed.Expr:
    """A value that was computed in UTC as one of its type, which may be without a zone."""
    return widened(value, type_) if value.type != type_ else value


def widened(value: typed.Expr, type_: Type) -> typed.Expr:
    """A value in a type that holds the same values, or that stands for it."""
    return fold_constant(typed.Widen(value, type=type_))


def either(conditions: Sequence[typed.Expr]) -> typed.Expr:
    """`or` of conditions, of little depth."""
    return _balanced_tree("or", conditions)


def every_of(conditions: Sequence[typed.Expr]) -> typed.Expr:
    """`and` of conditions, of little depth."""
    return _balanced_tree("and", conditions)


def _balanced_tree(op: str, conditions: Sequence[typed.Expr]) -> typed.Expr:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    left, right = _balanced_tree(op, conditions[:middle]), _balanced_tree(op, conditions[middle:])
    return typed.Logic("or" if op == "or" else "and", left, right, type=BOOL)


def when(condition: typed.Expr, then: typed.Expr, otherwise: typed.Expr) -> typed.Expr:
    """`if condition then … else …`."""
    return typed.If(condition, then, otherwise, type=otherwise.type)


def compare(op: typed.CompareOp, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    """`left op right`."""
    return typed.Compare(op, left, right, type=BOOL)


def call(
    function: str, arguments: Sequence[typed.Expr], type_: Type, mode: typed.Mode = "try"
) -> typed.Expr:
    """The call of a built-in; in ANSI mode it fails where it has no result."""
    return typed.Builtin(function, tuple(arguments), mode, type=type_)


def failure(message: str, type_: Type) -> typed.Expr:
    """Null, where Spark raises an error: it is a failure if the value is used."""
    return call("spark.fail", [const(message, STRING)], type_, "ansi")


def let(
    scope: ColumnScope, value: typed.Expr, body: Callable[[typed.Expr], typed.Expr]
) -> typed.Expr:
    """An expression in which a value occurs several times but is written once."""
    if isinstance(value, typed.Var | typed.Const | typed.Item | typed.Field):
        return body(value)
    variable = scope.names.variable("value", value.type)
    inner = body(build.var(variable))
    branch = typed.Branch(typed.Bind(variable), inner)
    return typed.Case(value, (branch,), type=inner.type)


def constant_of(expr: typed.Expr) -> typed.Const | None:
    """An expression that is a constant by the look of it."""
    return expr if isinstance(expr, typed.Const) else None
