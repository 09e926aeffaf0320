"""The checkpoint folder: manifests, intents, locks, sinks.  No Spark."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from incmrql import storage
from incmrql.engine.batch import CompiledProgram, run_batch
from incmrql.engine.compile.program import compile_program
from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import BatchRequest
from incmrql.engine.store import segments
from incmrql.errors import CheckpointError
from incmrql.runtime.checkpoint import manifests as checkpoints
from incmrql.runtime.checkpoint.compatibility import needs_rebuild
from incmrql.runtime.checkpoint.lock import Lock
from incmrql.runtime.checkpoint.manifests import Checkpoint, Commit, PublishedOutput, State
from incmrql.runtime.checkpoint.program import describe
from incmrql.runtime.sinks import folders
from incmrql.storage.files import load, write_new, write_over
from tests.engine.programs import AVERAGE, SEVERAL, program_of

PROGRAM = program_of(SEVERAL.format(data="in", deletes="out", names="names"))
COMPILED = CompiledProgram(PROGRAM, compile_program(PROGRAM))


DESCRIBED = describe(PROGRAM, {})
NODE: Final = {"identity": "n1", "kind": "map", "about": ""}


def new_checkpoint(folder: Path, buckets: int = 4) -> Checkpoint:
    """A checkpoint with a new epoch."""
    checkpoint = Checkpoint(folder, COMPILED.physical.schemas)
    checkpoint.prepare()
    checkpoint.take_over(DESCRIBED, (), buckets)
    return checkpoint


def read(folder: Path) -> State:
    """The committed state, without an epoch."""
    return Checkpoint(folder, COMPILED.physical.schemas).committed_state()


def nothing_open(_attempt: str) -> bool:
    return False


def file_of(number: int, **fields: str) -> InputFile:
    return replace(InputFile(f"in/{number}.csv", number, number, 0), **fields)  # type: ignore[arg-type]


def commit_files(checkpoint: Checkpoint, state: State, *files: InputFile) -> State:
    """Commit a batch that ingests some files and changes nothing."""
    outputs = (PublishedOutput("x", "a1", ("one",)), PublishedOutput("y", "a1"))
    taken = [(file, "c") for file in files]
    return checkpoint.commit(state, Commit(state.tables, outputs, taken, attempt=uuid4().hex))


def test_what_is_committed_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FULL_EVERY", 4)
    checkpoint = new_checkpoint(tmp_path)
    state = checkpoint.committed_state()
    assert state.number == -1
    for number in range(11):
        state = commit_files(checkpoint, state, file_of(number))
        again = read(tmp_path)
        assert (again.number, again.ingested) == (number, state.ingested)
        assert again.outputs == state.outputs
        checkpoint.clean(state, -1, nothing_open)
    assert len(read(tmp_path).ingested[0]) == 11
    assert sorted(path.stem for path in checkpoint.manifests.iterdir()) == [
        "000007",
        "000008",
        "000009",
        "000010",
        "000011",
    ]


@pytest.mark.parametrize("every", [1, 50])
def test_a_file_that_was_taken_back_is_no_longer_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(checkpoints, "FULL_EVERY", every)
    checkpoint = new_checkpoint(tmp_path)
    state = commit_files(checkpoint, checkpoint.committed_state(), file_of(1), file_of(2))
    copy = file_of(9, retracts="in/1.csv")
    anew = replace(file_of(2), size=77)
    state = commit_files(checkpoint, state, copy, replace(copy, retracts="in/2.csv"), anew)
    assert state.ingested == {0: {"in/2.csv": (anew, "c")}}
    assert read(tmp_path).ingested == state.ingested


@pytest.mark.parametrize("step", ["fsync of the file", "link"])
def test_a_manifest_that_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    checkpoint = new_checkpoint(tmp_path)
    state = commit_files(checkpoint, checkpoint.committed_state(), file_of(1))
    files = [file_of(2), file_of(9, retracts="in/1.csv")]
    checkpoint.intend(1, files)
    known = {0: dict(state.ingested[0])}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        match step:
            case "link":
                patched.setattr(os, "link", full)
            case _:
                patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            commit_files(checkpoint, state, *files)
    assert (state.number, state.ingested) == (0, known)
    assert read(tmp_path).number == 0
    assert checkpoint.intent(1) == tuple(files)
    assert list(checkpoint.manifests.glob(".*")) == []
    again = commit_files(checkpoint, state, *files)
    assert again.ingested == {0: {"in/2.csv": (file_of(2), "c")}}


def test_an_intent_stays_until_it_is_committed_or_withdrawn(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    files = (InputFile("in/1.csv", 1, 2, 0), InputFile("out/1.csv", 1, 2, 0, deletes=True))
    checkpoint.intend(0, files)
    assert Checkpoint(tmp_path).intent(0) == files
    assert Checkpoint(tmp_path).intent(1) is None
    commit_files(checkpoint, checkpoint.committed_state(), *files)
    assert Checkpoint(tmp_path).intent(0) is None
    checkpoint.intend(1, files)
    checkpoint.withdraw(1)
    assert Checkpoint(tmp_path).intent(1) is None


def test_a_driver_whose_checkpoint_is_gone_stops(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    checkpoint.check_newest()
    shutil.rmtree(checkpoint.manifests)
    with pytest.raises(CheckpointError, match="is gone: it has no manifests"):
        checkpoint.check_newest()


def test_the_last_intent_of_a_batch_counts_however_many_there_are(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    for number in range(12):
        checkpoint.intend(0, [file_of(number)])
        assert checkpoint.intent(0) == (file_of(number),)
    assert Checkpoint(tmp_path).intent(0) == (file_of(11),)


@pytest.mark.parametrize(
    ("now", "refused"),
    [
        ({"identity": "other"}, "The nodes are the same, but the answers are computed from"),
        (
            {"identity": "other", "texts": ["b", "a"]},
            "The items are the same, in a different order",
        ),
        (
            {"identity": "other", "nodes": [NODE | {"identity": "n2"}]},
            "1 of 1 nodes would be rebuilt",
        ),
    ],
)
def test_another_program_is_explained(tmp_path: Path, now: dict[str, Any], refused: str) -> None:
    """Only if its nodes are the same, the state can be used as it is."""
    checkpoint = new_checkpoint(tmp_path)
    known = {
        "identity": "one", "nodes": [NODE], "texts": ["a", "b"], "engine": "0", "streams": [],
        "watch": False,
    }  # fmt: skip
    with pytest.raises(CheckpointError, match=refused):
        needs_rebuild(checkpoint, known, known | now, "refuse")
    if "nodes" in now:
        with pytest.raises(CheckpointError, match="the nodes differ"):
            needs_rebuild(checkpoint, known, known | now, "reuse")
    else:
        assert not needs_rebuild(checkpoint, known, known | now, "reuse")
    assert needs_rebuild(checkpoint, known, known | now, "rebuild")


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    other = describe(program_of(AVERAGE.format(data="elsewhere", deletes="out")), {})
    commit_files(checkpoint, checkpoint.committed_state(), file_of(0))
    known = Checkpoint(tmp_path).description()
    with pytest.raises(CheckpointError, match="was written by a different query"):
        needs_rebuild(checkpoint, known, other, "refuse")
    assert not needs_rebuild(checkpoint, known, describe(PROGRAM, {}), "refuse")


def test_what_is_no_checkpoint_or_one_of_another_version_is_told(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    path = checkpoint.manifests / "000000.json"
    manifest = load(path)
    write_over(path, {**manifest, "format": 4})
    with pytest.raises(CheckpointError, match="has format 4, and this version reads 3"):
        checkpoint.description()
    path.unlink()
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        checkpoint.description()
    write_over(tmp_path / "program.json", {"format": 2})
    for opening in (checkpoint.description, checkpoint.prepare):
        with pytest.raises(CheckpointError, match=r"was written by incmrql 0\.1\.0"):
            opening()


def test_the_number_of_buckets_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    assert new_checkpoint(tmp_path, 4).buckets == 4
    assert new_checkpoint(tmp_path, 16).buckets == 4


def test_a_damaged_manifest_is_noticed(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    commit_files(checkpoint, checkpoint.committed_state(), file_of(0))
    path = checkpoint.manifests / "000001.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "batch": 7}))
    with pytest.raises(CheckpointError, match="checksum"):
        new_checkpoint(tmp_path)
    path.write_text(whole[:-10])
    with pytest.raises(CheckpointError, match="cannot be read"):
        new_checkpoint(tmp_path)
    path.write_text(whole)
    assert read(tmp_path).number == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is damaged and cannot be read: it is empty"),
        ('{"format": 3, "ba', "is damaged and cannot be read: it is cut off"),
        ('{"format": 3}', "is damaged: it has no checksum"),
        ("[]", "is damaged: it has no checksum"),
        ('{"format": 3, "checksum": 1}', "is damaged: its content does not match"),
        (None, "cannot be read: it is missing"),
    ],
)
def test_a_damaged_file_is_named_with_a_way_out(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "000000.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    first, hint = str(caught.value).split("\n")
    assert first.startswith(f"error[R361]: {path} {message}")
    assert "Restore the file from a backup, or start with a new checkpoint" in hint


def test_a_manifest_in_the_middle_that_is_gone_is_noticed(tmp_path: Path) -> None:
    checkpoint = new_checkpoint(tmp_path)
    state = checkpoint.committed_state()
    for number in range(4):
        state = commit_files(checkpoint, state, file_of(number))
    (checkpoint.manifests / "000002.json").unlink()
    with pytest.raises(CheckpointError, match="missing"):
        new_checkpoint(tmp_path)


def test_a_damaged_run_is_noticed(tmp_path: Path) -> None:
    data = tmp_path / "in"
    data.mkdir()
    (data / "1.csv").write_text("1,2.0\n2,3.0\n")
    program = program_of(AVERAGE.format(data=data, deletes=data))
    compiled = CompiledProgram(program, compile_program(program))
    checkpoint = Checkpoint(tmp_path / "ck", compiled.physical.schemas)
    checkpoint.prepare()
    before = checkpoint.take_over(describe(program, {}), (), 4)
    stat = (data / "1.csv").stat()
    file = InputFile(str(data / "1.csv"), stat.st_size, stat.st_mtime_ns, 0)
    order = BatchRequest(0, "a1", (file,), before.tables, 4, str(checkpoint.runs), is_first=True)
    _, done = run_batch(compiled, order)
    state = checkpoint.commit(before, Commit({**before.tables, **done.tables}))
    checkpoint.check_runs(state)
    (run,) = {run.file for table in state.tables.values() for run in table.segments}
    whole = (checkpoint.runs / run).read_bytes()
    content = bytearray(whole)
    content[len(content) // 2] ^= 1
    (checkpoint.runs / run).write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        checkpoint.check_runs(state)
    (checkpoint.runs / run).write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="fewer bytes"):
        checkpoint.check_runs(state)
    (checkpoint.runs / run).unlink()
    with pytest.raises(CheckpointError, match="cannot be read") as caught:
        checkpoint.check_runs(state)
    for problem in (caught.value, opened_without(checkpoint.runs / run)):
        assert str(problem).startswith(
            f"error[R361]: {checkpoint.runs / run} cannot be read: it is"
        )
        assert "Restore the file from a backup, or start with a new checkpoint" in str(problem)


def opened_without(path: Path) -> CheckpointError:
    """What a task is told that opens a state file which is missing."""
    with pytest.raises(CheckpointError) as caught:
        segments._map_file(path)
    return caught.value


def test_only_what_is_closed_is_removed_after_a_while(tmp_path: Path) -> None:
    new_checkpoint(tmp_path)
    checkpoint = new_checkpoint(tmp_path)
    state = commit_files(checkpoint, checkpoint.committed_state(), file_of(0))
    closed = {
        "000007-000001-abc-0.run": "of an older epoch, whatever its batch",
        "000000-000002-abc-0.run": "of a batch that is committed",
        "000000-000002-dead-merged-1.run": "of a merge that was dropped",
    }
    open_ = {
        "000001-000002-abc-0.run": "of the batch that is running",
        "000000-000002-beef-merged-1.run": "of a merge that may be swapped in",
        "000001-000003-abc-0.run": "of a driver that has taken over",
        "notes.txt": "of a stranger",
    }
    half = checkpoint.manifests / ".000007.json.0f.tmp"
    paths = [*(checkpoint.runs / name for name in {**closed, **open_}), half]
    for path in paths:
        path.write_bytes(b"")
    checkpoint.clean(state, 1000, nothing_open)
    assert all(path.exists() for path in paths)
    for path in paths:
        os.utime(path, (1, 1))
    checkpoint.clean(state, 1000, lambda attempt: attempt == "000002-beef")
    assert {path.name for path in checkpoint.runs.iterdir()} == set(open_)
    assert not half.exists()


def test_new_files_are_created_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_new(path, {"a": 1})
    with pytest.raises(FileExistsError):
        write_new(path, {"a": 2})
    assert load(path) == {"a": 1}
    write_over(path, {"a": 3})
    assert load(path) == {"a": 3}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_second_driver_is_refused_while_the_first_one_lives(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from incmrql.runtime.checkpoint.lock import Lock\n"
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


# --- two drivers -----------------------------------------------------------------------------


def test_an_older_driver_fails_at_its_next_manifest(tmp_path: Path) -> None:
    old = new_checkpoint(tmp_path)
    state = commit_files(old, old.committed_state(), file_of(0))
    new = new_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="another driver has taken over"):
        commit_files(old, state, file_of(1))
    assert commit_files(new, new.committed_state(), file_of(2)).ingested[0].keys() == {
        "in/0.csv",
        "in/2.csv",
    }
    assert read(tmp_path).ingested[0].keys() == {"in/0.csv", "in/2.csv"}


def test_of_two_drivers_that_start_at_once_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Checkpoint(tmp_path), Checkpoint(tmp_path)
    one.prepare()
    two.prepare()
    write = write_new

    def take_over_first(path: Path, content: dict[str, object]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(checkpoints, "write_new", write)
            two.take_over(DESCRIBED, (), 4)
        write(path, content)

    monkeypatch.setattr(checkpoints, "write_new", take_over_first)
    with pytest.raises(CheckpointError, match="another driver has taken over"):
        one.take_over(DESCRIBED, (), 4)
    assert Checkpoint(tmp_path).last()["epoch"] == 1


def test_a_late_driver_that_creates_a_cleaned_manifest_again_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "FULL_EVERY", 4)
    old = new_checkpoint(tmp_path)
    state = commit_files(old, old.committed_state(), file_of(0))
    new = new_checkpoint(tmp_path)
    newer = new.committed_state()
    for number in range(1, 9):
        newer = commit_files(new, newer, file_of(number))
        new.clean(newer, -1, nothing_open)
    assert not (old.manifests / "000002.json").exists(), "the number is free again"
    files = len(list(new.runs.iterdir()))
    with pytest.raises(CheckpointError, match="another driver has taken over"):
        commit_files(old, state, file_of(99))
    assert (old.manifests / "000002.json").exists(), "what was visible is not withdrawn"
    for act in (old.check_newest, lambda: old.clean(state, -1, nothing_open)):
        with pytest.raises(CheckpointError, match="another driver has taken over"):
            act()
    assert len(list(new.runs.iterdir())) == files
    assert read(tmp_path).ingested == newer.ingested
    newer = commit_files(new, newer, file_of(9))
    new.clean(newer, -1, nothing_open)
    assert not (old.manifests / "000002.json").exists()


def test_a_manifest_that_is_visible_is_never_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = new_checkpoint(tmp_path)
    before = checkpoint.committed_state()

    def failing(_folder: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "fsync", failing)
        patched.setattr(checkpoints, "fsync", failing)
        state = commit_files(checkpoint, before, file_of(0))
        assert (state.number, read(tmp_path).number) == (0, 0)
        with pytest.raises(OSError, match="Input/output"):
            checkpoint.sync()
    checkpoint.sync()
    assert commit_files(checkpoint, state, file_of(1)).number == 1


def test_a_folder_that_cannot_be_listed_does_not_undo_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the output of a batch that has happened would be removed as that of a failed one."""
    checkpoint = new_checkpoint(tmp_path)
    before = checkpoint.committed_state()

    def failing(_folder: Path) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "names", failing)
        state = commit_files(checkpoint, before, file_of(0))
    assert (state.number, read(tmp_path).number) == (0, 0)
    assert commit_files(checkpoint, state, file_of(1)).number == 1


