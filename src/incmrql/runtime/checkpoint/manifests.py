"""The checkpoint: the directory from which a killed program resumes as if nothing had happened.

    lock                              who writes to it; an early refusal, not a guarantee
    manifests/000031.json             a sequence of its own; each carries the batch it commits
    intents/000012-000002-….json      the files that batch 12 ingests; a retry ingests exactly these
    published/000012.json             the output of batch 12 has appeared
    runs/                             state files (`engine.store.segments`); only those that the
                                      newest manifest names count
    input/                            rows that were pushed, sent or registered; and the archive
    work/                             requests to tasks, and the changes of the last batch

**One writer.** A driver that starts takes an *epoch*: it creates the next manifest exclusively,
which repeats the tables and the unpublished outputs of its predecessor. A driver that was paused
meanwhile fails at its own next manifest, because that number is taken. Should that manifest have
been cleaned up already, the newest one still wins: a driver that has created a manifest looks for
a higher number before it publishes or removes anything, and stops if there is one. No clock
decides.

A manifest is never withdrawn once it is visible. It names all state files but only the input of
its own batch; now and then one names all input so far, so that a commit costs no more than its
change. Names of files carry epoch and attempt, so that no two attempts ever share one.
"""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import tables_of_json
from incmrql.engine.store.compaction import MERGED
from incmrql.engine.store.segments import verify_segment
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import StateTable
from incmrql.errors import CheckpointError
from incmrql.runtime.feeds.spooled import IngestedByPath
from incmrql.storage import delete, fsync, names
from incmrql.storage.files import crash_here, load, write_new

FORMAT: Final = 3
FULL_EVERY: Final = 50
"""Every so many manifests, one lists all files so far and describes the program."""
HISTORY: Final = "history"
"""The directory of what `runtime.history` notes about a run."""
Kind: TypeAlias = Literal["start", "batch", "rebuild", "rebucket", "output", "rollback"]
"""What a manifest records: the start of an epoch, or a change of the state or of the outputs."""
_NUMBERED: Final = re.compile(r"(\d{6,})\.json")
_INTENT: Final = re.compile(r"(?P<batch>\d{6,})-(?P<epoch>\d{6,})-(?P<count>\d{6,})-\w+\.json")
_STATE_FILE: Final = re.compile(r"(?P<batch>\d{6,})-(?P<attempt>(?P<epoch>\d{6,})-[0-9a-f]+)-.*")


@dataclass(frozen=True, slots=True)
class PublishedOutput:
    """An output of a batch: where it goes, the attempt that wrote it, the names of its parts."""

    folder: str
    attempt: str
    parts: tuple[str, ...] = ()
    kind: Literal["batch", "quarantine"] = "batch"

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        return {
            "folder": self.folder,
            "attempt": self.attempt,
            "parts": list(self.parts),
            "kind": self.kind,
        }

    @staticmethod
    def of_json(fields: Mapping[str, Any]) -> PublishedOutput:
        """The output that a manifest names."""
        return PublishedOutput(
            fields["folder"], fields["attempt"], tuple(fields["parts"]), fields["kind"]
        )


@dataclass(frozen=True, slots=True)
class State:
    """The committed state: the last batch, its tables and outputs, and all files so far."""

    number: int
    """The last batch, -1 before the first."""
    tables: Mapping[str, StateTable]
    outputs: tuple[PublishedOutput, ...] = ()
    ingested: dict[int, IngestedByPath] = field(default_factory=dict, repr=False)
    """By the index of the source among the nodes of the program."""
    changes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The files with the change of each answer by the last batch, if they are kept."""

    @property
    def rows(self) -> int:
        """Rows in all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def size(self) -> int:
        """Bytes of all tables."""
        return sum(table.size for table in self.tables.values())


Ingested = Sequence[tuple[InputFile, str]]
"""The files of a batch with their checksums."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What a manifest adds to the state before it."""

    tables: Mapping[str, StateTable]
    outputs: tuple[PublishedOutput, ...] = ()
    files: Ingested = ()
    counts: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "batch"
    attempt: str = ""


