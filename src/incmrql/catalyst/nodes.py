"""Spark's analysed plan as plain data.

An operator, an expression, a data type and any other Scala object of a plan is a `PlanNode`: the
simple name of its class and its constructor's fields by name.  Nothing is dropped, and nothing is
read by position, because classes get new fields from version to version.

| in Scala | here |
|---|---|
| a case class | `PlanNode(name, fields)` |
| a case object (`Inner`, `Ascending`), a data type without parameters | `PlanNode(name)` |
| `Option` | the value, or None |
| `Seq`, `Set`, `Array`, a tuple | a tuple |
| `Map` | a tuple of pairs, in the order of its keys |
| `ExprId`, the id of a CTE | a number, counted from 1 in the order of the plan |
| an enumeration value (`EvalMode.ANSI`) | its name |
| `Metadata` | its JSON text, `{}` without metadata |
| the value of a `Literal` | Spark's internal value: dates are days, timestamps microseconds |
| a row of a `LocalRelation`, a struct, an array | a tuple; a map is a tuple of pairs |
| any other object | `PlanNode(name)` with the full name of its class in `$java` |

Some fields are no parameters of a class; their names begin with a dollar sign:

* `$type` of an expression is its data type, unless it has none;
* `$leaf` of an operator without children is its number in the plan, counted from 1;
* `$second` has parameters without names, of the second parameter list of a class that we do not
  know.

The ids, qualifiers and metadata of `Alias` and `AttributeReference` are fields like any other.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from incmrql.syntax.depth import deep_recursion


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An object of an analysed plan.

    `place` is the line, the first character and the end of what it was parsed from, in the text of
    the `AnalyzedPlan`.
    """

    name: str
    fields: Mapping[str, PlanValue] = field(default_factory=dict)
    place: tuple[int, int, int] | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Any:
        """The value of a field; `KeyError` if the class has no field of this name."""
        return self.fields[name]


PlanValue: TypeAlias = (
    bool | int | float | str | bytes | Decimal | PlanNode | tuple["PlanValue", ...] | None
)


@dataclass(frozen=True, slots=True)
class AnalyzedPlan:
    """The analysed plan of a query, and what else its meaning depends on.

    `settings` are the settings of Spark that it reads when it evaluates a plan.  `schema` is the
    `StructType` of the answer.  `text` is the SQL text, or, one after the other, the texts that a
    DataFrame was built from.
    """

    plan: PlanNode
    schema: PlanNode
    settings: Mapping[str, str]
    text: str = field(default="", compare=False)


def nodes_of(value: PlanValue) -> Iterator[PlanNode]:
    """All nodes inside a plan, with those of its sub-queries."""
    match value:
        case PlanNode(_, fields):
            yield value
            for part in fields.values():
                yield from nodes_of(part)
        case tuple():
            for part in value:
                yield from nodes_of(part)
        case _:
            pass


# --- JSON ---
#
# A node is an object with "class"; what JSON cannot say is an object with one key that starts
# with "$".


def plan_to_json(value: PlanValue) -> str:
    """A plan as JSON text, from which `plan_from_json` makes an equal one."""
    with deep_recursion():
        return json.dumps(_encode(value), ensure_ascii=False, separators=(",", ":"))


def plan_from_json(text: str | bytes) -> PlanValue:
    """The plan that `plan_to_json` wrote."""
    with deep_recursion():
        return _decode(json.loads(text))


def analyzed_to_json(analyzed: AnalyzedPlan) -> str:
    """An analysed plan with its schema and settings as JSON text."""
    fields: dict[str, PlanValue] = {
        "plan": analyzed.plan,
        "schema": analyzed.schema,
        "settings": tuple(sorted(analyzed.settings.items())),
        "text": analyzed.text,
    }
    return plan_to_json(PlanNode("AnalyzedPlan", fields))


def analyzed_from_json(text: str | bytes) -> AnalyzedPlan:
    """The analysed plan that `analyzed_to_json` wrote."""
    node = plan_from_json(text)
    if not isinstance(node, PlanNode) or node.name != "AnalyzedPlan":
        raise ValueError("not an analysed plan")
    return AnalyzedPlan(node["plan"], node["schema"], dict(node["settings"]), node["text"])


def _encode(value: PlanValue) -> Any:
    match value:
        case PlanNode(name, fields, place):
            encoded: dict[str, Any] = {"class": name}
            if place is not None:
                encoded["place"] = list(place)
            if fields:
                encoded["fields"] = {key: _encode(part) for key, part in fields.items()}
            return encoded
        case tuple():
            return [_encode(part) for part in value]
        case bytes():
            return {"$binary": base64.b64encode(value).decode("ascii")}
        case Decimal():
            return {"$decimal": str(value)}
        case float() if not math.isfinite(value):
            return {"$double": repr(value)}
        case _:
            return value


def _decode(encoded: Any) -> PlanValue:
    match encoded:
        case {"class": str(name)}:
            fields = {key: _decode(part) for key, part in encoded.get("fields", {}).items()}
            place = encoded.get("place")
            return PlanNode(name, fields, None if place is None else tuple(place))
        case {"$binary": str(text)}:
            return base64.b64decode(text)
        case {"$decimal": str(text)}:
            return Decimal(text)
        case {"$double": str(text)}:
            return float(text)
        case list():
            return tuple(_decode(part) for part in encoded)
        case _:
            return encoded  # type: ignore[no-any-return]
