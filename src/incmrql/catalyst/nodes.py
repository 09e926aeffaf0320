"""Spark's analysed plan as plain data.

An operator, an expression, a data type and any other Scala object of a plan is a `PlanNode`: the
simple name of its class and its constructor's fields by name.  Nothing is dropped, and nothing is
read by position, because classes get new fields from version to version.

| in Scala | here |
|---|---|
| a case class | `PlanNode(name, fields)` |
| a case object (`Inner`, `Ascending`), a data type without parameters | `PlanNode(name)` |
| `Option` | the value, or None |
| `Seq`, `Set`, `Array` | a tuple |
| `Map` | a tuple of pairs, in the order of its keys |
| `ExprId` | a number, counted from 1 in the order of the plan |
| an enumeration value (`EvalMode.ANSI`) | its name |
| the value of a `Literal` | Spark's internal value: dates are days, timestamps microseconds |
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An object of an analysed plan; `place` is its line, start and stop in the SQL text."""

    name: str
    fields: Mapping[str, PlanValue] = field(default_factory=dict)
    place: tuple[int, int, int] | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Any:
        """The value of a field; `KeyError` if the class has no field of this name."""
        return self.fields[name]


PlanValue: TypeAlias = (
    bool | int | float | str | bytes | Decimal | PlanNode | tuple["PlanValue", ...] | None
)


# --- JSON ---
#
# A node is an object with "class"; what JSON cannot say is an object with one key that starts
# with "$".


def plan_to_json(value: PlanValue) -> str:
    """A plan as JSON text, from which `plan_from_json` makes an equal one."""
    return json.dumps(_encode(value), ensure_ascii=False, separators=(",", ":"))


def plan_from_json(text: str | bytes) -> PlanValue:
    """The plan that `plan_to_json` wrote."""
    return _decode(json.loads(text))


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
