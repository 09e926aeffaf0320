"""Random SQL texts: the converted query answers what Spark answered, and follows every batch.

Spark was asked by `random_answers`; nothing here needs it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import pytest

from incmrql.catalyst.convert import ConvertedScript
from incmrql.errors import QueryError
from incmrql.values import Record, show
from tests.catalyst.judging import Tables, agree, assert_follows, reference_answer, script_of_plan
from tests.catalyst.random_answers import Answered, answers, rows_of

PARTS = 8
"""The number of tests that the texts are divided into."""
FEWEST_CONVERTED = 340
FEWEST_WITH_ROWS = 180
FOLLOWED = 11
"""One text in this many is run over batches too."""


@cache
def answers_without_error() -> list[Answered]:
    return [answer for answer in answers() if not answer.error]


def script_of(answer: Answered) -> ConvertedScript | None:
    """The script of a text; None if it is refused."""
    try:
        return script_of_plan(answer.plan)
    except QueryError:
        return None


def with_records(data: Tables) -> Tables:
    """The rows with structs as records."""
    structs = [
        (number, xs, None if struct is None else Record.of(("x", "y"), struct))
        for number, xs, struct in data["v"]
    ]
    return {**data, "v": structs}


def test_an_offset_over_groups_keeps_their_order(tmp_path: Path) -> None:
    """The groups were given a name, since an offset uses them twice, and a bag has no order."""
    (answer,) = [answer for answer in answers_without_error() if answer.seed == 1009]
    conversion = script_of(answer)
    assert conversion is not None
    assert agree(list(reference_answer(conversion.script, with_records(answer.data))), answer.rows)
    assert_follows(conversion.script, with_records(rows_of(7)), Random(7), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_answer_is_sparks(part: int) -> None:
    wrong = []
    for answer in answers_without_error()[part::PARTS]:
        conversion = script_of(answer)
        if conversion is not None:
            rows = reference_answer(conversion.script, with_records(answer.data))
            if not agree(list(rows), answer.rows):
                wrong.append(f"{answer.seed}: {answer.text}\n{show(rows)}\n{answer.rows}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_most_texts_are_converted_and_have_rows() -> None:
    kept = [answer for answer in answers_without_error() if script_of(answer) is not None]
    assert len(kept) >= FEWEST_CONVERTED
    assert sum(bool(answer.rows) for answer in kept) >= FEWEST_WITH_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_batch_is_followed(part: int, tmp_path: Path) -> None:
    for answer in answers_without_error()[part :: PARTS * FOLLOWED]:
        conversion = script_of(answer)
        if conversion is not None:
            data = with_records(rows_of(1 + answer.seed % 5))
            assert_follows(
                conversion.script, data, Random(answer.seed), tmp_path / str(answer.seed)
            )
