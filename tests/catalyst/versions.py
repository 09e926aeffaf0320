"""Where the plans of one version of Spark differ from those of another."""

from __future__ import annotations

from collections.abc import Iterator

from incmrql.catalyst import AnalyzedPlan, PlanNode, PlanValue


def differences(one: AnalyzedPlan, other: AnalyzedPlan) -> set[str]:
    """Classes, fields and values that one plan has and the other has not, as short texts.

    Numbers of expressions are compared too: they are counted in the order of the plan.
    """
    differences_found = set(_differences(one.plan, other.plan, "plan"))
    if one.schema != other.schema:
        differences_found.add("schema")
    for name in one.settings.keys() | other.settings.keys():
        if one.settings.get(name) != other.settings.get(name):
            differences_found.add(f"{name}: {one.settings.get(name)} | {other.settings.get(name)}")
    return differences_found


def _differences(one: PlanValue, other: PlanValue, where: str) -> Iterator[str]:
    match one, other:
        case PlanNode(name, fields), PlanNode(other_name, others) if name == other_name:
            for key in fields.keys() | others.keys():
                if key not in others:
                    yield f"{name}.{key} only in the first"
                elif key not in fields:
                    yield f"{name}.{key} only in the second"
                else:
                    yield from _differences(fields[key], others[key], f"{name}.{key}")
        case tuple(), tuple() if len(one) == len(other):
            for part, other_part in zip(one, other, strict=True):
                yield from _differences(part, other_part, where)
        case _:
            if one != other:
                yield f"{where}: {_short(one)} | {_short(other)}"


def _short(value: PlanValue) -> str:
    match value:
        case PlanNode(name):
            return name
        case tuple():
            return f"{len(value)} parts"
        case _:
            return repr(value)
