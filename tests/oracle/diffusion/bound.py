"""How far a diffused result can be from the loop's own: two bounds, of which the lesser counts.

The step is X → A X + b, c a bound of the norm of A (the greatest sum of sizes in a column), n the
number of steps, X^ the result that is kept and X_n the loop's own over all the data.  Sizes are
sums of absolute values over all labels; a row that is not there counts as 0.

*By the fixed point.*  With R = |f(X^) - X^|:

    |X^ - X_n|  <=  R (1 + c^n) / (1 - c)  +  c^n |X_0 - X^|  +  P

*By differences since all was computed last.*  `docs/iteration.md` has the proof.  Each batch adds

    c^n |ΔX_0|  +  Σ_{i<n} c^(n-1-i) (|ΔA V_i| + t S_i)  +  t |q| / (1 - c)^2
        +  Σ_i c^(n+1-i) |cut_i| / (1 - c)  +  P'              t = max |ΔA_k| over columns k

with V_i what is known of X_i - X^, and S_i a bound of the rest; what is held back, |q| / (1 - c),
comes on top.  P and P' are for constants of rows that are not there at all steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from incmrql.values import Value
from tests.oracle.diffusion.columns import Columns
from tests.oracle.diffusion.flow import Flow
from tests.oracle.diffusion.program import Table
from tests.oracle.diffusion.rows import as_double, in_units, total

_ULP: Final = 2.0**-48
"""More than what a step of a few dozen operations rounds, relative to what it adds up."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a bound is made of."""

    norm: float
    residual: float
    stopping: float
    absent: float
    drift: float
    held_back: float
    rounding: float

    @property
    def by_fixed_point(self) -> float:
        """The first bound."""
        return self.residual + self.stopping + self.absent + self.rounding

    @property
    def by_differences(self) -> float:
        """The second bound."""
        return self.drift + self.held_back + self.rounding


