"""Drives a loop over numbered rows: puts changes through step after step, as far as they reach.

Of X_i, the rows of a variable after i steps, only the differences are kept:

    D_0 = X_0        D_1 = f(X_0) - X_0        D_i+1 = f(X_i) - f(X_i-1)

The number of true flags of each step is kept likewise.  A change of D_i goes through step i, which
returns the change of D_i+1.  A step that no change reaches costs nothing.

    limit n                 the answer is X_n
    nothing changes         the answer is X_m with D_m+1 empty, as all later D are empty then
    no flag is true         the answer is X_m if no flag is true in the step that made it: if m
                            grows, the steps from the old m on run with all of D_m; if it shrinks,
                            the steps from the new m on are dropped
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar

from incmrql.reference.queries import Ending, endless_loop_error

T = TypeVar("T", bound=Sized)


class LoopMachine(Protocol[T]):
    """Runs the steps of a loop; `T` are weighted rows of a variable."""

    def start(self) -> list[T]:
        """Ingest the changes of the inputs; the changes of the variables' first rows, D_0."""

    def step(self, number: int, changes: Sequence[T]) -> tuple[list[T], int]:
        """Put changes through a step; the changes of its rows and of its number of true flags."""

    def waits(self, number: int) -> bool:
        """Whether a step has changes of its inputs to process, even if no variable changes."""

    def waits_after(self, number: int) -> bool:
        """Whether a later step has such changes."""

    def differences(self, number: int) -> list[T]:
        """D_i of each variable as of before the batch."""

    def forget(self, number: int) -> None:
        """Drop the state of this step and of all later ones."""

    def sums(self, parts: Sequence[Sequence[T]]) -> list[T]:
        """The rows of each variable in all parts, with the weights of equal rows added up."""

    def negative(self, rows: T) -> T:
        """The same rows with negated weights."""


@dataclass(slots=True)
class LoopDelta(Generic[T]):
    """The changes that a batch makes to a loop: of D_i of each variable, and of the flags.

    `stop` is the number of steps that it runs now, if flags decide; `answer` is the change of X_m.
    """

    differences: list[list[T]] = field(default_factory=list)
    flags: dict[int, int] = field(default_factory=dict)
    stop: int = 0
    answer: list[T] = field(default_factory=list)
    ran: int = 0
    """The number of steps that ran in this batch."""


def drive(
    machine: LoopMachine[T], ending: Ending, flags: dict[int, int], stop: int | None
) -> LoopDelta[T]:
    """Run one batch of a loop with these flags, which stopped after `stop` steps so far.

    `stop` is None if the loop never ran.
    """
    if any(ending.flagged):
        return _drive_by_flags(machine, ending, flags, stop)
    delta: LoopDelta[T] = LoopDelta()
    changes = machine.start()
    delta.differences.append(changes)
    for number in count():
        if number == ending.limit:
            break
        if ending.limit is None and number >= ending.most and any(map(len, changes)):
            raise endless_loop_error(number, ending.where)
        if not any(map(len, changes)) and not machine.waits(number):
            if not machine.waits_after(number):
                break
            changes = machine.sums([])
            delta.differences.append(changes)
            continue
        changes = _run_step(machine, delta, number, changes)
    delta.answer = machine.sums(delta.differences)
    return delta


def _run_step(
    machine: LoopMachine[T], delta: LoopDelta[T], number: int, changes: Sequence[T]
) -> list[T]:
    """Run a step; the changes of the next difference."""
    differences_after, flags = machine.step(number, changes)
    delta.ran += 1
    if flags:
        delta.flags[number] = flags
    # D_1 is f(X_0) - X_0: before step 0 the rows of the variable are X_0 and not empty.
    if number == 0:
        differences_after = machine.sums(
            [differences_after, list(map(machine.negative, delta.differences[0]))]
        )
    delta.differences.append(differences_after)
    return differences_after


def _drive_by_flags(
    machine: LoopMachine[T], ending: Ending, flags: dict[int, int], stop: int | None
) -> LoopDelta[T]:
    delta: LoopDelta[T] = LoopDelta()
    changes = machine.start()
    delta.differences.append(changes)
    old_stop = stop or 0
    trues = 0
    for number in count():
        if number == ending.limit:
            break
        if ending.limit is None and number >= ending.most:
            raise endless_loop_error(number, ending.where)
        # The old run ended here, so no later step ever saw the rows of D_m: they all count as new.
        if number == stop:
            changes = machine.sums([changes, machine.differences(number)])
        if any(map(len, changes)) or machine.waits(number):
            changes = _run_step(machine, delta, number, changes)
        else:
            changes = machine.sums([])
            delta.differences.append(changes)
        trues += flags.get(number, 0) + delta.flags.get(number, 0)
        delta.stop = number + 1
        if trues <= 0:
            break
    # The loop got shorter: the flags of the steps that no longer run must not count later.
    if delta.stop < old_stop:
        machine.forget(delta.stop)
        for number in range(delta.stop, old_stop):
            if flags.get(number):
                delta.flags[number] = -flags[number]
    delta.answer = _change_of_answer(machine, delta, old_stop)
    return delta


def _change_of_answer(machine: LoopMachine[T], delta: LoopDelta[T], old_stop: int) -> list[T]:
    """The change from X at the old stop to X at the new one.

    X is the sum of all D up to the stop, so a shorter loop takes back the D behind the new stop.
    """
    del delta.differences[delta.stop + 1 :]
    parts = list(delta.differences)
    for number in range(delta.stop + 1, old_stop + 1):
        removed = list(map(machine.negative, machine.differences(number)))
        parts.append(removed)
        delta.differences.append(removed)
    return machine.sums(parts)
