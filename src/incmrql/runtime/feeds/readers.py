"""Files that a reader of Spark reads: listed by Spark's rules, with their rows kept in spools.

A Spark job spools new files before the intent of their batch, which names the spools: a batch that
runs again after a crash reads the same rows, whatever has become of the files.  The spools stay in
the archive, so that the rows of a file that changed or vanished can be retracted.  Parquet files
that incmrql's own reader surely reads like Spark are read by the tasks and not spooled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError
from incmrql.io.spark_files import files_of_root, roots_of
from incmrql.io.vectorised.spark_parquet import is_read_alike
from incmrql.plan.program import Stream
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.folders import FolderFeed
from incmrql.runtime.feeds.spooled import Arrivals, IngestedByPath
from incmrql.storage.files import crash_here

Spool: TypeAlias = Callable[[Stream, Sequence[InputFile], Path], Sequence[InputFile]]
"""Reads files by Spark and returns their spools, which it writes to a directory."""


class ReaderFeed(FolderFeed):
    """The files of a reader of Spark, and those of its deletes.

    A reader of data that do not change is read once; `begun` says whether their batch is committed.
    `ingested` are the files and spools of the batches so far.
    """

    def __init__(  # noqa: PLR0913 - a stream, where it stands, and how it is followed
        self,
        stream: Stream,
        folder: Path,
        ingested: IngestedByPath,
        settle: float,
        archive: Archive,
        *,
        begun: bool,
        allow_empty: bool = False,
        pending: Iterable[InputFile] = (),
    ) -> None:
        reader = stream.source.reader
        assert reader is not None
        self._reader, self._folder = reader, folder.absolute()
        self._begun = begun and not stream.streaming
        self._spools: dict[str, list[tuple[InputFile, str]]] = {}
        """The spools of each of the user's files, with their checksums."""
        super().__init__(stream, {}, settle, archive, allow_empty=allow_empty)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_all_but({file.path for file in pending})
        self._note(ingested.values())

    def poll(self, now: float) -> Arrivals:
        """The new files that have settled; for data that do not change, only before their batch."""
        if self._begun:
            self.check_ingested()
            return Arrivals()
        return super().poll(now)

    def spool_files(self, files: Sequence[InputFile], spool: Spool, number: int) -> list[InputFile]:
        """The files of a batch, with spools instead of the files that Spark has to read."""
        new = [file for file in files if file.kind == "file" and not file.retracts]
        element = self._stream.element
        direct = {
            file.path
            for file in new
            # The rows of a file that may be replaced have to be kept.
            if not self._replaces and is_read_alike(Path(file.path), self._reader, element)
        }
        to_read = [file for file in new if file.path not in direct]
        others = [file for file in files if file not in to_read]
        if not to_read:
            return others
        self._remove_all_but(())
        spools = list(spool(self._stream, to_read, self._folder))
        crash_here("spooled", number)
        return [*others, *spools]

    def acknowledge(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Remember files that are committed, and remove their spools, which the archive keeps."""
        for file, _ in files:
            if file.retracts:
                self.ingested.pop(file.watched_path, None)
                self._spools.pop(file.watched_path, None)
        self._note(pair for pair in files if not pair[0].retracts)
        for file, _ in files:
            if Path(file.path).parent == self._folder:
                Path(file.path).unlink(missing_ok=True)
        self._begun = not self._stream.streaming

    def _remove_all_but(self, kept: Container[str]) -> None:
        """Remove spools of batches that were not committed, or that are in the archive."""
        for path in self._folder.iterdir():
            if str(path) not in kept:
                path.unlink()

    def _note(self, files: Iterable[tuple[InputFile, str]]) -> None:
        for file, digest in files:
            origin = file.origin
            self._spools.setdefault(file.watched_path, []).append((file, digest))
            if origin is None:
                self.ingested[file.path] = (file, digest)
            else:
                known = replace(
                    file, path=origin.path, size=origin.size, modified=origin.modified,
                    kind="file", origin=None,
                )  # fmt: skip
                self.ingested[origin.path] = (known, origin.checksum)

    def _files(self, path: str | None, *, deletes: bool) -> Iterator[tuple[str, InputFile]]:
        if path is None:
            return
        directory = path if deletes else None
        for root in roots_of(self._reader, directory):
            if root in self.ingested and not os.path.lexists(root):
                continue  # a file that was ingested and is gone
            for name, stat in files_of_root(self._reader, root, directory):
                size, modified = stat.st_size, stat.st_mtime_ns
                yield name, InputFile(name, size, modified, self.place, deletes)

    def _retraction(self, path: str) -> Iterator[InputFile]:
        for file, digest in self._spools[path]:
            copy = None if self._archive is None else self._archive.copy_of(file, digest)
            if copy is None:
                message = f'"{Path(path).name}" changed, and no copy of its rows was kept'
                hint = "Restore the file as it was; to replace files, run with --keep-input all."
                raise DataError("R305", message, place=path, hint=hint)
            yield replace(copy, retracts=file.path)

    def _problem(self, before: InputFile, after: InputFile | None) -> DataError:
        """The error for a file that vanished or changed, with the ways to continue."""
        problem = super()._problem(before, after)
        if not self._stream.streaming:
            return problem
        is_kept = all(file.kind == "spool" for file, _ in self._spools[before.path])
        way = "--on-change rebuild" if is_kept else "a new checkpoint"
        hint = (
            f"Restore it as it was, or continue with --forget {before.path} (its rows stay) or "
            f"--retract {before.path} (its rows leave). To follow files that change, start with "
            f'on_modified="replace" and {way}. Spark\'s write.mode("overwrite") replaces all files '
            "of a directory; to add rows, append."
        )
        return DataError(problem.code, problem.message, place=problem.place, hint=hint)
