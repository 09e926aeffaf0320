"""Listeners to the batches of a run: the interface, and a listener that warns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from incmrql.errors import IncmrqlWarning
from incmrql.runtime.arithmetic import Failures
from incmrql.runtime.report import Batch, Verified

if TYPE_CHECKING:
    from incmrql.api.runs import Run


class Listener(Protocol):
    """Receives the batches of a run, and what users should know about them."""

    def notice(self, text: str) -> None:
        """Called with what is odd about a source, a batch or an output."""

    def failures(self, number: int, failures: Failures) -> None:
        """Called with the rows for which arithmetic fails after a batch."""

    def batch(self, run: Run, batch: Batch) -> None:
        """Called after each batch."""

    def verified(self, verified: Verified) -> None:
        """Called after a verification that found no difference."""


@dataclass(slots=True)
class Warnings:
    """Reports by Python's warnings; `on_batch` gets the batches."""

    on_batch: Callable[[Batch], None] | None = None
    _failures: Failures | None = None

    def notice(self, text: str) -> None:
        """Warn."""
        warnings.warn(text, IncmrqlWarning, stacklevel=4)

    def failures(self, number: int, failures: Failures) -> None:
        """Warn if the failing rows differ from those of the last warning."""
        if failures.count and failures != self._failures:
            warnings.warn(f"batch {number}: {failures}", IncmrqlWarning, stacklevel=4)
        self._failures = failures

    def batch(self, run: Run, batch: Batch) -> None:  # noqa: ARG002 - `on_batch` gets the batch only
        """Pass the batch on."""
        if self.on_batch is not None:
            self.on_batch(batch)

    def verified(self, verified: Verified) -> None:
        """Do nothing."""


__all__ = ["Listener", "Warnings"]
