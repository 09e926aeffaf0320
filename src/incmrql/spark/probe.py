"""Proof that the tasks of a cluster see the driver's storage.

Tasks read sources and write state and output themselves, so that checkpoint, sources and output
must be the same directories everywhere.  The first task of each Python process proves it, once
for each directory:

    checkpoint  the driver wrote a nonce there; the task reads it, and writes a proof beside it
    output      the task finds the directory of this attempt, whose name is a nonce, and writes a
                proof into it
    sources     the task finds a file of the batch with the size and time that the driver saw

A task returns the names of its proofs, and the driver reads them before it commits the batch:
a worker with a local directory of the same name would pass every check of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError

Kind = Literal["checkpoint", "output", "source"]
FOLDER: Final = "probe-"
"""Prefix of the directory of a driver's nonce, in the directory `work` of its checkpoint."""
_NONCE: Final = "nonce"
_ELSEWHERE: Final = "what is there is not what the driver sees"
_PATIENCE: Final = 5.0
"""Seconds within which a file from a different machine must be visible, despite NFS caches."""
_MOST_SEEN: Final = 10_000

_SEEN: set[tuple[str, str]] = set()
"""The directories that this process has proved to see, as pairs of nonce and directory."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a task needs for its proofs: the driver's nonce and where it lies."""

    work: str
    """The directory `work` of the checkpoint."""
    nonce: str

    @property
    def folder(self) -> Path:
        """The directory with the nonce, and with what tasks write."""
        return Path(self.work, f"{FOLDER}{self.nonce}")


@dataclass(frozen=True, slots=True)
class Proof:
    """What a process saw of a directory: the file that it wrote there, or a problem."""

    host: str
    kind: Kind
    directory: str
    file: str = ""
    """What was written; with a problem of a source, the file that it is about."""
    problem: str = ""


# --- the driver ----------------------------------------------------------------------------


def create_probe(work: Path) -> Probe:
    """Write a new nonce into a checkpoint, and remove those of earlier drivers."""
    remove_probes(work)
    probe = Probe(str(work.absolute()), uuid.uuid4().hex)
    probe.folder.mkdir(parents=True)
    (probe.folder / _NONCE).write_text(probe.nonce, encoding="ascii")
    return probe


def remove_probes(work: Path) -> None:
    """Remove the nonces of all drivers of a checkpoint."""
    for folder in work.glob(f"{FOLDER}*"):
        shutil.rmtree(folder, ignore_errors=True)


def check_proofs(probe: Probe, proofs: Iterable[Proof], files: Iterable[InputFile] = ()) -> None:
    """Refuse results of tasks that did not see the driver's storage; call it before a commit.

    A source file that has vanished for the driver too is not a storage problem: reading it reports
    what happened.
    """
    files_by_path = {file.path: file for file in files}
    for proof in proofs:
        if proof.problem:
            file = files_by_path.get(proof.file)
            if file is None or not _difference(file):
                raise _not_shared_error(proof, proof.problem)
        elif proof.file and not _is_visible(Path(proof.file), _content(probe, proof.host)):
            raise _not_shared_error(proof, f"what it wrote to {proof.file} does not arrive here")


def _is_visible(path: Path, content: str) -> bool:
    """True if a file has this content now or within `_PATIENCE` seconds."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if path.read_text(encoding="utf-8") == content:
                return True
        except OSError:
            _has_entries(path.parent)  # listing refreshes the cache of an NFS client
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _not_shared_error(proof: Proof, reason: str) -> DataError:
    message = f"host {proof.host} cannot see the {proof.kind} {proof.directory}: {reason}"
    hint = (
        f"The {proof.kind} must be on storage that the driver and all executors share under "
        "the same path (docs/operations.md, Several machines)."
    )
    return DataError("R216", message, place=proof.directory, hint=hint)


# --- tasks ---------------------------------------------------------------------------------


def prove(
    probe: Probe, targets: Iterable[str] = (), files: Iterable[InputFile] = ()
) -> Iterator[Proof]:
    """Proofs for the directories that this process has not proved to see yet.

    `targets` are the directories of this attempt in the outputs.  After a proof with a problem of
    the checkpoint or of an output the task must stop.
    """
    if _is_new(probe, probe.work):
        yield _remember(probe, probe.work, _checkpoint_proof(probe))
    for target in targets:
        output = str(Path(target).parent)
        if _is_new(probe, output):
            yield _remember(probe, output, _output_proof(probe, target))
    for file in files:
        directory = os.path.dirname(file.path)
        if _is_new(probe, directory):
            difference = _difference(file)
            file_name = file.path if difference else ""
            proof = Proof(host_name(), "source", directory, file_name, difference)
            yield _remember(probe, directory, proof)


def require_checkpoint(probe: Probe) -> None:
    """Raise an error if this process does not see the checkpoint."""
    if _is_new(probe, probe.work):
        proof = _checkpoint_proof(probe)
        if proof.problem:
            raise _not_shared_error(proof, proof.problem)


def _is_new(probe: Probe, directory: str) -> bool:
    return (probe.nonce, directory) not in _SEEN


def _remember(probe: Probe, directory: str, proof: Proof) -> Proof:
    """Remember a directory that was seen; the next task tries an unseen one again."""
    if not proof.problem:
        if len(_SEEN) >= _MOST_SEEN:
            _SEEN.clear()
        _SEEN.add((probe.nonce, directory))
    return proof


def _checkpoint_proof(probe: Probe) -> Proof:
    host, directory = host_name(), str(Path(probe.work).parent)
    try:
        content = (probe.folder / _NONCE).read_text(encoding="ascii")
        if content != probe.nonce:
            return Proof(host, "checkpoint", directory, problem=_ELSEWHERE)
        return Proof(host, "checkpoint", directory, _write(probe, probe.folder, host))
    except OSError as cause:
        reason = _ELSEWHERE if _has_entries(Path(directory)) else _reason(cause)
        return Proof(host, "checkpoint", directory, problem=reason)


def _output_proof(probe: Probe, target: str) -> Proof:
    host, directory = host_name(), str(Path(target).parent)
    try:
        return Proof(host, "output", directory, _write(probe, Path(target), host))
    except OSError as cause:
        reason = _ELSEWHERE if _has_entries(Path(directory)) else _reason(cause)
        return Proof(host, "output", directory, problem=reason)


def host_name() -> str:
    """The name of this machine, with the address that Spark uses for it if one is set."""
    address = os.environ.get("SPARK_LOCAL_IP", "")
    return f"{socket.gethostname()} ({address})" if address else socket.gethostname()


def _write(probe: Probe, folder: Path, host: str) -> str:
    """Write a proof into a directory; returns its path."""
    name = re.sub(r"[^\w.-]+", "-", host)
    path = folder / f"proof-{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with path.open("x", encoding="utf-8") as file:
        file.write(_content(probe, host))
        file.flush()
        os.fsync(file.fileno())
    return str(path)


def _content(probe: Probe, host: str) -> str:
    return f"{probe.nonce} {host}\n"


def _difference(file: InputFile) -> str:
    """How a source file differs from what the driver saw; empty if it does not."""
    try:
        status = os.stat(file.path)
    except OSError as cause:
        return _reason(cause)
    name = os.path.basename(file.path)
    if status.st_size != file.size:
        return f"{name} has {status.st_size} bytes there, and {file.size} on the driver"
    if status.st_mtime_ns != file.modified:
        return f"{name} has a different time of modification there"
    return ""


def _has_entries(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except OSError:
        return False


def _reason(cause: OSError) -> str:
    return (cause.strerror or str(cause)).lower()
