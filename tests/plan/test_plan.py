"""What plans keep and cost, what is refused, and how a plan reads."""

from __future__ import annotations

import pytest

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.errors import DataError, QueryError, SourceText
from incmrql.plan.changes import Weighted
from incmrql.plan.explain.nodes import shapes
from incmrql.plan.explain.text import show_plan
from incmrql.plan.nodes import Groups, Input, Join, Plan
from incmrql.plan.planner import plan_of
from incmrql.values import Bag, Record
from tests.oracle.states.base import Work
from tests.plan.stepping import ALL, Run, deletions, insertions, kinds, query_plan, r, s

AVERAGE = "select (k, avg(x.C)) from x in R group by k: x.A"
JOIN = "select (x.C, y.D) from x in R, y in S where x.A = y.A"
SEMI = "select x.C from x in R where exists (select y from y in S where y.A = x.A)"
SCALAR = "select x.A from x in R where x.C > avg(S.D)"


def over_folder(text: str, options: str = "") -> Plan:
    """The plan of a query over a stream of files named STREAM."""
    stream = f'stream(line, "in", ",", type(< K: int, V: double, W: int >){options})'
    source = SourceText(f"incr {text.replace('STREAM', stream)};")
    script = compile_script(source, catalog_for(source, ()), read_include).typed
    return plan_of(script.items[-1], script)


def work(run: Run) -> Work:
    """The rows of the last batch, over all nodes."""
    done = run.stepper.work
    return Work(sum(w.taken for w in done), sum(w.read for w in done), sum(w.sent for w in done))


def warnings(text: str, streams: frozenset[str] = ALL) -> list[str]:
    return [
        warning.code for shape in shapes(query_plan(text, streams)) for warning in shape.warnings
    ]


# --- what is kept ------------------------------------------------------------------------------


def test_an_average_keeps_a_sum_and_a_count_and_no_rows() -> None:
    plan = query_plan(AVERAGE)
    (fold,) = [node for node in plan.nodes if isinstance(node, Groups)]
    assert [accumulator.kind for accumulator in fold.accumulators] == ["sum", "count"]
    assert (fold.kept, fold.used, fold.is_fold) == ((), (), True)


def test_what_is_asked_twice_is_kept_once() -> None:
    plan = query_plan("select (k, avg(x.C), sum(x.C), stddev(x.C), count(x.C)) from x in R "
                   "group by k: x.A")  # fmt: skip
    (fold,) = [node for node in plan.nodes if isinstance(node, Groups)]
    assert sorted(accumulator.kind for accumulator in fold.accumulators) == [
        "count",
        "squares",
        "sum",
    ]
    assert len(fold.requests) == 4


def test_a_join_keeps_the_columns_that_are_used() -> None:
    run = Run(JOIN)
    run.step(insertions(R=[r(1, 2, 3.0, "long"), r(1, 4, 3.0, "text")], S=[s(1, 5.0, "t")]))
    assert run.stepper.sizes[-1] == 2  # two rows of R are one (C, 3.0) of weight 2


def test_partners_of_an_invariant_side_are_not_kept() -> None:
    both, left = query_plan(JOIN).nodes[-1], query_plan(JOIN, "R").nodes[-1]
    assert isinstance(both, Join)
    assert isinstance(left, Join)
    assert (both.kept, left.kept) == ((0, 1), (1,))
    run = Run(SEMI, "R", {"S": Bag([s(1)])})
    run.step(insertions(R=[r(1, 1, float(n)) for n in range(50)]))
    assert run.stepper.sizes[-1] == 1


def test_groups_of_invariant_sources_are_not_kept() -> None:
    run = Run(
        "select (k, count(y), median(y.D)) from y in S group by k: y.A", "R", {"S": Bag([s(1)])}
    )
    run.step({})
    assert sum(run.stepper.sizes) == 0


@pytest.mark.parametrize("text", [AVERAGE, JOIN, SEMI, "select x.A from x in R limit 1"])
def test_nothing_is_kept_of_rows_that_are_gone(text: str) -> None:
    run, rows, others = Run(text), [r(1), r(2)], [s(1), s(3)]
    run.step(insertions(R=rows, S=others))
    assert sum(run.stepper.sizes) > 0
    run.step(deletions(R=rows, S=others))
    assert run.stepper.sizes == [0] * len(run.plan.nodes)


def test_equal_sources_are_one_input() -> None:
    assert kinds(query_plan("select (x.S, y.S) from x in R, y in R where x.A = y.A"))["input"] == 1