class Checkpoint:
    """A checkpoint directory; `schemas` are those of the state tables of its program.

    Reading changes nothing. `take_over` makes the caller its writer.
    """

    def __init__(self, folder: Path, schemas: Iterable[tuple[str, TableSchema]] = ()) -> None:
        self.folder, self.schemas = folder, tuple(schemas)
        self.runs, self.work, self.input = folder / "runs", folder / "work", folder / "input"
        self.intents, self.manifests = folder / "intents", folder / "manifests"
        self.published = folder / "published"
        self.history = folder / HISTORY
        self.buckets = 1
        self.id = ""
        """Tells this checkpoint from all others, wherever it is moved."""
        self.epoch = 0
        """The epoch of the driver that writes; 0 for one that only reads."""
        self.program: Mapping[str, Any] = {}
        """The description of the program whose state this is."""
        self.sinks: list[dict[str, Any]] = []
        """The sinks that the answers have gone to so far, as the driver describes them."""
        self.batch = -1
        """The last batch that the newest manifest knows."""
        self._sequence = -1
        self._intended = 0
        self._is_synced = True

    # --- reading ---------------------------------------------------------------------------

    def sequences(self) -> list[int]:
        """The numbers of the existing manifests, in order."""
        numbered = map(_NUMBERED.fullmatch, names(self.manifests))
        return sorted(int(name[1]) for name in numbered if name is not None)

    @property
    def exists(self) -> bool:
        """Whether any version has written a checkpoint here."""
        return bool(self.sequences()) or (self.folder / "program.json").exists()

    def description(self) -> Mapping[str, Any]:
        """The description of the program whose state this is; refused without manifests."""
        self._learn(self.last(), self._chain())
        return self.program

    def _learn(self, newest: Mapping[str, Any], chain: Iterable[Mapping[str, Any]]) -> None:
        """Remember what the newest manifests say about the checkpoint as a whole."""
        self.buckets, self.id, self.sinks = newest["buckets"], newest["id"], newest["sinks"]
        self._sequence, self.batch = newest["sequence"], newest["batch"]
        self.program = next(m["program"] for m in chain if m["program"] is not None)

    def _unreadable(self) -> CheckpointError:
        """The error for a directory without manifests that this version can read."""
        old = self.folder / "program.json"
        if not old.exists():
            return CheckpointError(f"{self.folder} is not a checkpoint: it has no manifests")
        message = f"checkpoint {self.folder} was written by incmrql 0.1.0"
        return CheckpointError(f"{message}, whose format this version does not read: {_AFRESH}")

    def last(self) -> dict[str, Any]:
        """The newest manifest; refused if there is none."""
        newest = next(self._chain(), None)
        if newest is None:
            raise self._unreadable()
        return newest

    def _chain(self, last: int | None = None) -> Iterator[dict[str, Any]]:
        """The manifests from the newest, or `last`, back to one that lists all files so far."""
        sequences = [n for n in self.sequences() if last is None or n <= last]
        for age, number in enumerate(reversed(sequences)):
            if number != sequences[-1] - age:
                raise CheckpointError(f"manifest {number + 1} is missing in {self.folder}")
            manifest = load(self._manifest(number))
            if "format" not in manifest and (self.folder / "program.json").exists():
                raise self._unreadable()  # 0.1.0 had the format there
            if manifest.get("format") != FORMAT:
                message = f"checkpoint {self.folder} has format {manifest.get('format')}"
                raise CheckpointError(f"{message}, and this version reads {FORMAT}: {_AFRESH}")
            yield manifest
            if manifest["all_files"] is not None:
                return
        if sequences and sequences[0] != 0:
            raise CheckpointError(f"manifests before {sequences[0]} are missing in {self.folder}")

    def committed_state(self, as_of: int | None = None) -> State:
        """The committed state after the last batch, or after batch `as_of`, from the manifests."""
        chain = list(self._chain())
        if not chain:
            return State(-1, tables_of_json({}, self.schemas, self.buckets))
        self._learn(chain[0], chain)
        if as_of is not None:
            chain = list(self._chain(self._sequence_of(as_of)))
        newest = chain[0]
        ingested: dict[int, IngestedByPath] = {}
        for files in _batches(chain):
            for file, _ in files:
                if file.retracts:
                    ingested.setdefault(file.place, {}).pop(file.retracts, None)
            for file, digest in files:
                if not file.retracts:
                    ingested.setdefault(file.place, {})[file.path] = (file, digest)
        return State(
            newest["batch"],
            tables_of_json(newest["tables"], self.schemas, self.buckets),
            tuple(map(PublishedOutput.of_json, newest["outputs"])),
            ingested,
            newest["changes"],
        )

    def kept(self) -> dict[int, int]:
        """The batches whose state is still there, newest first, each with its last manifest.

        A batch before the state was rebuilt, or cut into other buckets, does not count.
        """
        files, kept = set(names(self.runs)), dict[int, int]()
        for number in reversed(self.sequences()):
            manifest = load(self._manifest(number))
            if manifest["batch"] < 0 or not _files_of(manifest) <= files:
                break
            kept.setdefault(manifest["batch"], number)
            if manifest["kind"] in ("rebuild", "rebucket"):
                break
        return kept

    def _sequence_of(self, batch: int) -> int:
        """The last manifest of a batch; refused if its state is not there any more."""
        kept = self.kept()
        if batch not in kept:
            what = f"the state after batch {batch} is not in checkpoint {self.folder}"
            there = f"It has those after batches {min(kept)} to {max(kept)}." if kept else ""
            hint = f"{there} A run with --keep-batches N keeps the state of N more batches."
            raise CheckpointError(f"error: {what}\n = hint: {hint.strip()}")
        return kept[batch]

    def full_manifest(self) -> dict[str, Any]:
        """The newest manifest, with all files so far and the description of the program."""
        state, newest = self.committed_state(), self.last()
        files = _files_json(_all_files(state, ()))
        return {**newest, "files": [], "all_files": files, "program": self.program}

    def batches(self) -> Iterable[Ingested]:
        """The files of all batches, in order; those of early batches come as one.

        A file that was forgotten later is listed with the batch that read it.
        """
        chain = list(self._chain())
        lists_one_batch = [manifest["all_files"] is None for manifest in reversed(chain)]
        for is_one_batch, files in zip(lists_one_batch, _batches(chain), strict=True):
            yield [pair for pair in files if not (is_one_batch and pair[0].forgotten)]

    def files(self, number: int) -> Ingested:
        """The files of a recent batch, with their checksums; skipped files have none."""
        for manifest in self._chain():
            if manifest["batch"] == number and manifest["kind"] == "batch":
                return _files(manifest["files"])
        raise CheckpointError(f"batch {number} is not among the manifests of {self.folder}")

    def check_runs(self, state: State) -> None:
        """Compare the checksums of all state files."""
        for table in state.tables.values():
            for segment in table.segments:
                verify_segment(self.runs, segment)

    def intent(self, number: int) -> tuple[InputFile, ...] | None:
        """The files that a started batch ingests, by its newest epoch; None if it did not start."""
        newest = max(self._intents(number), default=None)
        if newest is None:
            return None
        return tuple(InputFile.of_json(file) for file in load(self.intents / newest[-1])["files"])

    def _intents(self, number: int) -> list[tuple[int, int, str]]:
        """The intents of a batch: epoch, count within the epoch, name of the file."""
        matches = map(_INTENT.fullmatch, names(self.intents))
        return [
            (int(match["epoch"]), int(match["count"]), match[0])
            for match in matches
            if match is not None and int(match["batch"]) == number
        ]

    # --- becoming the writer -----------------------------------------------------------------

    def prepare(self, mode: int | None = None) -> Mapping[str, Any] | None:
        """Create the directories of a checkpoint; returns the program recorded in it, if any."""
        if not self.sequences() and (self.folder / "program.json").exists():
            raise self._unreadable()
        folders = (
            self.runs, self.work, self.input, self.intents, self.manifests, self.published,
            self.history,
        )  # fmt: skip
        create_folders(self.folder, tuple(folder.name for folder in folders), mode)
        return self.description() if self.sequences() else None

    def take_over(
        self, program: Mapping[str, Any], sinks: Sequence[Mapping[str, Any]], buckets: int
    ) -> State:
        """Take the next epoch: from now on this driver writes, and no older one can.

        The manifest repeats the tables and unpublished outputs of its predecessor.
        """
        before = next(self._chain(), None)
        if before is None:
            self.buckets, self.id = buckets, uuid.uuid4().hex
        state = self.committed_state()
        self.epoch = 1 + (0 if before is None else int(before["epoch"]))
        self.program, self.sinks = dict(program), [dict(sink) for sink in sinks]
        outputs = () if self.is_published(state.number) else state.outputs
        content = {
            **self._manifest_of(state, Commit({}, outputs, kind="start", attempt=_token())),
            "batch": state.number,
            "tables": {} if before is None else before["tables"],
            "changes": state.changes,
            "program": self.program,
            "driver": {"host": socket.gethostname(), "pid": os.getpid()},
        }
        self._create(content)
        return replace(state, outputs=outputs)

    def attempt(self) -> str:
        """A new attempt of this epoch; every file that the attempt writes has it in its name."""
        return f"{self.epoch:06d}-{_token()}"

    def check_newest(self) -> None:
        """Refuse to continue if another driver has taken over."""
        sequences = self.sequences()
        if not sequences:
            raise CheckpointError(f"checkpoint {self.folder} is gone: it has no manifests")
        if sequences[-1] <= self._sequence:
            return
        newest = load(self._manifest(sequences[-1]))
        if newest["epoch"] != self.epoch:
            raise self._superseded_error(newest["epoch"])

    def _superseded_error(self, epoch: int) -> CheckpointError:
        message = f"another driver has taken over checkpoint {self.folder}"
        hint = "This driver has changed nothing since. Stop the other one before you start again."
        return CheckpointError(f"error: {message} (epoch {epoch}, this one had {self.epoch})\n"
                               f" = hint: {hint}")  # fmt: skip

    # --- writing ---------------------------------------------------------------------------

    def intend(self, number: int, files: Iterable[InputFile]) -> None:
        """Record which files a batch ingests, before it runs."""
        listed = [file.as_json() for file in files]
        mine = [intent for intent in self._intents(number) if intent[0] == self.epoch]
        if mine and load(self.intents / max(mine)[-1])["files"] == listed:
            return
        self._intended = max([self._intended, *(count for _, count, _ in mine)]) + 1
        name = f"{number:06d}-{self.epoch:06d}-{self._intended:06d}-{_token()}.json"
        content = {"number": number, "epoch": self.epoch, "files": listed}
        try:
            write_new(self.intents / name, content)
        except OSError:
            with suppress(OSError):  # it was never acted on
                delete(self.intents / name)
            raise

    def withdraw(self, number: int) -> None:
        """Delete the intents of a batch that was refused, or is committed."""
        for epoch, _, name in self._intents(number):
            if epoch <= self.epoch:
                delete(self.intents / name)

    def commit(self, before: State, change: Commit) -> State:
        """Write the next manifest: the batch has happened from the moment it is visible."""
        content = self._manifest_of(before, change)
        self._create(content)
        number: int = content["batch"]
        crash_here("manifest", number)
        with suppress(OSError):  # an intent of a batch that has happened means nothing
            self.withdraw(number)
        for file, _ in change.files:
            if file.retracts:
                before.ingested.get(file.place, {}).pop(file.retracts, None)
        # The dictionary grows in place: copying it would make a commit cost all files so far.
        for file, digest in change.files:
            if not file.retracts:
                before.ingested.setdefault(file.place, {})[file.path] = (file, digest)
        return State(number, change.tables, change.outputs, before.ingested, change.changes)

    def _manifest_of(self, before: State, change: Commit) -> dict[str, Any]:
        """The content of the manifest that follows the newest one."""
        sequence = self._sequence + 1
        full = sequence % FULL_EVERY == 0 or change.kind == "rollback"
        described = full or change.kind in ("start", "rebuild")
        return {
            "format": FORMAT,
            "sequence": sequence,
            "epoch": self.epoch,
            "attempt": change.attempt,
            "kind": change.kind,
            "batch": before.number + 1,
            "time": time.time(),
            "files": _files_json(change.files),
            "all_files": _files_json(_all_files(before, change.files)) if full else None,
            "tables": {n: table.as_json() for n, table in change.tables.items() if table.segments},
            "outputs": [output.as_json() for output in change.outputs],
            "counts": dict(change.counts),
            "changes": dict(change.changes),
            "buckets": self.buckets,
            "id": self.id,
            "sinks": self.sinks,
            "program": self.program if described else None,
        }

    def _create(self, content: dict[str, Any]) -> None:
        """Create a manifest, and check that it is the newest."""
        path = self._manifest(content["sequence"])
        try:
            write_new(path, content)
        except OSError:
            # Another driver may have the name, or the file is ours although an error was raised:
            # its content decides. A manifest that was visible once is never withdrawn.
            if not path.exists():
                raise
            existing = load(path)
            if (existing["epoch"], existing["attempt"]) != (self.epoch, content["attempt"]):
                raise self._superseded_error(existing["epoch"]) from None
            self._is_synced = False
        self._sequence = content["sequence"]
        with suppress(OSError):  # the batch has happened; publishing looks again
            self.check_newest()

    def sync(self) -> None:
        """Flush the newest manifest to disk, if its creation could not."""
        if not self._is_synced:
            fsync(self.manifests)
            self._is_synced = True

    def is_published(self, number: int) -> bool:
        """Whether the outputs of a batch have appeared."""
        return (self.published / f"{number:06d}.json").exists()

    def note_published(self, number: int) -> None:
        """Remember that the outputs of a batch have appeared.

        This is not synced: at worst a crash of the machine makes a later start look again.
        """
        content = {"batch": number, "epoch": self.epoch}
        with suppress(FileExistsError):
            write_new(self.published / f"{number:06d}.json", content, durable=False)

    def clean(
        self, state: State, grace: float, is_open: Callable[[str], bool], keep: int = 0
    ) -> None:
        """Remove files of older epochs and committed batches that no manifest names any more.

        `is_open(attempt)` says whether a merge may still be swapped in. The state of `keep` batches
        before the last one stays, and files stay for `grace` seconds more, for whoever reads the
        checkpoint without a lock.
        """
        self.check_newest()
        named = {segment.file for table in state.tables.values() for segment in table.segments}
        oldest = self._sequence
        for batch, sequence in self.kept().items() if keep else ():
            if batch >= state.number - keep:
                named |= _files_of(load(self._manifest(sequence)))
                oldest = min(oldest, sequence)
        _remove((p for p in self._strays(named, state.number, is_open)), grace)
        full = oldest - oldest % FULL_EVERY
        _remove((self._manifest(n) for n in self.sequences() if n < full - 1), grace)
        past = (n for n in names(self.intents) if (match := _INTENT.fullmatch(n)) is not None
                and int(match["batch"]) <= state.number)  # fmt: skip
        _remove((self.intents / name for name in past), grace)
        done = (n for n in names(self.published) if (match := _NUMBERED.fullmatch(n)) is not None
                and int(match[1]) < state.number)  # fmt: skip
        _remove((self.published / name for name in done), grace)
        for folder in (self.intents, self.manifests, self.published):
            _remove(folder.glob(".*.tmp"), grace)

    def _strays(
        self, named: set[str], number: int, is_open: Callable[[str], bool]
    ) -> Iterator[Path]:
        """State files that no manifest names or will name; other files are not touched."""
        for name in names(self.runs):
            match = _STATE_FILE.fullmatch(name)
            if match is None or name in named:
                continue
            epoch, batch = int(match["epoch"]), int(match["batch"])
            is_mine = epoch == self.epoch
            is_closed = not is_open(match["attempt"]) if MERGED in name else batch <= number
            if epoch < self.epoch or (is_mine and is_closed):
                yield self.runs / name

    def _manifest(self, sequence: int) -> Path:
        return self.manifests / f"{sequence:06d}.json"


