"""Lines of a batch that are no rows: what is said of them, and where they are kept.

A batch counts them and goes on.  Those of sources whose policy is `quarantine` are read again, and
written to a file of the batch's own name, so that doing it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from incmrql.diagnostics import DataError
from incmrql.formats.rows import BadRow, Quarantine, ReadReport
from incmrql.kernel.batches import stream_at
from incmrql.kernel.inputs import InputFile, read_file
from incmrql.runtime.driver import Driver
from incmrql.runtime.report import BatchReport
from incmrql.types.model import PREDEFINED


def bad_lines(driver: Driver, report: BatchReport, folder: Path) -> Iterator[str]:
    """A sentence for each file of a batch with bad lines, which are kept in `folder`."""
    if not report.bad.bad:
        return
    counts = dict(report.bad.files)
    listed = driver.checkpoint.manifest(report.number)["files"]
    fields = [{n: v for n, v in each.items() if n != "checksum"} for each in listed]
    files = [file for file in map(InputFile.of_json, fields) if file.path in counts]
    with Quarantine(folder, f"batch-{report.number:06d}.jsonl") as kept:
        for file in files:
            options = dict(stream_at(driver.program, file.place).source.options)
            policy = options.get("on_error", "quarantine")
            first = tuple(bad for bad in report.bad.first if bad.path == file.path)
            if policy == "quarantine":
                for bad in _again(driver, file, first):
                    kept.add(bad)
            count = counts[file.path]
            yield from ReadReport(0, count, ((file.path, count),), first).sentences(policy)


def _again(driver: Driver, file: InputFile, known: tuple[BadRow, ...]) -> list[BadRow]:
    """The bad lines of a file; those that are known already if it cannot be read again."""
    script = driver.program.script
    stream = stream_at(driver.program, file.place)
    parser = script.parsers.get(stream.source.parser)
    with suppress(DataError):
        chunks = read_file(stream, script.data or PREDEFINED, file, parser)
        return [bad for chunk in chunks for bad in chunk.bad]
    return list(known)
