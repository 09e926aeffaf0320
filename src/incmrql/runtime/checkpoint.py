"""The checkpoint: the folder from which a killed program goes on as if nothing had happened.

    program.json            what the state is for: the query, its nodes, the number of buckets
    lock                    who writes to it
    intents/000012.json     the files that batch 12 takes in; a re-run takes exactly these
    manifests/000012.json   batch 12 is committed: files, runs, output, counts
    runs/                   run files (`kernel.runs`); only those that a manifest names exist
    input/                  rows that were pushed, sent or registered, waiting; and the archive
    work/                   the order of the batch that is running, and its change of the answer

A manifest names all runs but only the files of its own batch; now and then one names all files
so far, so that a commit costs no more than its change.  All files carry a checksum.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from incmrql.diagnostics import CheckpointError
from incmrql.kernel.compaction import MERGED
from incmrql.kernel.crashing import crash_here
from incmrql.kernel.form import Form
from incmrql.kernel.inputs import InputFile
from incmrql.kernel.orders import tables_of_json
from incmrql.kernel.runs import check
from incmrql.kernel.table import Table
from incmrql.runtime.durable import load, write_new, write_over
from incmrql.runtime.feeds.feed import Consumed

FORMAT: Final = 2
_SWAPPED_WITHIN: Final = 600.0
"""Seconds within which a merged run is named by a manifest, if ever."""
FULL_EVERY: Final = 50
"""A manifest of this many names all files so far."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a batch: where it goes, the attempt that wrote it, the names of its parts."""

    folder: str
    attempt: str
    parts: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The fields for a manifest."""
        return {"folder": self.folder, "attempt": self.attempt, "parts": list(self.parts)}

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> Output:
        """The output that a manifest names."""
        return Output(found["folder"], found["attempt"], tuple(found["parts"]))


@dataclass(frozen=True, slots=True)
class State:
    """What is committed: the last batch, its tables and outputs, all files so far."""

    number: int
    """The last batch, -1 before the first."""
    tables: Mapping[str, Table]
    outputs: tuple[Output, ...] = ()
    consumed: dict[int, Consumed] = field(default_factory=dict, repr=False)
    """By the place of the source."""

    @property
    def rows(self) -> int:
        """Rows in all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def size(self) -> int:
        """Bytes of all tables."""
        return sum(table.size for table in self.tables.values())


Taken = Sequence[tuple[InputFile, str]]
"""The files of a batch with their checksums."""


