"""Warnings about the sources of a running query, batch after batch.

That no line of a batch could be read is said for each batch.  What is odd about a source as such,
columns beyond the declared ones or a field that no row has, is said once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from incmrql.formats.notices import notices
from incmrql.formats.rows import Notice
from incmrql.incremental.streams import Program
from incmrql.kernel.batches import stream_at
from incmrql.runtime.report import BatchReport

_EACH_BATCH = "W201"


@dataclass(slots=True)
class SourceNotices:
    """The warnings about the sources of a program that were given so far."""

    program: Program
    given: set[tuple[int, str, str]] = field(default_factory=set)
    present: dict[int, set[str]] = field(default_factory=dict)
    """The fields that rows of earlier batches had, by the place of the source."""

    def of(self, report: BatchReport) -> Iterator[Notice]:
        """The warnings that a batch gives rise to."""
        for place, noticed in report.noticed.items():
            stream = stream_at(self.program, place)
            known = self.present.setdefault(place, set())
            known |= noticed.present
            shown = stream.path or stream.name
            facts = replace(noticed, present=known)
            for notice in notices(stream.source, shown, facts, stream.element):
                about = notice.message if notice.code == "W203" else ""
                key = place, notice.code, about
                if notice.code == _EACH_BATCH or key not in self.given:
                    self.given.add(key)
                    yield notice
