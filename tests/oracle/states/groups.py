"""What a node over groups remembers by key, and how a touched key answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from incmrql.errors import DataError
from incmrql.plan.changes import Weighted
from incmrql.plan.merging import group_monoids
from incmrql.plan.monoids import Monoid
from incmrql.plan.nodes import Accumulator, Groups, Request
from incmrql.plan.reading import limit_value, read_value
from incmrql.reference import Environment, evaluate
from incmrql.reference.calls import apply
from incmrql.values import Bag, Value, encode
from tests.oracle.changes import by_key, narrow_rows
from tests.oracle.states.base import Work, check_single
from tests.oracle.sums import add_elements, rounded_aggregate
from tests.oracle.tables import TableState

_NOTHING = Weighted()


@dataclass(slots=True)
class _Group:
    """One key: how many rows each side has, the accumulators, the tables, the rows kept."""

    key: Value
    counts: tuple[int, ...]
    numbers: tuple[Any, ...]
    tables: tuple[TableState, ...]
    rows: dict[int, Weighted] = field(default_factory=dict)
    answers: dict[int, Value] = field(default_factory=dict)
    """What all values of a table, or all rows, were found to come to."""

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
    _monoids: tuple[Monoid, ...] = ()
    _most: tuple[int | None, ...] = ()
    _pending: list[tuple[bytes, _Group, dict[int, Weighted]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._monoids = group_monoids(self.node, self.env)
        self._most = tuple(limit_value(table.most, self.env) for table in self.node.tables)

    def advance(self, changes: Sequence[Weighted]) -> Weighted:
        """-old +new for every key that changes touch."""
        answer_change = Weighted()
        for identity, (key, rows) in _changes_by_key(changes).items():
            known = self.groups.get(identity)
            self.work.read += known is not None
            before = known or self._empty(key)
            old = self._answers_of(before)
            self._pending.append((identity, before, rows))
            after = self._after(before, rows)
            after.answers = self._recompute_answers(after, rows)
            self._pending[-1] = (identity, after, rows)
            self._answer(
                (before, old), (after, self._answers_of(after, old, rows)), rows, answer_change
            )
        return answer_change

    def _empty(self, key: Value) -> _Group:
        empty = self._nothing(key)
        empty.answers = self._recompute_answers(empty, {0: _NOTHING, 1: _NOTHING})
        return empty

    def _nothing(self, key: Value) -> _Group:
        limits = zip(self.node.tables, self._most, strict=True)
        tables = tuple(TableState(table.order, most) for table, most in limits)
        numbers = tuple(monoid.zero for monoid in self._monoids)
        return _Group(key, (0,) * len(self.node.inputs), numbers, tables)

    def take(self, changes: Sequence[Weighted]) -> None:
        """Remember changes without answering: the state of a change, whatever its weights."""
        for identity, (key, rows) in _changes_by_key(changes).items():
            after = self._after(self.groups.get(identity) or self._nothing(key), rows)
            self._keep(identity, after, rows)
            if self._value(after) == self._value(self._nothing(key)):
                del self.groups[identity]

    # --- taking in -------------------------------------------------------------------------------

    def _after(self, before: _Group, rows: Mapping[int, Weighted]) -> _Group:
        """The group with changes in all but its rows, which stay as they are for now."""
        counts = tuple(
            count + rows.get(side, _NOTHING).total for side, count in enumerate(before.counts)
        )
        different = self._changed_tables(before, rows)
        numbers = tuple(
            self._merge(before, place, rows, different) for place in range(len(before.numbers))
        )
        return _Group(before.key, counts, numbers, before.tables, before.rows, before.answers)

    def _changed_tables(self, group: _Group, rows: Mapping[int, Weighted]) -> list[Weighted]:
        """Take changes in; the change of the different values of each table."""
        table_changes = []
        for node, table in zip(self.node.tables, group.tables, strict=True):
            change = Weighted()
            for value, weight in rows.get(node.side, _NOTHING):
                env = self._env(group.key, {node.side: Bag([value])})
                for element in evaluate(node.operand, env) or ():
                    change.add(element, weight)
            table_changes.append(table.change(change))
        return table_changes

    def _merge(
        self,
        group: _Group,
        place: int,
        rows: Mapping[int, Weighted],
        different: Sequence[Weighted],
    ) -> Any:
        """An accumulator merged with the changes."""
        accumulator, monoid = self.node.accumulators[place], self._monoids[place]
        total, distinct = group.numbers[place], accumulator.distinct
        change = rows.get(accumulator.side, _NOTHING)
        for value, weight in change if distinct is None else different[distinct.table]:
            elements = self._elements(group.key, accumulator, value)
            total = add_elements(accumulator, monoid, total, elements, weight)
        return total

    def _elements(self, key: Value, accumulator: Accumulator, value: Value) -> list[Value]:
        """What one value brings to an accumulator."""
        if accumulator.distinct is None:
            env = self._env(key, {accumulator.side: Bag([value])})
        else:
            env = self._env(key, {}).bind(accumulator.distinct.group, (key, Bag([value])))
        elements = list(evaluate(accumulator.operand, env) or ())
        if accumulator.kind == "user":
            unit = self.env.world.script.aggregations[accumulator.monoid.name].unit
            if unit is not None:
                outer = self.env.outermost()
                return [
                    apply(unit, [element], outer) for element in elements if element is not None
                ]
        return elements

    # --- answering -------------------------------------------------------------------------------

    def _recompute_answers(self, group: _Group, change: Mapping[int, Weighted]) -> dict[int, Value]:
        """Evaluate requests that read all values or all rows again, if these changed."""
        answers = dict(group.answers)
        for request in self.node.requests:
            if request.side not in change:
                continue
            if request.reads_rows:
                rows = self._rows(group, request.side, change)
                env = self._env(group.key, {request.side: rows})
                answers[request.variable.number] = _value_or_failure(
                    partial(evaluate, request.expr, env)
                )
            elif request.reading is not None and request.reading.how == "all":
                answers[request.variable.number] = self._read(group, request)
        return answers

    def _read(self, group: _Group, request: Request) -> Value:
        assert request.reading is not None
        table = group.tables[request.reading.table]
        env = self._env(group.key, {})
        value = _value_or_failure(partial(read_value, request, request.reading, table, env))
        self.work.read += table.take_read_count()
        return value

    def _answers_of(
        self,
        group: _Group,
        old: Mapping[int, Value] | None = None,
        change: Mapping[int, Weighted] | None = None,
    ) -> dict[int, Value]:
        """The values that the answer requests of a group; old ones where nothing changed."""
        answers = dict(group.answers)
        for request in self.node.requests:
            number = request.variable.number
            if number in answers:
                continue
            if old is not None and change is not None and request.side not in change:
                answers[number] = old[number]
            elif request.accumulators:
                numbers = [group.numbers[at] for at in request.accumulators]
                fail = partial(self.env.world.fail, request.expr.span)
                answers[number] = _value_or_failure(
                    partial(rounded_aggregate, request, numbers, fail)
                )
            else:
                answers[number] = self._read(group, request)
        return answers

    def _answer(
        self,
        old: tuple[_Group, Mapping[int, Value]],
        new: tuple[_Group, Mapping[int, Value]],
        rows: Mapping[int, Weighted],
        answer_change: Weighted,
    ) -> None:
        """What a touched key changes in the answer."""
        linear = self.node.linear
        if linear is not None and _alike(old[1], new[1]):
            for value, weight in rows.get(linear, _NOTHING):
                self._emit(new, {linear: Bag([value])}, weight, answer_change)
            return
        if old[0].is_there:
            self._emit(old, self._bags(old[0], {}), -1, answer_change)
        if new[0].is_there:
            self._emit(new, self._bags(new[0], rows), 1, answer_change)

    def _bags(self, group: _Group, change: Mapping[int, Weighted]) -> dict[int, Bag]:
        """The rows of the sides that the answer reads."""
        return {side: self._rows(group, side, change) for side in self.node.used}

    def _rows(self, group: _Group, side: int, change: Mapping[int, Weighted]) -> Bag:
        """The rows of a side, with a change that is not remembered yet."""
        rows = group.rows.get(side, _NOTHING)
        self.work.read += len(rows)
        if side in change:
            rows = rows.copy()
            rows.merge(narrow_rows(change[side], self.node.columns[side]))
        return rows.bag()

    def _emit(
        self,
        asked: tuple[_Group, Mapping[int, Value]],
        bags: Mapping[int, Bag],
        times: int,
        answer_change: Weighted,
    ) -> None:
        group, values = asked
        known = {number: v for number, v in values.items() if not isinstance(v, _Failed)}
        env = self._env(group.key, bags).extend(known)
        try:
            rows = evaluate(self.node.body, env)
        except KeyError:
            for value in values.values():
                if isinstance(value, _Failed):
                    raise value.error from None
            raise
        for row in rows or ():
            answer_change.add(row, times)

    def _env(self, key: Value, bags: Mapping[int, Bag]) -> Environment:
        """The group as a value; sides that are not given are empty."""
        sides = tuple(bags.get(side, Bag()) for side in range(len(self.node.inputs)))
        group = (key, sides[0] if len(sides) == 1 else sides)
        return self.env.bind(self.node.group, group)

    # --- remembering -----------------------------------------------------------------------------

    def commit(self) -> None:
        """Remember the touched groups; a key without rows leaves."""
        pending, self._pending = self._pending, []
        if self.node.is_final:
            return
        for identity, after, rows in pending:
            if after.is_there:
                self._keep(identity, after, rows)
            else:
                self.groups.pop(identity, None)

    def _keep(self, identity: bytes, after: _Group, rows: Mapping[int, Weighted]) -> None:
        for table in after.tables:
            table.commit()
        for side in self.node.kept:
            if side in rows:
                more = narrow_rows(rows[side], self.node.columns[side])
                after.rows.setdefault(side, Weighted()).merge(more)
                if side in self.node.single:
                    check_single(after.rows[side])
        self.groups[identity] = after

    def cancel(self) -> None:
        """Be as before the last change."""
        for _, group, _ in self._pending:
            for table in group.tables:
                table.cancel()
        self._pending = []

    @property
    def value(self) -> Any:
        """By key: the multiplicities, the accumulators, the tables and the rows."""
        return {
            identity: (group.key, self._value(group)) for identity, group in self.groups.items()
        }

    def _value(self, group: _Group) -> Any:
        tables = tuple(table.weights for table in group.tables)
        rows = tuple(group.rows.get(side, _NOTHING) for side in self.node.kept)
        numbers = [
            number
            for number, accumulator in zip(group.numbers, self.node.accumulators, strict=True)
            if accumulator.distinct is None  # of the others the tables say all
        ]
        return sum(group.counts), (group.counts, tuple(numbers), tables, rows)

    @property
    def size(self) -> int:
        """The accumulators, table entries and rows of all groups, their multiplicities apart."""
        return sum(
            len(group.numbers)
            + sum(len(table.ranked) for table in group.tables)
            + sum(map(len, group.rows.values()))
            for group in self.groups.values()
        )


def _changes_by_key(
    changes: Sequence[Weighted],
) -> dict[bytes, tuple[Value, dict[int, Weighted]]]:
    """The keys that occur in changes, each with the change of every side."""
    groups: dict[bytes, tuple[Value, dict[int, Weighted]]] = {}
    for side, change in enumerate(changes):
        for identity, (key, changed) in by_key(change).items():
            groups.setdefault(identity, (key, {}))[1][side] = changed
    return groups


@dataclass(frozen=True, slots=True)
class _Failed:
    """A value that could not be had, which matters only if the answer comes to it."""

    error: DataError


def _value_or_failure(compute: Callable[[], Value]) -> Value:
    try:
        return compute()
    except DataError as error:
        return _Failed(error)


def _alike(one: Mapping[int, Value], other: Mapping[int, Value]) -> bool:
    """Whether what is asked has not changed."""
    pairs = [(value, other[number]) for number, value in one.items()]
    if any(isinstance(value, _Failed) for pair in pairs for value in pair):
        return False
    return all(encode(a) == encode(b) for a, b in pairs)
