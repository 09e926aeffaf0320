"""`incmrql state` and `incmrql verify`: what a checkpoint holds, and whether it is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from incmrql.engine.store.segments import OpenSegments, write_segments
from incmrql.errors import DifferenceFound
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.checkpoint.program import read_program, table_facts
from incmrql.storage.files import load, write_over
from incmrql.values import read
from tests.cli.commands import Outcome, incmrql
from tests.cli.streams import AVERAGE, Shop, shop_at


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def test_tables_are_shown_as_their_program_describes_them() -> None:
    run = {"counts": [1, 2], "size": 10, "file": "x"}
    listed = {name: {"bases": [run], "levels": []} for name in ("a0p1", "n12", "l0", "n3r1", "new")}
    described = {
        "tables": {
            "n12": {"node": 12, "answer": None, "holds": "accumulators by key"},
            "n3r1": {"node": 3, "answer": None, "holds": "rows by key"},
            "l0": {"node": 0, "answer": None, "holds": "ledger of rows, for deletions"},
            "a0p1": {"node": None, "answer": 0, "holds": "rows of answer 1"},
        }
    }
    facts = [(table.name, table.node, table.holds) for table in table_facts(listed, described)]
    assert facts == [
        ("l0", 0, "ledger of rows, for deletions"),
        ("n3r1", 3, "rows by key"),
        ("n12", 12, "accumulators by key"),
        ("a0p1", None, "rows of answer 1"),
        ("new", None, ""),
    ]


def without_spark(monkeypatch: pytest.MonkeyPatch, *words: str) -> Outcome:
    """A command that must not start Spark."""

    def refuse(*_: object) -> None:
        raise AssertionError("Spark was started")

    with monkeypatch.context() as patched:
        patched.setattr("incmrql.spark.session.start", refuse)
        return incmrql(*words)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_checkpoint_from_another_folder(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shop.run(AVERAGE, "--max-files-per-batch", "1").code == 0
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    where = str(shop.checkpoint)
    told = without_spark(monkeypatch, "state", where)
    assert told.code == 0
    assert "  1 batch, the last at " in told.out
    assert "  1 file ingested" in told.out
    facts = json.loads(without_spark(monkeypatch, "state", where, "--json").out)
    assert [(t["name"], t["node"], t["rows"]) for t in facts["tables"]] == [
        ("l0", 0, 3), ("n2", 2, 2),
    ]  # fmt: skip
    rows = without_spark(monkeypatch, "state", where, "--node", "2").lines
    kept = {row.key: row.times for row in map(read, rows)}
    assert kept == {"Oslo": 2, "Rome": 1}
    assert without_spark(monkeypatch, "state", where, "--node", "9").code == 2
    assert len(without_spark(monkeypatch, "state", where, "--node", "0", "--limit", "1").lines) == 1
    assert incmrql("verify", where).code == 0


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_another_number_of_buckets(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.run().code == 0
    before = without_spark(monkeypatch, "state", "ck", "--node", "0").lines
    for buckets in (3, 16, 1):
        done = without_spark(monkeypatch, "state", "ck", "--rebucket", str(buckets))
        assert (done.code, done.out) == (0, ""), done.err
        facts = json.loads(without_spark(monkeypatch, "state", "ck", "--json").out)
        assert facts["buckets"] == buckets
        assert without_spark(monkeypatch, "state", "ck", "--node", "0").lines == before
        shop.sells(f"{buckets}-more.csv", "Rome,6\n")
        assert shop.run().code == 0
        before = without_spark(monkeypatch, "state", "ck", "--node", "0").lines
    shop.takes_back("2.csv", "Oslo,20\nRome,4\n")
    assert shop.run().lines == ['{ ("Oslo",1,10.0), ("Rome",3,6.0) }']


def plant_an_error(folder: Path) -> None:
    """Make one accumulator of the state another one, with all checksums right."""
    program, _ = read_program(folder)
    from incmrql.engine.compile.program import compile_program

    checkpoint = Checkpoint(folder, compile_program(program).schemas)
    checkpoint.description()
    table = checkpoint.committed_state().tables["n2"]
    (run,) = table.segments
    content = OpenSegments().rows(checkpoint.runs, run, table.schema).content()
    name = next(name for name in content.parts if name.endswith(".n"))
    column = content.parts[name].copy()
    column[0] += 1
    content.parts[name] = column
    counts = dict(zip(run.buckets, run.counts, strict=True))
    (planted,) = write_segments(checkpoint.runs, "planted.run", [(content, counts)])
    last = max((folder / "manifests").glob("[0-9]*.json"))
    manifest = load(last)
    kind = "levels" if table.levels else "bases"
    manifest["tables"]["n2"][kind] = [planted.as_json()]
    write_over(last, manifest)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_planted_error_is_found(shop: Shop) -> None:
    assert shop.run().code == 0
    plant_an_error(shop.checkpoint)
    told = incmrql("verify", "ck", "--json")
    assert told.code == 3
    report = json.loads(told.out)
    assert (report["same"], len(report["missing"]), len(report["extra"])) == (False, 1, 1)
    assert report["message"].startswith("the answer after batch 0 is not the answer over all data")
    ((_, sources),) = [pair for pair in report["lineage"] if pair[0] == report["missing"][0][0]]
    assert sources
    assert all("sales" in name for name, _ in sources)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_difference_ends_a_run_with_its_own_code(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(*_: object, **__: object) -> None:
        raise DifferenceFound("the answer is another", 0)

    monkeypatch.setattr("incmrql.runtime.verify.verify", differs)
    for done in (shop.run(AVERAGE, "--verify", "1"), incmrql("verify", "ck")):
        assert done.code == 3
        assert done.err.splitlines()[-1] == "difference: the answer is another"


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_earlier_answers_copies_and_going_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.run(AVERAGE, "--output", "out").code == 0
    shop.sells("2.csv", "Rome,600\n")
    assert shop.run().code == 0
    first, second = ["Oslo,2,15.0", "Rome,1,4.0"], ["Oslo,2,15.0", "Rome,2,302.0"]

    def answer(checkpoint: str, *options: str) -> list[str]:
        return without_spark(monkeypatch, "answer", checkpoint, "--format", "csv", *options).lines

    assert answer("ck") == second
    assert answer("ck", "--as-of", "0") == first
    late = incmrql("answer", "ck", "--as-of", "9")
    assert late.code == 1
    assert "It has those after batches 0 to 1." in late.err

    told = without_spark(monkeypatch, "state", "ck", "--copy-to", "copy")
    assert (told.code, told.err) == (
        0, "copied as of batch 1 to copy; name a new --output for its answers\n",
    )  # fmt: skip
    assert answer("copy") == second
    assert "exists already" in incmrql("state", "ck", "--copy-to", "copy").err

    (shop.folder / "sales" / "2.csv").unlink()
    told = without_spark(monkeypatch, "state", "ck", "--roll-back-to", "0")
    assert told.err == (
        "batch 2 went back to the state after batch 0\n"
        "1 file of later batches no longer exists: no answer has its rows any more\n"
    )
    assert answer("ck") == first
    shop.sells("3.csv", "Rome,6\n")
    assert shop.run().code == 0
    assert answer("ck") == ["Oslo,2,15.0", "Rome,2,5.0"]
    assert answer("copy") == second
    published = sorted(path.name for path in (shop.folder / "out").iterdir())
    assert published == [*[f"batch={n:06d}" for n in range(4)], "current.parquet"]
    wrong = incmrql("state", "ck", "--roll-back-to", "0", "--rebucket", "2")
    assert (wrong.code, "--rebucket and --roll-back-to cannot be combined" in wrong.err) == (
        2,
        True,
    )
    assert incmrql("verify", "ck").code == 0
