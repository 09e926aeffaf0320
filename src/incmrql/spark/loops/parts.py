"""Splits a loop into inputs, which Spark computes, and the rest, which one task runs.

Spark reads the sources and applies what works row by row.  What combines several rows (groups,
joins, order, inner loops) is left to the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

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
from incmrql.engine.columns.layouts import Layout
from incmrql.engine.compile.program import compile_single_task_loop
from incmrql.engine.loops.operator import LoopOp
from incmrql.lower.context import Context
from incmrql.plan.nodes import Repeated
from incmrql.plan.planner import reachable
from incmrql.spark.loops.steps import has_free, with_fused_maps
from incmrql.types import typed
from incmrql.types.model import bag


@dataclass(frozen=True, slots=True)
class SplitLoop:
    """A loop over inputs, to which it refers as shared terms."""

    loop: Repeat
    inputs: tuple[tuple[typed.Variable, Term], ...]

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The sources that the inputs read."""
        return tuple(t for _, input_ in self.inputs for t in terms(input_) if isinstance(t, Scan))

    @property
    def outer(self) -> tuple[typed.Variable, ...]:
        """The variables of loops around this one that the inputs read."""
        return tuple(
            t.variable for _, input_ in self.inputs for t in terms(input_) if isinstance(t, Loop)
        )


def split_loop(loop: Repeat, shared: Mapping[int, Term], script: typed.Script) -> SplitLoop | None:
    """A loop and its inputs; None if the loop would behave differently in a task.

    A trace shows each evaluation, and each evaluation draws a new random number.  Spark evaluates
    some expressions in every step, a task only once, and the difference would show.
    """
    inlined = _inline(loop, shared)
    if any(has_free(term) for term in terms(inlined)):
        return None
    seen: set[str] = set()
    nodes = (
        n
        for term in terms(inlined)
        for expr in _expressions(term)
        for n in reachable(expr, script, seen)
    )
    if any(map(_is_impure, nodes)):
        return None
    inner = frozenset(
        v for term in terms(inlined) if isinstance(term, Repeat) for v in term.variables
    )
    names = Names(max((variable.number for variable in variables_of(inlined)), default=0))
    inputs: dict[str, tuple[typed.Variable, Term]] = {}
    shared_sources = _shared_sources(inlined, inner)

    def replace_inputs(part: Term) -> Term:
        if not _is_input(part, inner, shared_sources):
            return map_children(replace_inputs, part)
        key = fingerprint(part)
        if key not in inputs:
            inputs[key] = names.variable("input", bag(element(part))), part
        return Shared(inputs[key][0])

    loop_over_inputs = map_children(replace_inputs, inlined)
    assert isinstance(loop_over_inputs, Repeat)
    return SplitLoop(loop_over_inputs, tuple(inputs.values()))


MOST_LOOPS: Final = 32
"""Loops that a cache holds: more than a script has, unless its texts are not cached either."""


@dataclass(slots=True)
class LoopCache:
    """Loops of one script, split and compiled for a task, which takes half of the driver's time.

    Keys are identities of loops.  The cache refers to them, so that no identity is reused.  What
    was compiled with stored values is not cached, as these change.
    """

    _splits: dict[int, tuple[Repeat, SplitLoop | None]] = field(default_factory=dict)
    _compiled: dict[tuple[int, tuple[Layout, ...], int | None], LoopOp] = field(
        default_factory=dict
    )

    def split(self, loop: Repeat, shared: Mapping[int, Term], ctx: Context) -> SplitLoop | None:
        """A loop and its inputs, or None, as `split_loop` says."""
        if id(loop) not in self._splits:
            if len(self._splits) >= MOST_LOOPS:
                self._splits.clear()
                self._compiled.clear()
            self._splits[id(loop)] = loop, split_loop(loop, shared, ctx.script)
        return self._splits[id(loop)][1]

    def compile(
        self, loop: Repeat, layouts: tuple[Layout, ...], ctx: Context, limit: int | None
    ) -> LoopOp:
        """A loop over inputs in these layouts, which was split before."""
        key = id(loop), layouts, limit
        compiled = self._compiled.get(key)
        if compiled is not None and not ctx.stored:
            return compiled
        parts = self._splits[id(loop)][1]
        assert parts is not None
        variables = tuple(variable for variable, _ in parts.inputs)
        node = Repeated(tuple(range(len(layouts))), variables, parts.loop)
        compiled = compile_single_task_loop(
            node, layouts, ctx.script, ctx.arguments, tuple(ctx.stored.items()), limit
        )
        if not ctx.stored:
            self._compiled[key] = compiled
        return compiled


def _shared_sources(loop: Repeat, inner: frozenset[typed.Variable]) -> frozenset[str]:
    """Sources that several inputs would read: their rows are sent once, as they are."""
    readers: dict[str, set[str]] = {}

    def visit(part: Term) -> None:
        if _is_input(part, inner):
            for source in filter(_is_source, terms(part)):
                readers.setdefault(fingerprint(source), set()).add(fingerprint(part))
        else:
            for child in children(part):
                visit(child)

    visit(loop)
    return frozenset(source for source, inputs in readers.items() if len(inputs) > 1)


def _is_input(
    part: Term, inner: frozenset[typed.Variable], shared_sources: frozenset[str] = frozenset()
) -> bool:
    """True if Spark computes a part."""
    if not _is_linear(part, inner):
        return False
    sources = [fingerprint(term) for term in terms(part) if _is_source(term)]
    return bool(sources) and (_is_source(part) or shared_sources.isdisjoint(sources))


def _is_source(term: Term) -> bool:
    return isinstance(term, Scan | Loop)


def _inline(loop: Repeat, shared: Mapping[int, Term]) -> Repeat:
    """A loop with shared terms inlined, and maps of maps fused."""

    def visit(part: Term) -> Term:
        if isinstance(part, Shared):
            return visit(shared[part.variable.number])
        return map_children(visit, part)

    inlined = visit(loop)
    if inlined is loop:
        return loop
    names = Names(max(variable.number for variable in variables_of(inlined)))
    fused = with_fused_maps(inlined, names)
    assert isinstance(fused, Repeat)
    return fused


def _expressions(term: Term) -> Iterator[typed.Expr]:
    """The expressions of a term, without those of its children."""
    match term:
        case CMap(body=expr) | Values(expr):
            yield expr
        case Sort(limit=limit) | Repeat(limit=limit) if limit is not None:
            yield limit
        case _:
            pass


def _is_impure(node: typed.Expr) -> bool:
    """True if an expression has effects or depends on more than its rows."""
    match node:
        case typed.Trace() | typed.Read():
            return True
        case typed.Builtin(name):
            return name == "random"
        case _:
            return False


def _is_linear(term: Term, inner: frozenset[typed.Variable]) -> bool:
    """True if a term works row by row on data that the loop does not change."""
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