_AFRESH: Final = "start with a new checkpoint, which reads the input again"


def _files_of(manifest: Mapping[str, Any]) -> set[str]:
    """The state files that a manifest names."""
    kinds = (kind for table in manifest["tables"].values() for kind in table.values())
    return {segment["file"] for kind in kinds for segment in kind}


def _token() -> str:
    return uuid.uuid4().hex[:8]


def _all_files(before: State, files: Ingested) -> Ingested:
    """All files so far, including those of a batch."""
    retracted = {(file.place, file.retracts) for file, _ in files if file.retracts}
    kept = [
        pair
        for place, by_path in before.ingested.items()
        for path, pair in by_path.items()
        if (place, path) not in retracted
    ]
    return [*kept, *(pair for pair in files if not pair[0].retracts)]


def _batches(chain: Sequence[Mapping[str, Any]]) -> Iterable[Ingested]:
    """The files of each manifest of a chain, oldest first; the chain starts with the newest."""
    listed = [m["files"] if m["all_files"] is None else m["all_files"] for m in chain]
    return reversed([_files(files) for files in listed])


def _files_json(files: Iterable[tuple[InputFile, str]]) -> list[dict[str, Any]]:
    return [{**file.as_json(), "checksum": digest} for file, digest in files]


def _files(listed: list[dict[str, Any]]) -> Ingested:
    files = []
    for entry in listed:
        fields = {name: value for name, value in entry.items() if name != "checksum"}
        files.append((InputFile.of_json(fields), entry["checksum"]))
    return files


def _remove(paths: Iterable[Path], grace: float) -> None:
    latest = time.time() - grace
    for path in list(paths):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime <= latest:
                path.unlink()


# --- Directories ---
#
# A checkpoint holds copies of data, so other users must not be able to read it.


PRIVATE: Final = 0o700
"""Permissions of the directories of a checkpoint if all tasks run as the user."""


def create_folders(folder: Path, parts: tuple[str, ...], mode: int | None) -> None:
    """Create a directory and its parts with the permissions `mode`; None: as the umask says.

    A directory that exists keeps its permissions.
    """
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder, *(folder / part for part in parts)):
        if path.is_dir():
            continue
        if mode is None:
            path.mkdir(exist_ok=True)
        else:
            path.mkdir(PRIVATE, exist_ok=True)  # private until it has its final permissions
            path.chmod(mode)
