"""What of a loop Spark does, and what the task does that runs it.

Spark reads the sources, and does what it can do row by row.  What needs rows of several places
together (groups, joins, order, loops inside) is left to the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from incmrql.algebra.rows import Names
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    element,
)
from incmrql.algebra.walk import children, fingerprint, map_children, terms, variables_of
from incmrql.plan.planner import reachable
from incmrql.spark.loops.steps import has_free, with_fused_maps
from incmrql.types import typed
from incmrql.types.model import bag


@dataclass(frozen=True, slots=True)
class SplitLoop:
    """A loop over inputs, which it finds as shared rows."""

    loop: Repeat
    inputs: tuple[tuple[typed.Variable, Term], ...]

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The sources that the inputs read."""
        return tuple(t for _, each in self.inputs for t in terms(each) if isinstance(t, Scan))

    @property
    def outer(self) -> tuple[typed.Variable, ...]:
        """The variables of loops around this one that the inputs read."""
        return tuple(
            t.variable for _, each in self.inputs for t in terms(each) if isinstance(t, Loop)
        )


def split_loop(loop: Repeat, shared: Mapping[int, Term], script: typed.Script) -> SplitLoop | None:
    """A loop without the parts that Spark does; None if a task would not do the same with it.

    What is traced is shown as often as it is evaluated, and a random number is another one each
    time: where a task evaluates something once, Spark would do it again and again.
    """
    whole = _inline(loop, shared)
    if any(has_free(term) for term in terms(whole)):
        return None
    seen: set[str] = set()
    nodes = (
        n
        for term in terms(whole)
        for expr in _expressions(term)
        for n in reachable(expr, script, seen)
    )
    if any(map(_depends_on_more, nodes)):
        return None
    inner = frozenset(
        v for term in terms(whole) if isinstance(term, Repeat) for v in term.variables
    )
    names = Names(max((variable.number for variable in variables_of(whole)), default=0))
    inputs: dict[str, tuple[typed.Variable, Term]] = {}
    several = _read_in_several(whole, inner)

    def outside(part: Term) -> Term:
        if not _is_input(part, inner, several):
            return map_children(outside, part)
        key = fingerprint(part)
        if key not in inputs:
            inputs[key] = names.variable("input", bag(element(part))), part
        return Shared(inputs[key][0])

    found = map_children(outside, whole)
    assert isinstance(found, Repeat)
    return SplitLoop(found, tuple(inputs.values()))


def _read_in_several(whole: Repeat, inner: frozenset[typed.Variable]) -> frozenset[str]:
    """What several inputs would read: its rows are sent once, and the task does the rest."""
    found: dict[str, set[str]] = {}

    def visit(part: Term) -> None:
        if _is_input(part, inner):
            for each in filter(_is_read, terms(part)):
                found.setdefault(fingerprint(each), set()).add(fingerprint(part))
        else:
            for child in children(part):
                visit(child)

    visit(whole)
    return frozenset(read for read, inputs in found.items() if len(inputs) > 1)


def _is_input(
    part: Term, inner: frozenset[typed.Variable], several: frozenset[str] = frozenset()
) -> bool:
    """Whether Spark does a part."""
    if not _is_linear(part, inner):
        return False
    read = [fingerprint(each) for each in terms(part) if _is_read(each)]
    return bool(read) and (_is_read(part) or several.isdisjoint(read))


def _is_read(term: Term) -> bool:
    return isinstance(term, Scan | Loop)


def _inline(loop: Repeat, shared: Mapping[int, Term]) -> Repeat:
    """A loop with the terms that it names in the places of the names, and maps of maps fused."""

    def visit(part: Term) -> Term:
        if isinstance(part, Shared):
            return visit(shared[part.variable.number])
        return map_children(visit, part)

    found = visit(loop)
    if found is loop:
        return loop
    names = Names(max(variable.number for variable in variables_of(found)))
    fused = with_fused_maps(found, names)
    assert isinstance(fused, Repeat)
    return fused


def _expressions(term: Term) -> Iterator[typed.Expr]:
    """The expressions of a term itself."""
    match term:
        case CMap(body=expr) | Values(expr):
            yield expr
        case Sort(limit=limit) | Repeat(limit=limit) if limit is not None:
            yield limit
        case _:
            pass


def _depends_on_more(node: typed.Expr) -> bool:
    """Whether an expression is more than a function of its rows."""
    match node:
        case typed.Trace() | typed.Read():
            return True
        case typed.Builtin(name):
            return name == "random"
        case _:
            return False


def _is_linear(term: Term, inner: frozenset[typed.Variable]) -> bool:
    """Whether a term goes row by row through what does not depend on the loop."""
    match term:
        case Scan() | Values():
            return True
        case Loop(variable):
            return variable not in inner
        case CMap(source=source):
            return _is_linear(source, inner)
        case Union(parts):
            return all(_is_linear(part, inner) for part in parts)
        case Shared() | GroupBy() | CoGroup() | Sort() | Repeat():
            return False
