"""What a node over groups remembers by key, and how a touched key answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from incmrql.incremental import sums
from incmrql.incremental.changes import Weighted, by_key
from incmrql.incremental.nodes import Groups
from incmrql.incremental.states import Work
from incmrql.incremental.sums import Number
from incmrql.reference import Environment, evaluate
from incmrql.values import Bag, Value, encode

_NOTHING = Weighted()


@dataclass(slots=True)
class _Group:
    """One key: how many rows each side has, the accumulators, and the rows that are kept."""

    key: Value
    counts: tuple[int, ...]
    numbers: tuple[Number, ...]
    rows: dict[int, Weighted] = field(default_factory=dict)
    walked: dict[int, Value] = field(default_factory=dict)
    """What the rows were found to be, for requests without accumulators."""

    @property
    def is_there(self) -> bool:
        """A key is there exactly while a side has a row."""
        return any(self.counts)


@dataclass(slots=True)
class GroupsState:
    """Groups by key."""

    node: Groups
    env: Environment
    groups: dict[bytes, _Group] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    _pending: list[tuple[bytes, _Group, dict[int, Weighted]]] = field(default_factory=list)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """-old +new for every key that changes touch."""
        touched: dict[bytes, tuple[Value, dict[int, Weighted]]] = {}
        for side, change in enumerate(changes):
            for identity, (key, changed) in by_key(change).items():
                touched.setdefault(identity, (key, {}))[1][side] = changed
        self._pending = []
        found = Weighted()
        for identity, (key, rows) in touched.items():
            known = self.groups.get(identity)
            self.work.read += known is not None
            before = known or self._empty(key)
            after = self._after(before, rows)
            after.walked = self._walked(after, rows)
            self._pending.append((identity, after, rows))
            self._answer(before, after, rows, found)
        return found

    def _empty(self, key: Value) -> _Group:
        numbers = tuple(map(sums.zero, self.node.accumulators))
        empty = _Group(key, (0,) * len(self.node.inputs), numbers)
        empty.walked = self._walked(empty, {0: _NOTHING, 1: _NOTHING})
        return empty

    def _after(self, before: _Group, rows: Mapping[int, Weighted]) -> _Group:
        """The group with changes in its counts and accumulators; its rows stay for now."""
        counts = tuple(
            count + rows.get(side, _NOTHING).total for side, count in enumerate(before.counts)
        )
        numbers = list(before.numbers)
        for at, accumulator in enumerate(self.node.accumulators):
            for value, weight in rows.get(accumulator.side, _NOTHING):
                env = self._env(before.key, {accumulator.side: Bag([value])})
                elements = list(evaluate(accumulator.operand, env) or ())
                added = sums.lifted(accumulator, elements, weight)
                numbers[at] = sums.plus(numbers[at], added)
        return _Group(before.key, counts, tuple(numbers), before.rows, before.walked)

    def _walked(self, group: _Group, change: Mapping[int, Weighted]) -> dict[int, Value]:
        """What goes through rows, again where these changed."""
        found = dict(group.walked)
        for request in self.node.requests:
            if request.side in change and not request.accumulators:
                rows = self._rows(group, request.side, change)
                env = self._env(group.key, {request.side: rows})
                found[request.variable.number] = evaluate(request.asked, env)
        return found

    def _answer(
        self, before: _Group, after: _Group, rows: Mapping[int, Weighted], found: Weighted
    ) -> None:
        """What a touched key changes in the answer."""
        old, new = self._asked(before), self._asked(after)
        linear = self.node.linear
        if linear is not None and _alike(old, new):
            for value, weight in rows.get(linear, _NOTHING):
                self._emit(after.key, {linear: Bag([value])}, new, weight, found)
            return
        if before.is_there:
            self._emit(before.key, self._bags(before, {}), old, -1, found)
        if after.is_there:
            self._emit(after.key, self._bags(after, rows), new, 1, found)

    def _asked(self, group: _Group) -> dict[int, Value]:
        """The values of what the answer asks of a group."""
        found = dict(group.walked)
        for request in self.node.requests:
            if not request.accumulators:
                continue
            numbers = [group.numbers[at] for at in request.accumulators]
            fail = partial(self.env.world.failed, request.asked.span)
            found[request.variable.number] = sums.finished(request, numbers, fail)
        return found

    def _bags(self, group: _Group, change: Mapping[int, Weighted]) -> dict[int, Bag]:
        """The rows of the sides that the answer reads."""
        return {side: self._rows(group, side, change) for side in self.node.used}

    def _rows(self, group: _Group, side: int, change: Mapping[int, Weighted]) -> Bag:
        """The rows of a side, with a change that is not remembered yet."""
        rows = group.rows.get(side, _NOTHING)
        self.work.read += len(rows)
        if side in change:
            rows = rows.copy()
            rows.merge(change[side])
        return rows.bag()

    def _emit(
        self,
        key: Value,
        bags: Mapping[int, Bag],
        asked: Mapping[int, Value],
        times: int,
        found: Weighted,
    ) -> None:
        env = self._env(key, bags).extend(asked)
        for row in evaluate(self.node.body, env) or ():
            found.add(row, times)

    def _env(self, key: Value, bags: Mapping[int, Bag]) -> Environment:
        """The group as a value; sides that are not given are empty."""
        sides = tuple(bags.get(side, Bag()) for side in range(len(self.node.inputs)))
        group = (key, sides[0] if len(sides) == 1 else sides)
        return self.env.bind(self.node.group, group)

    def commit(self) -> None:
        """Remember the touched groups; a key without rows leaves."""
        if self.node.is_final:
            return
        for identity, after, rows in self._pending:
            if not after.is_there:
                self.groups.pop(identity, None)
                continue
            for side in self.node.kept:
                if side in rows:
                    after.rows.setdefault(side, Weighted()).merge(rows[side])
            self.groups[identity] = after
        self._pending = []

    @property
    def size(self) -> int:
        """The accumulators and rows of all groups, their multiplicities apart."""
        return sum(
            len(group.numbers) + sum(map(len, group.rows.values()))
            for group in self.groups.values()
        )


def _alike(one: Mapping[int, Value], other: Mapping[int, Value]) -> bool:
    """Whether what is asked has not changed."""
    return all(encode(value) == encode(other[number]) for number, value in one.items())
