"""Proofs of what a process sees, without a cluster."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError
from incmrql.spark import probe as probing
from incmrql.spark.probe import (
    Probe,
    check_proofs,
    create_probe,
    host_name,
    prove,
    require_checkpoint,
)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has proved nothing, with a driver that does not wait."""
    monkeypatch.setattr(probing, "_SEEN", set())
    monkeypatch.setattr(probing, "_PATIENCE", 0.0)


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    return create_probe(tmp_path / "ck" / "work")


def staging(tmp_path: Path) -> Path:
    """The directory of an attempt in an output."""
    folder = tmp_path / "out" / ".incmrql-attempt"
    folder.mkdir(parents=True)
    return folder


def source(tmp_path: Path) -> InputFile:
    path = tmp_path / "data" / "1.csv"
    path.parent.mkdir()
    path.write_text("1\n")
    status = path.stat()
    return InputFile(str(path), status.st_size, status.st_mtime_ns, 0)


def test_a_process_proves_each_directory_once(tmp_path: Path, probe: Probe) -> None:
    target, file = staging(tmp_path), source(tmp_path)
    proofs = list(prove(probe, [str(target)], [file]))
    assert [proof.kind for proof in proofs] == ["checkpoint", "output", "source"]
    assert not any(proof.problem for proof in proofs)
    check_proofs(probe, proofs, [file])
    assert list(prove(probe, [str(target)], [file])) == []
    again = create_probe(Path(probe.work))  # the next driver
    assert [proof.kind for proof in prove(again)] == ["checkpoint"]
    assert not probe.folder.exists()


def test_a_checkpoint_that_is_not_there(tmp_path: Path, probe: Probe) -> None:
    shutil.rmtree(tmp_path / "ck")
    proofs = list(prove(probe))
    with pytest.raises(DataError) as caught:
        check_proofs(probe, proofs)
    assert caught.value.code == "R216"
    assert caught.value.message == (
        f"host {host_name()} cannot see the checkpoint {tmp_path}/ck: no such file or directory"
    )
    assert "share under the same path" in caught.value.hint
    with pytest.raises(DataError, match="R216"):
        require_checkpoint(probe)
    assert len(list(prove(probe))) == 1, "what was not seen is tried again"


def test_a_local_directory_of_the_same_name(probe: Probe) -> None:
    shutil.rmtree(probe.folder)
    (proof,) = prove(probe)
    assert proof.problem == "what is there is not what the driver sees"
    probe.folder.mkdir()
    (probe.folder / "nonce").write_text("another")
    (proof,) = prove(probe)
    assert proof.problem == "what is there is not what the driver sees"


@pytest.mark.parametrize("content", [None, "", "other\n"])
def test_what_a_task_wrote_must_arrive(tmp_path: Path, probe: Probe, content: str | None) -> None:
    proofs = list(prove(probe, [str(staging(tmp_path))]))
    path = Path(proofs[1].file)
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError) as caught:
        check_proofs(probe, proofs)
    assert caught.value.message == (
        f"host {host_name()} cannot see the output {tmp_path}/out: "
        f"what it wrote to {path} does not arrive here"
    )


def test_an_output_without_the_directory_of_the_attempt(tmp_path: Path, probe: Probe) -> None:
    target = staging(tmp_path)
    target.rmdir()
    problem = list(prove(probe, [str(target)]))[1]
    assert (problem.kind, problem.directory) == ("output", str(tmp_path / "out"))
    assert problem.problem == "no such file or directory"


def test_a_source_that_differs(tmp_path: Path, probe: Probe) -> None:
    file = source(tmp_path)
    there = replace(file, size=7)  # what the driver saw of it
    proofs = list(prove(probe, (), [there]))
    assert proofs[1].problem == "1.csv has 2 bytes there, and 7 on the driver"
    check_proofs(probe, proofs, [there])  # here it is no longer as it was either: not of storage
    gone = replace(file, path=str(tmp_path / "none" / "1.csv"))
    (proof,) = prove(probe, (), [gone])
    with pytest.raises(DataError, match=r"cannot see the source .*none: no such file"):
        check_proofs(probe, [replace(proof, file=file.path)], [file])
    os.utime(file.path, (1, 1))
    (proof,) = prove(probe, (), [file])
    assert proof.problem == "1.csv has a different time of modification there"
