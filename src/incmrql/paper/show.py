"""The paper's construction of a query as text: h, ⊗ and a, with what they rest on."""

from __future__ import annotations

import itertools
from typing import TypeVar, assert_never

from incmrql.algebra.show import show_term
from incmrql.algebra.term import Query, Repeat, Scan, Term
from incmrql.algebra.walk import map_variables, variables_of
from incmrql.paper.annotated import (
    Annotated,
    CoGrouped,
    Grouped,
    KMap,
    Mix,
    SMap0,
    SMap1,
    SMap2,
    SMap3,
    Swap,
    annotated_query,
    below,
    lineage_of_term,
)
from incmrql.paper.construct import (
    Construction,
    PerKey,
    Projected,
    Reduced,
    Split,
    construct,
    construction,
)
from incmrql.paper.form import OutsideError, form_of, is_growing, names_after, paper_form
from incmrql.paper.inference import NoMonoidError, assumptions, is_outer, operator_of, show_judgment
from incmrql.plan.explain.text import show_lineage
from incmrql.plan.monoids import BAG, COUNT, FLOATS, INVARIANT, SUM, Monoid, keyed_map, product
from incmrql.types import typed
from incmrql.types.show import show_expr, show_source, show_variable
from incmrql.types.walk import map_children

P = TypeVar("P")

LEGEND = "state = state ⊗ h(ΔS), answer = a(state); T keeps of a lineage its first key only"
OUTSIDE = "outside of the paper's construction"
ONE_TO_MANY = (
    "every join is one to many and each batch brings along the partners of its rows; "
    "other data gives wrong answers here"
)
PARTNERS = (
    "mix drops a key that has rows on one side only, so what the query says of rows without "
    "partners is lost"
)


def show_paper(query: Query) -> str:
    """h, ⊗ and a of a query as the paper derives them, or why it has none.

    Takes the translated query; in our normal form a join that was summed up on its sides before
    is outside of the paper's.
    """
    normal = paper_form(query)
    if not any(is_growing(term) for _, term in normal.parts):
        return "reads no stream: there is nothing to merge"
    loop = _loop(normal)
    if loop is not None:
        return _shown_loop(loop, normal)
    try:
        whole = construct(normal)
    except (OutsideError, NoMonoidError) as problem:
        return f"{OUTSIDE}: {_reason(problem)}"
    lines = [LEGEND]
    numbers = _Numbers()
    for variable, construction_of_part in whole.parts:
        lines.append(f"{show_variable(numbers.of(variable))} = a(h)")
        lines += _indent(_show(numbers.of(construction_of_part)))
    if not isinstance(whole.result, typed.Var):
        lines.append(show_expr(numbers.of(whole.result)))
    return "\n".join(lines)


def _loop(query: Query) -> Repeat | None:
    """The loop that a query is."""
    match query.parts:
        case ((_, Repeat(variables=(_,)) as term),):
            return term
        case _:
            return None


def _shown_loop(loop: Repeat, query: Query) -> str:
    """f(X, S) = a(h(X, S)) of a loop's step, and how the paper goes on from there."""
    numbers = _Numbers()
    numbers.of(loop.variables)
    name = show_variable(numbers.of(loop.variables[0]))
    names = names_after(query)
    try:
        of_step = construction(form_of(loop.step[0], names), names)
    except (OutsideError, NoMonoidError) as problem:
        return f"{OUTSIDE}: a loop, and in its step {_reason(problem)}"
    limit = "until nothing changes" if loop.limit is None else f"{show_expr(loop.limit)} times"
    lines = [
        LEGEND,
        f"{name} from",
        *_indent(show_term(numbers.of(loop.initial[0])).split("\n")),
        f"each step {name} = a(h({name}, S))",
        *_indent(_show(numbers.of(of_step))),
        f"the change of a batch, {limit}: ΔT = T ⊗^ h({name}, ΔS), {name} = a(ΔT)",
        "  ⊗^ is ⊗ with the right outer join in the place of the full one",
        "then T = T ⊗ ΔT, which counts T twice unless ⊗ is idempotent: an approximation",
    ]
    return "\n".join(lines)


def _reason(problem: OutsideError | NoMonoidError) -> str:
    if isinstance(problem, NoMonoidError):
        return f"{show_expr(_Numbers().of(problem.subject))} {problem.problem}"
    return str(problem)