# --- work goes with the change -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        AVERAGE,
        JOIN,
        SEMI,
        SCALAR,
        "select (k, median(x.C)) from x in R group by k: x.A",
        "select (k, x) from x in R group by k: x.A",
        "select distinct x.A from x in R",
        "select (x.A, y.D) from x in R, y in S where x.B = y.A order by x.A limit 3",
        "select x from x in R where x.C > sum(select y.D from y in S where x.A = y.A)",
        "(count(R), avg(R.C))",
        "select (x.A, x.C) from x in R order by x.C desc limit 2",
    ],
)
def test_untouched_keys_cost_nothing(text: str) -> None:
    done = []
    for history in (20, 200):
        run = Run(text)
        rows = [r(n, n, float(n % 7)) for n in range(history)]
        run.step(insertions(R=rows, S=[s(n, float(n % 3)) for n in range(history)]))
        run.step(insertions(R=[r(3, 3, 99.0)]))
        more = work(run)
        run.step(deletions(R=[r(3, 3, 99.0)]))
        less = work(run)
        done.append((more.taken, more.read, more.sent, less.taken, less.read, less.sent))
    assert done[0] == done[1]
    assert max(done[0]) < 20


def test_a_semi_join_says_nothing_while_its_answer_stays() -> None:
    run = Run(SEMI)
    run.step(insertions(R=[r(1, n, float(n)) for n in range(30)], S=[s(1, 1.0)]))
    assert not run.step(insertions(S=[s(1, 2.0)]))
    assert run.stepper.work[-1].read == 1
    assert len(run.step(deletions(S=[s(1, 1.0), s(1, 2.0)]))) == 30


def test_the_greatest_partner_is_not_looked_for_again_while_partners_stay() -> None:
    run = Run("select x.C from x in R where x.B > max(select y.A from y in S where y.D = x.C)")
    run.step(insertions(R=[r(1, 2, 1.0)], S=[s(n, 1.0) for n in range(30)]))
    run.step(insertions(R=[r(1, 99, 1.0)]))
    assert run.stepper.work[-1].read == 2  # the group, and the greatest
    run.step(deletions(S=[s(n, 1.0) for n in range(15, 30)]))
    assert run.stepper.work[-1].read == 7  # the greatest before and after, the rows with both


def test_an_answer_that_stays_is_not_sent() -> None:
    run = Run("select (k, max(x.B)) from x in R group by k: x.A")
    run.step(insertions(R=[r(1, 5)]))
    assert not run.step(insertions(R=[r(1, 2)]))


# --- insert-only edges -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("select x.K from x in STREAM", "", True),
        ("select x.K from x in STREAM", ', deletes: "out"', False),
        ("select x.K from x in STREAM", ', sign: "W"', False),
        ("select distinct x.K from x in STREAM", "", True),
        ("select (k, count(x)) from x in STREAM group by k: x.K", "", False),
        ("select (x.V, y.V) from x in STREAM, y in STREAM where x.K = y.W", "", True),
        ("select x.K from x in STREAM order by x.V limit 2", "", False),
        ("select x.K from x in STREAM where x.V > avg(select y.V from y in STREAM)", "", False),
        ("select x.K from x in STREAM where x.V > sum({1.0, 2.0})", "", True),
    ],
)
def test_what_only_grows_is_known(text: str, options: str, expected: bool) -> None:
    if "sign" in options:
        options = ', sign: "Z"'
    plan = over_folder(text, options)
    assert plan.edges[plan.parts[0].place].insert_only is expected


def test_a_pushed_stream_may_delete_and_an_invariant_source_does_not() -> None:
    assert [edge.insert_only for edge in query_plan("R").edges] == [False]
    assert [(e.insert_only, e.invariant) for e in query_plan("R", "S").edges] == [(True, True)]


# --- deletions of what is not there ------------------------------------------------------------


def test_deleting_what_is_not_there_is_refused_and_changes_nothing() -> None:
    run = Run(AVERAGE)
    run.step(insertions(R=[r(1, 0, 3.0), r(1, 0, 0.0)]))
    before = run.stepper.answer(), run.stepper.sizes
    with pytest.raises(DataError, match=r"not there: < A: 1, B: 0, C: 1\.0") as caught:
        run.stepper.step({"R": [(r(2, 0, 3.0), 1), (r(1, 0, 1.0), -1)]})
    assert caught.value.code == "R205"
    assert (run.stepper.answer(), run.stepper.sizes) == before
    run.step(deletions(R=[r(1, 0, 3.0)]))


def test_a_row_may_come_and_go_in_one_batch() -> None:
    run = Run(AVERAGE)
    assert not run.step({"R": [(r(1), -1), (r(1), 1)]})


