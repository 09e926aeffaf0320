"""The checkpoint folder: manifests, intents, locks, sinks.  No Spark."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.batches import Kit, run_batch
from incmrql.kernel.compile import compiled
from incmrql.kernel.inputs import InputFile
from incmrql.kernel.orders import Order
from incmrql.runtime import checkpoint as checkpoints
from incmrql.runtime import durable, sinks
from incmrql.runtime.changed import settle_change
from incmrql.runtime.checkpoint import Checkpoint, Output, State
from incmrql.runtime.durable import load, write_new, write_over
from incmrql.runtime.lock import Lock
from incmrql.runtime.opening import describe
from tests.kernel.programs import AVERAGE, SEVERAL, program_of

PROGRAM = program_of(SEVERAL.format(data="in", deletes="out", names="names"))
KIT = Kit(PROGRAM, compiled(PROGRAM))


def opened(folder: Path, buckets: int = 4) -> Checkpoint:
    checkpoint = Checkpoint(folder, KIT.physical.forms)
    checkpoint.prepare(describe(PROGRAM, {}), buckets)
    return checkpoint


def file_of(number: int, **fields: str) -> InputFile:
    return replace(InputFile(f"in/{number}.csv", number, number, 0), **fields)  # type: ignore[arg-type]


def committed(checkpoint: Checkpoint, state: State, *files: InputFile) -> State:
    """A batch that takes in some files and changes nothing."""
    outputs = (Output("x", "a1", ("one",)), Output("y", "a1"))
    return checkpoint.commit(state, state.tables, outputs, [(each, "c") for each in files], {})


def test_what_is_committed_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FULL_EVERY", 4)
    checkpoint = opened(tmp_path)
    state = checkpoint.recovered()
    assert state.number == -1
    for number in range(11):
        state = committed(checkpoint, state, file_of(number))
        again = opened(tmp_path).recovered()
        assert (again.number, again.consumed) == (number, state.consumed)
        assert again.outputs == state.outputs
        checkpoint.clean(state, grace=-1)
    assert len(opened(tmp_path).recovered().consumed[0]) == 11
    assert sorted(path.stem for path in checkpoint.manifests.iterdir()) == [
        "000007",
        "000008",
        "000009",
        "000010",
    ]


@pytest.mark.parametrize("every", [1, 50])
def test_a_file_that_was_taken_back_is_no_longer_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(checkpoints, "FULL_EVERY", every)
    checkpoint = opened(tmp_path)
    state = committed(checkpoint, checkpoint.recovered(), file_of(1), file_of(2))
    copy = file_of(9, retracts="in/1.csv")
    anew = replace(file_of(2), size=77)
    state = committed(checkpoint, state, copy, replace(copy, retracts="in/2.csv"), anew)
    assert state.consumed == {0: {"in/2.csv": (anew, "c")}}
    assert opened(tmp_path).recovered().consumed == state.consumed


@pytest.mark.parametrize("step", ["fsync of the file", "link", "fsync of the folder"])
def test_a_manifest_that_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    checkpoint = opened(tmp_path)
    state = committed(checkpoint, checkpoint.recovered(), file_of(1))
    files = [file_of(2), file_of(9, retracts="in/1.csv")]
    checkpoint.intend(1, files)
    known = {0: dict(state.consumed[0])}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        match step:
            case "link":
                patched.setattr(os, "link", full)
            case "fsync of the file":
                patched.setattr(os, "fsync", full)
            case _:
                patched.setattr(durable, "sync_folder", full)
        with pytest.raises(OSError, match="No space"):
            committed(checkpoint, state, *files)
    assert (state.number, state.consumed) == (0, known)
    assert opened(tmp_path).recovered().number == 0
    assert opened(tmp_path).intent(1) == tuple(files)
    assert list(checkpoint.manifests.glob(".*")) == []
    again = committed(checkpoint, state, *files)
    assert again.consumed == {0: {"in/2.csv": (file_of(2), "c")}}


def test_a_rival_fails_at_the_manifest(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    before, same = one.recovered(), two.recovered()
    committed(one, before, file_of(0))
    with pytest.raises(CheckpointError, match="committed by another driver"):
        committed(two, same, file_of(0))


def test_an_intent_stays_until_it_is_committed_or_withdrawn(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    files = (InputFile("in/1.csv", 1, 2, 0), InputFile("out/1.csv", 1, 2, 0, deletes=True))
    checkpoint.intend(0, files)
    assert opened(tmp_path).intent(0) == files
    committed(checkpoint, checkpoint.recovered(), *files)
    assert opened(tmp_path).intent(0) is None
    checkpoint.intend(1, files)
    checkpoint.withdraw(1)
    assert opened(tmp_path).intent(1) is None


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    other = describe(program_of(AVERAGE.format(data="elsewhere", deletes="out")), {})
    committed(checkpoint, checkpoint.recovered(), file_of(0))
    known = Checkpoint(tmp_path).prepare(other, 4)
    with pytest.raises(CheckpointError, match="belongs to another query"):
        settle_change(checkpoint, known, other, "refuse")
    assert not settle_change(checkpoint, known, describe(PROGRAM, {}), "refuse")


def test_what_is_no_checkpoint_or_one_of_another_version_is_told(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    path = tmp_path / "program.json"
    found = load(path)
    write_over(path, {**found, "format": 1})
    with pytest.raises(CheckpointError, match="another version of incmrql: its format is 1"):
        checkpoint.described()
    path.unlink()
    with pytest.raises(CheckpointError, match="no checkpoint"):
        checkpoint.described()


def test_a_checkpoint_whose_description_is_gone_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    committed(checkpoint, checkpoint.recovered(), file_of(0))
    (tmp_path / "program.json").unlink()
    with pytest.raises(CheckpointError, match=r"program\.json is missing"):
        opened(tmp_path)
    assert not (tmp_path / "program.json").exists()


def test_the_number_of_buckets_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    assert opened(tmp_path, 4).buckets == 4
    assert opened(tmp_path, 16).buckets == 4


def test_a_damaged_manifest_is_noticed(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    committed(checkpoint, checkpoint.recovered(), file_of(0))
    path = checkpoint.manifests / "000000.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "number": 7}))
    with pytest.raises(CheckpointError, match="checksum"):
        opened(tmp_path).recovered()
    path.write_text(whole[:-10])
    with pytest.raises(CheckpointError, match="cannot be read"):
        opened(tmp_path).recovered()
    path.write_text(whole)
    assert opened(tmp_path).recovered().number == 0


def test_a_manifest_in_the_middle_that_is_gone_is_noticed(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    state = checkpoint.recovered()
    for number in range(4):
        state = committed(checkpoint, state, file_of(number))
    (checkpoint.manifests / "000002.json").unlink()
    with pytest.raises(CheckpointError, match="missing"):
        opened(tmp_path).recovered()


def test_a_damaged_run_is_noticed(tmp_path: Path) -> None:
    data = tmp_path / "in"
    data.mkdir()
    (data / "1.csv").write_text("1,2.0\n2,3.0\n")
    program = program_of(AVERAGE.format(data=data, deletes=data))
    kit = Kit(program, compiled(program))
    checkpoint = Checkpoint(tmp_path / "ck", kit.physical.forms)
    checkpoint.prepare(describe(program, {}), 4)
    before = checkpoint.recovered()
    stat = (data / "1.csv").stat()
    file = InputFile(str(data / "1.csv"), stat.st_size, stat.st_mtime_ns, 0)
    order = Order(0, "a1", (file,), before.tables, 4, str(checkpoint.runs), is_first=True)
    _, done = run_batch(kit, order)
    state = checkpoint.commit(before, {**before.tables, **done.tables}, (), [], {})
    checkpoint.check_runs(state)
    (run,) = {run.file for table in state.tables.values() for run in table.runs}
    whole = (checkpoint.runs / run).read_bytes()
    content = bytearray(whole)
    content[len(content) // 2] ^= 1
    (checkpoint.runs / run).write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        checkpoint.check_runs(state)
    (checkpoint.runs / run).write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="checksum"):
        checkpoint.check_runs(state)
    (checkpoint.runs / run).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.check_runs(state)


def test_what_nobody_names_is_removed_after_a_while(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    stray = checkpoint.runs / "000007-abc-0.run"
    half = checkpoint.manifests / ".000007.json.0f.tmp"
    for path in (stray, half):
        path.write_bytes(b"")
    checkpoint.clean(checkpoint.recovered(), grace=1000)
    assert stray.exists()
    for path in (stray, half):
        os.utime(path, (1, 1))
    checkpoint.clean(checkpoint.recovered(), grace=1000)
    assert not stray.exists()
    assert not half.exists()


def test_new_files_are_created_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_new(path, {"a": 1})
    with pytest.raises(FileExistsError):
        write_new(path, {"a": 2})
    assert load(path) == {"a": 1}
    write_over(path, {"a": 3})
    assert load(path) == {"a": 3}
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_second_driver_is_refused_while_the_first_one_lives(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from incmrql.runtime.lock import Lock\n"
        "lock = Lock(pathlib.Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(CheckpointError, match=f"in use by process {holder.pid}"):
            Lock(path)
        holder.kill()
    lock = Lock(path)
    with pytest.raises(CheckpointError, match="in use"):
        Lock(path)
    lock.release()
    lock.release()
    Lock(path).release()


def test_a_driver_on_another_machine_is_known_by_its_heartbeat(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(json.dumps({"host": "elsewhere", "pid": 1}))
    with pytest.raises(CheckpointError, match="process 1 on elsewhere"):
        Lock(path)
    os.utime(path, (1, 1))
    Lock(path).release()


def test_a_batch_appears_whole_and_only_with_its_own_parts(tmp_path: Path) -> None:
    staging = sinks.prepare(tmp_path, 3, "a1")
    for name in ("one", "two", "stray"):
        (staging / name).write_text(name)
    final = sinks.publish(tmp_path, 3, "a1", ("one", "two"))
    assert final == tmp_path / "batch=000003"
    assert sorted(path.name for path in final.iterdir()) == ["one", "two"]
    assert list(tmp_path.iterdir()) == [final]
    assert sinks.publish(tmp_path, 3, "a1", ("one", "two")) == final
    with pytest.raises(CheckpointError, match="of another run"):
        sinks.prepare(tmp_path, 3, "a2")


def test_publishing_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    staging = sinks.prepare(tmp_path, 3, "a1")
    ready = tmp_path / ".incmrql-000003.ready"
    ready.mkdir()
    (ready / "one").write_text("one")
    (staging / "two").write_text("two")
    final = sinks.publish(tmp_path, 3, "a1", ("one", "two"))
    assert sorted(path.name for path in final.iterdir()) == ["one", "two"]


def test_output_that_somebody_took_away_is_not_published_again(tmp_path: Path) -> None:
    sinks.prepare(tmp_path, 3, "a1")
    final = sinks.publish(tmp_path, 3, "a1", ())
    final.rmdir()
    sinks.publish(tmp_path, 3, "a1", ())
    assert not final.exists()
