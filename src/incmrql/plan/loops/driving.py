"""A loop over numbered rows: changes go through step after step, as far as they reach.

With X_i the rows of a variable after i steps, what is kept of them are the differences

    D_0 = X_0        D_1 = f(X_0) - X_0        D_i+1 = f(X_i) - f(X_i-1)

and the number of true flags of each step, as differences too.  A change of D_i goes through step
i, whose change is that of D_i+1.  A step that nothing reaches costs nothing.

    limit n                 the answer is X_n
    nothing changes         the answer is X_m with D_m+1 empty; then all later ones are
    no flag is true         the answer is X_m with no true flag in the step that made it: when m
                            grows, the steps from the old m on are run with all of D_m; when it
                            shrinks, the steps from the new m on are forgotten
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar

from incmrql.reference.queries import Ending, too_long

T = TypeVar("T", bound=Sized)


class LoopMachine(Protocol[T]):
    """What runs the steps of a loop; `T` are rows of a variable with weights."""

    def start(self) -> list[T]:
        """Take in the changes of the inputs; the changes of the first rows of the variables."""

    def step(self, number: int, changes: Sequence[T]) -> tuple[list[T], int]:
        """Send changes through a step: those of what it makes, and of its true flags."""

    def waits(self, number: int) -> bool:
        """Whether a step has something to do, though its variables may not change."""

    def waits_after(self, number: int) -> bool:
        """Whether a later step has."""

    def differences(self, number: int) -> list[T]:
        """What D_i of each variable was before the batch."""

    def forget(self, number: int) -> None:
        """Keep nothing of the steps from this one on."""

    def sums(self, parts: Sequence[Sequence[T]]) -> list[T]:
        """All rows of each variable, equal ones added up."""

    def negative(self, rows: T) -> T:
        """The same rows, taken away."""


@dataclass(slots=True)
class LoopDelta(Generic[T]):
    """What a batch does to a loop: the changes of D_i of each variable, and of the flags.

    `stop` is how many steps it runs now, where flags decide; and `answer` the change of X_m.
    """

    differences: list[list[T]] = field(default_factory=list)
    flags: dict[int, int] = field(default_factory=dict)
    stop: int = 0
    answer: list[T] = field(default_factory=list)
    ran: int = 0
    """Steps that something went through."""


def drive(
    machine: LoopMachine[T], ending: Ending, flags: dict[int, int], stop: int | None
) -> LoopDelta[T]:
    """One batch of a loop that had these flags and ran so many steps; None: it never ran."""
    if any(ending.flagged):
        return _drive_by_flags(machine, ending, flags, stop)
    course: LoopDelta[T] = LoopDelta()
    changes = machine.start()
    course.differences.append(changes)
    for number in count():
        if number == ending.limit:
            break
        if ending.limit is None and number >= ending.most and any(map(len, changes)):
            raise too_long(number, ending.where)
        if not any(map(len, changes)) and not machine.waits(number):
            if not machine.waits_after(number):
                break
            changes = machine.sums([])
            course.differences.append(changes)
            continue
        changes = _run_step(machine, course, number, changes)
    course.answer = machine.sums(course.differences)
    return course


def _run_step(
    machine: LoopMachine[T], course: LoopDelta[T], number: int, changes: Sequence[T]
) -> list[T]:
    """Run a step; the changes of the next differences."""
    found, flags = machine.step(number, changes)
    course.ran += 1
    if flags:
        course.flags[number] = flags
    if number == 0:
        found = machine.sums([found, list(map(machine.negative, course.differences[0]))])
    course.differences.append(found)
    return found


def _drive_by_flags(
    machine: LoopMachine[T], ending: Ending, flags: dict[int, int], stop: int | None
) -> LoopDelta[T]:
    course: LoopDelta[T] = LoopDelta()
    changes = machine.start()
    course.differences.append(changes)
    known = stop or 0
    trues = 0
    for number in count():
        if number == ending.limit:
            break
        if ending.limit is None and number >= ending.most:
            raise too_long(number, ending.where)
        if number == stop:
            changes = machine.sums([changes, machine.differences(number)])
        if any(map(len, changes)) or machine.waits(number):
            changes = _run_step(machine, course, number, changes)
        else:
            changes = machine.sums([])
            course.differences.append(changes)
        trues += flags.get(number, 0) + course.flags.get(number, 0)
        course.stop = number + 1
        if trues <= 0:
            break
    if course.stop < known:
        machine.forget(course.stop)
        for number in range(course.stop, known):
            if flags.get(number):
                course.flags[number] = -flags[number]
    course.answer = _change_of_answer(machine, course, known)
    return course


def _change_of_answer(machine: LoopMachine[T], course: LoopDelta[T], known: int) -> list[T]:
    """The change of the answer: from X of the old stop to X of the new one."""
    del course.differences[course.stop + 1 :]
    parts = list(course.differences)
    for number in range(course.stop + 1, known + 1):
        gone = list(map(machine.negative, machine.differences(number)))
        parts.append(gone)
        course.differences.append(gone)
    return machine.sums(parts)
