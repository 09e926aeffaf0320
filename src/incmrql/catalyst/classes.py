"""What is done with each class of Spark's plans: one row for each, by its exact name.

The pages about coverage are made of this table.  A class without a row is refused by name, and so
is a field without a mention here that has a value: classes get new fields from version to version,
and what they mean is not known until somebody has looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from incmrql.catalyst.nodes import PlanNode, PlanValue
from incmrql.catalyst.refusals import Code, Refused

Level: TypeAlias = Literal["converted", "opaque", "refused"]


@dataclass(frozen=True, slots=True)
class Support:
    """What is done with a class, and why it is refused.

    `reads` are the fields that the conversion uses, and `ignores` those that have no part in the
    answer.  `expects` are fields with the only value that is converted.
    """

    level: Level
    reason: str = ""
    rewrite: str = ""
    code: Code = "C104"
    reads: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    expects: Mapping[str, PlanValue] = field(default_factory=dict)


def converted(*reads: str, ignores: tuple[str, ...] = (), **expects: PlanValue) -> Support:
    """A class that is converted: the fields that are read, ignored, or expected to have a value."""
    return Support("converted", reads=reads, ignores=ignores, expects=expects)


def never(reason: str, rewrite: str = "") -> Support:
    """A class that no engine could keep right."""
    return Support("refused", reason, rewrite, "C103")


def not_yet(reason: str, rewrite: str = "") -> Support:
    """A class that is not converted yet."""
    return Support("refused", reason, rewrite, "C104")


def opaque(reason: str) -> Support:
    """A class that Spark evaluates for us, once for each inserted row, where that is possible."""
    return Support("opaque", f"{reason}; {ONLY_BELOW}", BELOW_HINT)


ONLY_BELOW: Final = (
    "Spark evaluates it only over files that it reads, below groups, limits, outer rows and "
    "sub-queries"
)
BELOW_HINT: Final = "Apply it to columns of one input, before rows are grouped or limited."


def check_node(node: PlanNode, table: Mapping[str, Support]) -> None:
    """Raise `Refused` if the class of a node is not converted, or a field is not known."""
    support = table.get(node.name)
    if support is None:
        message = f"{node.name} of Spark is not known here"
        raise Refused("C101", message, node=node)
    if support.level != "converted":
        raise Refused(support.code, f"{node.name}: {support.reason}", support.rewrite, node)
    for name, value in unknown_fields(node, support):
        message = f"{node.name} has {name} = {_value_text(value)}, which is not known here"
        raise Refused("C102", message, node=node)


def unknown_fields(node: PlanNode, support: Support) -> Iterator[tuple[str, PlanValue]]:
    """The fields of a node with a value that the conversion does not know."""
    for name, value in node.fields.items():
        if name.startswith("$") or name in support.reads or name in support.ignores:
            continue
        if name in support.expects:
            if value != support.expects[name]:
                yield name, value
        elif value is not None and value is not False and value != ():
            yield name, value


def _value_text(value: PlanValue) -> str:
    match value:
        case PlanNode(name):
            return name
        case tuple():
            return f"({', '.join(map(_value_text, value))})"
        case _:
            return repr(value)
