"""The history of a run in its checkpoint: what each of the last batches did, and what went wrong.

    history/000012.jsonl     a line for each event, in the order in which they happened

It is for people who look at a run; nothing resumes from it. Lines are written after the commit,
without waiting for the disk, and a line that is missing or cut off is skipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from incmrql.runtime.checkpoint.manifests import HISTORY
from incmrql.runtime.report import BatchReport, Verified
from incmrql.storage import names

MOST: Final = 10_000
"""The number of events that are kept."""
_PIECE: Final = 1_000
"""Events of a file; the oldest file is removed as a whole."""
_COUNTS: Final = (
    "number", "files", "inserted", "deleted", "changed", "rewritten", "jobs", "stages", "tasks",
    "rows_shuffled", "state_rows", "state_bytes", "state_read", "read", "kernel", "write", "job",
    "commit", "publish", "seconds", "lag",
)  # fmt: skip
"""The fields of a report that are kept as they are."""


class History:
    """The last events of a checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / HISTORY
        self._lines: int | None = None
        """Events in the newest file; None before it was looked at."""
        self._file = 0

    def add_batch(self, report: BatchReport) -> None:
        """Note what a batch did."""
        event: dict[str, Any] = {name: getattr(report, name) for name in _COUNTS}
        event["bad"] = report.bad.bad
        event["nodes"] = [[node.sent, node.read, round(node.seconds, 6)] for node in report.nodes]
        event["loops"] = [asdict(loop) for loop in report.loops]
        event["notices"] = list(report.notices)
        if report.errors is not None:
            event["errors"] = report.errors.count
        self._add({"kind": "batch", **event})

    def add_verified(self, verified: Verified) -> None:
        """Note a verification that found no difference."""
        self._add({"kind": "verified", **asdict(verified)})

    def add_problem(self, problem: BaseException) -> None:
        """Note a problem that ended a run, or for which a batch was refused."""
        code = getattr(problem, "code", "")
        self._add({"kind": "problem", "code": code, "message": str(problem)[:2000]})

    def events(self, most: int = MOST) -> list[dict[str, Any]]:
        """The last events, oldest first."""
        events: list[dict[str, Any]] = []
        files = []
        with suppress(OSError):
            files = names(self._folder)
        for name in reversed(files):
            events = [*_events(self._folder / name), *events]
            if len(events) >= most:
                break
        return events[-most:]

    def _add(self, event: dict[str, Any]) -> None:
        # Whoever runs a query must not be stopped by what only describes it.
        with suppress(OSError, ValueError):
            if self._lines is None:
                self._folder.mkdir(exist_ok=True)
                numbers = [int(name.split(".")[0]) for name in names(self._folder)]
                self._file = max(numbers, default=0)
                self._lines = sum(1 for _ in _events(self._path(self._file)))
            if self._lines >= _PIECE:
                self._file, self._lines = self._file + 1, 0
                self._path(self._file - MOST // _PIECE - 1).unlink(missing_ok=True)
            line = json.dumps({"time": round(time.time(), 3), **event})
            with self._path(self._file).open("a", encoding="utf-8") as file:
                # A line that a crash has cut off must not spoil the next one.
                file.write(f"{line}\n" if self._lines else f"\n{line}\n")
            self._lines += 1

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.jsonl"


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The events in a file; what is no event is skipped."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "kind" in event and "time" in event:
                yield event


__all__ = ["MOST", "History"]
