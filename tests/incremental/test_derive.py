"""Which queries have a program, and what it keeps."""

from __future__ import annotations

import re

import pytest

from incmrql.diagnostics import DataError, QueryError
from incmrql.incremental import Accumulator, show_program
from incmrql.types.model import INT, STRING, Tuple
from tests.kernel.programs import program_of

STREAM = (
    'stream(line, "in", ",", type(< K: int, V: double, W: int, D: decimal(8,2), S: string >){more})'
)

VALUE = re.compile(r"value\d+")


def query(head: str, rest: str = "group by k: x.K", more: str = "") -> str:
    return f"incr select {head} from x in {STREAM.format(more=more)} {rest};"


def test_the_average_keeps_a_sum_and_a_count() -> None:
    program = program_of(query("(k, avg(x.V))"))
    assert program.fold.accumulators == (Accumulator("floats", 0), Accumulator("count", 0))
    assert program.fold.keys == (INT,)
    assert program.stream.path == "in"


def test_what_is_asked_twice_is_kept_once() -> None:
    program = program_of(query("(k, avg(x.V), sum(x.V), avg(x.V) + 1.0, count(x.V))"))
    assert len(program.fold.accumulators) == 2
    assert len(program.fold.aggregates) == 3
    assert len(program.linear.columns) == 1


def test_sums_go_by_type() -> None:
    program = program_of(query("(k, sum(x.W), sum(x.V), sum(x.D))"))
    kinds = [(each.kind, each.scale) for each in program.fold.accumulators]
    assert kinds == [("integers", 0), ("floats", 0), ("decimals", 2)]


def test_a_key_of_several_parts_has_a_column_for_each() -> None:
    program = program_of(query("(a, b, count(x))", "group by a: x.K, b: (x.K, x.S)"))
    assert program.fold.keys == (INT, Tuple((INT, STRING)))


@pytest.mark.parametrize(
    ("more", "ledger"),
    [
        ("", False),
        (', deletes: "out"', True),
        (', sign: "S"', True),
        (', deletes: "out", trusted_deletes: true', False),
    ],
)
def test_a_stream_that_can_delete_has_a_ledger_unless_it_is_trusted(
    more: str, ledger: bool
) -> None:
    program = program_of(query("(k, count(x))", more=more))
    assert program.stream.ledger is ledger


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (query("(k, max(x.V))"), "max of a group"),
        (query("(k, x)"), "uses a group"),
        (query("x.K", ""), "without a group-by"),
        (query("(k, count(x))", "group by k: x.K order by k"), "order by"),
        (f"incr sum(select x.V from x in {STREAM.format(more='')});", "one select"),
        (query("(k, count(x))").replace("stream(", "source("), "does not change"),
    ],
)
def test_other_queries_are_refused_with_their_place(text: str, what: str) -> None:
    with pytest.raises(QueryError, match=what) as caught:
        program_of(text)
    assert caught.value.code == "A101"
    assert caught.value.place != "<nowhere>:1:1"


def test_the_path_may_be_an_argument() -> None:
    text = query("(k, count(x))").replace('"in"', "args[0]")
    assert program_of(text, ("there",)).stream.path == "there"
    with pytest.raises(DataError, match="path of a source is null"):
        program_of(text)


def test_a_program_says_what_it_keeps_and_why() -> None:
    shown = show_program(program_of(query("(k, avg(x.V))", more=', deletes: "out"')))
    lines = shown.splitlines()
    assert lines[0].endswith('deletes "out", ledger of rows')
    assert lines[2:4] == ["node fold: by int", "  keep multiplicity"]
    assert [line.split(", for")[0] for line in lines[4:6]] == [
        f"  keep exact sum of floats of {VALUE.search(lines[4])[0]}",  # type: ignore[index]
        f"  keep count of {VALUE.search(lines[5])[0]}",  # type: ignore[index]
    ]
    assert lines[6].startswith("answer {(")


def test_programs_that_keep_other_things_have_other_identities() -> None:
    one, two = program_of(query("(k, avg(x.V))")), program_of(query("(k, sum(x.V))"))
    again = program_of("\n\n" + query("(k,   avg( x.V ))"))
    assert one.identity == again.identity
    assert one.identity != two.identity
    assert one.identity != program_of(query("(k, avg(x.V))", more=', deletes: "x"')).identity