def test_an_error_after_the_name_was_taken_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an object store that answers with an error although it has created the object."""
    checkpoint = new_checkpoint(tmp_path)
    link = os.link

    def link_and_fail(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(errno.EIO, "the connection was lost")

    monkeypatch.setattr(os, "link", link_and_fail)
    state = commit_files(checkpoint, checkpoint.committed_state(), file_of(0))
    assert state.number == read(tmp_path).number == 0


def test_a_take_over_repeats_tables_unpublished_outputs_and_the_pending_intent(
    tmp_path: Path,
) -> None:
    old = new_checkpoint(tmp_path)
    state = commit_files(old, old.committed_state(), file_of(0))
    old.intend(1, [file_of(1)])
    last = old.last()
    new = new_checkpoint(tmp_path)
    taken = new.last()
    assert (taken["kind"], taken["epoch"], taken["batch"]) == ("start", 2, 0)
    assert (taken["tables"], taken["outputs"]) == (last["tables"], last["outputs"])
    assert read(tmp_path).outputs == state.outputs
    assert new.intent(1) == (file_of(1),)
    new.note_published(0)
    assert new_checkpoint(tmp_path).last()["outputs"] == []


def test_of_intents_for_one_batch_that_of_the_newest_epoch_counts(tmp_path: Path) -> None:
    old = new_checkpoint(tmp_path)
    new = new_checkpoint(tmp_path)
    new.intend(0, [file_of(2)])
    old.intend(0, [file_of(1)])  # a driver that was paused
    assert Checkpoint(tmp_path).intent(0) == (file_of(2),)
    old.withdraw(0)
    assert Checkpoint(tmp_path).intent(0) == (file_of(2),)


# --- folder sinks ----------------------------------------------------------------------------

ME = "0f3a"


def output_of(folder: Path, *parts: str) -> PublishedOutput:
    return PublishedOutput(str(folder), "a1", parts)


def test_a_batch_appears_whole_and_only_with_its_own_parts(tmp_path: Path) -> None:
    staging = folders.prepare(tmp_path, ME, 3, "a1")
    for name in ("one", "two", "stray"):
        (staging / name).write_text(name)
    final = folders.publish(output_of(tmp_path, "one", "two"), ME, 3)
    assert final == tmp_path / "batch=000003"
    assert sorted(path.name for path in final.iterdir()) == ["one", "two"]
    assert list(tmp_path.iterdir()) == [final]
    assert folders.publish(output_of(tmp_path, "one", "two"), ME, 3) == final
    with pytest.raises(CheckpointError, match="of another run"):
        folders.prepare(tmp_path, ME, 3, "a2")


def test_publishing_resumes_where_it_was_interrupted(tmp_path: Path) -> None:
    staging = folders.prepare(tmp_path, ME, 3, "a1")
    ready = tmp_path / f".incmrql-{ME}-000003.ready"
    ready.mkdir()
    (ready / "one").write_text("one")
    (staging / "two").write_text("two")
    final = folders.publish(output_of(tmp_path, "one", "two"), ME, 3)
    assert sorted(path.name for path in final.iterdir()) == ["one", "two"]


def test_output_whose_parts_are_gone_is_an_error(tmp_path: Path) -> None:
    shutil.rmtree(folders.prepare(tmp_path, ME, 3, "a1"))
    with pytest.raises(CheckpointError, match=r"neither in .* nor published"):
        folders.publish(output_of(tmp_path, "one"), ME, 3)


@pytest.mark.parametrize("steps", range(8))
def test_two_publishers_at_once_publish_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """A second publisher does all of its work between two calls of the first one."""
    staging = folders.prepare(tmp_path, ME, 3, "a1")
    for name in ("one", "two"):
        (staging / name).write_text(name)
    output = output_of(tmp_path, "one", "two")
    calls = 0

    def interrupt(method: str) -> None:
        original = getattr(Path, method)

        def call_or_publish(self: Path, *given: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == steps + 1:
                folders.publish(output, ME, 3)
            return original(self, *given, **named)

        monkeypatch.setattr(Path, method, call_or_publish)

    for method in ("mkdir", "replace", "rmdir"):
        interrupt(method)
    final = folders.publish(output, ME, 3)
    assert sorted(path.name for path in final.iterdir()) == ["one", "two"]
    assert list(tmp_path.iterdir()) == [final]
    assert calls > 3


def test_hidden_folders_of_other_checkpoints_are_left_alone(tmp_path: Path) -> None:
    mine, other = (folders.prepare(tmp_path, owner, 3, "a1") for owner in (ME, "beef"))
    assert list(folders.leftovers(tmp_path, ME)) == [mine]
    assert list(folders.leftovers(tmp_path, "beef")) == [other]
