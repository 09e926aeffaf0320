"""Lines of a batch that are no rows: where they are kept, and what is said of them.

Tasks write those of sources whose policy is `quarantine`; they are published like the output of
the batch, also by the start that follows a crash.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from incmrql.diagnostics import CheckpointError
from incmrql.formats.rows import Policy, ReadReport
from incmrql.incremental.streams import Program
from incmrql.kernel.batches import stream_at
from incmrql.runtime.checkpoint import Output
from incmrql.runtime.report import BatchReport
from incmrql.runtime.sinks import staging
from incmrql.storage import sync_folder


def publish(output: Output, owner: str, number: int) -> None:
    """Make the bad rows of a committed batch appear; they may have appeared already.

    One task's are in `batch-000012.jsonl`, those of several in `batch-000012-1.jsonl`, …. Where a
    file of another checkpoint has that name, which runs in one folder share by default, the id
    of this checkpoint is part of the name.
    """
    folder = Path(output.folder)
    hidden = staging(folder, owner, number, output.attempt)
    for place, part in enumerate(output.parts, 1):
        suffix = f"-{place}" if len(output.parts) > 1 else ""
        final = folder / f"batch-{number:06d}{suffix}.jsonl"
        # A part is moved once: while it is still hidden, the file of that name is not its own.
        if final.exists() and (hidden / part).exists():
            final = folder / f"batch-{number:06d}{suffix}-{owner[:8]}.jsonl"
        try:
            (hidden / part).replace(final)
        except FileNotFoundError:
            if not final.exists():
                message = f"bad rows of batch {number} are neither in {hidden} nor in {final}"
                raise CheckpointError(message) from None
    sync_folder(folder)
    shutil.rmtree(hidden, ignore_errors=True)


def reports(program: Program, report: BatchReport) -> Iterator[tuple[ReadReport, Policy]]:
    """The bad rows of a batch by the policies of their sources."""
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
    said = []
    for part, policy in reports(program, report):
        said += part.sentences(policy if is_kept else "drop")
    return said
