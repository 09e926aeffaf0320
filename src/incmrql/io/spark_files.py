"""The files that a reader of Spark reads, listed by Spark's own rules.

| what | rule |
|---|---|
| hidden | names that start with `.`, or with `_` and no `=`, or end in `._COPYING_`; empty files |
| folders inside | read as partitions (`city=Rome`), or all of them with `recursiveFileLookup` |
| names | those that `pathGlobFilter` matches, if it is given |
| paths | patterns of Hadoop: `*`, `?`, `[a-c]`, `{a,b}`; a backslash takes a character as it is |

The columns of partitions are those that Spark found when the query was analysed.  A directory that
does not fit them is refused, since Spark would refuse it or give the query other columns.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from incmrql.errors import DataError
from incmrql.io.files import expand, unreadable
from incmrql.types.typed import SparkReader

ListedFile: TypeAlias = tuple[str, os.stat_result]

_SPECIAL: Final = "{}[]*?\\"
_SUMMARIES: Final = ("_metadata", "_common_metadata")
"""Directories with such names are entered, since files of Parquet with them are wanted."""
_COPYING: Final = "._COPYING_"
_IN_CLASS: Final = re.compile(r"([\\\[\]^&~|])")
_ESCAPED: Final = r"\\\1"
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def list_files(reader: SparkReader, directory: str | None = None) -> Iterator[ListedFile]:
    """The files of a reader's paths, or of another directory read alike, in no order.

    A path without a pattern that is not there is refused.
    """
    for root in roots_of(reader, directory):
        yield from files_of_root(reader, root, directory)


def roots_of(reader: SparkReader, directory: str | None = None) -> list[str]:
    """The directories and files that are listed."""
    if directory is not None:
        return [directory]
    return [root for path in reader.paths for root in roots(path)]


def files_of_root(
    reader: SparkReader, root: str, directory: str | None = None
) -> Iterator[ListedFile]:
    """The files of one of the directories of `roots_of`, or that file itself."""
    base = None if directory is not None else reader.option("basePath")
    return _Listing(reader, root, base).files()


def local_path(uri: str) -> str:
    """A path without the scheme `file:`."""
    path = uri.removeprefix("file:")
    return "/" + path.lstrip("/") if path != uri and path.startswith("//") else path


def local_paths(reader: SparkReader) -> tuple[str, ...]:
    """The paths of a reader as this machine has them; some may be patterns."""
    paths = map(local_path, reader.paths)
    return tuple(literal if (literal := _literal(path)) is not None else path for path in paths)


def roots(pattern: str) -> list[str]:
    """The directories and files that a path of a reader stands for."""
    path = local_path(pattern)
    literal = _literal(path)
    if literal is not None:
        return [literal]
    matches = [match for part in _without_braces(path) for match in _matching(part)]
    return list(dict.fromkeys(matches))


def escape(path: str) -> str:
    """A path as a pattern that matches just this path."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in path)


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path as a pattern."""
    return any(sign in path for sign in _SPECIAL)


def _literal(pattern: str) -> str | None:
    """The one path that a pattern without wild cards stands for."""
    if is_pattern(_ESCAPE.sub("", pattern)):
        return None
    return _ESCAPE.sub(r"\1", pattern)


def base_directory(reader: SparkReader, file: str, directory: str | None = None) -> str:
    """The directory from which the partitions of a file count."""
    base = reader.option("basePath")
    if base is not None and directory is None:
        return str(Path(local_path(base)))
    folders = (root.rstrip("/") for root in roots_of(reader, directory))
    return next((folder for folder in folders if file.startswith(f"{folder}/")), "")


class _Listing:
    """The files of one directory, or one file, of a reader."""

    def __init__(self, reader: SparkReader, root: str, base: str | None) -> None:
        self._root, self._partitions = root, reader.partitions
        self._recursive = (reader.option("recursiveFileLookup") or "").lower() == "true"
        names = reader.option("pathGlobFilter")
        self._names = None if names is None else name_pattern(names)
        self._depth = 0
        """How many partition columns the root itself stands for."""
        if base is not None and reader.partitions:
            above = Path(local_path(base)).parts
            self._depth = len(Path(root).parts[len(above) :])

    def files(self) -> Iterator[ListedFile]:
        """All files, in no order."""
        try:
            there = os.stat(self._root)
        except FileNotFoundError:
            expand(self._root)  # refuses it, and says what is there instead
            return
        except OSError as cause:
            raise unreadable(Path(self._root), cause) from cause
        if stat.S_ISDIR(there.st_mode):
            yield from self._below(self._root, self._depth)
        elif self._is_read(os.path.basename(self._root), there):
            yield self._root, there

    def _below(self, folder: str, depth: int) -> Iterator[ListedFile]:
        try:
            with os.scandir(folder) as entries:
                content = list(entries)
        except FileNotFoundError:
            return  # gone since its parent was listed
        except OSError as cause:
            raise unreadable(Path(folder), cause) from cause
        for entry in content:
            try:
                there = entry.stat()
            except FileNotFoundError:
                continue  # gone, or a link to nothing
            if stat.S_ISDIR(there.st_mode):
                if not _is_hidden_directory(entry.name):
                    yield from self._inside(entry.path, entry.name, depth)
            elif self._is_read(entry.name, there):
                if self._recursive or depth == len(self._partitions):
                    yield entry.path, there
                elif depth > 0:
                    raise self._misplaced_error(entry.path)

    def _inside(self, path: str, name: str, depth: int) -> Iterator[ListedFile]:
        """The files of a subdirectory."""
        column, is_partition, _ = name.partition("=")
        if self._recursive:
            yield from self._below(path, depth)
        elif depth < len(self._partitions):
            expected = self._partitions[depth]
            if is_partition and unquote(column).lower() == expected.lower():
                yield from self._below(path, depth + 1)
            elif self._has_data(path):
                raise self._misplaced_error(path)
        elif is_partition:
            if self._has_data(path):
                raise self._misplaced_error(path)
        elif self._partitions:
            yield from self._below(path, depth)  # a plain directory in a partition belongs to it

    def _is_read(self, name: str, there: os.stat_result) -> bool:
        if is_hidden(name) or not stat.S_ISREG(there.st_mode) or not there.st_size:
            return False
        return self._names is None or self._names.fullmatch(name) is not None

    def _has_data(self, folder: str) -> bool:
        for path, folders, names in os.walk(folder, followlinks=True):
            folders[:] = [folder for folder in folders if not _is_hidden_directory(folder)]
            if any(os.path.isfile(os.path.join(path, name)) and not is_hidden(name)
                   for name in names):  # fmt: skip
                return True
        return False

    def _misplaced_error(self, path: str) -> DataError:
        if self._partitions:
            wanted = "/".join(f"{name}=..." for name in self._partitions[self._depth :])
            message = f'"{path}" is not in a partition {wanted} of "{self._root}"'
            hint = "Move it there, or out of the directory; Spark refuses such a directory as well."
        else:
            message = f'"{path}" looks like a partition, and "{self._root}" had none at the start'
            hint = "Move it out, or start the query anew with a new checkpoint: it gets a column."
        return DataError("R324", message, place=path, hint=hint)


def is_hidden(name: str) -> bool:
    """Whether Spark leaves a file out because of its name."""
    return (
        name.startswith(".")
        or name.endswith(_COPYING)
        or (name.startswith("_") and "=" not in name)
    )


def _is_hidden_directory(name: str) -> bool:
    return is_hidden(name) and not name.startswith(_SUMMARIES)


# --- Patterns ---


def name_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern for one name."""
    return re.compile("|".join(f"(?:{_regex(part)})" for part in _without_braces(pattern)), re.S)