class Checkpoint:
    """A checkpoint folder; `forms` are those of the state tables of its program."""

    def __init__(self, folder: Path, forms: Iterable[tuple[str, Form]] = ()) -> None:
        self.folder, self.forms = folder, tuple(forms)
        self.runs, self.work, self.input = folder / "runs", folder / "work", folder / "input"
        self.intents, self.manifests = folder / "intents", folder / "manifests"
        self.buckets = 1

    def prepare(self, program: Mapping[str, Any], buckets: int) -> dict[str, Any]:
        """The description of the program that the checkpoint is for; of this one if it is new."""
        for each in (self.runs, self.work, self.input, self.intents, self.manifests):
            each.mkdir(parents=True, exist_ok=True)
        path = self.folder / "program.json"
        if not path.exists():
            if self.numbers():
                message = f"checkpoint {self.folder} is damaged: program.json is missing"
                raise CheckpointError(f"{message}, so that nobody knows what its state is of")
            write_new(path, {**program, "format": FORMAT, "buckets": buckets})
        return self.described()

    def described(self) -> dict[str, Any]:
        """What the checkpoint says of its program."""
        path = self.folder / "program.json"
        if not path.exists():
            raise CheckpointError(f"{self.folder} is no checkpoint: it has no program.json")
        found = load(path)
        if found.get("format") != FORMAT:
            message = f"checkpoint {self.folder} is of another version of incmrql"
            raise CheckpointError(f"{message}: its format is {found.get('format')}, not {FORMAT}")
        self.buckets = int(found["buckets"])
        if numbers := self.numbers():
            last = load(self._manifest(numbers[-1]))
            self.buckets = int(last.get("buckets", self.buckets))
        return found

    def describe(self, program: Mapping[str, Any]) -> None:
        """Put another program's description in the place of the one that is there."""
        found = {**program, "format": FORMAT, "buckets": self.buckets}
        write_over(self.folder / "program.json", found)

    # --- reading ---------------------------------------------------------------------------

    def recovered(self) -> State:
        """The committed state, from the last manifest back to one that names all files."""
        numbers = self.numbers()
        if not numbers:
            return State(-1, tables_of_json({}, self.forms, self.buckets))
        batches = list(self.batches())
        consumed: dict[int, Consumed] = {}
        for files in batches:
            for file, _ in files:
                if file.retracts:
                    consumed.setdefault(file.place, {}).pop(file.retracts, None)
            for file, digest in files:
                if not file.retracts:
                    consumed.setdefault(file.place, {})[file.path] = (file, digest)
        last = load(self._manifest(numbers[-1]))
        return State(
            numbers[-1],
            tables_of_json(last["tables"], self.forms, self.buckets),
            tuple(map(Output.of_json, last["outputs"])),
            consumed,
        )

    def numbers(self) -> list[int]:
        """The numbers of the manifests that are there."""
        return sorted(int(path.stem) for path in self.manifests.glob("[0-9]*.json"))

    def batches(self) -> Iterable[Taken]:
        """The files of all batches, in order; those of early ones together."""
        numbers = self.numbers()
        found: list[Taken] = []
        for place, number in enumerate(reversed(numbers)):
            if number != numbers[-1] - place:
                raise CheckpointError(f"manifest {number + 1} is missing in {self.folder}")
            manifest = load(self._manifest(number))
            if manifest["all_files"] is not None:
                found.append(_files(manifest["all_files"]))
                break
            found.append(_files(manifest["files"]))
        else:
            if numbers and numbers[0] != 0:
                raise CheckpointError(f"manifests before {numbers[0]} are missing in {self.folder}")
        return reversed(found)

    def manifest(self, number: int) -> dict[str, Any]:
        """What a batch has written down."""
        return load(self._manifest(number))

    def files(self, number: int) -> Taken:
        """The files of a batch, with their checksums; those that were skipped have none."""
        return _files(self.manifest(number)["files"])

    def check_runs(self, state: State) -> None:
        """Compare the checksums of all runs."""
        for table in state.tables.values():
            for run in table.runs:
                check(self.runs, run)

    def intent(self, number: int) -> tuple[InputFile, ...] | None:
        """The files that a batch has set out to take in."""
        path = self._intent(number)
        if not path.exists():
            return None
        return tuple(InputFile.of_json(file) for file in load(path)["files"])

    # --- writing ---------------------------------------------------------------------------

    def intend(self, number: int, files: Iterable[InputFile]) -> None:
        """Say which files a batch takes in, before anything is done."""
        content = {"number": number, "files": [file.as_json() for file in files]}
        write_over(self._intent(number), content)

    def withdraw(self, number: int) -> None:
        """Take back an intent whose batch was refused."""
        self._intent(number).unlink(missing_ok=True)

    def commit(
        self,
        before: State,
        tables: Mapping[str, Table],
        outputs: tuple[Output, ...],
        files: Taken,
        counts: Mapping[str, Any],
    ) -> State:
        """Write the next manifest; from here on the batch has happened."""
        number = before.number + 1
        back = {(file.place, file.retracts) for file, _ in files if file.retracts}
        fresh = [(file, digest) for file, digest in files if not file.retracts]
        full = number % FULL_EVERY == 0
        known = [
            each
            for place, one in before.consumed.items()
            for path, each in one.items()
            if (place, path) not in back
        ]
        content = {
            "number": number,
            "time": time.time(),
            "files": _listed(files),
            "all_files": _listed([*known, *fresh]) if full else None,
            "tables": {n: table.as_json() for n, table in tables.items() if table.runs},
            "outputs": [output.as_json() for output in outputs],
            "counts": dict(counts),
            "buckets": self.buckets,
        }
        try:
            write_new(self._manifest(number), content)
        except FileExistsError:
            message = f"batch {number} of {self.folder} was committed by another driver"
            raise CheckpointError(message) from None
        crash_here("manifest", number)
        with suppress(OSError):  # an intent of a batch that has happened means nothing
            self.withdraw(number)
        for place, path in back:
            before.consumed.get(place, {}).pop(path, None)
        for file, digest in fresh:  # one growing dictionary: a commit costs its change
            before.consumed.setdefault(file.place, {})[file.path] = (file, digest)
        return State(number, tables, outputs, before.consumed)

    def clean(self, state: State, grace: float) -> None:
        """Remove run files that no manifest names, and old manifests and intents."""
        named = {run.file for table in state.tables.values() for run in table.runs}
        strays = [path for path in self.runs.iterdir() if path.name not in named]
        merged = [path for path in strays if MERGED in path.name]
        _remove(merged, max(grace, _SWAPPED_WITHIN))
        _remove((path for path in strays if MERGED not in path.name), grace)
        full = state.number - state.number % FULL_EVERY
        old = (p for p in self.manifests.glob("[0-9]*.json") if int(p.stem) < full - 1)
        _remove(old, grace)
        done = (p for p in self.intents.glob("[0-9]*.json") if int(p.stem) <= state.number)
        _remove(done, grace)
        for folder in (self.intents, self.manifests):
            _remove(folder.glob(".*.tmp"), grace)

    def _intent(self, number: int) -> Path:
        return self.intents / f"{number:06d}.json"

    def _manifest(self, number: int) -> Path:
        return self.manifests / f"{number:06d}.json"


def _listed(files: Iterable[tuple[InputFile, str]]) -> list[dict[str, Any]]:
    return [{**file.as_json(), "checksum": digest} for file, digest in files]


def _files(listed: list[dict[str, Any]]) -> Taken:
    found = []
    for each in listed:
        fields = {name: value for name, value in each.items() if name != "checksum"}
        found.append((InputFile.of_json(fields), each["checksum"]))
    return found


def _remove(paths: Iterable[Path], grace: float) -> None:
    latest = time.time() - grace
    for path in list(paths):
        try:
            if path.stat().st_mtime <= latest:
                path.unlink()
        except FileNotFoundError:
            continue