@dataclass(slots=True)
class Account:
    """The sums that the bounds are made of, kept up to date over what batches touch."""

    flow: Flow
    columns: Columns
    steps: int
    keeps_ways: bool
    """Whether the second bound is kept, which takes a number for each label and step."""
    paths: Table[tuple[float, ...]] = field(default_factory=Table)
    """For each label, how far the loop is from the result before each step, as far as known."""
    absences: Table[int] = field(default_factory=Table)
    rate: float = 1.0
    drift: float = 0.0
    strays: tuple[float, ...] = ()
    """For each step, how far the loop may be from what is known."""
    absent: int = 0
    largest: int = 0
    """The most that was added up since all was computed: what is rounded is relative to it."""
    batches: int = 0
    _before: tuple[float, float, tuple[float, ...], int, int, int] = (1.0, 0.0, (), 0, 0, 0)

    def begin(self) -> None:
        """A batch begins."""
        kept = self.absent, self.largest, self.batches
        self._before = (self.rate, self.drift, self.strays, *kept)

    def reset(self, way: Sequence[Sequence[Value]]) -> None:
        """All was computed: `way` has the rows of the variable before each step and at the end."""
        self.rate = min(max(self.columns.norm, 0.1), 1.0)
        self.drift, self.batches = 0.0, 0
        self.largest = self._added_up()
        self.strays = (0.0,) * self.steps
        if self.keeps_ways:
            totals = [self._totals(rows) for rows in way]
            for identity in {identity for total in totals for identity in total}:
                *before, last = (total.get(identity, 0) for total in totals)
                self.paths.put(identity, tuple(as_double(units - last) for units in before))
        if not self.columns.steady:
            for identity in {*dict(self.columns.bits.items()), *dict(self.flow.stepped.items())}:
                self._absence(identity)

    def _added_up(self) -> int:
        sizes = self.flow.sizes
        return sizes.result + sizes.start + sizes.stepped

    def _totals(self, rows: Sequence[Value]) -> dict[bytes, int]:
        totals: dict[bytes, int] = {}
        for row in rows:
            identity = self.flow.split.identity(row)
            totals[identity] = totals.get(identity, 0) + in_units(self.flow.split.values(row)[0])
        return totals

    # --- batches ---------------------------------------------------------------------------------

    def take(self, pending: int) -> None:
        """Add what a batch brings; `pending` was held back before it."""
        self.batches += 1
        c, n, done = self.columns.norm, self.steps, self.flow.done
        moved = sum(total(units) for ring in done.rings for units in ring.moved.values())
        self.largest = max(self.largest, self._added_up() + moved)
        absent, all_absent = self._absences(c)
        if not (self.keeps_ways and c < 1.0):
            self.drift = math.inf
        if math.isinf(self.drift):
            return
        most, turned = self._changes_of_columns()
        cuts = [as_double(ring.cut) for ring in done.rings]
        flips = [as_double(ring.flipped) for ring in done.rings]
        started = as_double(sum(map(total, done.start.values())))
        late = sum(c ** (n - place) * cut for place, cut in enumerate(cuts))
        late += sum((c ** (n - 1 - place) + c**n) * flip for place, flip in enumerate(flips))
        self.drift += c**n * started + _decayed_sum(c, turned, n) + late / (1.0 - c) + absent
        self.drift += most * as_double(pending) / (1.0 - c) ** 2
        every = (sum(cuts) + 2.0 * sum(flips)) / (1.0 - c) + all_absent
        more = [
            c**step * started + _decayed_sum(c, turned, step) + every if step else 0.0
            for step in range(n)
        ]
        self.strays = tuple(a + b for a, b in zip(self.strays, more, strict=True))
        self._update_paths()

    def _changes_of_columns(self) -> tuple[float, list[float]]:
        """The greatest change of a column, and what the changes make of the loop at each step.

        That is of how far the loop is from the result there.
        """
        columns = {
            origin: {row: as_double(units) for row, units in column.items()}
            for origin, column in self.columns.turned.items()
        }
        most = max((sum(map(abs, column.values())) for column in columns.values()), default=0.0)
        distances = []
        for step, stray in enumerate(self.strays):
            sums: dict[bytes, float] = {}
            for origin, column in columns.items():
                path = self.paths.get(origin)
                if path is not None:
                    for row, change in column.items():
                        sums[row] = sums.get(row, 0.0) + change * path[step]
            distances.append(sum(map(abs, sums.values())) + most * stray)
        return most, distances

    def _update_paths(self) -> None:
        """Update the known paths: a step includes the rings up to its own."""
        done = self.flow.done
        zero = (0.0,) * self.steps
        for identity, (units,) in done.start.items():
            path = self.paths.get(identity) or zero
            self.paths.put(identity, (path[0] + as_double(units), *path[1:]))
        for place, ring in enumerate(done.rings):
            for identity, (units,) in ring.moved.items():
                path, far = self.paths.get(identity) or zero, as_double(units)
                moved = (value - far if step <= place else value for step, value in enumerate(path))
                self.paths.put(identity, tuple(moved))

    def _absences(self, c: float) -> tuple[float, float]:
        """What constants of rows that are not there at all steps bring, weighed and all."""
        if self.columns.steady:
            return 0.0, 0.0
        weighed = everything = 0.0
        for identity in self.flow.done.touched:
            before, after = self._missing(identity, before=True), self._missing(identity)
            for step, (one, other) in enumerate(zip(before, after, strict=True), 1):
                size = as_double(abs(one - other))
                weighed += c ** (self.steps - step) * size
                everything += size
            self._absence(identity)
        return weighed, everything

    def _missing(self, identity: bytes, *, before: bool = False) -> list[int]:
        """For each step, the constant of a row if it is there and not in what comes after.

        The other way round it is negative.
        """
        columns, stepped = self.columns, self.flow.stepped
        if before:
            row, bits = columns.rows.kept.get(identity), columns.bits.kept.get(identity) or 0
            there = identity in stepped.kept
        else:
            row, bits = columns.rows.get(identity), columns.bits.get(identity) or 0
            there = stepped.get(identity) is not None
        constant = 0 if row is None else row.constant
        return [constant * ((bits >> step & 1) - int(there)) for step in range(1, self.steps + 1)]

    def _absence(self, identity: bytes) -> None:
        far = sum(
            self.rate ** (self.steps - step) * as_double(abs(missing))
            for step, missing in enumerate(self._missing(identity), 1)
        )
        size = in_units(float(far))
        self.absent += size - (self.absences.get(identity) or 0)
        self.absences.put(identity, size or None)

    # --- bounds ----------------------------------------------------------------------------------

    def parts(self) -> Parts | None:
        """What the bounds are made of; None if there is none."""
        c, n, sizes = self.columns.norm, self.steps, self.flow.sizes
        if not (self.columns.is_closed and 0.0 <= c < 1.0):
            return None
        grown = max(1.0, c / self.rate) ** n
        steps = min(n, 1.0 / (1.0 - c)) + self.batches + 1
        return Parts(
            norm=c,
            residual=as_double(sizes.residual) * (1.0 + c**n) / (1.0 - c),
            stopping=c**n * as_double(sizes.way),
            absent=grown * as_double(self.absent),
            drift=self.drift,
            held_back=as_double(sizes.pending) / (1.0 - c),
            rounding=_ULP * steps * as_double(self.largest) / (1.0 - c) ** 2,
        )

    def commit(self) -> None:
        """Remember the batch."""
        self.paths.commit()
        self.absences.commit()

    def cancel(self) -> None:
        """Be as before the batch."""
        self.paths.cancel()
        self.absences.cancel()
        self.rate, self.drift, self.strays, *kept = self._before
        self.absent, self.largest, self.batches = kept


def _decayed_sum(c: float, sizes: Sequence[float], step: int) -> float:
    """The sum of the sizes of the first steps, each decayed by the number of steps since."""
    return sum(c ** (step - 1 - place) * size for place, size in enumerate(sizes[:step]))
