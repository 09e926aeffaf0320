"""The checkpoint folder: manifests, intents, locks, sinks.  No Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.order import Applied
from incmrql.kernel.reading import InputFile
from incmrql.runtime import checkpoint as checkpoints
from incmrql.runtime import sinks
from incmrql.runtime.checkpoint import Checkpoint, Output, State
from incmrql.runtime.durable import load, write_new, write_over
from incmrql.runtime.lock import Lock
from tests.kernel.programs import AVERAGE, Stepper, input_file, program_of

PROGRAM = program_of(AVERAGE.format(data="in", deletes="out"))


def opened(folder: Path, buckets: int = 4) -> Checkpoint:
    return Checkpoint(folder, PROGRAM, buckets)


def committed(checkpoint: Checkpoint, state: State, number: int) -> State:
    """A batch that takes in one file and changes nothing."""
    file = InputFile(f"in/{number}.csv", number, number)
    applied = Applied(state.node, state.ledger)
    return checkpoint.commit(state, applied, Output("x"), {file.path: (file, "c")}, {})


def test_what_is_committed_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FULL_EVERY", 4)
    checkpoint = opened(tmp_path)
    state = checkpoint.recovered()
    assert state.number == -1
    for number in range(11):
        state = committed(checkpoint, state, number)
        again = opened(tmp_path).recovered()
        assert (again.number, again.consumed) == (number, state.consumed)
        checkpoint.clean(state, grace=-1)
    assert len(opened(tmp_path).recovered().consumed) == 11
    assert sorted(path.stem for path in checkpoint.manifests.iterdir()) == [
        "000007",
        "000008",
        "000009",
        "000010",
    ]


def test_a_rival_fails_at_the_manifest(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    before, same = one.recovered(), two.recovered()
    committed(one, before, 0)
    with pytest.raises(CheckpointError, match="committed by another driver"):
        committed(two, same, 0)


def test_an_intent_stays_until_it_is_committed_or_withdrawn(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    files = (InputFile("in/1.csv", 1, 2), InputFile("out/1.csv", 1, 2, deletes=True))
    checkpoint.intend(0, files)
    assert opened(tmp_path).intent(0) == files
    committed(checkpoint, checkpoint.recovered(), 0)
    assert opened(tmp_path).intent(0) is None
    checkpoint.intend(1, files)
    checkpoint.withdraw(1)
    assert opened(tmp_path).intent(1) is None


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    other = program_of(AVERAGE.format(data="elsewhere", deletes="out"))
    with pytest.raises(CheckpointError, match="belongs to another query"):
        Checkpoint(tmp_path, other, 4)


def test_the_number_of_buckets_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    assert opened(tmp_path, 4).buckets == 4
    assert opened(tmp_path, 16).buckets == 4


def test_a_damaged_manifest_is_noticed(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    committed(checkpoint, checkpoint.recovered(), 0)
    path = checkpoint.manifests / "000000.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "number": 7}))
    with pytest.raises(CheckpointError, match="checksum"):
        opened(tmp_path).recovered()
    path.write_text(path.read_text()[:-10])
    with pytest.raises(CheckpointError, match="cannot be read"):
        opened(tmp_path).recovered()


def test_a_damaged_run_is_noticed(tmp_path: Path) -> None:
    data = tmp_path / "in"
    data.mkdir()
    (data / "1.csv").write_text("1,2.0\n2,3.0\n")
    program = program_of(AVERAGE.format(data=data, deletes=data))
    checkpoint = Checkpoint(tmp_path / "ck", program, 4)
    stepper = Stepper(program, checkpoint.runs)
    _, applied = stepper.step([input_file(data / "1.csv")])
    state = checkpoint.commit(checkpoint.recovered(), applied, Output(), {}, {})
    checkpoint.check_runs(state)
    (run,) = {run.file for table in state.tables for run in table.runs}
    content = bytearray((checkpoint.runs / run).read_bytes())
    content[len(content) // 2] ^= 1
    (checkpoint.runs / run).write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        checkpoint.check_runs(state)
    (checkpoint.runs / run).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.check_runs(state)


def test_runs_that_nobody_names_are_removed_after_a_while(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    stray = checkpoint.runs / "000007-abc-0.run"
    stray.write_bytes(b"")
    checkpoint.clean(checkpoint.recovered(), grace=1000)
    assert stray.exists()
    os.utime(stray, (1, 1))
    checkpoint.clean(checkpoint.recovered(), grace=1000)
    assert not stray.exists()


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
