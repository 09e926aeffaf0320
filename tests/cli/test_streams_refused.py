"""What is wrong with a stream is said, nothing is changed, and the run can go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from incmrql.runtime.checkpoint import manifests as checkpoints
from incmrql.runtime.checkpoint.lock import Lock
from tests.cli.commands import incmrql
from tests.cli.streams import AVERAGE, STREAM, Shop, shop_at

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("on_spark")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def content(folder: Path) -> dict[str, object]:
    """What a checkpoint keeps, whatever epochs have begun."""
    kept = [p for name in ("runs", "intents") for p in (folder / name).iterdir()]
    files: dict[str, object] = {str(path): path.read_bytes() for path in kept}
    last = checkpoints.Checkpoint(folder).last()
    return files | {name: last[name] for name in ("batch", "tables", "outputs", "buckets")}


def test_a_deletion_of_what_is_not_there(shop: Shop) -> None:
    assert shop.run().code == 0
    before = content(shop.checkpoint)
    bad = shop.takes_back("2.csv", "Oslo,11\n")
    shop.sells("2.csv", "Rome,6\n")
    refused = shop.run()
    assert (refused.code, refused.out) == (1, "")
    said = 'error[R205]: rows are deleted that are not there: < city: "Oslo", price: 11.0 >\n'
    assert refused.err.startswith(said)
    assert "Nothing has changed" in refused.err
    assert "--skip-batch 1" in refused.err
    assert content(shop.checkpoint) == before
    skipped = shop.run(AVERAGE, "--skip-batch", "1")
    assert (skipped.code, skipped.lines) == (0, ['{ ("Oslo",2,15.0), ("Rome",1,4.0) }'])
    shop.sells("3.csv", "Rome,8\n")
    assert shop.run().lines == ['{ ("Oslo",2,15.0), ("Rome",2,6.0) }']
    assert bad.exists()


def test_a_mended_file_is_taken_in(shop: Shop) -> None:
    assert shop.run().code == 0
    shop.takes_back("2.csv", "Oslo,11\n")
    assert shop.run().code == 1
    shop.takes_back("2.csv", "Oslo,10\n")
    assert shop.run().lines == ['{ ("Oslo",1,20.0), ("Rome",1,4.0) }']


def test_a_damaged_parquet_file(shop: Shop) -> None:
    (shop.folder / "p").mkdir()
    source = 'source(line, "sales", ",", type(< city: string, price: double >))'
    stored = incmrql("run", "--engine", "reference", "-e", f'store "q" from {source};')
    assert stored.code == 0
    data = (shop.folder / "q").read_bytes()
    (shop.folder / "p" / "1.parquet").write_bytes(data)
    query = 'incr count(stream(binary, "p", type(< city: string, price: double >)));'
    assert shop.run(query, "--settle", "0").lines == ["3"]
    (shop.folder / "p" / "2.parquet").write_bytes(data[: len(data) // 2])
    refused = shop.run(query, "--settle", "0")
    assert (refused.code, refused.out) == (1, "")
    assert "2.parquet" in refused.err
    assert "Traceback" not in refused.err
    assert "--skip-batch 1" in refused.err
    (shop.folder / "p" / "2.parquet").write_bytes(data)
    assert shop.run(query, "--settle", "0").lines == ["6"]


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda path: path.unlink(), "R302"),
        (lambda path: path.write_text("Oslo,11\nRome,4\nOslo,20\n"), "R301"),
        (lambda path: path.parent.rename(path.parent.with_name("moved")), "R101"),
    ],
)
def test_a_file_that_was_taken_in_is_tampered_with(
    shop: Shop, harm: Callable[[Path], object], code: str
) -> None:
    assert shop.run().code == 0
    harm(shop.folder / "sales" / "1.csv")
    done = shop.run()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error[{code}]: ")
    assert "--skip-batch" not in done.err


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("what", ["runs/*", "manifests/*"])
def test_a_checkpoint_that_is_damaged(shop: Shop, what: str) -> None:
    assert shop.run().code == 0
    for path in shop.checkpoint.glob(what):
        cut(path)
    for done in (shop.run(), incmrql("verify", "ck")):
        assert (done.code, done.out) == (1, "")
        assert str(shop.checkpoint) in done.err or "ck/" in done.err
        assert "bug" not in done.err


def test_a_full_disk(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.run().code == 0
    shop.sells("2.csv", "Rome,6\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "write_new", full)
        done = shop.run()
    assert done.code == 1
    assert done.err.startswith("error: checkpoint ck could not be written: no space left on ")
    assert shop.run().lines == ['{ ("Oslo",2,15.0), ("Rome",2,5.0) }']


def test_a_checkpoint_that_is_in_use(shop: Shop) -> None:
    shop.checkpoint.mkdir()
    lock = Lock(shop.checkpoint / "lock")
    try:
        done = shop.run()
    finally:
        lock.release()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"checkpoint ck is in use by process {os.getpid()} on ")


def test_another_query_on_an_old_checkpoint(shop: Shop) -> None:
    assert shop.run().code == 0
    other = f"incr select s.city from s in {STREAM};"
    refused = shop.run(other)
    assert refused.code == 1
    assert "was written by a different query" in refused.err
    elsewhere = shop.run(f"incr count({STREAM});", "--on-change", "rebuild")
    assert elsewhere.code == 1
    assert "It cannot be rebuilt here: it reads different sources." in elsewhere.err
    rebuilt = shop.run(other, "--on-change", "rebuild")
    assert (rebuilt.code, rebuilt.lines) == (0, ['{ "Oslo", "Oslo", "Rome" }'])
    assert shop.run().code == 1
    shop.sells("2.csv", "Rome,6\n")
    assert shop.run(other).lines == ['{ "Oslo", "Oslo", "Rome", "Rome" }']


def test_an_ingested_file_that_changed_is_forgotten_or_retracted(shop: Shop) -> None:
    assert shop.run(AVERAGE, "--keep-input", "all").code == 0
    path = shop.sells("1.csv", "Oslo,10\n")
    refused = shop.run(AVERAGE, "--keep-input", "all")
    assert refused.code == 1
    assert "--forget sales/1.csv" in refused.err
    assert "--retract sales/1.csv" in refused.err
    kept = ("--keep-input", "all")
    assert "--skip-batch" not in refused.err
    skipped = shop.run(AVERAGE, *kept, "--skip-batch", "1")
    assert skipped.err.startswith("error[R301]")
    assert "--skip-batch 1 does not help" in skipped.err
    forgotten = shop.run(AVERAGE, *kept, "--forget", "sales/1.csv")
    assert (forgotten.code, forgotten.lines) == (0, ['{ ("Oslo",2,15.0), ("Rome",1,4.0) }'])
    retracted = shop.run(AVERAGE, *kept, "--retract", str(path))
    assert (retracted.code, retracted.lines[-1]) == (0, '{ ("Oslo",1,10.0) }')


def test_a_run_does_not_watch_its_own_output(shop: Shop) -> None:
    refused = shop.run(AVERAGE, "--output", "sales/out")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith('error[R321]: the output "sales/out" is inside "sales"')
