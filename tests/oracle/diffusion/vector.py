"""Loops over labels with values: differences that flow, with the account of their error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from incmrql.plan.changes import Weighted
from incmrql.plan.diffusion.ways import Affine, Residual, UnmeasuredError
from incmrql.reference import Environment
from incmrql.values import Value
from tests.oracle.diffusion.bound import Account
from tests.oracle.diffusion.columns import Columns
from tests.oracle.diffusion.flow import Flow
from tests.oracle.diffusion.program import Program
from tests.oracle.diffusion.rows import Split, as_double

MOST_WAYS: Final = 64
"""With more steps the way of each label is not kept: c^n is small then."""


class Vector:
    """An affine loop or one with a residual, at work."""

    def __init__(
        self, shape: Affine | Residual, env: Environment, limit: int | None, tolerance: float
    ) -> None:
        self.shape, self.env, self.limit = shape, env, limit
        self.steps = env.world.max_steps if limit is None else limit
        columns = self._columns()
        split = Split(shape.paths)
        program = Program(shape.program, env)
        self.flow = Flow(program, split, self.steps, limit is not None, tolerance, columns)
        self.account = None if columns is None else self._account(columns)
        self._old: tuple[Columns, Account] | None = None
        self._deletes = False

    def _columns(self) -> Columns | None:
        """The matrix of the step, where it has one."""
        shape = self.shape
        if not isinstance(shape, Affine):
            return None
        program = Program(shape.entries, self.env)
        return Columns(program, Split(shape.paths), self.steps, shape.steady)

    def _account(self, columns: Columns) -> Account:
        keeps_ways = self.limit is not None and self.limit <= MOST_WAYS
        return Account(self.flow, columns, self.steps, keeps_ways)

    @property
    def change(self) -> Weighted:
        """What the batch changed in the result."""
        return self.flow.change

    @property
    def norm(self) -> float:
        """The sum of the sizes of all values."""
        return as_double(self.flow.sizes.result)

    @property
    def read(self) -> int:
        """How many rows were read since this was asked last."""
        programs = [self.flow.program]
        if self.flow.columns is not None:
            programs.append(self.flow.columns.program)
        total = sum(program.read for program in programs)
        for program in programs:
            program.read = 0
        return total

    @property
    def is_lost(self) -> bool:
        """Whether rows went that may not be missed: values may support themselves in full."""
        return self.account is not None and self._deletes and not self.account.columns.norm < 1.0

    def take(self, changes: Sequence[Weighted]) -> None:
        """Changes of the inputs, with the result as it is."""
        self._begin()
        self.flow.take(changes)

    def follow(self, changes: Sequence[Weighted]) -> None:
        """Changes of the inputs, and the differences they make."""
        self._begin()
        self._deletes = any(weight < 0 for change in changes for _, weight in change)
        pending = self.flow.sizes.pending
        self.flow.follow(changes)
        if self.account is not None:
            self.account.take(pending)

    def _begin(self) -> None:
        self._old = None
        if self.account is not None:
            self.account.begin()

    def reset(self, steps: Sequence[Sequence[Value]], inputs: Sequence[Weighted]) -> None:
        """Be at the loop's own result; `steps` has the rows before each step and at the end."""
        if self.limit == 0:
            raise UnmeasuredError("a loop without steps")
        self.flow.reset(steps[-1])
        if self.flow.columns is None or self.account is None:
            return
        self._old = self.flow.columns, self.account
        columns = self._columns()
        assert columns is not None
        self.flow.columns = columns
        self.account = self._account(columns)
        labels = {
            self.flow.split.identity(row): self.flow.split.label(row)
            for rows in steps
            for row in rows
        }
        columns.take(inputs, labels.values())
        if not columns.steady:
            columns.follow({identity: True for identity, _ in self.flow.start.items()})
        self.account.reset(steps)

    def stated_error(
        self,
    ) -> tuple[Literal["bound", "residual"], float, tuple[tuple[str, float], ...]]:
        """The error bound, or the residual where there is none, with its parts."""
        parts = None if self.account is None else self.account.parts()
        residual = as_double(self.flow.sizes.residual)
        if parts is None:
            return "residual", residual, (("residual", residual),)
        named = (
            ("norm of the step", parts.norm),
            ("by the fixed point", parts.by_fixed_point),
            ("by differences", parts.by_differences),
            ("residual", parts.residual),
            ("stopping", parts.stopping),
            ("rows not there", parts.absent),
            ("drift", parts.drift),
            ("held back", parts.held_back),
            ("rounding", parts.rounding),
        )
        return "bound", min(parts.by_fixed_point, parts.by_differences), named

    def commit(self) -> None:
        """Remember the batch."""
        self._old = None
        self.flow.commit()
        if self.flow.columns is not None and self.account is not None:
            self.flow.columns.commit()
            self.account.commit()

    def cancel(self) -> None:
        """Be as before the batch."""
        if self._old is not None:
            (self.flow.columns, self.account), self._old = self._old, None
        self.flow.cancel()
        if self.flow.columns is not None and self.account is not None:
            self.flow.columns.cancel()
            self.account.cancel()

    @property
    def size(self) -> int:
        """How much is remembered."""
        columns = 0 if self.flow.columns is None else self.flow.columns.size
        return self.flow.size + columns
