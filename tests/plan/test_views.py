"""Named queries with several uses are translated, normalised and planned once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.translate.queries import views_of
from incmrql.engine.compile.program import compile_program
from incmrql.errors import QueryError
from incmrql.plan.assembly import program_of, watches_of
from incmrql.plan.explain.text import cautions, plan_data, show_plan
from incmrql.plan.nodes import Groups, Linear
from incmrql.plan.program import Program
from incmrql.reference import evaluate
from incmrql.syntax.depth import deep_recursion
from incmrql.values import identical, show
from tests.algebra.refusals import reject_if_refused
from tests.effort import fewer
from tests.engine.kernels import KernelRun
from tests.generators.stacked import over_views
from tests.plan.seeded import PAIRWISE, history
from tests.plan.stepping import ALL, Run, insertions, kinds, query_plan, r, typed_script
from tests.plan.test_stepper import holds


def chain(length: int, answers: str) -> str:
    """Groups over groups, each a named query; `answers` are the items after them."""
    views = ["v0 = select < A: k, B: count(x) as int > from x in R group by k: x.A;"]
    views += [
        f"v{n} = select < A: k, B: count(x) as int > from x in v{n - 1} group by k: x.A % {n + 2};"
        for n in range(1, length)
    ]
    return " ".join(views) + answers


def diamond(depth: int) -> str:
    """Joins of a named query with itself, again and again; sums may overflow."""
    views = ["d0 = select < A: k, B: sum(x.B) > from x in R group by k: x.A;"]
    views += [
        f"d{n} = select < A: x.A, B: x.B + y.B > from x in d{n - 1}, y in d{n - 1} where x.A = y.A;"
        for n in range(1, depth + 1)
    ]
    return " ".join(views) + f" incr d{depth};"


def program(text: str, *, watch: bool = False) -> Program:
    script = typed_script(text)
    return program_of(script.items, script, watch=watch)


def groups(of: Program) -> int:
    return sum(isinstance(node, Groups) for node in of.nodes)


def test_a_chain_of_answered_views_has_one_grouping_for_each() -> None:
    answers = "".join(f" incr v{n};" for n in range(12))
    assert groups(program(chain(12, answers))) == 12
    assert (
        len(program(chain(24, "".join(f" incr v{n};" for n in range(24)))).nodes)
        == 2 * len(program(chain(12, answers)).nodes) - 1
    )


def test_a_diamond_has_one_join_for_each_level() -> None:
    for depth in (5, 20):
        for watch in (False, True):
            counts = Counter(type(node).__name__ for node in program(diamond(depth)).nodes)
            assert counts["Join"] == depth
            assert len(program(diamond(depth), watch=watch).nodes) < 20 * depth


def test_a_view_with_one_use_is_fused_with_that() -> None:
    inner, outer = "select (k, count(x)) from x in R group by k: x.A", "select (n, count(k)) from"
    named = program(f"v = {inner}; incr {outer} (k, n) in v group by n;")
    assert named.identity == program(f"incr {outer} (k, n) in ({inner}) group by n;").identity


def test_what_only_maps_rows_is_written_out_at_each_use() -> None:
    text = (
        "v = select x from x in R where x.B > 0; "
        "(count(v), sum(v.A), count(select x from x in v, y in v where x.A = y.A))"
    )
    assert query_plan(text).views == ()
    named = program("v = select x from x in R where x.B > 0; incr count(v); incr v;")
    spelled = "select x from x in R where x.B > 0"
    assert named.identity == program(f"incr count({spelled}); incr {spelled};").identity


def test_a_long_chain_of_maps_is_cut_where_it_gets_long() -> None:
    """Written out, the last of n maps would be n maps long, and all of them n * n."""
    maps = "".join(
        f"m{n} = select < A: x.A + 1, B: x.A * 2 > from x in m{n - 1} where x.B <> {n};"
        for n in range(1, 31)
    )
    text = f"m0 = select < A: x.A, B: x.B > from x in R; {maps}" + "".join(
        f"incr m{n};" for n in range(31)
    )
    nodes = program(text).nodes
    assert len(nodes) <= 45
    steps = sum(len(node.steps) for node in nodes if isinstance(node, Linear))
    assert steps <= 45


@pytest.mark.parametrize(
    "text",
    [
        "v = select x from x in R order by x.A limit 2; (count(v), sum(v.A))",  # a list
        "v = if count(R) > 1 then R else null; (count(v), sum(v.A))",
        "v = select (k, random(max(x.A))) from x in R group by k: x.A; (count(v), count(v))",
        "v = select (k, trace(max(x.A))) from x in R group by k: x.A; (count(v), count(v))",
    ],
)
def test_what_cannot_be_shared_is_not(text: str) -> None:
    script = typed_script(f"{text};")
    assert not views_of([script.items[-1].expr], script).by_key


def test_explain_names_views() -> None:
    counts = "v = select (k, count(x)) from x in R group by k: x.A;"
    plan = query_plan(f"{counts} (count(v), select n from (k, n) in v)")
    assert "view v: planned once for all that read it" in show_plan(plan)
    assert [node["view"] for node in plan_data(plan)["nodes"]].count("v") == 1
    assert kinds(plan)["fold"] == 2
    assert "view" not in show_plan(query_plan(f"{counts} select n from (k, n) in v"))


def test_a_warning_of_a_view_is_given_once() -> None:
    text = (
        "v = select (k, x) from x in R group by k: x.A having count(x) > 1; "
        "select (k, count(g)) from (k, x) in v, (g, y) in v where k = g group by k"
    )
    script = typed_script(f"{text};")
    (warning,) = cautions(query_plan(text), script.items[-1].span, strict="groups")
    assert (warning.code, warning.severity) == ("W105", "error")


def test_views_are_watched_once_for_the_columns_that_are_read() -> None:
    text = "v = select (k, sum(x.B), sum(x.A)) from x in R group by k: x.A;"
    reads = "incr select n from (k, n, m) in v where k > 1; incr select (k, n) from (k, n, m) in v;"
    script = typed_script(text + reads)
    views = views_of([item.expr for item in script.items], script)
    watches = watches_of(script.items, script, views)
    assert [[site.text for site in watch.sites] for watch in watches] == [["sum(x.B)"], []]
    script = typed_script(f"{text} {reads} incr v;")
    watches = watches_of(script.items, script, views_of([i.expr for i in script.items], script))
    assert [len(watch.sites) for watch in watches] == [2, 0, 0]


def test_what_a_condition_hides_is_watched_in_a_view() -> None:
    """The rows of a view are there for all that read it, whatever one of them leaves out."""
    text = (
        "v = select (k, 1 / sum(x.B)) from x in R group by k: x.A; "
        "incr select q from (k, q) in v where k > 5; incr select k from (k, q) in v where k < 3;"
    )
    script = typed_script(text)
    run = program_of(script.items, script, watch=True)
    with TemporaryDirectory() as folder:
        kernel = KernelRun(run, Path(folder))
        *_, failed = kernel.step(insertions(R=[r(1, 0), r(7, 1)]))
    assert len(failed) == 1


def test_answers_of_several_items_over_views(tmp_path: Path) -> None:
    joined = "select (x.B, y.B) from x in v1, y in v3 where x.A = y.A"
    several(chain(4, f" incr v0; incr v2; incr v3; incr {joined};"), tmp_path)


def test_a_loop_reads_a_view(tmp_path: Path) -> None:
    text = (
        "e = select distinct (x.A, x.B) from x in R; incr e; "
        "incr repeat v = (select a from (a, b) in e) "
        "step distinct(v union (select b from (a, b) in e, c in v where a = c)) limit 4;"
    )
    several(text, tmp_path)


def several(text: str, folder: Path) -> None:
    """Step through histories; every item must have the right answer after every batch."""
    chance = Random(text)
    for number, traits in enumerate(PAIRWISE):
        run = Run(text)
        kernel = KernelRun(program(text, watch=True), folder / str(number))
        for batch in history(chance, traits, ALL):
            run.step(batch)
            kernel.step(batch)
            for place, item in enumerate(run.script.items):
                expected, answer = evaluate(item.expr, run.env()), kernel.answer(place)
                assert identical(expected, answer), f"{text}\n{show(expected)}\n{show(answer)}"


def test_state_exists_once() -> None:
    view = "select (k, max(x.B)) from x in R group by k: x.A"
    other = "incr select (n, count(k)) from (k, n) in v group by n;"
    once = compile_program(program(f"v = {view}; incr v; {other}")).schemas
    twice = compile_program(program(f"v = {view}; w = {view}; incr w; {other}")).schemas
    assert len(once) < len(twice)


@fewer
@given(text=over_views(), data=st.data())
def test_answers_follow_views(text: str, data: st.DataObject) -> None:
    with deep_recursion():
        holds(text, data)


@fewer
@given(text=over_views(), seed=st.integers(0, 1_000_000))
def test_the_engine_follows_views(text: str, seed: int) -> None:
    """All named queries are answered too, in one program."""
    chance = Random(seed)
    names = [part.split(" = ")[0].strip() for part in text.split("; ")[:-1]]
    script = "; ".join([*text.split("; ")[:-1], *(f"incr {name}" for name in names)])
    with deep_recursion(), TemporaryDirectory() as folder:
        try:
            whole = f"{script}; incr {text.split('; ')[-1]};"
            run = Run(whole)
            items = run.script.items
            kernel = KernelRun(program_of(items, run.script), Path(folder))
        except QueryError as error:
            reject_if_refused(error)
        for batch in history(chance, chance.choice(PAIRWISE), ALL):
            run.step(batch)
            kernel.step(batch)
            for place, item in enumerate(items):
                expected, answer = evaluate(item.expr, run.env()), kernel.answer(place)
                assert identical(expected, answer), f"{whole}\n{show(expected)}\n{show(answer)}"


def test_named_queries_that_use_each_other_have_several_uses() -> None:
    """A query that is written out twice uses twice what it uses."""
    text = (
        "v = select < A: k, B: count(x) > from x in R group by k: x.A; "
        "w = select y from y in v where y.B > 1; (count(w), select y.A from y in w)"
    )
    assert [name for name, _ in query_plan(text).views] == ["v"]
