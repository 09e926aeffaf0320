"""Refusals: the parts of a query that are not converted, all reported at once.

| code | what it says |
|---|---|
| C101 | a class of Spark that is not known here |
| C102 | a field of a known class with a value that is not known here |
| C103 | something that no engine could keep right: it is not a function of the data |
| C104 | something that is not converted yet |
| C105 | a type that has no counterpart |

A part that is refused becomes a placeholder, so that the rest of the query is looked at too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from incmrql.catalyst.nodes import PlanNode
from incmrql.errors import Diagnostic, QueryError, SourceText, Span, in_text_order

Code: TypeAlias = Literal["C101", "C102", "C103", "C104", "C105"]


class Refused(Exception):
    """A part of a plan is not converted; `node` is the part, if the raiser knows it."""

    def __init__(
        self, code: Code, message: str, hint: str = "", node: PlanNode | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.node = code, message, hint, node


@dataclass(slots=True)
class Refusals:
    """The refusals of one query, and the SQL text that its places are in, if it has one."""

    source: SourceText | None = None
    problems: list[Diagnostic] = field(default_factory=list)

    def add(self, refused: Refused, node: PlanNode) -> None:
        """Add a refusal of a node, or of the part of it that the refusal names."""
        part = refused.node or node
        span = self.span(part if part.place is not None else node)
        problem = Diagnostic(refused.code, refused.message, span, "not converted", refused.hint)
        if problem not in self.problems:
            self.problems.append(problem)

    def span(self, node: PlanNode) -> Span:
        """The place of a node in the SQL text; of a DataFrame, the name of its class."""
        if self.source is None or node.place is None:
            return Span(SourceText(node.name, "<DataFrame>"), 0, len(node.name))
        _, start, stop = node.place
        return Span(self.source, start, stop)

    def raise_if_any(self) -> None:
        """Raise a `QueryError` with all refusals, if there are any."""
        if self.problems:
            raise QueryError(*in_text_order(self.problems))
