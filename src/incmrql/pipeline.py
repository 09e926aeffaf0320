"""From text to result: all stages, in order.  Start reading here.

| stage | from | to | module |
|---|---|---|---|
| parse | text | tree | `syntax` |
| include | tree | tree without includes | here |
| infer | tree | typed tree | `types` |
| check laws | typed aggregations | problems | `reference.laws` |
| translate | typed expression | terms | `algebra.translate` |
| normalize | terms | normal form | `algebra.optimize` |
| plan | terms in normal form | nodes that follow changes | `incremental` |
| lower | terms in normal form | SQL text, and the places left to Python | `sql.statements` |
| evaluate | typed tree | values | `reference` |

Nothing here touches a disk: what lies outside the text comes in through a `Catalog` and a
function that reads an include.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from incmrql.algebra.lineage import annotated
from incmrql.algebra.optimize import normal_form
from incmrql.algebra.rewrite import Step, show_step
from incmrql.algebra.show import show_query
from incmrql.algebra.translate import translate
from incmrql.diagnostics import Diagnostic, QueryError, Source, in_text_order
from incmrql.incremental.chance import follows_streams
from incmrql.incremental.explain import (
    NO_PLAN,
    NOTHING_CHANGES,
    Strict,
    cautions,
    plan_data,
    show_plan,
)
from incmrql.incremental.looping import Iterate
from incmrql.incremental.plan import plan_of
from incmrql.incremental.watching import show_watched, watched_data
from incmrql.reference import check_aggregation, new_world
from incmrql.syntax import ast, parse_items
from incmrql.syntax.depth import room
from incmrql.syntax.outline import outline
from incmrql.types import Catalog, infer_script, typed
from incmrql.types.model import Collection
from incmrql.types.questionable import questionable
from incmrql.types.show import show_expr
from incmrql.values import Bag

ReadInclude = Callable[[ast.Include, Source], Source]
"""The text that an include names, seen from the text that holds it."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A script in every form it went through."""

    tree: ast.Script
    typed: typed.Script
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What later stages keep with it, for when the same script is run again."""


def compile_script(source: Source, catalog: Catalog, include: ReadInclude) -> Compiled:
    """From text to a typed script whose aggregations keep their laws."""
    with room():
        problems: list[Diagnostic] = []
        tree = _parsed(source, include, (), problems)
        if problems:
            problems += _wrong_anyway(tree, catalog)
            raise QueryError(*in_text_order(problems))
        typed_script = infer_script(tree, catalog)
        problems = aggregation_problems(typed_script)
    if problems:
        raise QueryError(*problems)
    return Compiled(tree, typed_script)


def _parsed(
    source: Source, include: ReadInclude, outer: tuple[str, ...], problems: list[Diagnostic]
) -> ast.Script:
    """The items that can be read, those of includes in their places; adds to the problems."""
    script, found = parse_items(source)
    problems += found
    items: list[ast.Item] = []
    for item in script.items:
        if not isinstance(item, ast.Include):
            items.append(item)
            continue
        try:
            inner = include(item, source)
        except QueryError as error:
            problems += error.problems
            continue
        if inner.name in (*outer, source.name):
            message = f'"{item.path}" includes itself'
            problems.append(Diagnostic("P012", message, item.span, "goes round in a circle"))
            continue
        items += _parsed(inner, include, (*outer, source.name), problems).items
    return ast.Script(tuple(items), span=script.span)


_UNKNOWN = ("T101", "T102", "T103", "T104", "T501")
"""Problems with a name: an item that could not be read may have declared it."""


def _wrong_anyway(tree: ast.Script, catalog: Catalog) -> list[Diagnostic]:
    """The type problems of the items that could be read, whatever the others say."""
    try:
        infer_script(tree, catalog)
    except QueryError as error:
        return [problem for problem in error.problems if problem.code not in _UNKNOWN]
    return []


def aggregation_problems(script: typed.Script) -> list[Diagnostic]:
    """A problem for each user aggregation whose merge a random trial proves not to be a monoid."""
    world = new_world(script)
    problems: list[Diagnostic] = []
    for aggregation in script.aggregations.values():
        found = check_aggregation(aggregation, world, random.Random(0))
        if found is not None:
            message = f'the merge of "{aggregation.name}" is not associative with its zero as unit'
            hint = "The answer would depend on how the data are split; use an associative merge."
            problems.append(Diagnostic("T605", message, aggregation.span, found, hint))
    return problems


def explain(compiled: Compiled, stage: str, *, trace: bool = False, fast_sums: bool = False) -> str:
    """A script at one stage, as text; with `trace`, the rules used on the way to normal form."""
    items = compiled.typed.items
    with room():
        match stage:
            case "tree":
                return outline(compiled.tree)
            case "types":
                return "\n".join(map(_typed_item, items))
            case "spark":
                return "\n\n".join([_texts(item, compiled, fast_sums) for item in items])
            case "incremental":
                return "\n\n".join([_plan(item, compiled, trace) for item in items])
            case _:
                return "\n\n".join([_terms(item, compiled, stage, trace) for item in items])


def explained_plans(compiled: Compiled) -> list[dict[str, Any]]:
    """The plan of each item of a script as data; docs/explain.md says what the fields mean."""
    found = []
    with room():
        for item in compiled.typed.items:
            follows = follows_streams(item.expr, compiled.typed)
            plan = plan_data(plan_of(item, compiled.typed)) if follows else NO_PLAN
            plan = {**plan, **(watched_data(item, compiled.typed) if follows else {})}
            text = {"text": item.span.text, "kind": item.kind, "place": str(item.span)}
            found.append({**text, "changes": follows, **plan})
    return found


_NO_TERM = ("A001", "A002")
"""Problems of queries that run, but have no plan."""


def explain_paper(compiled: Compiled) -> str:
    """Each item of a script in the paper's own construction: h, ⊗ and a."""
    from incmrql.incremental.paper import show_paper  # nothing else needs the paper

    shown = []
    with room():
        for item in compiled.typed.items:
            query = translate(item.expr, compiled.typed)  # the paper has a normal form of its own
            shown.append(f"-- {item.span.text}\n{show_paper(query)}")
    return "\n\n".join(shown)


