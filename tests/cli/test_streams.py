"""`incmrql run` with streams: what is printed and written, batch by batch."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from incmrql.runtime.checkpoint import rewrite
from incmrql.runtime.checkpoint.compatibility import table_schemas
from tests.cli.commands import incmrql
from tests.cli.streams import AVERAGE, STREAM, TYPE, Shop, shop_at

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("on_spark")]
FIRST = '{ ("Oslo",2,15.0), ("Rome",1,4.0) }'


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def test_answers_on_stdout_and_a_line_for_each_batch_on_stderr(shop: Shop) -> None:
    first = shop.run()
    assert (first.code, first.lines) == (0, [FIRST])
    assert first.err.startswith("batch 0: 3 rows in, 0 out; 2 changes; ")
    assert first.err.endswith(" ms\n")
    shop.sells("2.csv", "Rome,6\n")
    shop.takes_back("2.csv", "Oslo,20\n")
    second = shop.run(AVERAGE, "--mode", "changes")
    rows = '(("Oslo",1,10.0),1), (("Oslo",2,15.0),-1), (("Rome",1,4.0),-1), (("Rome",2,5.0),1)'
    assert second.lines == [f"{{ {rows} }}"]
    assert second.err.startswith("batch 1: 1 row in, 1 out; 4 changes; ")
    assert shop.run().lines == []


def test_an_object_for_each_batch(shop: Shop) -> None:
    shop.sells("2.csv", "Rome,6\n")
    done = shop.run(AVERAGE, "--json", "--max-files-per-batch", "1")
    batches = [json.loads(line) for line in done.lines]
    assert [(batch["number"], batch["inserted"]) for batch in batches] == [(0, 3), (1, 1)]
    assert batches[0]["answers"] == [[["Oslo", 2, 15.0], ["Rome", 1, 4.0]]]
    assert done.err == ""
    shop.sells("3.csv", "Rome,5\n")
    (third,) = shop.run(AVERAGE, "--json", "--mode", "changes").lines
    rows = json.loads(third)["changes"][0]
    assert sorted(rows) == [[["Rome", 2, 5.0], -1], [["Rome", 3, 5.0], 1]]


def test_all_streaming_items_of_a_script_take_in_the_same_batches(shop: Shop) -> None:
    shop.sells("2.csv", "Rome,6\n")
    script = (
        f"S = {STREAM};\nincr count(S);\n1 + 1;\nstore least := 5.0;\n"
        "incr select s.city from s in S where s.price > least;\n"
        'store "kept" from incr select s.price from s in S;\n'
        'dump "cities.json" from incr select distinct s.city from s in S;\n'
    )
    done = shop.run(script, "--max-files-per-batch", "1")
    assert done.lines == ["2", "3", '{ "Oslo", "Oslo" }', "4", '{ "Oslo", "Oslo", "Rome" }']
    for name in ("kept", "cities.json"):
        assert [p.name for p in sorted((shop.folder / name).iterdir())] == [
            "batch=000000", "batch=000001",
        ]  # fmt: skip
    texts = [path.read_text() for path in (shop.folder / "cities.json").rglob("*.json")]
    assert sorted(re.findall(r"Oslo|Rome", "".join(texts))) == ["Oslo", "Rome"]
    # The values that were stored are part of the checkpoint: it is read again without Spark.
    assert incmrql("state", "ck", "--node", "0", "--limit", "1").code == 0


def test_output_in_a_folder(shop: Shop) -> None:
    done = shop.run(AVERAGE, "--output", "out", "--format", "csv")
    assert (done.code, done.lines) == (0, [])
    (part,) = (shop.folder / "out" / "batch=000000").iterdir()
    assert part.read_text().splitlines()[0] == "_1,_2,_3,_weight"
    assert sorted(part.read_text().splitlines()[1:]) == ["Oslo,2,15.0,1", "Rome,1,4.0,1"]
    shop.sells("2.csv", "Rome,6\n")
    again = shop.run(AVERAGE, "--output", "whole", "--format", "csv", "--mode", "snapshot")
    assert again.code == 0, again.err
    assert csv_rows(shop.folder / "whole" / "batch=000001") == ["Oslo,2,15.0", "Rome,1,4.0"]
    assert csv_rows(shop.folder / "whole" / "batch=000002") == ["Oslo,2,15.0", "Rome,2,5.0"]


def csv_rows(folder: Path) -> list[str]:
    """The rows of all files of a batch, without their headers."""
    texts = [path.read_text() for path in folder.iterdir()]
    return sorted(row for text in texts for row in text.splitlines()[1:])


def test_output_that_is_left_out_continues_where_it_was(shop: Shop) -> None:
    assert shop.run(AVERAGE, "--output", "out", "--format", "csv").code == 0
    shop.sells("2.csv", "Rome,6\n")
    again = shop.run(AVERAGE)
    assert (again.code, again.lines) == (0, [])
    assert f"output continues in {shop.folder / 'out'}, as recorded" in again.err
    assert csv_rows(shop.folder / "out" / "batch=000001") == ["Rome,1,4.0,-1", "Rome,2,5.0,1"]
    shop.sells("3.csv", "Rome,8\n")
    ended = shop.run(AVERAGE, "--output", "console")
    assert ended.lines == ['{ ("Oslo",2,15.0), ("Rome",3,6.0) }']
    assert "has ended" in ended.err
    refused = shop.run(AVERAGE, "--output", "out")
    assert refused.code == 1
    assert "has the output of another run" in refused.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mode", "snapshot"), "was written with --mode changes, not snapshot"),
        (("--format", "json"), "was written with --format csv, not json"),
        (("--output", "out", "--mode", "snapshot"), "with --mode changes, not snapshot"),
    ],
)
def test_an_output_keeps_its_mode_and_format(
    shop: Shop, options: tuple[str, ...], said: str
) -> None:
    assert shop.run(AVERAGE, "--output", "out", "--format", "csv").code == 0
    refused = shop.run(AVERAGE, *options)
    assert (refused.code, refused.out) == (1, "")
    assert said in refused.err
    assert "Use a new directory" in refused.err


def test_a_rebuild_takes_readers_from_the_old_answer_to_the_new_one(shop: Shop) -> None:
    assert shop.run(AVERAGE, "--output", "out", "--format", "csv").code == 0
    least = AVERAGE.replace("avg(s.price)", "min(s.price)")
    assert least != AVERAGE
    done = shop.run(least, "--on-change", "rebuild")
    assert done.code == 0, done.err
    total: Counter[str] = Counter()
    for folder in sorted((shop.folder / "out").glob("batch=*")):
        for row in csv_rows(folder):
            value, weight = row.rsplit(",", 1)
            total[value] += int(weight)
    assert +total == Counter(["Oslo,2,10.0", "Rome,1,4.0"])
    assert all(weight >= 0 for weight in total.values())
    rebuilt = csv_rows(shop.folder / "out" / "batch=000001")
    assert rebuilt == ["Oslo,2,10.0,1", "Oslo,2,15.0,-1"]
    other = shop.run(f"incr select s.city from s in {STREAM};", "--on-change", "rebuild")
    assert other.code == 1
    assert "was written with rows of type" in other.err


def test_a_start_without_new_input_says_so(shop: Shop) -> None:
    shop.sells("2.csv", "Rome,6\n")
    assert "nothing new" not in shop.run().err
    again = shop.run()
    assert (again.code, again.lines, again.err) == (0, [], "nothing new since batch 0\n")
    least = AVERAGE.replace("avg(s.price)", "min(s.price)")
    rebuilt = shop.run(least, "--on-change", "rebuild")
    assert rebuilt.lines == ['{ ("Oslo",2,10.0), ("Rome",2,4.0) }']
    assert rebuilt.err == "state rebuilt from 2 files\n"
    shop.sells("3.csv", "Rome,8\n")
    back = shop.run(AVERAGE, "--on-change", "rebuild", "--json")
    assert back.err == "state rebuilt from 2 files\n"
    (batch,) = map(json.loads, back.lines)
    assert batch["answers"] == [[["Oslo", 2, 15.0], ["Rome", 3, 6.0]]]
    (batch,) = map(json.loads, shop.run(least, "--on-change", "rebuild", "--json").lines)
    assert batch["answers"] == [[["Oslo", 2, 10.0], ["Rome", 3, 4.0]]]
    in_folder = shop.run(least, "--output", "out")
    assert (in_folder.lines, in_folder.code) == ([], 0)


def test_a_rebuild_of_state_in_other_columns_asks_for_a_new_folder(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version kept the old answer in a way that this one cannot read."""
    assert shop.run(AVERAGE, "--output", "out").code == 0
    least = AVERAGE.replace("avg(s.price)", "min(s.price)")

    with monkeypatch.context() as patched:
        patched.setattr(
            rewrite,
            "table_schemas",
            lambda program: dict.fromkeys(table_schemas(program), "another form"),
        )
        refused = shop.run(least, "--on-change", "rebuild")
    assert refused.code == 1
    assert "stores its state in different columns" in refused.err
    assert "Use a new directory" in refused.err
    assert shop.run(AVERAGE).code == 0  # nothing was changed


