"""What all experiments share: what they are given, what they find, and a Spark to run on.

An experiment is a name, a sentence, and a generator of findings.  A finding is a row of a table:
figures in the order in which they are shown, a ratio, and a verdict.  What goes wrong in a case is
a finding too, so that the others are still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.incremental_pairs import error_text
from incmrql.api.session import Session

Figure: TypeAlias = float | int | str
Tell: TypeAlias = Callable[[str], None]
"""Tells progress, on stderr."""
MEMORY: Final = "5g"
"""Of the driver, where an experiment does not ask for more."""
EVEN: Final = 1.1
"""Up to which factor two times are called even."""


@dataclass(frozen=True, slots=True)
class Options:
    """What all experiments are given."""

    quick: bool
    rounds: int
    """Rounds that are timed; 0 leaves their number to the experiment."""
    data: Path
    """Where histories are kept from run to run, and where runs have their folders."""
    seed: int
    master: str

    def count(self, full: int, quick: int) -> int:
        """How many rounds: those that were asked for, or what the experiment takes for itself."""
        return self.rounds or (quick if self.quick else full)


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of a table."""

    experiment: str
    case: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """In the order in which they are shown: "batch ms", "again ms", "rows read", …"""
    ratio: float | None = None
    """How many times faster than the alternative."""
    verdict: str = ""
    """faster, slower, even, right, wrong, refused, failed, or "skipped: why"."""
    note: str = ""
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What is drawn and not shown in a table: seconds of each side, batch by batch."""

    @property
    def is_bad(self) -> bool:
        """Whether the answer was wrong, or there was none; slower is not bad, but a loss."""
        return self.verdict.startswith(("wrong", "failed"))


@dataclass(frozen=True, slots=True)
class Experiment:
    """Something to be found out."""

    name: str
    about: str
    run: Callable[[Options, Tell], Iterator[Finding]]


@contextmanager
def session_for(options: Options, memory: str = MEMORY, **conf: str) -> Iterator[Session]:
    """A session on a Spark of its own, which is stopped at the end.

    `conf` has names with `_` for the dots after `spark.`: `sql_shuffle_partitions="2"`.
    """
    named = {f"spark.{name.replace('_', '.')}": value for name, value in conf.items()}
    with Session(master=options.master, conf={"spark.driver.memory": memory, **named}) as session:
        yield session


def pace(ratio: float) -> str:
    """The verdict about a ratio: faster, slower or even."""
    if 1 / EVEN <= ratio <= EVEN:
        return "even"
    return "faster" if ratio > 1 else "slower"


def verdict_of(ratio: float | None, problems: list[str]) -> str:
    """The verdict about a case: wrong if anything differs, then how fast it was."""
    if problems:
        return "wrong"
    return "right" if ratio is None else pace(ratio)


def failure(experiment: str, case: str, error: Exception) -> Finding:
    """The finding that a case could not be run, with the reason in a few words."""
    return Finding(experiment, case, verdict="failed", note=error_text(error))