def test_a_stream_that_only_grows_refuses_deletions() -> None:
    run = Run("select x.A from x in R")
    grows = over_folder("select x.K from x in STREAM")
    stepper = type(run.stepper)(grows, run.start)
    with pytest.raises(DataError, match="only grows"):
        stepper.step({'stream(line, "in")': [(Record({"K": 1, "V": 1.0, "W": 1}), -1)]})


def test_trusted_deletions_need_no_ledger() -> None:
    options = ', deletes: "out"'
    for more, expected in (("", True), (", trusted_deletes: true", False)):
        node = over_folder("select x.K from x in STREAM", options + more).nodes[0]
        assert isinstance(node, Input)
        assert node.ledger is expected


def test_a_batch_that_fails_changes_nothing() -> None:
    run = Run("repeat x = R.A step (select y + 1 from y in x where y < 1000000000)")
    run.start.world.max_steps = 3
    run.step({})
    with pytest.raises(DataError, match="still changes"):
        run.stepper.step({"R": [(r(1), 1)]})
    assert run.stepper.answer() == Bag()
    assert run.stepper.step({"R": []}) == Weighted()


def test_an_unknown_stream_is_named() -> None:
    with pytest.raises(DataError, match='reads no stream "Q"'):
        Run("R").stepper.step({"Q": []})
    with pytest.raises(DataError, match="reads no stream"):
        Run("R", "S").stepper.step({"R": []})


# --- refusals, warnings, text ------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "select x.A + random(9) from x in R",
        "(count(R), random(9))",
        "select x.A from x in R limit random(9)",
    ],
)
def test_chance_is_refused_over_streams(text: str) -> None:
    with pytest.raises(QueryError, match="random") as caught:
        query_plan(text)
    assert caught.value.code == "A102"
    query_plan(text, "S")


def test_chance_in_a_function_is_refused() -> None:
    text = "def f(x: int): long = random(9) + x; select f(x.A) from x in R;"
    with pytest.raises(QueryError, match="random"):
        Run(text)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("select (x.A, y.A) from x in R, y in S", ["W101"]),
        ("sum(select y.D from x in R, y in S)", []),
        (SCALAR, ["W102"]),
        ("repeat x = R.A step (select y from y in x order by y limit 2) limit 3", ["W103"]),
        ("max(R.A)", []),
        ("median(distinct(R.C))", ["W104"]),
        ("count(select (x, y) from x in R.A, y in R.A where x < y) + 1", ["W101"]),
        (AVERAGE, []),
        (JOIN, []),
    ],
)
def test_costly_shapes_have_a_warning(text: str, codes: list[str]) -> None:
    assert warnings(text) == codes


def test_nothing_is_warned_of_what_never_changes() -> None:
    assert warnings(SCALAR, frozenset("R")) == []


def test_shapes_say_what_is_kept_for_whom() -> None:
    *_, fold = shapes(query_plan(AVERAGE))
    assert (fold.kind, fold.is_incremental) == ("fold", True)
    assert [kept.is_rows for kept in fold.keeps] == [False, False, False]
    assert all(kept.asked[0].startswith("avg(group") for kept in fold.keeps[1:])
    kinds_of = [shape.kind for shape in shapes(query_plan(JOIN))]
    assert kinds_of == ["source", "linear", "source", "linear", "bilinear"]
    loop = shapes(query_plan("repeat x = R.A step x limit 3"), "exact")[-1]
    assert (loop.kind, loop.is_incremental) == ("loop", True)
    assert not shapes(query_plan("repeat x = R.A step x limit 3"))[-1].is_incremental  # maybe
    again = "repeat x = R.A step (select y from y in x order by y limit 2) limit 3"
    assert not shapes(query_plan(again))[-1].is_incremental


def test_a_plan_reads_as_a_tree() -> None:
    lines = show_plan(query_plan(JOIN, "R")).splitlines()
    assert lines[0].endswith("= all rows of node 4")
    assert lines[1] == "  4: bilinear: join by int"
    assert "     keeps right rows by int: x5.D, for right10" in lines
    assert "      2: source S  [invariant]" in lines[-1]
    again = show_plan(query_plan("select (x.S, y.S) from x in R, y in R where x.A = y.B"))
    assert again.splitlines()[-1].strip() == "0: as above"


def test_a_plan_names_its_warnings_and_its_answer() -> None:
    shown = show_plan(query_plan("(count(R), (select (x.A, y.A) from x in R, y in S))"))
    assert "warning[W101]" in shown
    assert shown.splitlines()[-1].startswith("answer (elem(")
