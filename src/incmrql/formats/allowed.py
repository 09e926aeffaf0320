"""Which files a script may read and write.

A path is where it leads: links are resolved before it is compared, those of a folder that does not
exist yet as far as it does. So a link inside an allowed folder allows nothing outside of it. What
a path stands for is checked when its files are listed, and each file again when it is opened.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from incmrql.diagnostics import OUTSIDE, DataError
from incmrql.formats.files import expand


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders, with everything below them, and files that may be used; None: all of them."""

    allowed: tuple[str, ...] | None = None
    """Paths without links."""
    why: str = ""
    """Why there is a limit, if the user did not ask for it."""

    @staticmethod
    def of(given: Iterable[str | Path]) -> Paths:
        """A limit to some paths; no limit if none is given."""
        found = tuple(os.path.realpath(path) for path in given)
        return Paths(found) if found else ANYWHERE

    def also(self, *given: str | Path | None) -> Paths:
        """The same limit with paths that the user has named elsewhere."""
        if self.allowed is None:
            return self
        more = (os.path.realpath(path) for path in given if path is not None)
        return replace(self, allowed=(*self.allowed, *more))

    def holds(self, path: str | Path) -> bool:
        """Whether a path, or all that a pattern starts with, leads into an allowed one."""
        if self.allowed is None:
            return True
        real = _real(path)
        return real is not None and any(
            real == each or real.startswith(each.rstrip("/") + "/") for each in self.allowed
        )

    def check(self, path: str | Path, place: str = "") -> None:
        """Refuse a path that is not allowed; `place` says where it is named."""
        if not self.holds(path):
            raise self.refusal([path], place)

    def refusal(self, paths: Iterable[str | Path], place: str = "") -> DataError:
        """The error for paths that are not allowed, all of which it names."""
        named = list(dict.fromkeys(map(str, paths)))
        first, real = named[0], _real(named[0])
        leads = real is not None and real != os.path.abspath(_start(first))
        shown = ", ".join(f'"{name}"' for name in named)
        message = f"{shown} may not be used"
        message += f': it leads to "{real}"' if leads and len(named) == 1 else ""
        options = dict.fromkeys(f"--allow-path {_folder(name)}" for name in named)
        hint = f"If that is all right, add {' '.join(options)} (in Python: allow_paths=[...])."
        hint = f"{self.why}. {hint}" if self.why else hint
        return DataError(OUTSIDE, message, place=place or first, hint=hint)

    def expand(self, path: str | Path, place: str = "") -> list[Path]:
        """The files that a path stands for, each of which must be allowed."""
        self.check(path, place)
        files = expand(path)
        for file in files if self.allowed is not None else ():
            self.check(file)
        return files


ANYWHERE: Final = Paths()
"""No limit."""


def _start(path: str | Path) -> str:
    """A path as the operating system has it; of a pattern, the folder that it starts with."""
    text = str(path).removeprefix("file://")
    if not glob.has_magic(text) or os.path.lexists(text):
        return text
    parts = Path(text).parts
    fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:fixed]))


def _real(path: str | Path) -> str | None:
    """Where a path leads; None for one that the operating system cannot have."""
    try:
        return os.path.realpath(_start(path))
    except ValueError:  # a zero byte, or half of a surrogate pair
        return None


def _folder(path: str) -> str:
    """The folder to allow for a path."""
    real = _real(path)
    if real is None:
        return path
    return real if os.path.isdir(real) else os.path.dirname(real)