def advice(
    compiled: Compiled, *, strict: Strict = False, iterate: Iterate = "default"
) -> list[Diagnostic]:
    """What should be known of the queries; with `strict`, errors among it."""
    found = questionable(compiled.typed)
    with room():
        for item in compiled.typed.items:
            if not follows_streams(item.expr, compiled.typed):
                continue
            if not item.incremental and item.kind in _FOLLOWED:
                found.append(each_batch_alone(item))
            try:
                plan = plan_of(item, compiled.typed)
                found += cautions(plan, item.span, strict=strict, iterate=iterate)
            except QueryError as error:
                softer = [replace(problem, severity="warning") for problem in error.problems]
                found += softer if error.code in _NO_TERM and not strict else error.problems
    return in_text_order(found)


_FOLLOWED = ("print", "incr", "store", "dump")


def each_batch_alone(item: typed.ScriptItem) -> Diagnostic:
    """The note on a query over streams without `incr`."""
    message = "without incr, incmrql run answers this query for each batch alone"
    hint = "Write incr before it for the answer over everything; in Python, start() means that."
    return Diagnostic("W303", message, item.span, "has no incr", hint, severity="note")


def asked(item: typed.ScriptItem, script: typed.Script) -> typed.Expr:
    """What an item asks: of `lineage` and `debug` the query with its notes.

    Nothing is stored yet, so that stored collections stand there as empty ones.
    """
    if item.kind not in ("lineage", "debug"):
        return item.expr
    stored = {
        each.target: Bag() if isinstance(each.expr.type, Collection) else None
        for each in script.items
        if each.kind == "store-value"
    }
    return annotated(item, script, stored, _path_of).expr


def _path_of(source: typed.Source) -> str:
    path = source.path
    return str(path.value) if isinstance(path, typed.Const) else path.span.text if path else ""


def _typed_item(item: typed.ScriptItem) -> str:
    return f"{item.kind}: {item.expr.type}\n  {show_expr(item.expr)}"


def _terms(item: typed.ScriptItem, compiled: Compiled, stage: str, trace: bool) -> str:
    query = translate(asked(item, compiled.typed), compiled.typed)
    steps: list[Step] = []
    if stage == "normal":
        query, steps = normal_form(query)
    derivation = [show_step(step) + "\n" for step in steps] if trace else []
    return "\n".join([f"-- {item.span.text}", *derivation, show_query(query)])


def _plan(item: typed.ScriptItem, compiled: Compiled, trace: bool) -> str:
    head = f"-- {item.span.text}"
    if not follows_streams(item.expr, compiled.typed):
        return f"{head}\n{NOTHING_CHANGES}"
    _, steps = normal_form(translate(item.expr, compiled.typed))
    derivation = [show_step(step) + "\n" for step in steps] if trace else []
    plan = show_plan(plan_of(item, compiled.typed))
    return "\n".join([head, *derivation, plan, *show_watched(item, compiled.typed)])


def _texts(item: typed.ScriptItem, compiled: Compiled, fast_sums: bool) -> str:
    from incmrql.sql.show import show_statements  # a large library that other stages need not load

    query, _ = normal_form(translate(asked(item, compiled.typed), compiled.typed))
    return f"-- {item.span.text}\n{show_statements(query, compiled.typed, fast_sums=fast_sums)}"
