"""The matrix of an affine step, kept up to date: the norms of its columns, and who is there.

A column is what one row of the variable adds to others; its norm is the sum of the sizes.  Where
constants depend on which rows are there, the steps at which each row is there are kept too, as
the bits of one integer: bit j + 1 of a row is set if bit j is of any row that adds to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from incmrql.plan.changes import Weighted
from incmrql.values import Value, encode
from tests.oracle.diffusion.program import Program, Table
from tests.oracle.diffusion.rows import Split, as_double, in_units

MOST_RINGS: Final = 1_000
"""So far labels are followed; a step that makes new ones for ever has no norm."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a row of the next step: who adds to it, and its constant."""

    origins: Mapping[bytes, int]
    without: int
    constant: int


NO_ROW = Row({}, 0, 0)


@dataclass(slots=True)
class Columns:
    """The entries of a matrix by their columns and, where `steady` is false, by their rows."""

    program: Program
    split: Split
    steps: int
    steady: bool
    norms: Table[int] = field(default_factory=Table)
    known: Table[Value] = field(default_factory=Table)
    rows: Table[Row] = field(default_factory=Table)
    targets: Table[dict[bytes, int]] = field(default_factory=Table)
    bits: Table[int] = field(default_factory=Table)
    greatest: int = 0
    is_closed: bool = True
    turned: dict[bytes, dict[bytes, int]] = field(default_factory=dict)
    """How each column that was known before changed in this batch, row by row."""
    _changes: dict[bytes, dict[bytes, int]] = field(default_factory=dict)
    _touched: set[bytes] = field(default_factory=set)
    _before: tuple[int, bool] = (0, True)

    @property
    def norm(self) -> float:
        """The greatest norm of a column, since all were looked at last."""
        return as_double(self.greatest)

    def begin(self) -> None:
        """A batch begins."""
        self._before = (self.greatest, self.is_closed)

    def take(self, changes: Sequence[Weighted], labels: Iterable[Value]) -> None:
        """Changes of the inputs, and labels that the variable may have from now on."""
        self._changes, self._touched = {}, set()
        last = self.program.looping.step[0]
        fresh = self._apply_entries(self.program.run(changes, Weighted())[last])
        self._expand([*fresh, *labels])
        norms = [self.norms.get(origin) or 0 for origin in self._changes]
        self.greatest = max(self.greatest, *norms, 0)
        self.turned = {
            origin: column
            for origin, column in self._changes.items()
            if origin in self.known.kept and any(column.values())
        }

    def _expand(self, labels: list[Value]) -> None:
        """The columns of more labels, and of those that they lead to."""
        last = self.program.looping.step[0]
        for _ in range(MOST_RINGS):
            added = Weighted()
            for label in labels:
                identity = encode(label)
                if self.known.get(identity) is None:
                    self.known.put(identity, label)
                    added.add(label, 1, identity)
            if not added:
                return
            labels = self._apply_entries(self.program.run_variable(added)[last])
        self.is_closed = False

    def _apply_entries(self, change: Weighted) -> list[Value]:
        """Add and remove entries; returns the labels of their rows that are new."""
        fresh = []
        for (row, (origin, slope)), weight in change:
            label = self.split.label(row)
            identity = encode(label)
            if self.known.get(identity) is None:
                fresh.append(label)
            size = 0 if slope is None else in_units(slope)
            if origin is not None:
                self._entry(encode(origin), identity, size, weight)
            if not self.steady:
                self._origin(identity, row, origin, weight)
        return fresh

    def _entry(self, origin: bytes, identity: bytes, size: int, weight: int) -> None:
        norm = (self.norms.get(origin) or 0) + abs(size) * weight
        self.norms.put(origin, norm or None)
        column = self._changes.setdefault(origin, {})
        column[identity] = column.get(identity, 0) + size * weight

    def _origin(self, identity: bytes, row: Value, origin: Value, weight: int) -> None:
        before = self.rows.get(identity) or NO_ROW
        origins, without = dict(before.origins), before.without
        if origin is None:
            without += weight
        else:
            source = encode(origin)
            _count(origins, source, weight)
            targets = dict(self.targets.get(source) or {})
            _count(targets, identity, weight)
            self.targets.put(source, targets or None)
        constant = (
            self.split.units(row)[0] if weight > 0 and origin is not None else before.constant
        )
        entry = Row(origins, without, constant)
        self.rows.put(identity, entry if origins or without else None)
        self._touched.add(identity)

    # --- who is there ----------------------------------------------------------------------------

    def follow(self, started: Mapping[bytes, bool]) -> set[bytes]:
        """Bring the bits of rows up to date, given those whose start changed; all that changed.

        Bits only depend on lower ones, so that nothing holds itself up and this ends.
        """
        changed: set[bytes] = set(self._touched)
        touched = {*self._touched, *started}
        while touched:
            again: set[bytes] = set()
            for identity in touched:
                before = self.bits.get(identity) or 0
                after = self._bits(identity, started.get(identity, bool(before & 1)))
                if after != before:
                    self.bits.put(identity, after or None)
                    changed.add(identity)
                    again.update(self.targets.get(identity) or {})
            touched = again
        return changed

    def _bits(self, identity: bytes, starts: bool) -> int:
        row = self.rows.get(identity) or NO_ROW
        all_of_them = (1 << (self.steps + 1)) - 1
        bits = all_of_them if row.without else 0
        for origin in row.origins:
            bits |= (self.bits.get(origin) or 0) << 1
        return (bits & all_of_them & ~1) | int(starts)

    def constant(self, identity: bytes) -> int:
        """What a row has for being there."""
        row = self.rows.get(identity) or self.rows.kept.get(identity) or NO_ROW
        return row.constant

    def is_there(self, identity: bytes) -> bool:
        """Whether a row is there after the last step."""
        return bool((self.bits.get(identity) or 0) >> self.steps)

    def commit(self) -> None:
        """Remember the batch."""
        self.program.commit()
        for table in self._tables():
            table.commit()

    def cancel(self) -> None:
        """Be as before the batch."""
        self.program.undo()
        for table in self._tables():
            table.cancel()
        self.greatest, self.is_closed = self._before

    def _tables(self) -> tuple[Table[Any], ...]:
        return self.norms, self.known, self.rows, self.targets, self.bits

    @property
    def size(self) -> int:
        """How much is remembered."""
        return self.program.size + len(self.norms.kept) + len(self.known.kept) + len(self.bits.kept)


def _count(counts: dict[bytes, int], identity: bytes, weight: int) -> None:
    total = counts.get(identity, 0) + weight
    if total:
        counts[identity] = total
    else:
        counts.pop(identity, None)
