"""What is kept and no more: columns, values, accumulators; and which term asked for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.plan.changes import Weighted
from incmrql.plan.explain.nodes import StateItem, shapes
from incmrql.plan.monoids import COUNT, FLOATS, MAX, MIN, SUM, commutative_monoid
from incmrql.plan.nodes import Groups, Input, Join, Ordered, Plan
from incmrql.values import Bag, Record
from tests.effort import examples
from tests.oracle.changes import narrow_rows
from tests.plan.stepping import (
    Run,
    all_at_once,
    deletions,
    insertions,
    one_by_one,
    planned_run,
    query_plan,
    r,
    rows_of,
    s,
    typed_script,
)

GROWS = "stream(R, insert_only: true)"


def last(plan: Plan) -> Groups:
    node = plan.nodes[-1]
    assert isinstance(node, Groups)
    return node


def state_items(text: str) -> tuple[StateItem, ...]:
    return shapes(query_plan(text))[-1].keeps


# --- accumulators --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("avg(x.C)", [FLOATS, COUNT]),
        ("sum(x.B)", [SUM]),
        ("variance(x.C)", [FLOATS, SUM, COUNT]),
        ("count(x)", [COUNT]),
        ("min(x.C)", [MIN]),
        ("(max(x.B), first(x.S))", [MAX, MIN]),
        ("(max(x.B), max(x.B) + 1)", [MAX]),
        ("min(distinct(x.C))", [MIN]),
    ],
)
def test_groups_that_only_grow_keep_accumulators(function: str, expected: list[object]) -> None:
    node = last(query_plan(f"select (k, {function}) from x in {GROWS} group by k: x.A"))
    assert [accumulator.monoid for accumulator in node.accumulators] == expected
    assert (node.tables, node.kept, node.is_fold) == ((), (), True)


def test_the_greatest_of_what_only_grows_is_one_value() -> None:
    run = Run(f"select (k, max(x.B)) from x in {GROWS} group by k: x.A")
    run.step(insertions(R=[r(1, n, float(n)) for n in range(50)]))
    assert sum(run.stepper.sizes) == 1
    run.step(insertions(R=[r(1, 99), r(2, None)]))
    assert run.stepper.answer() == Bag([(1, 99), (2, None)])
    assert run.stepper.work[-1].read == 1


def test_what_can_be_taken_away_is_kept_as_values_in_order() -> None:
    node = last(query_plan("select (k, min(x.B), max(x.B)) from x in R group by k: x.A"))
    assert (len(node.tables), node.accumulators, node.kept) == (1, (), ())
    run = Run("select (k, min(x.B), max(x.B)) from x in R group by k: x.A")
    run.step(insertions(R=[r(1, 5, float(n), str(n)) for n in range(50)]))
    assert sum(run.stepper.sizes) == 1  # one value, fifty times


def test_the_first_rows_of_what_only_grows_are_all_that_is_kept() -> None:
    run = Run(f"select (x.A, x.B) from x in {GROWS} order by x.B desc limit 3")
    run.step(insertions(R=[r(n, n) for n in range(50)]))
    run.step(insertions(R=[r(7, 99), r(7, 1)]))
    assert run.stepper.answer() == [(7, 99), (49, 49), (48, 48)]
    assert run.stepper.sizes[-1] == 3
    (node,) = [node for node in run.plan.nodes if isinstance(node, Ordered)]
    assert node.grows


def test_the_first_of_groups_that_only_grow_are_all_that_is_kept() -> None:
    first = "(select y.B from y in x order by y.C desc limit 3)"
    run = Run(f"select (k, {first}) from x in {GROWS} group by k: x.A")
    run.step(insertions(R=[r(1, n, float(n)) for n in range(50)]))
    run.step(insertions(R=[r(1, 99, 99.0), r(1, 1, 1.0)]))
    assert run.stepper.answer() == Bag([(1, [99, 49, 48])])
    assert sum(run.stepper.sizes) == 3
    run = Run(f"select (k, (select y.B from y in x order by y.C)[0]) from x in {GROWS} "
              "group by k: x.A")  # fmt: skip
    run.step(insertions(R=[r(1, n, float(n)) for n in range(50)]))
    assert sum(run.stepper.sizes) == 1
    assert state_items(run.text)[-1].what.startswith("first 1 values of")


@examples(25)
@given(data=st.data())
@pytest.mark.parametrize(
    "text",
    [
        f"select (k, min(x.C), max(x.B), first(x.S)) from x in {GROWS} group by k: x.A",
        f"select (x.A, x.B) from x in {GROWS} order by x.B desc, x.C limit 2",
        f"select (k, (select y.S from y in x order by y.C desc limit 2), "
        f"(select y.S from y in x order by y.C)[1], median(x.C)) from x in {GROWS} "
        f"group by k: x.A",
        "aggregation lo(\\(a: double, b: double): double. min(a, b), 9.0): double; "
        f"select (k, lo(x.C)) from x in {GROWS} group by k: x.A;",
        f"(min(select x.C from x in {GROWS}), count(R))",
        f"select (x.S, max(select y.B from y in {GROWS} where y.A = x.A)) from x in R",
    ],
)
def test_what_only_grows_answers_as_ever(text: str, data: st.DataObject) -> None:
    run = planned_run(text).fresh()
    rows = data.draw(rows_of("R", 8))
    cut = data.draw(st.integers(0, len(rows)))
    history = [insertions(R=rows[:cut]), insertions(R=rows[cut:])]
    for batch in history:
        run.step(batch)
    for other in (one_by_one(history), all_at_once(history)):
        assert run.again(other).state() == run.stepper.state() or not rows


# --- user aggregations ---------------------------------------------------------------------------

SPAN = (
    "type Span = (int, int); aggregation span(\\(a: Span, b: Span): Span. "
    "(min(a#0, b#0), max(b#1, a#1)), (2147483647, -2147483648), \\(n: int): Span. (n, n)): Span;"
)
JOINED = "aggregation joined(\\(x: string, y: string): string. x + y, ''): string;"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (SPAN, True),
        (JOINED, False),
        ("aggregation a(\\(x: long, y: long): long. x + y, 0): long;", False),
        ("aggregation a(\\(x: double, y: double): double. x * y, 1.0): double;", False),
        ("aggregation a(\\(x: int, y: int): int. max(y, x), -2147483648): int;", True),
        ("aggregation a(\\(x: int, y: int): int. max(x, x), -2147483648): int;", False),
        ("aggregation a(\\(x: bool, y: bool): bool. x or y, false): bool;", True),
        ("aggregation a(\\(x: bag(int), y: bag(int)): bag(int). x union y, {}): bag(int);", True),
        ("type T = < p: int, q: bool >; aggregation a(\\(x: T, y: T): T. "
         "< p: min(x.p, y.p), q: x.q and y.q >, < p: 2147483647, q: true >): T;", True),
        ("type T = < p: int, q: int >; aggregation a(\\(x: T, y: T): T. "
         "< p: min(x.p, y.q), q: 1 >, < p: 1, q: 1 >): T;", False),
    ],
)  # fmt: skip
def test_a_merge_is_commutative_if_it_is_seen_to_be(declared: str, expected: bool) -> None:
    (aggregation,) = typed_script(f"{declared} 1;").aggregations.values()
    assert (commutative_monoid(aggregation) is not None) is expected


def test_a_commutative_aggregation_of_what_only_grows_is_one_value() -> None:
    run = Run(f"{SPAN} select (k, span(x.B)) from x in {GROWS} group by k: x.A;")
    run.step(insertions(R=[r(1, n) for n in (5, 3, None)]))
    run.step(insertions(R=[r(1, 9), r(1, 9), r(2, None)]))
    assert run.stepper.answer() == Bag([(1, (3, 9)), (2, (2147483647, -2147483648))])
    assert sum(run.stepper.sizes) == 2
    assert [accumulator.kind for accumulator in last(run.plan).accumulators] == ["user"]
    assert run.again([insertions(R=[r(1, 3), r(1, 5), r(1, 9), r(1, 9), r(1, None), r(2, None)])]
                     ).state() == run.stepper.state()  # fmt: skip


PARITY = (
    "aggregation parity(\\(a: bool, b: bool): bool. a <> b, false, "
    "\\(n: int): bool. n % 2 <> 0, \\(a: bool): bool. a): bool;"
)


def test_an_aggregation_with_an_inverse_is_one_value_though_rows_are_deleted() -> None:
    run = Run(f"{PARITY} select (k, parity(x.B)) from x in R group by k: x.A;")
    run.step(insertions(R=[r(1, 1), r(1, 1), r(1, 3), r(1, None), r(2, 4)]))
    assert run.stepper.answer() == Bag([(1, True), (2, False)])
    run.step({"R": [(r(1, 1), -1), (r(2, 4), -1), (r(2, 5), 2)]})
    assert run.stepper.answer() == Bag([(1, False), (2, False)])
    assert [accumulator.kind for accumulator in last(run.plan).accumulators] == ["user"]
    assert (last(run.plan).tables, last(run.plan).kept) == ((), ())
    assert sum(run.stepper.sizes) == 2
    once = run.again([insertions(R=[r(1, 1), r(1, 3), r(1, None), r(2, 5), r(2, 5)])])
    assert once.state() == run.stepper.state()


@pytest.mark.parametrize("source", ["R", GROWS])
def test_any_other_aggregation_takes_its_values_in_order(source: str) -> None:
    """In the order in which rows come the text would be another one."""
    run = Run(f"{JOINED} select (k, joined(x.S)) from x in {source} group by k: x.A;")
    run.step(insertions(R=[r(1, 1, 1.0, "c"), r(1, 2, 2.0, "a")]))
    run.step(insertions(R=[r(1, 3, 3.0, "b")]))
    assert run.stepper.answer() == Bag([(1, "abc")])
    if source == "R":
        run.step(deletions(R=[r(1, 3, 3.0, "b")]))
    assert [len(last(run.plan).tables), last(run.plan).kept] == [1, ()]


# --- columns -------------------------------------------------------------------------------------


def columns(text: str) -> dict[str, tuple[str, ...]]:
    return {item.what: item.asked for item in state_items(text) if item.is_rows}


def test_an_average_keeps_no_rows_and_says_for_whom() -> None:
    items = state_items("select (k, avg(x.C)) from x in R group by k: x.A")
    assert [item.is_rows for item in items] == [False, False, False]
    assert all(item.asked[0].startswith("avg(group") for item in items[1:])


def test_rows_keep_the_columns_that_the_answer_needs() -> None:
    tables = columns("select (k, x.S, sum(x.C), max(x.B)) from x in R group by k: x.A")
    assert [what.split(" of ")[0] for what in tables] == ["values", "its rows by (int): x9.S"]
    run = Run("select (k, x.S, sum(x.C)) from x in R group by k: x.A")
    run.step(insertions(R=[r(1, n, float(n), "same") for n in range(9)]))
    assert run.stepper.sizes[-1] == 2  # a sum, and one text nine times


def test_a_join_keeps_the_columns_used_above_each_for_its_terms() -> None:
    text = "select (x.C, y.D, x.S) from x in R, y in S where x.A = y.A and x.B < y.D"
    assert columns(text) == {
        "left rows by int: x4.C": ("left9#0",),
        "left rows by int: x4.S": ("left9#1",),
        "left rows by int: x4.B": ("(left9#2 to double) < right10",),
        "right rows by int: x5.D": ("right10", "(left9#2 to double) < right10"),
    }


def test_rows_that_are_only_counted_have_no_columns() -> None:
    (left,) = [e for e in state_items("max(R.A)") if "left" in e.what]
    assert (left.what, left.is_rows) == ("number of left rows by ()", False)


def test_the_columns_of_a_term_that_is_not_in_normal_form() -> None:
    text = "select (x.C, y.D) from x in R, y in S where x.A = y.A"
    run = Run(text, normal=False)
    (join,) = [node for node in run.plan.nodes if isinstance(node, Join)]
    run.step(insertions(R=[r(1, 2, 3.0, "long"), r(1, 4, 3.0, "text")], S=[s(1, 5.0, "t")]))
    assert join.columns == (("x_1",), ("y_2",))
    assert run.stepper.answer() == Bag([(3.0, 5.0), (3.0, 5.0)])


def test_every_table_names_who_reads_it() -> None:
    items = state_items("select (k, median(x.C), min(x.C), count(distinct(x.B))) from x in R "
                 "group by k: x.A")  # fmt: skip
    asked = {item.what.split(" of ")[0]: len(item.asked) for item in items}
    assert asked == {"multiplicity": 0, "count": 1, "values": 1}
    assert sorted(len(item.asked) for item in items) == [0, 1, 1, 2]


# --- declared keys -------------------------------------------------------------------------------

KEYED = "select (x.B, y.D) from x in stream(R, key: A), y in S where x.A = y.A"


def test_a_declared_key_leaves_one_row() -> None:
    plan = query_plan(KEYED)
    join = plan.nodes[-1]
    assert isinstance(join, Join)
    assert join.single == (0,)
    assert "left row by int: x4.B" in columns(KEYED)
    assert query_plan(KEYED.replace("key: A", "key: (A, B)")).nodes[-1] != join
    semi = (
        "select x.B from x in stream(R, key: A) where exists (select y from y in S where y.A = x.A)"
    )
    assert last(query_plan(semi)).single == (0,)
    other = query_plan("select (x.B, y.D) from x in stream(R, key: A), y in S where x.B = y.A")
    assert isinstance(other.nodes[-1], Join)
    assert other.nodes[-1].single == ()


def test_a_second_row_of_a_key_is_refused_and_changes_nothing() -> None:
    run = Run(KEYED)
    run.step(insertions(R=[r(1, 5), r(2, 5)], S=[s(1, 1.0)]))
    before = run.stepper.state()
    with pytest.raises(DataError, match="2 rows have the same key, A: 1") as caught:
        run.stepper.step({"R": [(r(1, 6), 1)]})
    assert caught.value.code == "R304"
    assert run.stepper.state() == before
    with pytest.raises(DataError, match="2 rows have the same key"):
        run.stepper.step({"R": [(r(3, 6), 2)]})
    assert run.stepper.state() == before


def test_a_row_may_be_replaced_in_one_batch() -> None:
    run = Run(KEYED)
    run.step(insertions(R=[r(1, 5)], S=[s(1, 1.0)]))
    change = run.step({"R": [(r(1, 6), 1), (r(1, 5), -1)]})
    assert change == Weighted([((6, 1.0), 1), ((5, 1.0), -1)])
    run.step(deletions(R=[r(1, 6)]))
    run.step(insertions(R=[r(1, 7)]))
    assert run.stepper.answer() == Bag([(7, 1.0)])
    with pytest.raises(DataError, match="not there") as caught:
        run.stepper.step({"R": [(r(1, 5), -1)]})
    assert caught.value.code == "R205"


def test_a_key_of_two_columns_is_both_of_them() -> None:
    run = Run("select x.C from x in stream(R, key: (A, B), insert_only: true)")
    run.step(insertions(R=[r(1, 1), r(1, 2), r(2, 1), r(1, None)]))
    with pytest.raises(DataError, match=r"same key, A, B: \(1,2\)"):
        run.stepper.step({"R": [(r(1, 2, 9.0), 1)]})
    with pytest.raises(DataError, match="same key"):
        run.stepper.step({"R": [(r(1, None, 9.0), 1)]})


def test_an_invariant_source_is_checked_once() -> None:
    tables = {"S": Bag([s(1, 1.0), s(1, 2.0)])}
    run = Run("select y.D from x in R, y in source(S, key: A) where x.A = y.A", "R", tables)
    with pytest.raises(DataError, match="2 rows have the same key"):
        run.stepper.step({})
    good = Run("select y.D from x in R, y in source(S, key: A) where x.A = y.A", "R",
               {"S": Bag([s(1, 1.0), s(2, 2.0)])})  # fmt: skip
    good.step(insertions(R=[r(1)]))


def test_what_one_use_declares_of_a_registered_stream_is_so_for_all() -> None:
    plan = query_plan(f"(count(R), max(select x.A from x in {GROWS}))")
    (stream,) = [node for node in plan.nodes if isinstance(node, Input)]
    assert (stream.name, stream.insert_only, stream.ledger) == ("R", True, False)


# --- failures ------------------------------------------------------------------------------------


def test_a_request_that_fails_matters_only_where_the_answer_comes_to_it() -> None:
    """With `--on-arithmetic fail`: no second value, but none is asked for either."""
    run = Run("select (k, if count(x) > 1 then (select y.S from y in x order by y.C)[1] else '') "
              "from x in R group by k: x.A")  # fmt: skip
    run.start.world.fail_arithmetic = True
    run.stepper.step(insertions(R=[r(1, 1, 1.0, "a")]))
    assert run.stepper.answer() == Bag([(1, "")])
    run.stepper.step(insertions(R=[r(1, 1, 2.0, "b")]))
    assert run.stepper.answer() == Bag([(1, "b")])
    run.stepper.step(deletions(R=[r(1, 1, 1.0, "a")]))
    assert run.stepper.answer() == Bag([(1, "")])


def test_a_request_that_fails_where_it_is_needed_fails_the_batch() -> None:
    run = Run("select (k, (select y.S from y in x order by y.C)[1]) from x in R group by k: x.A")
    run.start.world.fail_arithmetic = True
    both = [r(1, 1, 1.0, "a"), r(1, 1, 2.0, "b")]
    run.stepper.step(insertions(R=both))
    before = run.stepper.state(), run.stepper.answer()
    with pytest.raises(DataError, match="there is no element 1 in a list of 1"):
        run.stepper.step(deletions(R=both[:1]))
    assert (run.stepper.state(), run.stepper.answer()) == before
    run.stepper.step(insertions(R=[r(1, 1, 0.0, "z")]))
    assert run.stepper.answer() == Bag([(1, "a")])


def test_an_answer_that_fails_as_a_whole_changes_nothing() -> None:
    run = Run("(select x.A from x in R order by x.A)[1]")
    run.start.world.fail_arithmetic = True
    with pytest.raises(DataError, match="no element 1"):
        run.stepper.step(insertions(R=[r(1)]))
    run.stepper.step(insertions(R=[r(1), r(2)]))
    assert run.stepper.answer() == 2


def test_records_and_tuples_are_narrowed() -> None:
    rows = Weighted([(Record({"A": 1, "B": 2}), 1), ((1, 2), 1), (None, 1), (7, 1)])
    assert narrow_rows(rows, ("A", 1)) == Weighted(
        [(Record({"A": 1}), 1), ((None, 2), 1), (None, 1), (7, 1)]
    )
    assert narrow_rows(rows, None) is rows
