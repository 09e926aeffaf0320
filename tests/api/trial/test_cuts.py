"""A table is cut into batches: what they insert and delete is there, or not there yet."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from incmrql.api.trial import History

HISTORIES = st.builds(
    History,
    st.integers(1, 12),
    st.floats(0.001, 1.0),
    st.one_of(st.sampled_from([0.0, 0.2, 1.0]), st.floats(0, 1)),
    st.integers(0, 3),
)


@given(HISTORIES, st.integers(1, 60))
@example(History(10, 1.0, 1.0, 0), 1)
@example(History(10, 0.01, 0.2, 0), 60)
def test_a_batch_deletes_rows_that_are_there_and_inserts_others(
    history: History, rows: int
) -> None:
    there: set[int] = set()
    cuts = list(history.cuts(rows))
    assert len(cuts) == history.batches + 1
    for cut in cuts:
        new, gone = set(cut.inserted), set(cut.deleted)
        assert (len(new), len(gone)) == (len(cut.inserted), len(cut.deleted))
        assert gone <= there
        assert not new & there
        there = there - gone | new
        assert there <= set(range(rows))
    assert cuts[0].inserted
    assert not cuts[0].deleted


@given(HISTORIES, st.integers(1, 60))
def test_the_first_batch_has_half_of_the_rows_or_more(history: History, rows: int) -> None:
    first, *_ = history.cuts(rows)
    assert 2 * len(first.inserted) >= rows


@given(HISTORIES, st.integers(1, 60))
def test_the_same_seed_gives_the_same_batches(history: History, rows: int) -> None:
    assert list(history.cuts(rows, "t")) == list(history.cuts(rows, "t"))


def test_seeds_and_tables_have_their_own_deletions() -> None:
    def deleted_rows(seed: int, table: str) -> list[tuple[int, ...]]:
        return [cut.deleted for cut in History(5, 0.1, 0.5, seed).cuts(1000, table)]

    assert deleted_rows(0, "a") != deleted_rows(1, "a")
    assert deleted_rows(0, "a") != deleted_rows(0, "b")


def test_a_batch_has_the_share_that_is_asked_for() -> None:
    first, *later = History(10, 0.01, 0.2, 0).cuts(10_000)
    assert {(len(cut.inserted), len(cut.deleted)) for cut in later} == {(80, 20)}
    assert len(first.inserted) == 10_000 - 10 * 80 + 9 * 20 - 80


def test_a_few_rows_last_for_all_batches() -> None:
    _, *later = History(10, 0.01, 0.3, 0).cuts(4)
    assert [len(cut.deleted) for cut in later] == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    assert sum(len(cut.inserted) for cut in later) >= 4


def test_without_deletions_the_rows_are_spread_over_the_batches() -> None:
    _, *later = History(5, 0.5, 0.0, 0).cuts(100)
    assert [len(cut.inserted) for cut in later] == [10] * 5