def test_without_incr_each_batch_is_answered_alone(shop: Shop) -> None:
    shop.sells("2.csv", "Rome,6\n")
    (shop.folder / "rates.csv").write_text("Oslo,2\nRome,3\n")
    query = (
        f"select (s.city, s.price * r.price) from s in {STREAM}, "
        f'r in source(line, "rates.csv", ",", {TYPE}) where s.city = r.city;'
    )
    done = shop.run(query, "--max-files-per-batch", "1")
    assert done.lines == [
        '{ ("Oslo",20.0), ("Oslo",40.0), ("Rome",12.0) }',
        '{ ("Rome",18.0) }',
    ]
    assert (
        done.err.count("note[W303]: the query has no incr: each batch is answered on its own.") == 1
    )
    refused = shop.run(f"incr {query}")
    assert "W303" not in refused.err
    assert refused.code == 1
    assert (
        "created for an answer to each batch alone, and this run is for the answer over"
        in refused.err
    )


def test_lines_that_are_no_rows_go_to_quarantine(shop: Shop) -> None:
    shop.sells("2.csv", "Rome\nRome,6\n")
    done = shop.run()
    assert done.lines == ['{ ("Oslo",2,15.0), ("Rome",2,5.0) }']
    said = "1 line of sales/2.csv was quarantined: line 1: expected 2 columns, found 1\n"
    assert done.err.startswith(said)
    (kept,) = (shop.folder / "quarantine").iterdir()
    assert json.loads(kept.read_text())["line"] == 1


def test_verified_as_it_runs(shop: Shop) -> None:
    shop.sells("2.csv", "Rome,6\n")
    done = shop.run(AVERAGE, "--verify", "2", "--max-files-per-batch", "1")
    assert done.code == 0
    assert [line.split(":")[0] for line in done.err.splitlines()] == [
        "batch 0", "batch 1", "verified after batch 1",
    ]  # fmt: skip
