"""The health of a run, from outside: read from its checkpoint, beside the run or after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from incmrql.runtime.checkpoint.lock import Holder, holder_of
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.checkpoint.program import TableFacts, table_facts
from incmrql.runtime.history import History

Event: TypeAlias = Mapping[str, Any]
"""An event of the history, as `runtime.history` writes it."""
_LOOKED_AT: Final = 1_000
"""Events among which the last batch and the last verification are looked for."""


@dataclass(frozen=True, slots=True)
class Health:
    """What a checkpoint says about its run at one time."""

    checkpoint: Path
    at: float
    """When it was looked at, in seconds since 1970."""
    holder: Holder | None
    """The process that works on it; None if none does."""
    batch: int
    """The last batch, -1 before the first."""
    committed: float
    """When it was committed."""
    tables: tuple[TableFacts, ...]
    last: Event | None
    """What the history says of the last batch."""
    verified: Event | None
    """The last verification."""
    problem: Event | None
    """The problem after the last batch, if there is one."""

    @property
    def rows(self) -> int:
        """Rows of state."""
        return sum(table.rows for table in self.tables)

    @property
    def size(self) -> int:
        """Bytes of state."""
        return sum(table.size for table in self.tables)

    @property
    def age(self) -> float:
        """Seconds since the last commit."""
        return max(0.0, self.at - self.committed)

    def complaints(
        self,
        *,
        may_be_stopped: bool = False,
        max_age: float | None = None,
        max_lag: float | None = None,
    ) -> list[str]:
        """What is wrong, in plain words; empty if the run is healthy."""
        wrong = []
        if self.holder is None and not may_be_stopped:
            wrong.append("no run is working on it")
        if self.problem is not None:
            first = str(self.problem["message"]).strip().splitlines() or ["a problem"]
            wrong.append(f"after batch {self.batch}: {first[0]}")
        if max_age is not None and self.age > max_age:
            wrong.append(f"the last batch was {self.age:,.0f} s ago, more than {max_age:,.0f} s")
        lag = None if self.last is None else self.last["lag"]
        if max_lag is not None and lag is not None and lag > max_lag:
            wrong.append(
                f"the lag of batch {self.batch} was {lag:,.1f} s, more than {max_lag:,.1f} s"
            )
        return wrong

    def as_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            "checkpoint": str(self.checkpoint),
            "running": self.holder is not None,
            "batch": self.batch,
            "committed": self.committed if self.batch >= 0 else None,
            "state_rows": self.rows,
            "state_bytes": self.size,
            "last": self.last,
            "verified": self.verified,
            "problem": self.problem,
        }


def health_of(checkpoint: Path) -> Health:
    """The health of the run of a checkpoint; refused if there is none."""
    saved = Checkpoint(checkpoint.absolute())
    described, newest = saved.description(), saved.last()
    events = History(saved.folder).events(_LOOKED_AT)
    last = _last(events, "batch")
    is_of_batch = last is not None and last["number"] == newest["batch"]
    after = _after(events, last)
    return Health(
        checkpoint,
        time.time(),
        holder_of(saved.folder / "lock"),
        newest["batch"],
        newest["time"],
        tuple(table_facts(newest["tables"], described)),
        last if is_of_batch else None,
        _last(events, "verified"),
        _last(after, "problem"),
    )


def _last(events: list[dict[str, Any]], kind: str) -> Event | None:
    return next((event for event in reversed(events) if event["kind"] == kind), None)


def _after(events: list[dict[str, Any]], last: Event | None) -> list[dict[str, Any]]:
    """The events after the last batch."""
    if last is None:
        return events
    return events[len(events) - 1 - events[::-1].index(dict(last)) :]


# --- Prometheus ---


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    kind: str
    help: str
    value: Callable[[Health], float | None]


def _of_last(field: str, name: str, text: str) -> _Metric:
    """A number of the last batch."""
    return _Metric(name, "gauge", text, lambda h: None if h.last is None else h.last[field])


_METRICS: Final = (
    _Metric("running", "gauge", "1 if a run works on it.", lambda h: h.holder is not None),
    _Metric(
        "problem", "gauge", "1 if the last event is a problem.", lambda h: h.problem is not None
    ),
    _Metric("batches_total", "counter", "Batches that were committed.", lambda h: h.batch + 1),
    _Metric(
        "last_commit_timestamp_seconds",
        "gauge",
        "When the last batch was committed.",
        lambda h: h.committed if h.batch >= 0 else None,
    ),
    _Metric("state_rows", "gauge", "Rows of state.", lambda h: h.rows),
    _Metric("state_bytes", "gauge", "Bytes of state.", lambda h: h.size),
    _of_last("seconds", "batch_seconds", "The time of the last batch."),
    _of_last("lag", "batch_lag_seconds", "The age of the oldest file it read or left."),
    _of_last("inserted", "batch_rows_inserted", "Rows that it inserted."),
    _of_last("deleted", "batch_rows_deleted", "Rows that it deleted."),
    _of_last("bad", "batch_bad_lines", "Lines that are no rows."),
    _of_last("changed", "batch_answer_rows_changed", "Rows of the answers that it changed."),
    _of_last("state_read", "batch_state_rows_read", "Rows of state that it read."),
    _Metric(
        "verified_timestamp_seconds",
        "gauge",
        "When the answers were last verified by the run.",
        lambda h: None if h.verified is None else h.verified["time"],
    ),
)


def metrics(healths: list[Health]) -> str:
    """The health of runs in the text format of Prometheus."""
    return "".join(_metric_lines(healths))


def _metric_lines(healths: list[Health]) -> Iterator[str]:
    for metric in _METRICS:
        name = f"incmrql_{metric.name}"
        values = [(health, metric.value(health)) for health in healths]
        if any(value is not None for _, value in values):
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
        for health, value in values:
            if value is not None:
                yield f'{name}{{checkpoint="{_label(str(health.checkpoint))}"}} {float(value)!r}\n'
    yield "# HELP incmrql_table_rows Rows of a state table.\n# TYPE incmrql_table_rows gauge\n"
    for health in healths:
        for table in health.tables:
            labels = f'checkpoint="{_label(str(health.checkpoint))}",table="{_label(table.name)}"'
            yield f"incmrql_table_rows{{{labels}}} {float(table.rows)!r}\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


__all__ = ["Health", "health_of", "metrics"]
