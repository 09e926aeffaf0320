"""Bad rows of a batch: the files that keep them, and what is reported about them and their sources.

Tasks write the bad rows of sources with `on_error: quarantine`. They are published like the output
of the batch, after a crash by the next start.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from incmrql.engine.batch import stream_at
from incmrql.errors import CheckpointError
from incmrql.io.notices import notices
from incmrql.io.rows import Notice, Policy, ReadReport
from incmrql.plan.program import Program
from incmrql.runtime.checkpoint.manifests import PublishedOutput
from incmrql.runtime.report import BatchReport
from incmrql.runtime.sinks.folders import staging
from incmrql.storage import fsync


def publish(output: PublishedOutput, owner: str, number: int) -> None:
    """Publish the bad rows of a committed batch; does nothing if that is done.

    The file of a single task is `batch-000012.jsonl`; those of several are
    `batch-000012-1.jsonl`, …. Where another checkpoint has a file of that name, since runs in one
    directory share it by default, the name also contains the id of this checkpoint.
    """
    folder = Path(output.folder)
    hidden = staging(folder, owner, number, output.attempt)
    for index, part in enumerate(output.parts, 1):
        suffix = f"-{index}" if len(output.parts) > 1 else ""
        final = folder / f"batch-{number:06d}{suffix}.jsonl"
        # A part is moved once: while it is still hidden, a file of that name is somebody else's.
        if final.exists() and (hidden / part).exists():
            final = folder / f"batch-{number:06d}{suffix}-{owner[:8]}.jsonl"
        try:
            (hidden / part).replace(final)
        except FileNotFoundError:
            if not final.exists():
                message = f"bad rows of batch {number} are neither in {hidden} nor in {final}"
                raise CheckpointError(message) from None
    fsync(folder)
    shutil.rmtree(hidden, ignore_errors=True)


def reports(program: Program, report: BatchReport) -> Iterator[tuple[ReadReport, Policy]]:
    """The bad rows of a batch, one report for each policy of their sources."""
    policies: dict[Policy, list[tuple[str, int]]] = {}
    for path, count in report.bad.files:
        policies.setdefault(_policy(program, report, path), []).append((path, count))
    for policy, files in policies.items():
        named = {path for path, _ in files}
        first = tuple(row for row in report.bad.first if row.path in named)
        bad = sum(count for _, count in files)
        yield replace(report.bad, bad=bad, files=tuple(files), first=first), policy


def _policy(program: Program, report: BatchReport, path: str) -> Policy:
    place = dict(report.bad_places)[path]
    policy: Policy = dict(stream_at(program, place).source.options).get("on_error", "quarantine")
    return policy


def sentences(program: Program, report: BatchReport, *, is_kept: bool) -> list[str]:
    """A sentence for each file of a batch with bad rows."""
    return [
        sentence
        for part, policy in reports(program, report)
        for sentence in part.sentences(policy if is_kept else "drop")
    ]


# --- Warnings ---
#
# That no line of a batch could be read is reported for every batch. What is odd about the source
# itself, such as columns beyond the declared ones or a field that no row has, is reported once.


_EACH_BATCH = "W201"


@dataclass(slots=True)
class SourceNotices:
    """Warnings about the sources of a program; remembers which were given."""

    program: Program
    given: set[tuple[int, str, str]] = field(default_factory=set)
    present: dict[int, set[str]] = field(default_factory=dict)
    """The fields that rows of earlier batches had, by the index of the source."""

    def of(self, report: BatchReport) -> Iterator[Notice]:
        """The new warnings of a batch."""
        for source, noticed in report.noticed.items():
            stream = stream_at(self.program, source)
            known = self.present.setdefault(source, set())
            known |= noticed.present
            shown = stream.path or stream.name
            facts = replace(noticed, present=known)
            for notice in notices(stream.source, shown, facts, stream.element):
                about = notice.message if notice.code == "W203" else ""
                key = source, notice.code, about
                if notice.code == _EACH_BATCH or key not in self.given:
                    self.given.add(key)
                    yield notice
