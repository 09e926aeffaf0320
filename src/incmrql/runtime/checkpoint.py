"""The checkpoint: the folder from which a killed program goes on as if nothing had happened.

    program.json            what the state is for: identity, normal form, number of buckets
    lock                    who writes to it
    intents/000012.json     the files that batch 12 takes in; a re-run takes exactly these
    manifests/000012.json   batch 12 is committed: files, runs, output, counts
    runs/                   run files (`kernel.runs`); only those that a manifest names exist
    work/                   the order of the batch that is running

A manifest names all runs but only the files of its own batch; now and then one names all files
so far, so that a commit costs no more than its change.  All files carry a checksum.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from incmrql.diagnostics import CheckpointError
from incmrql.incremental import Program
from incmrql.kernel.batch import ledger_types
from incmrql.kernel.order import Applied
from incmrql.kernel.reading import InputFile
from incmrql.kernel.runs import check
from incmrql.kernel.table import Table
from incmrql.runtime.durable import load, write_new, write_over
from incmrql.runtime.folder import Consumed

FORMAT: Final = 1
FULL_EVERY: Final = 50
"""A manifest of this many names all files so far."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a batch: the attempt that wrote it and the names of its parts."""

    attempt: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """What is committed: the last batch, its tables and output, all files so far."""

    number: int
    """The last batch, -1 before the first."""
    node: Table
    ledger: Table | None
    output: Output = field(default_factory=Output)
    consumed: Consumed = field(default_factory=dict, repr=False)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All state tables."""
        return (self.node,) if self.ledger is None else (self.node, self.ledger)


class Checkpoint:
    """A checkpoint folder of one program."""

    def __init__(self, folder: Path, program: Program, buckets: int) -> None:
        self.folder, self.program = folder, program
        self.runs, self.work = folder / "runs", folder / "work"
        self.intents, self.manifests = folder / "intents", folder / "manifests"
        for each in (self.runs, self.work, self.intents, self.manifests):
            each.mkdir(parents=True, exist_ok=True)
        self.buckets = self._identified(buckets)

    def _identified(self, buckets: int) -> int:
        """The number of buckets of the checkpoint; refuses one of another program."""
        path = self.folder / "program.json"
        wanted = {
            "format": FORMAT,
            "identity": self.program.identity,
            "text": self.program.text,
            "buckets": buckets,
        }
        if not path.exists():
            write_new(path, wanted)
            return buckets
        found = load(path)
        for name in ("format", "identity"):
            if found[name] != wanted[name]:
                raise CheckpointError(
                    f"checkpoint {self.folder} belongs to another query:\n{found['text']}"
                )
        return int(found["buckets"])

    # --- reading ---------------------------------------------------------------------------

    def recovered(self) -> State:
        """The committed state, from the last manifest back to one that names all files."""
        numbers = sorted(int(path.stem) for path in self.manifests.glob("[0-9]*.json"))
        state = self._nothing()
        if not numbers:
            return state
        consumed: Consumed = {}
        last = load(self._manifest(numbers[-1]))
        for number in reversed(numbers):
            found = last if number == numbers[-1] else load(self._manifest(number))
            consumed = {**_files(found["all_files"] or found["files"]), **consumed}
            if found["all_files"] is not None:
                break
        else:
            if numbers[0] != 0:
                raise CheckpointError(f"manifests before {numbers[0]} are missing in {self.folder}")
        return State(
            numbers[-1],
            state.node.of_json(last["node"]),
            None if state.ledger is None else state.ledger.of_json(last["ledger"]),
            Output(last["output"]["attempt"], tuple(last["output"]["parts"])),
            consumed,
        )

    def check_runs(self, state: State) -> None:
        """Compare the checksums of all runs."""
        for table in state.tables:
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
        self, before: State, applied: Applied, output: Output, files: Consumed, counts: Any
    ) -> State:
        """Write the next manifest; from here on the batch has happened."""
        number = before.number + 1
        full = number % FULL_EVERY == 0
        content = {
            "number": number,
            "files": _listed(files),
            "all_files": _listed({**before.consumed, **files}) if full else None,
            "node": applied.node.as_json(),
            "ledger": None if applied.ledger is None else applied.ledger.as_json(),
            "output": {"attempt": output.attempt, "parts": list(output.parts)},
            "counts": counts,
        }
        try:
            write_new(self._manifest(number), content)
        except FileExistsError:
            message = f"batch {number} of {self.folder} was committed by another driver"
            raise CheckpointError(message) from None
        self.withdraw(number)
        before.consumed.update(files)  # one growing dictionary: a commit costs its change
        return State(number, applied.node, applied.ledger, output, before.consumed)

    def clean(self, state: State, grace: float) -> None:
        """Remove run files that no manifest names, and old manifests and intents."""
        named = {run.file for table in state.tables for run in table.runs}
        _remove((path for path in self.runs.iterdir() if path.name not in named), grace)
        full = state.number - state.number % FULL_EVERY
        old = (p for p in self.manifests.glob("[0-9]*.json") if int(p.stem) < full - 1)
        _remove(old, grace)
        done = (p for p in self.intents.glob("[0-9]*.json") if int(p.stem) <= state.number)
        _remove(done, grace)

    def _nothing(self) -> State:
        node = Table(self.program.fold.name, self.program.fold.keys, self.buckets)
        types = ledger_types(self.program)
        ledger = Table("ledger", types, self.buckets) if self.program.stream.ledger else None
        return State(-1, node, ledger)

    def _intent(self, number: int) -> Path:
        return self.intents / f"{number:06d}.json"

    def _manifest(self, number: int) -> Path:
        return self.manifests / f"{number:06d}.json"


def _listed(files: Consumed) -> list[dict[str, Any]]:
    return [{**file.as_json(), "checksum": digest} for file, digest in files.values()]


def _files(listed: list[dict[str, Any]]) -> Consumed:
    consumed: Consumed = {}
    for each in listed:
        fields = {name: value for name, value in each.items() if name != "checksum"}
        consumed[each["path"]] = (InputFile.of_json(fields), each["checksum"])
    return consumed


def _remove(paths: Iterable[Path], grace: float) -> None:
    latest = time.time() - grace
    for path in list(paths):
        try:
            if path.stat().st_mtime <= latest:
                path.unlink()
        except FileNotFoundError:
            continue