def _regex(pattern: str) -> str:
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        place += 1
        if sign == "\\" and place < len(pattern):
            parts.append(re.escape(pattern[place]))
            place += 1
        elif sign == "*":
            parts.append(".*")
        elif sign == "?":
            parts.append(".")
        elif sign == "[" and (end := pattern.find("]", place + 1)) > 0:
            inner = pattern[place:end]
            negated = "^" if inner[0] in "!^" else ""
            inner = inner[1:] if negated else inner
            parts.append(f"[{negated}{_IN_CLASS.sub(_ESCAPED, inner)}]")
            place = end + 1
        else:
            parts.append(re.escape(sign))
    return "".join(parts)


def _without_braces(pattern: str) -> list[str]:
    """The patterns that one with alternatives `{a,b}` stands for."""
    start = _unescape(pattern, "{", 0)
    if start is None:
        return [pattern]
    depth, place, cuts = 0, start, [start]
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 1
        elif sign == "{":
            depth += 1
        elif sign == "," and depth == 1:
            cuts.append(place)
        elif sign == "}":
            depth -= 1
            if not depth:
                break
        place += 1
    if depth:
        return [pattern]
    cuts.append(place)
    inner = [pattern[a + 1 : b] for a, b in pairwise(cuts)]
    head, tail = pattern[:start], pattern[place + 1 :]
    return [alternative for part in inner for alternative in _without_braces(f"{head}{part}{tail}")]


def _unescape(text: str, wanted: str, place: int) -> int | None:
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] == wanted:
            return place
        place += 1
    return None


def _matching(pattern: str) -> Iterable[str]:
    """The paths that a pattern without alternatives matches."""
    first, *names = Path(os.path.abspath(pattern) if pattern[:1] != "/" else pattern).parts
    paths = [first]
    for name in names:
        if not is_pattern(name):
            paths = [os.path.join(folder, name) for folder in paths]
            continue
        regex = re.compile(_regex(name), re.S)
        paths = [
            os.path.join(folder, entry)
            for folder in paths
            if os.path.isdir(folder)
            for entry in sorted(os.listdir(folder))
            if regex.fullmatch(entry)
        ]
    return [path for path in paths if os.path.exists(path)]
