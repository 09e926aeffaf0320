"""What `explain` prints: a script at one stage of compilation, as text or as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from incmrql.algebra.normalize.rewrite import RewriteStep, show_step
from incmrql.algebra.show import show_query
from incmrql.compiler.compiled import Compiled, CompiledItem
from incmrql.plan.explain.text import NO_PLAN, NOTHING_CHANGES, plan_data, show_plan
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.printer.scripts import outline
from incmrql.types import typed
from incmrql.types.show import show_expr


def explain(
    compiled: Compiled,
    stage: str,
    *,
    items: Sequence[CompiledItem] | None = None,
    trace: bool = False,
    fast_sums: bool = False,
) -> str:
    """A script, or some of its items, at one stage; with `trace`, also the rules applied."""
    chosen = compiled.items if items is None else items
    with deep_recursion():
        match stage:
            case "tree" if compiled.tree is not None:
                return outline(compiled.tree)
            case "tree":
                return "\n\n".join(_plan_trees(compiled))
            case "types":
                return "\n".join([_typed_item(item.item) for item in chosen])
            case "spark":
                return "\n\n".join([_statements(item, fast_sums) for item in chosen])
            case "incremental":
                return "\n\n".join([*[_plan(item, trace) for item in chosen], *_notes(compiled)])
            case _:
                return "\n\n".join([_terms(item, stage, trace) for item in chosen])


def _plan_trees(compiled: Compiled) -> list[str]:
    """The plans of Spark that the typed tree was made from."""
    from incmrql.catalyst.show import outline as plan_outline  # scripts of MRQL have no plans

    assert compiled.plans is not None
    return [plan_outline(query.analyzed.plan) for query in compiled.plans.script.queries]


def _notes(compiled: Compiled) -> list[str]:
    """What the user of Spark's plans should know."""
    notes = () if compiled.plans is None else compiled.plans.notes
    return ["\n".join(f"note: {note}" for note in notes)] if notes else []


def explain_plans(compiled: Compiled) -> list[dict[str, Any]]:
    """The plan of each item of a script as data; docs/explain.md says what the fields mean."""
    plans = []
    with deep_recursion():
        for item in compiled.items:
            plan = dict(NO_PLAN)
            if item.reads_streams:
                plan = {**plan_data(item.plan, _by_row(item)), **item.watches.as_data()}
            span = item.item.span
            text = {"text": span.text, "kind": item.item.kind, "place": str(span)}
            plans.append({**text, "changes": item.reads_streams, **plan})
    return plans


def explain_paper(compiled: Compiled) -> str:
    """Each item of a script in the paper's own construction: h, ⊗ and a."""
    from incmrql.paper import show_paper  # nothing else needs the paper

    with deep_recursion():  # the paper has a normal form of its own
        texts = [f"{_head(item)}\n{show_paper(item.terms)}" for item in compiled.items]
    return "\n\n".join(texts)


def _head(item: CompiledItem) -> str:
    return f"-- {item.item.span.text}"


def _typed_item(item: typed.ScriptItem) -> str:
    return f"{item.kind}: {item.expr.type}\n  {show_expr(item.expr)}"


def _derivation(steps: Sequence[RewriteStep], trace: bool) -> list[str]:
    return [show_step(step) + "\n" for step in steps] if trace else []


def _terms(item: CompiledItem, stage: str, trace: bool) -> str:
    answer = item.answer_item
    query, steps = answer.normalized if stage == "normal" else (answer.terms, [])
    return "\n".join([_head(item), *_derivation(steps, trace), show_query(query)])


def _plan(item: CompiledItem, trace: bool) -> str:
    if not item.reads_streams:
        return f"{_head(item)}\n{NOTHING_CHANGES}"
    _, steps = item.normalized
    plan = show_plan(item.plan, _by_row(item))
    return "\n".join([_head(item), *_derivation(steps, trace), plan, *item.watches.lines()])


def _by_row(item: CompiledItem) -> Mapping[int, tuple[str, ...]]:
    """What the nodes of an item's plan compute in Python."""
    from incmrql.engine.compile.by_row import nodes_by_row  # as large a library

    return nodes_by_row(item.plan.nodes, item.script, item.unknown_stored)


def _statements(item: CompiledItem, fast_sums: bool) -> str:
    from incmrql.lower.relations.statements import (
        show_statements,  # a large library that other stages need not load
    )

    query, _ = item.answer_item.normalized
    return f"{_head(item)}\n{show_statements(query, item.script, fast_sums=fast_sums)}"
