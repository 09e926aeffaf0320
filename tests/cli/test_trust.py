"""Scripts and checkpoints of strangers: what runs, what is read, and what reaches the terminal."""

from __future__ import annotations

import ast
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import incmrql as incmrql_package
from incmrql.cli.terminal import visible
from tests.cli.commands import Outcome, incmrql
from tests.cli.streams import AVERAGE, Shop, shop_at

PYTHON = """
import pathlib
pathlib.Path("RAN").write_text("")
def double(x: float) -> float:
    return 2 * x
"""
IMPORTING = 'import double from "stranger";\n' + AVERAGE.replace(
    "avg(s.price)", "sum(double(s.price))"
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def ran(shop: Shop) -> bool:
    """Whether the code of the module has run since the last question."""
    mark = shop.folder / "RAN"
    there = mark.exists()
    mark.unlink(missing_ok=True)
    return there


# --- imports -------------------------------------------------------------------------------


def test_check_and_explain_import_nothing(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(PYTHON)
    (shop.folder / "q.mrql").write_text(IMPORTING)
    for words in (["check"], ["explain"], ["explain", "--json"], ["explain", "--stage", "spark"],
                  ["explain", "--stage", "types"], ["explain", "--paper"]):  # fmt: skip
        done = incmrql(*words, "q.mrql")
        assert done.code == 0, done.err
        assert not ran(shop)
    assert incmrql("check", "--allow-import", "stranger", "q.mrql").code == 0
    assert ran(shop)


def test_laws_of_an_aggregation_are_not_checked_by_running_a_strangers_function(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(
        "import pathlib\npathlib.Path('RAN').touch()\n"
        "def minus(x: int, y: int) -> int:\n    return x - y\n"
    )
    (shop.folder / "q.mrql").write_text(
        'import minus from "stranger";\n'
        "aggregation total(\\(x: long, y: long): long. minus(x, y), 0): long;\n"
        "total({1, 2});\n"
    )
    done = incmrql("check", "q.mrql")
    assert (done.code, done.err) == (0, "no problems found\n")
    assert not ran(shop)
    done = incmrql("check", "--allow-import", "stranger", "q.mrql")
    assert (done.code, ran(shop)) == (1, True)
    assert "T605" in done.err + done.out


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_checkpoint_with_python_functions_imports_nothing_unless_allowed(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(PYTHON)
    assert shop.run(IMPORTING).code == 0
    assert ran(shop)
    import sys

    for name in [name for name in sys.modules if name.endswith("_stranger")]:
        del sys.modules[name]
    assert incmrql("state", "ck").code == 0
    for words in (
        ["verify", "ck"],
        ["state", "ck", "--node", "0"],
        ["state", "ck", "--rebucket", "2"],
    ):
        done = incmrql(*words)
        assert done.code == 1
        assert 'the Python module "stranger" may not be imported' in done.err
        assert "--allow-import stranger" in done.err
        assert not ran(shop)
    done = incmrql("verify", "ck", "--allow-import", "stranger")
    assert (done.code, ran(shop)) == (0, True), done.err


SESSIONS_OWN = {
    "spark/packing.py",
    "spark/plans/functions.py",
    "spark/sources/context.py",
    "spark/sources/parts.py",
}
"""Modules that pickle what a driver and its own tasks send each other, or unpack the functions that
the user's own DataFrames have, which are in no checkpoint."""


def imported_names(path: Path) -> set[str]:
    """The last parts of the names that a module imports."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in imports for alias in node.names]
    modules = [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    return {name.rpartition(".")[2] for name in [*names, *modules]}


def test_nothing_that_reads_a_checkpoint_can_unpickle() -> None:
    root = Path(incmrql_package.__file__).parent
    unpickling = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    modules = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if imported_names(path) & unpickling
    }
    assert modules == SESSIONS_OWN


# --- who may look into a checkpoint --------------------------------------------------------


def folder_modes(folder: Path) -> set[int]:
    folders = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    return {stat.S_IMODE(path.stat().st_mode) for path in folders}


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_checkpoint_is_private_on_this_machine(shop: Shop) -> None:
    before = os.umask(0o022)
    try:
        assert shop.run(AVERAGE, "--output", "out").code == 0
        done = incmrql("run", "-e", AVERAGE, "--checkpoint", "shared", "--checkpoint-mode", "750",
                       "--available-now")  # fmt: skip
        assert done.code == 0, done.err
    finally:
        os.umask(before)
    assert folder_modes(shop.checkpoint) == {0o700}
    assert folder_modes(shop.folder / "shared") == {0o750}
    assert folder_modes(shop.folder / "out") == {0o755}


@pytest.mark.spark
def test_a_checkpoint_of_a_session_is_private(spark: object, tmp_path: Path) -> None:
    from incmrql import Session

    session = Session(spark)  # type: ignore[arg-type]
    session.stream("s", "< A: int >")
    query = session.query("incr select x.A from x in s")
    query.start(checkpoint=tmp_path / "ck").stop()
    assert folder_modes(tmp_path / "ck") == {0o700}


def test_permissions_that_are_none() -> None:
    done = incmrql("run", "-e", "1", "--checkpoint-mode", "rwx")
    assert (done.code, "is not permissions such as 700" in done.err) == (2, True)


# --- paths ---------------------------------------------------------------------------------

TYPED = "type(< A: int, B: int >)"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not below the one where commands run."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.csv").write_text("1,2\n")
    (folder / "secret.mrql").write_text("x = 1;\n")
    return folder


def is_refused(done: Outcome, named: Path | str, allow: Path | str) -> None:
    assert done.code == 1, done.out
    assert "error[R104]" in done.err, done.err
    assert f'"{named}" may not be used' in done.err
    assert f"--allow-path {allow}" in done.err


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_script_reads_only_what_is_allowed(
    shop: Shop, outside: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("on_spark")
    inside = f'source(line, "sales", ",", {TYPED})'
    secret = outside / "secret.csv"
    for path in (secret, outside, outside / "*.csv", f"file://{secret}",
                 os.path.relpath(secret, shop.folder)):  # fmt: skip
        query = f'source(line, "{path}", ",", {TYPED})'
        done = incmrql("run", "--allow-path", ".", "-e", query)
        is_refused(done, path, outside)
        assert "<query>:1:14" in done.err
        assert incmrql("run", "--allow-path", outside, "-e", query).code == 0
        assert incmrql("run", "-e", query).code == 0
    assert incmrql("run", "--allow-path", "sales", "-e", inside).code == 0
    argument = f'source(line, args[0], ",", {TYPED})'
    done = incmrql("run", "--allow-path", ".", "-e", argument, secret)
    is_refused(done, secret, outside)
    deletes = f'stream(line, "sales", ",", {TYPED}, deletes: "{outside}")'
    is_refused(incmrql("run", "--allow-path", ".", "-e", deletes), outside, outside)


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.usefixtures("shop")
def test_a_path_that_is_made_up_is_refused_wherever_it_is_read(
    outside: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("on_spark")
    rows = 'source(text, "sales")'
    path = f'"{outside}" + "/secret" + ".csv"'
    inner = f"source(text, {path})"
    for query in (
        inner,
        f"source(text, first({inner}))",
        f"select (x, count({inner})) from x in {rows}",
        f"function f(x: string): long {{ count({inner}) }}; select f(x) from x in {rows}",
    ):
        done = incmrql("run", "--allow-path", ".", "-e", query)
        assert (done.code, "error[R104]" in done.err) == (1, True), (query, done)


def test_the_first_path_that_is_not_allowed_stops_everything(shop: Shop, outside: Path) -> None:
    text = f'dump "here.txt" from 1; source(line, "{outside}", ",", {TYPED});'
    is_refused(incmrql("run", "--allow-path", ".", "-e", text), outside, outside)
    assert not (shop.folder / "here.txt").exists()


def test_includes_only_from_where_it_is_allowed(shop: Shop, outside: Path) -> None:
    secret = outside / "secret.mrql"
    (shop.folder / "q.mrql").write_text(f'include "{secret}";\nx;\n')
    for words in (["run"], ["check"], ["explain", "--stage", "types"]):
        is_refused(incmrql(*words, "q.mrql", "--allow-path", "."), secret, outside)
        assert incmrql(*words, "q.mrql", "--allow-path", outside).code == 0
        assert incmrql(*words, "q.mrql").code == 0


def test_the_type_of_a_file_only_from_where_it_is_allowed(shop: Shop, outside: Path) -> None:
    file = outside / "x.parquet"
    assert incmrql("run", "-e", f'store "{file}" from {{< a: 1 >}};').code == 0
    query = f'select x.a from x in source(binary, "{file}")'
    for words in (["run"], ["check"], ["explain", "--stage", "types"]):
        is_refused(incmrql(*words, "-e", query, "--allow-path", shop.folder), file, outside)
        assert incmrql(*words, "-e", query, "--allow-path", outside).code == 0


def test_modules_only_from_where_it_is_allowed(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(PYTHON)
    (shop.folder / "q.mrql").write_text('import double from "stranger";\ndouble(1.0);\n')
    for words in (["run"], ["check"]):
        done = incmrql(*words, "q.mrql", "--allow-path", "sales")
        is_refused(done, "stranger.py", shop.folder)
        assert not ran(shop)
    assert incmrql("run", "q.mrql", "--allow-path", "stranger.py").code == 0


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.usefixtures("shop")
def test_a_script_writes_only_where_it_is_allowed(
    outside: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("on_spark")
    for verb in ("store", "dump"):
        target = outside / f"made.{verb}"
        text = f'{verb} "{target}" from select x from x in source(text, "sales");'
        is_refused(incmrql("run", "--allow-path", ".", "-e", text), target, outside)
        assert not target.exists()
        assert incmrql("run", "--allow-path", ".", "--allow-path", outside, "-e", text).code == 0
        assert target.exists()


@pytest.mark.parametrize("path", ["sales", "sales/*.csv", "sales/link.csv"])
@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_link_does_not_lead_out(
    shop: Shop, outside: Path, path: str, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("on_spark")
    (shop.folder / "sales" / "link.csv").symlink_to(outside / "secret.csv")
    query = f'source(line, "{path}", ",", {TYPED})'
    done = incmrql("run", "--allow-path", ".", "-e", query)
    is_refused(done, "sales/link.csv", outside)
    assert f'it leads to "{outside / "secret.csv"}"' in done.err
    assert incmrql("run", "-e", query).code == 0


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_stream_follows_only_what_is_allowed(shop: Shop, outside: Path) -> None:
    named = AVERAGE.replace('"returns"', f'"{outside}"')
    is_refused(shop.run(named, "--allow-path", "."), outside, outside)
    assert not shop.checkpoint.exists()
    writing = f'dump "{outside}/made.json" from {AVERAGE}'
    is_refused(shop.run(writing, "--allow-path", "."), f"{outside}/made.json", outside)
    mine = ["--output", str(outside / "out"), "--quarantine", str(outside / "bad")]
    done = shop.run(AVERAGE, "--allow-path", "sales", "--allow-path", "returns", *mine)
    assert done.code == 0, done.err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_link_in_a_watched_folder_does_not_lead_out(shop: Shop, outside: Path) -> None:
    assert shop.run(AVERAGE, "--allow-path", ".").code == 0
    (outside / "secret.csv").write_text("Bonn,7\n")
    (shop.folder / "sales" / "2.csv").symlink_to(outside / "secret.csv")
    os.utime(outside / "secret.csv", (1_000_000, 1_000_000))
    is_refused(shop.run(AVERAGE, "--allow-path", "."), "sales/2.csv", outside)
    done = shop.run(AVERAGE, "--allow-path", ".", "--allow-path", str(outside))
    assert (done.code, "Bonn" in done.out) == (0, True), done.err


@pytest.mark.spark
def test_a_file_that_became_a_link_is_refused_by_the_task(tmp_path: Path, outside: Path) -> None:
    from incmrql.engine.batch import CompiledProgram, read_rows
    from incmrql.engine.compile.program import compile_program
    from incmrql.engine.inputs import InputFile
    from incmrql.engine.messages import Reading
    from incmrql.errors import DataError
    from incmrql.io.files import Paths
    from tests.engine.programs import program_of

    (tmp_path / "sales").mkdir()
    program = program_of(f'incr stream(line, "{tmp_path}/sales", ",", {TYPED})')
    link, secret = tmp_path / "sales" / "1.csv", outside / "secret.csv"
    link.symlink_to(secret)
    status = secret.stat()
    file = InputFile(str(link), status.st_size, status.st_mtime_ns, program.streams[0].place)
    compiled = CompiledProgram(program, compile_program(program), Paths.of([tmp_path]))
    with pytest.raises(DataError, match="R104"):
        list(read_rows(compiled, file, Reading()))
    compiled = CompiledProgram(program, compile_program(program), Paths.of([tmp_path, outside]))
    assert len(list(read_rows(compiled, file, Reading()))) == 1


@pytest.mark.spark
def test_paths_of_a_session(spark: object, tmp_path: Path, outside: Path) -> None:
    from incmrql import Session
    from incmrql.errors import IncmrqlError

    session = Session(spark, allow_paths=[tmp_path])  # type: ignore[arg-type]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1,2\n")
    inside = f'"{tmp_path}/in", ",", {TYPED}'
    secret = f'"{outside}", ",", {TYPED}'
    assert len(session.query(f"source(line, {inside})").collect()) == 1
    with pytest.raises(IncmrqlError, match="R104"):
        session.query(f"source(line, {secret})").collect()
    with pytest.raises(IncmrqlError, match="R104"):
        session.query(f"incr stream(line, {secret})").start()
    with pytest.raises(IncmrqlError, match="R104"):
        session.run(f'dump "{outside}/made.txt" from 1;')
    run = session.query(f"incr stream(line, {inside})").start(
        checkpoint=tmp_path / "ck", output=outside / "out", settle=0
    )
    run.step()
    assert run.verify().rows == 1
    run.stop()


# --- checkpoints of strangers --------------------------------------------------------------


@pytest.fixture
def key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key of a user of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    return Path(os.environ["XDG_STATE_HOME"], "incmrql", "key")


@pytest.fixture
def stranger(
    key: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """What was started so far was started by somebody else, who has another key."""
    assert not key.exists()
    folder = str(tmp_path_factory.mktemp("other"))
    return lambda: monkeypatch.setenv("XDG_STATE_HOME", folder)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_ones_own_checkpoint_is_verified(shop: Shop, key: Path) -> None:
    assert shop.run(AVERAGE, "--output", "out").code == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert incmrql("verify", "ck").code == 0
    shop.checkpoint.rename(shop.folder / "moved")
    assert incmrql("verify", "moved").code == 0
    done = incmrql("state", "moved", "--rebucket", "2")
    assert done.code == 0, done.err
    assert incmrql("verify", "moved").code == 0


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
def test_a_strangers_checkpoint_reads_only_itself(shop: Shop, stranger: Callable[[], None]) -> None:
    assert shop.run(AVERAGE).code == 0
    assert shop.run(AVERAGE, "--checkpoint", "kept", "--keep-input", "all").code == 0
    stranger()
    done = incmrql("verify", "ck")
    is_refused(done, "sales/1.csv", shop.folder / "sales")
    assert "is not known to be yours" in done.err
    allowed = incmrql("verify", "ck", "--allow-path", "sales")
    assert allowed.code == 0, allowed.err
    assert incmrql("verify", "kept").code == 0
    assert incmrql("state", "ck").code == 0
    assert incmrql("state", "ck", "--node", "0").code == 0
    assert shop.run(AVERAGE).code == 0  # to run the script makes it one's own
    assert incmrql("verify", "ck").code == 0


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
def test_a_strangers_script_includes_nothing(
    shop: Shop, outside: Path, stranger: Callable[[], None]
) -> None:
    secret = outside / "secret.mrql"
    assert shop.run(f'include "{secret}";\n{AVERAGE}').code == 0
    stranger()
    for words in (["verify", "ck"], ["state", "ck", "--node", "0"]):
        is_refused(incmrql(*words), secret, outside)
    done = incmrql("state", "ck", "--node", "0", "--allow-path", outside)
    assert done.code == 0, done.err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
def test_no_link_leads_out_of_a_strangers_checkpoint(
    shop: Shop, outside: Path, stranger: Callable[[], None]
) -> None:
    assert shop.run(AVERAGE, "--keep-input", "all").code == 0
    (copy,) = (shop.checkpoint / "input" / "archive").iterdir()
    copy.unlink()
    copy.symlink_to(outside / "secret.csv")
    stranger()
    is_refused(incmrql("verify", "ck"), copy, outside)


def rewrite_manifest(manifest: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite a manifest, with a checksum that is right."""
    from incmrql.storage.files import load, write_new

    content = load(manifest)
    content.pop("checksum", None)
    change(content)
    manifest.unlink()
    write_new(manifest, content)


def newest(shop: Shop) -> Path:
    return max((shop.checkpoint / "manifests").iterdir())


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
@pytest.mark.parametrize("kind", ["file", "spool"])
def test_a_manifest_that_names_other_files_is_refused(shop: Shop, kind: str) -> None:
    assert shop.run(AVERAGE).code == 0

    def with_path(manifest: dict[str, Any]) -> None:
        manifest["files"][0] |= {"path": "sales/../../../../../../../etc/passwd", "kind": kind}

    rewrite_manifest(newest(shop), with_path)
    done = incmrql("verify", "ck")
    assert (done.code, "error[R104]" in done.err) == (1, True), done.err
    assert "lists files of no source" in done.err
    assert "--allow-path /etc" in done.err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
def test_a_script_that_was_changed_in_a_checkpoint_is_not_ones_own(
    shop: Shop, outside: Path
) -> None:
    assert shop.run(AVERAGE).code == 0
    (outside / "sales").mkdir()
    (shop.folder / "sales" / "1.csv").rename(outside / "sales" / "1.csv")

    def with_folder(manifest: dict[str, Any]) -> None:
        manifest["program"]["script"]["folder"] = str(outside)

    rewrite_manifest(shop.checkpoint / "manifests" / "000000.json", with_folder)
    done = incmrql("verify", "ck")
    assert (done.code, "is not known to be yours" in done.err) == (1, True), done.err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
def test_an_output_that_was_changed_in_a_checkpoint_is_not_written(
    shop: Shop, outside: Path
) -> None:
    assert shop.run(AVERAGE, "--output", "out").code == 0

    def with_sink(manifest: dict[str, Any]) -> None:
        manifest["sinks"][0]["folder"] = str(outside)

    rewrite_manifest(newest(shop), with_sink)
    is_refused(incmrql("state", "ck", "--rebucket", "2"), outside, outside)
    done = incmrql("state", "ck", "--rebucket", "2", "--allow-path", outside)
    assert done.code == 0, done.err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
@pytest.mark.parametrize("kind", ["place", "open", "damaged", "link", "home"])
def test_without_a_key_a_checkpoint_is_like_a_strangers(
    shop: Shop, key: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key.parent.parent.mkdir(exist_ok=True)
    match kind:
        case "place":
            key.parent.write_text("no folder")
            why = "cannot be used: not a directory"
        case "open":
            key.parent.mkdir()
            key.write_bytes(b"x" * 32)
            key.chmod(0o644)
            why = "is not private"
        case "damaged":
            key.parent.mkdir()
            key.touch(0o600)
            why = "is damaged"
        case "link":
            key.parent.mkdir()
            (key.parent / "other").write_bytes(b"x" * 32)
            key.symlink_to("other")
            why = "cannot be used: "
        case _:
            monkeypatch.delenv("XDG_STATE_HOME")
            monkeypatch.setattr(Path, "home", _homeless)
            why = "there is no home directory"
    assert shop.run(AVERAGE).code == 0
    done = incmrql("verify", "ck")
    is_refused(done, "sales/1.csv", shop.folder / "sales")
    assert why in done.err.lower(), done.err
    assert incmrql("verify", "ck", "--allow-path", "sales").code == 0


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark", "key")
def test_a_checkpoint_of_an_older_version_is_like_a_strangers(shop: Shop) -> None:
    assert shop.run(AVERAGE).code == 0
    (shop.checkpoint / "signatures").unlink()
    assert "is not known to be yours" in incmrql("verify", "ck").err
    assert incmrql("verify", "ck", "--allow-path", "sales").code == 0
    assert shop.run(AVERAGE).code == 0


@pytest.mark.spark
@pytest.mark.usefixtures("key")
def test_a_checkpoint_of_a_session_is_ones_own(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from incmrql import Session

    session = Session(spark)  # type: ignore[arg-type]
    stream = session.stream("s", "< A: int >")
    run = session.query("incr select x.A from x in s").start(checkpoint=tmp_path / "ck")
    stream.insert([{"A": 1}])
    run.step()
    run.stop()
    request.getfixturevalue("on_spark")
    monkeypatch.chdir(tmp_path)
    assert (tmp_path / "ck" / "signatures").exists()
    assert incmrql("verify", "ck").code == 0


# --- control characters --------------------------------------------------------------------

STEERING = "\x1b[2J\x07\x9b\u202e\r"


def is_harmless(outcome: Outcome) -> None:
    for text in (outcome.err, outcome.out):
        assert not [c for c in text if c != "\n" and (ord(c) < 32 or c in "\x7f\x9b\u202e")], text


def test_control_characters_are_shown() -> None:
    assert visible(STEERING) == r"\x1b[2J\x07\x9b\u202e\x0d"
    assert visible("a\tb\nc \u00e9 \U0001f600") == "a\tb\nc \u00e9 \U0001f600"


@pytest.mark.parametrize(
    "words",
    [
        ["run", f"none{STEERING}.mrql"],
        ["run", "-e", f'source(text, "none{STEERING}")'],
        ["run", "-e", f"select x.`a{STEERING}` from x in {{1}}"],
        ["run", "-e", f'"{STEERING}" + 1'],
        ["check", "-e", f'import f from "none{STEERING}"; 1'],
        ["state", f"none{STEERING}"],
        ["explain", f"none{STEERING}"],
    ],
)
@pytest.mark.usefixtures("shop")
def test_no_name_steers_the_terminal(words: list[str]) -> None:
    done = incmrql(*words)
    assert done.code in (1, 2)
    is_harmless(done)


def test_names_of_files_and_bad_lines_do_not_either(shop: Shop) -> None:
    name = f"x{STEERING}.csv"
    (shop.folder / name).write_text(f"{STEERING}\n")
    text = f'source(line, "{name}", ",", type(< A: int, B: int >))'
    done = incmrql("run", "-e", text.replace("\\", "\\\\"))
    assert done.code == 0, done.err
    assert r"\x1b[2J" in done.err
    is_harmless(done)


def test_a_value_does_not_either(shop: Shop) -> None:
    (shop.folder / "x.txt").write_text(f"{STEERING}\n")
    done = incmrql("run", "-e", 'source(text, "x.txt")')
    assert "\\u001b[2J" in done.out
    done = incmrql("run", "-e", 'source(text, "x.txt")', "--json")
    assert json.loads(done.out) == [STEERING.rstrip("\r")] or json.loads(done.out) == [STEERING]
    assert "\x1b" not in done.out
