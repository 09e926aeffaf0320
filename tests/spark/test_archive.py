"""Which archive of classes Java is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from incmrql.spark.session import java_options


def ended_process() -> int:
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_the_first_java_writes_the_archive_and_later_ones_use_it(tmp_path: Path) -> None:
    cache, gone = tmp_path / "cache", ended_process()
    first = java_options(cache, "a Java and a Spark", gone)
    (written,) = [o.partition("=")[2] for o in first.split() if "ArchiveClassesAtExit" in o]
    Path(written).write_bytes(b"classes")
    later = java_options(cache, "a Java and a Spark", os.getpid())
    (used,) = [o.partition("=")[2] for o in later.split() if "SharedArchiveFile" in o]
    assert Path(used).read_bytes() == b"classes"
    assert not Path(written).exists()


def test_another_java_does_not_write_beside_one_that_is_running(tmp_path: Path) -> None:
    cache = tmp_path
    first = java_options(cache, "a Java", os.getpid())
    Path(first.rpartition("=")[2]).write_bytes(b"half")
    assert java_options(cache, "a Java", ended_process()) == ""
    assert "AtExit" in java_options(cache, "another Java", ended_process())


def test_there_may_be_no_cache(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    assert java_options(taken, "a Java", 1) == ""
    assert java_options(tmp_path / "with space", "a Java", 1) == ""
