"""Which loops are diffused, how, and which are refused, with what would go wrong."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import QueryError
from incmrql.plan.changes import Weighted
from incmrql.plan.diffusion.shape import Diffusion, plan_diffusion, require_diffusion
from incmrql.plan.diffusion.ways import NOT_DIFFUSED, Affine, Centroids, NotDiffused, Residual
from incmrql.plan.loops.program import step_program
from incmrql.plan.nodes import Edge
from incmrql.plan.planner import plan_query
from incmrql.reference import Environment, new_world
from tests.oracle.diffusion.program import Program
from tests.oracle.diffusion.state import DiffusedState, Settings
from tests.plan.diffusion.test_diffuse import (
    LOOPS,
    NESTED,
    OUTER,
    TABLES,
    Run,
    edge,
    graph,
    insertions,
    loop_of,
    node,
    script_and_plan,
    typed_script,
)

REACHED = """
repeat x = {1} step (distinct(x union (select e.dst from y in x, e in E where e.src = y)))"""
COMPONENTS = """
repeat d = (select (v.id, v.id) from v in V)
step (select (k, min(v)) from (k, v) in (d union (select (e.dst, v) from (n, v) in d, e in E
                                                  where e.src = n)) group by k)"""
SHORTEST = """
repeat d = {(1, 0.0)}
step (select (k, min(v)) from (k, v) in (d union (select (e.dst, v + e.w) from (n, v) in d, e in W
                                                  where e.src = n)) group by k) limit 10"""
LARGEST = """
repeat r = (select (v.id, v.start) from v in V)
step (select (v.id, max(select x from (n, x) in r, e in E where e.src = n and e.dst = v.id))
      from v in V) limit 10"""
CARRIED = """
repeat r = (select < id: k, rank: 1.0, adj: e.dst > from e in E group by k: e.src)
step (select < id: m.id, rank: 0.15 + 0.85 * c.rank, adj: m.adj >
      from c in (select < id: k, rank: sum(c.rank) >
                 from c in (select < id: a, rank: n.rank / count(n.adj) > from n in r, a in n.adj)
                 group by k: c.id),
           m in r where c.id = m.id) limit 10"""
FLAGGED = """
repeat r = (select < p: v.id, x: 1.0 > from v in V)
step (select (< p: w.p, x: w.x >, w.x - o.x > 0.001)
      from w in (select < p: e.dst, x: 0.15 + 0.85 * sum(o.x) > from o in r, e in E
                 where e.src = o.p group by e.dst),
           o in r where o.p = w.p) limit 20"""
ROOTS = """
repeat r = (select (v.id, 1.0) from v in V)
step (select (v.id, 0.15 + 0.5 * sqrt(sum(select x from (n, x) in r, e in E
                                          where e.src = n and e.dst = v.id)))
      from v in V) limit 10"""
MEANS = """
repeat cs = {< X: 0.0, Y: 0.0 >, < X: 9.0, Y: 9.0 >}
step (select < X: avg(s.X), Y: avg(s.Y) > from s in P
      group by k: (select c from c in cs
                   order by (c.X - s.X) * (c.X - s.X) + (c.Y - s.Y) * (c.Y - s.Y))[0]) limit 5"""
TWO = """
repeat (a, b) = ((select (v.id, 1.0) from v in V), (select (v.id, 2.0) from v in V))
step (b, a) limit 3"""


def shape(text: str, *, grows: bool = False) -> Diffusion:
    script = typed_script(text)
    plan = plan_query(normal_form(translate(script.items[-1].expr, script))[0], script)
    edges = [Edge(edge.constant, edge.invariant, grows) for edge in plan.edges]
    return plan_diffusion(loop_of(plan)[1], script, edges)


@pytest.mark.parametrize("name", LOOPS)
def test_affine_loops_are_recognised(name: str) -> None:
    diffusion = shape(LOOPS[name])
    assert isinstance(diffusion, Affine)
    assert diffusion.paths == ((("rank",),) if name == "records" else ((1,),))


NOT_AFFINE = {
    "squares": (NESTED.replace("x / count(o)", "x * x"), "multiplied with itself"),
    "a condition": (NESTED.replace("where e.src = n)", "where e.src = n and x > 0.5)"), "depends"),
    "a sum of constants": (NESTED.replace("x / count(o)", "x + 1.0"), "constant"),
    "divided by the value": (NESTED.replace("x / count(o)", "1.0 / x"), "depends on the value"),
    "an average": (NESTED.replace("sum(c)", "avg(c)"), "not only summed up"),
    "a root": (ROOTS, "an operation other than"),
    "the value as a label": (
        OUTER.replace("e.dst = v.id", "e.dst = v.id and n > x"),
        "depends on the value",
    ),
}


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_loops_that_are_not_affine(name: str) -> None:
    text, reason = NOT_AFFINE[name]
    diffusion = shape(text, grows=True)
    assert isinstance(diffusion, Residual)
    assert reason in diffusion.reason


def test_rows_that_are_there_without_the_variable_may_go() -> None:
    assert isinstance(shape(ROOTS), Residual)
    assert isinstance(shape(MEANS), Centroids)


SELF_SUPPORTING = {
    "reachability": REACHED, "components": COMPONENTS, "shortest ways": SHORTEST,
    "greatest": LARGEST, "data that the variable carries": CARRIED, "flags": FLAGGED,
    "pages without end": NESTED.replace("limit 10", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SELF_SUPPORTING)
def test_a_result_that_supports_itself_is_refused(name: str) -> None:
    diffusion = shape(SELF_SUPPORTING[name])
    assert isinstance(diffusion, NotDiffused)
    assert diffusion.code == NOT_DIFFUSED == "A104"
    assert "supports itself" in diffusion.message
    assert "r -> a" in diffusion.hint


@pytest.mark.parametrize("name", ["shortest ways", "greatest", "flags", "pages without end"])
def test_what_only_grows_may_support_itself(name: str) -> None:
    assert isinstance(shape(SELF_SUPPORTING[name], grows=True), Residual)


@pytest.mark.parametrize("name", ["reachability", "components"])
def test_what_has_no_doubles_has_nothing_to_diffuse(name: str) -> None:
    diffusion = shape(SELF_SUPPORTING[name], grows=True)
    assert isinstance(diffusion, NotDiffused)
    assert "no doubles" in diffusion.message
    assert "Exact" in diffusion.hint


def test_several_variables_are_refused() -> None:
    diffusion = shape(TWO)
    assert isinstance(diffusion, NotDiffused)
    assert "several variables" in diffusion.message


def test_what_is_refused_is_told_with_its_code() -> None:
    script, plan = script_and_plan(REACHED)
    with pytest.raises(QueryError) as problem:
        require_diffusion(loop_of(plan)[1], script, plan.edges)
    assert problem.value.code == "A104"
    env = Environment(new_world(script, registered={name: [] for name in TABLES}))
    with pytest.raises(QueryError):
        DiffusedState(loop_of(plan)[1], env, Settings())


# --- what would go wrong -------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong:
    """A loop, its rows before r -> a is deleted, and those that are right after it."""

    text: str
    before: tuple[object, ...]
    after: tuple[object, ...]


R, A, B = 1, 2, 3
WRONG = {
    "reachability": Wrong(REACHED, (R, A, B), (R,)),
    "shortest ways": Wrong(SHORTEST, ((R, 0.0), (A, 1.0), (B, 2.0)), ((R, 0.0),)),
}


@pytest.mark.parametrize("name", WRONG)
def test_differences_do_not_notice_what_supports_itself(name: str) -> None:
    """The step as a program of changes over the last result: a deletion changes nothing in it."""
    case = WRONG[name]
    script, plan = script_and_plan(case.text)
    table = "E" if "in E" in case.text else "W"
    _, loop = loop_of(plan)
    env = Environment(new_world(script, registered={name: [] for name in TABLES}))
    program = Program(step_program(loop, script), env)
    (step,) = program.looping.step
    edges = [(R, (A, 1.0)), (A, (B, 1.0)), (B, (A, 1.0))]
    rows = [(src, dst if table == "W" else dst[0]) for src, dst in edges]
    result = Weighted((row, 1) for row in case.before)
    program.run([Weighted((row, 1) for row in rows)], result)
    changes = program.run([Weighted([(rows[0], -1)])], Weighted())[step]
    held = {row[0] if isinstance(row, tuple) else row for row, weight in changes if weight < 0}
    assert B not in held
    assert any(B in (row, row[0] if isinstance(row, tuple) else None) for row in case.before)
    assert not any(B in (row, row[0] if isinstance(row, tuple) else None) for row in case.after)


def test_pages_that_link_to_one_another_alone_are_not_missed() -> None:
    """The same edges in a loop of which it is known at which steps each row is there."""
    run = Run(NESTED, limit=6)
    run.step(graph([(R, A), (A, B), (B, A)], [R]))
    assert len(run.got) == 1
    error = run.step({"E": [(edge(R, A), -1)]})
    assert run.got.keys() == run.wanted.keys() == set()
    assert run.far <= error.figure


def test_a_residual_is_no_bound_and_says_so() -> None:
    run = Run(ROOTS)
    run.step(graph([(1, 2), (2, 3), (3, 1)], [1, 2, 3]))
    error = run.step(graph([(1, 3)], []))
    assert error.kind == "residual"
    assert run.far < 1e-2
    run.step(insertions(V=[node(7)]))
    assert run.got.keys() == run.wanted.keys()
