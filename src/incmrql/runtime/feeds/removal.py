"""Removal of ingested files: `forget` and `retract`.

`forget`: the rows of a file stay in the answer, and the file is no longer checked.  It stays among
the ingested files, so that nothing that appears under its path is ingested.

`retract`: the rows of a file leave the answer; they are read from its kept copy.  The path is then
treated as never seen: a file that is there, or appears there later, is new input.

Both make a batch of their own, with an intent and a manifest like any other.  The state of a stream
that only grows has nothing to subtract rows from: to retract a file of one, the driver builds the
state again from all other input, in one batch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from incmrql.engine.inputs import InputFile
from incmrql.errors import DataError, nearest
from incmrql.runtime.checkpoint.manifests import Checkpoint, Ingested, State
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.folders import FolderFeed
from incmrql.runtime.feeds.once import OnceFeed
from incmrql.runtime.feeds.spooled import Feed
from incmrql.runtime.options import StreamOptions


def removals(
    options: StreamOptions,
    checkpoint: Checkpoint,
    state: State,
    archive: Archive,
    *,
    growing: Collection[int],
    invariant: Collection[int],
) -> tuple[InputFile, ...]:
    """The files that a batch is to forget and retract; none if an earlier start has done it.

    `growing` are the places of sources that only grow: their files need no copy to be retracted.
    Those of `invariant` sources are read once, so that nothing could take the place of a file.
    """
    twice = set(map(os.path.abspath, options.forget)) & set(map(os.path.abspath, options.retract))
    if twice:
        message = f'"{min(twice)}" cannot be both forgotten and retracted'
        raise DataError("R323", message, hint="Leave one of the two out.")
    if options.retract and options.window:
        message = "there is nothing to retract from: each batch is answered on its own"
        raise DataError("R323", message, hint="Use --forget.")
    files: list[InputFile] = []
    for path in dict.fromkeys(options.forget):
        for file, _ in _ingested_files(path, state) or _nothing_left(path, checkpoint, "--forget"):
            if not file.forgotten:
                files.append(replace(file, forgotten=True))
    for path in dict.fromkeys(options.retract):
        for file, digest in _ingested_files(path, state) or _nothing_left(
            path, checkpoint, "--retract"
        ):
            if file.place in invariant:
                message = f'"{Path(path).name}" cannot be retracted: its source is read only once'
                hint = f"Use --forget {path}, or start with a new checkpoint to read it again."
                raise DataError("R323", message, place=path, hint=hint)
            files.append(_retraction(file, digest, None if file.place in growing else archive))
    return tuple(files)


def without_retracted(batches: Iterable[Ingested]) -> list[list[tuple[InputFile, str]]]:
    """The files of batches that still count: neither those retracted, nor what retracts them."""
    kept: list[list[tuple[InputFile, str]]] = []
    batch_of: dict[tuple[int, str], int] = {}
    for files in batches:
        added = [pair for pair in files if not pair[0].retracts]
        for file, digest in files:
            if file.retracts:
                number = batch_of.pop((file.place, file.retracts), None)
                if number is None:
                    added.append((file, digest))
                else:
                    own = file.place, file.retracts
                    kept[number] = [
                        pair for pair in kept[number] if (pair[0].place, pair[0].path) != own
                    ]
        batch_of |= {(file.place, file.path): len(kept) for file, _ in added if not file.retracts}
        kept.append(added)
    return kept


def _ingested_files(path: str, state: State) -> list[tuple[InputFile, str]]:
    """The ingested files with a path, in all sources that have read it."""
    wanted = os.path.abspath(path.removeprefix("file://"))
    return [
        (file, digest)
        for ingested in state.ingested.values()
        for file, digest in ingested.values()
        if _is_of_a_file(file) and os.path.abspath(file.watched_path) == wanted
    ]


def _is_of_a_file(file: InputFile) -> bool:
    """Whether it is a file of the user's, or has the rows of one."""
    return file.kind == "file" or file.origin is not None


def _nothing_left(
    path: str, checkpoint: Checkpoint, option: str
) -> Sequence[tuple[InputFile, str]]:
    """No files, if the path was retracted before; refused if it was never ingested."""
    wanted = os.path.abspath(path)
    names = set()
    for files in checkpoint.batches():
        for file, _ in files:
            if os.path.abspath(file.watched_path) == wanted:
                return ()
            if _is_of_a_file(file):
                names.add(file.watched_path)
    hint = f"{nearest(path, names)} Write the path as messages show it.".strip()
    raise DataError("R323", f'{option}: "{path}" was never ingested', place=path, hint=hint)


def _retraction(file: InputFile, digest: str, archive: Archive | None) -> InputFile:
    """The input that retracts a file: its kept copy, or without an archive only its name."""
    name, place = Path(file.watched_path).name, file.watched_path
    if not digest:
        message = f'"{name}" has no rows in the answer: its batch was skipped'
        raise DataError("R323", message, place=place, hint="Use --forget.")
    copy = file if archive is None else archive.copy_of(file, digest)
    if copy is None:
        message = f'"{name}" cannot be retracted: no copy of its content was kept'
        hint = (
            f"Use --forget {place}, and delete its rows by a file in the stream's deletes. "
            "To be able to retract files, run with --keep-input all from the start."
        )
        raise DataError("R305", message, place=place, hint=hint)
    return replace(copy, retracts=file.path, forgotten=False)


def exempt_from_checks(feeds: Iterable[Feed], files: Sequence[InputFile]) -> None:
    """Tell feeds to ignore changes of files that are about to be forgotten or retracted."""
    for feed in feeds:
        if isinstance(feed, FolderFeed | OnceFeed):
            own = [file for file in files if file.place == feed.place]
            feed.settled = frozenset(file.watched_path for file in own)


def pending_removals(files: Sequence[InputFile], state: State) -> tuple[InputFile, ...]:
    """The files that have not been forgotten or retracted yet."""
    left = []
    for file in files:
        known = state.ingested.get(file.place, {}).get(file.retracts or file.path)
        if known is not None and (file.retracts or not known[0].forgotten):
            left.append(file)
    return tuple(left)


def with_checksums(
    files: Iterable[InputFile], checksums: Mapping[str, str], state: State
) -> Ingested:
    """Files with the checksums of what was read, or of what was ingested of them before."""
    pairs = []
    for file in files:
        digest = checksums.get(file.path, "")
        if file.forgotten or (file.retracts and not digest):
            digest = state.ingested[file.place][file.retracts or file.path][1]
        pairs.append((file, digest))
    return pairs
