"""Lineage of the nodes of a plan, and of terms."""

from __future__ import annotations

from hypothesis import given

from incmrql.errors import QueryError
from incmrql.paper.annotated import lineage_of_term
from incmrql.paper.form import OutsideError, definition2, names_after
from incmrql.plan.explain.text import LONGEST, Empty, Keyed, Lineage, lineage_of, show_lineage
from incmrql.plan.nodes import Groups, Input, Join
from incmrql.values import Bag, Value
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.paper.run import state_of
from tests.paper.support import case
from tests.plan.stepping import query_plan, r, s

AVERAGE = "select (x.A, avg(y.D)) from x in R, y in S where x.B = y.A group by x.A"


def of_kind(text: str, kind: type) -> list[str]:
    plan = query_plan(text)
    lineages = lineage_of(plan)
    assert len(lineages) == len(plan.nodes)
    return [lineages[place] for place, node in enumerate(plan.nodes) if isinstance(node, kind)]


def test_rows_of_sources_have_none() -> None:
    assert of_kind(AVERAGE, Input) == ["()", "()"]


def test_groups_and_joins_add_their_keys() -> None:
    assert of_kind("select (k, count(x)) from x in R group by k: x.A", Groups) == ["(k2, ())"]
    text = "select (x.A, y.D) from x in R, y in S where x.B = y.A"
    assert of_kind(text, Join) == ["(k4, ((), ()))"]


def test_a_total_has_the_key_that_all_rows_share() -> None:
    assert of_kind("sum(select x.B from x in R)", Groups)[-1].startswith("((), (")


def test_the_answer_of_the_running_example_has_all_keys() -> None:
    plan = query_plan(AVERAGE)
    whole = lineage_of(plan)[plan.parts[0].place]
    assert whole.count("k") == sum(isinstance(node, Groups | Join) for node in plan.nodes)


def test_ways_and_loops() -> None:
    both = query_plan("(select x.A from x in R) union (select k from x in R group by k: x.B)")
    assert any(" | " in text for text in lineage_of(both))
    loop = query_plan("repeat X = R.A step select distinct x from x in X, y in S limit 2")
    assert any(text.startswith("loop(") for text in lineage_of(loop))


@fewer
@given(text=shape_queries())
def test_every_node_has_a_lineage_of_one_short_line(text: str) -> None:
    try:
        plan = query_plan(text)
    except QueryError as error:
        reject_if_refused(error)
    lineages = lineage_of(plan)
    assert len(lineages) == len(plan.nodes)
    assert all(text and "\n" not in text and len(text) < 5 * LONGEST for text in lineages)


def test_long_lineages_are_named() -> None:
    tables = ", ".join(f"x{n} in R" for n in range(12))
    where = " and ".join(f"x{n}.A = x{n + 1}.B" for n in range(11))
    lineages = lineage_of(query_plan(f"select x0.S from {tables} where {where}"))
    assert any("θ" in text for text in lineages)


def test_the_lineage_of_a_term_is_the_shape_of_its_state() -> None:
    """What h keeps beside each value is a tree of that very shape."""
    of = case(AVERAGE)
    ((_, form),) = definition2(of.query, names_after(of.query))
    shape = lineage_of_term(form.body)
    assert show_lineage(shape) == "(k1, (k2, ((), ())))"
    ((_, construction),) = of.whole.parts
    data = {"R": Bag([r(1, 5), r(2, 5)]), "S": Bag([s(5, 1.0)])}
    thetas = [theta for theta, _ in state_of(construction, of.env(data)).values()]
    assert thetas == [((1,), (5, ((), ()))), ((2,), (5, ((), ())))]
    assert all(fits(shape, theta) for theta in thetas)


def fits(shape: Lineage, theta: Value) -> bool:
    match shape:
        case Empty():
            return bool(theta == ())
        case Keyed(_, (one,)):
            return fits(one, theta[1])
        case Keyed(_, sides):
            return all(fits(side, part) for side, part in zip(sides, theta[1], strict=True))
        case _:
            return False


@fewer
@given(text=shape_queries())
def test_terms_of_all_shapes_have_a_lineage(text: str) -> None:
    try:
        of = case(text)
        parts = definition2(of.query, names_after(of.query))
    except QueryError as error:
        reject_if_refused(error)
    except OutsideError:
        return
    for _, form in parts:
        assert show_lineage(lineage_of_term(form.body)).count("(") >= 1