class _Numbers:
    """Variables numbered anew, in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[typed.Variable, typed.Variable] = {}

    def of(self, part: P) -> P:
        """A part with its variables numbered."""
        for variable in variables_of(part):
            if variable not in self._known:
                number = next(self._numbers)
                self._known[variable] = typed.Variable(variable.name, number, variable.type)
        renumbered: P = map_variables(part, lambda variable: self._known.get(variable, variable))
        return renumbered


def _indent(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _show(construction: Construction) -> list[str]:
    lines = [f"lineage θ = {show_lineage(lineage_of_term(construction.form.body))}", "h ="]
    h = show_annotated(construction.h).split("\n")
    if isinstance(construction.answer, Reduced):
        (part,) = construction.merge.parts
        h = [f"reduce ⇑ {part}", *_indent(h)]
    lines += _indent(h)
    lines += [f"⊗ = {construction.merge}", "a(x) =", *_indent(_answer(construction))]
    lines.append(_deletions(construction))
    if assumptions(construction.proof):
        lines.append(f"assumes: {ONE_TO_MANY}")
    if is_outer(annotated_query(construction.form.body)):
        lines.append(f"caution: {PARTNERS}")
    return [*lines, "because", *_indent(show_judgment(construction.proof).split("\n"))]


def _deletions(construction: Construction) -> str:
    if isinstance(construction.answer, Projected):
        return "deletions: x - h(ΔS)"
    part = without_diminisher(construction.merge)
    if part is not None:
        return f"deletions: none, {part} has no diminisher"
    return "deletions: x ⊗~ h(ΔS), which forgets a key as soon as both values are the same"


def without_diminisher(monoid: Monoid) -> Monoid | None:
    """The part of a monoid that has no ⊗~, which takes away what was merged."""
    parts = monoid.parts
    if monoid == product(*parts) or (len(parts) == 1 and monoid == keyed_map(parts[0])):
        return next(filter(None, map(without_diminisher, parts)), None)
    return None if monoid in (INVARIANT, BAG, SUM, COUNT, FLOATS) else monoid


def _answer(construction: Construction) -> list[str]:
    match construction.answer:
        case Projected():
            lines = ["π2(x)"]
        case Reduced(parts):
            (part,) = construction.merge.parts
            lines = [f"{_names(parts)} -> {show_expr(parts.rest)}", f"  reduce {part}", "    π2(x)"]
        case PerKey(group, parts):
            rest = show_expr(_with_key(parts.rest, group))
            pattern = f"(k, {_names(parts)})"
            reduced = f"    reduce {construction.merge}"
            lines = [f"cMap {pattern} -> {rest}", "  π2", reduced, "      T(x)"]
        case _:
            assert_never(construction.answer)
    if construction.total is None:
        return lines
    head = f"{show_variable(construction.total.members)} -> {show_expr(construction.total.head)}"
    return [head, *_indent(lines)]


def _names(parts: Split) -> str:
    return f"({', '.join(show_variable(part.variable) for part in parts.kept)})"


def _with_key(expr: typed.Expr, group: typed.Variable) -> typed.Expr:
    """F with `k` for the key of its group."""
    match expr:
        case typed.Item(typed.Var(variable), 0) if variable == group:
            return typed.Stored("k", type=expr.type)  # a name that shows without a number
        case _:
            return map_children(lambda child: _with_key(child, group), expr)


def show_annotated(term: Annotated, depth: int = 0) -> str:
    """An annotated term, one operator a line, children indented under parents."""
    indent = "  " * depth
    match term:
        case SMap0(variable, body, source) | SMap3(variable, body, source):
            head = f"{operator_of(term)} {show_variable(variable)} -> {show_expr(body)}"
            return f"{indent}{head}\n{_source(source, depth + 1)}"
        case SMap1(variable, body) | SMap2(variable, body) | KMap(variable, body):
            head = f"{operator_of(term)} {show_variable(variable)} -> {show_expr(body)}"
        case Swap() | Mix() | Grouped() | CoGrouped():
            head = operator_of(term)
        case _:
            assert_never(term)
    inner = [show_annotated(child, depth + 1) for child in below(term)]
    return "\n".join([indent + head, *inner])


def _source(source: Term, depth: int) -> str:
    if not isinstance(source, Scan):
        return show_term(source, depth)
    shown = show_source(source.source)
    if source.source.format == "registered":
        shown = f"{'stream' if source.source.streaming else 'invariant'} {shown}"
    return "  " * depth + shown
