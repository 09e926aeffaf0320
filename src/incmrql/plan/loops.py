"""A loop as a program of changes of its own, and how changes go through its steps.

*Plain*: rows are those of one step.  *Numbered*: rows are pairs (step, row), and those of a step
are the difference to the step before, so that what a step does not change is not there:

    X_i  =  the sum of all rows with numbers up to i

    numbered(f, X)           (i, e) for each e in f(x), (i, x) in X
    numbered(X ⋈ Y)          (max(i, j), xy) for (i, x) in X, (j, y) in Y of one key
    numbered(groups of X)    groups by (i, key); the rows of a group are those up to i

An input of a loop has the number 0: it is the same in all steps, and kept once.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from incmrql.algebra import rows as build
from incmrql.algebra.normalize.rules.joins import at
from incmrql.algebra.rows import Names
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    element,
    pair,
)
from incmrql.algebra.walk import terms, variables_of
from incmrql.errors import InternalError
from incmrql.plan.additivity import Judge
from incmrql.plan.nodes import Edge, Given, Node, Repeated, inputs
from incmrql.plan.planner import Planning
from incmrql.reference.queries import Ending, too_long
from incmrql.types import typed
from incmrql.types.model import BOOL, LONG, Collection, Tuple, Type, bag
from incmrql.types.walk import map_children, substitute

# --- Changes through numbered steps ---
#
# With X_i the rows of a variable after i steps, what is kept of them are the differences
#
# D_0 = X_0        D_1 = f(X_0) - X_0        D_i+1 = f(X_i) - f(X_i-1)
#
# and the number of true flags of each step, as differences too.  A change of D_i goes through step
# i, whose change is that of D_i+1.  A step that nothing reaches costs nothing.
#
#   limit n             the answer is X_n
#   nothing changes     the answer is X_m with D_m+1 empty; then all later ones are
#   no flag is true     the answer is X_m with no true flag in the step that made it: when m
#                       grows, the steps from the old m on are run with all of D_m; when it
#                       shrinks, the steps from the new m on are forgotten


T = TypeVar("T", bound=Sized)


class Machine(Protocol[T]):
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
class Course(Generic[T]):
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
    machine: Machine[T], ending: Ending, flags: dict[int, int], stop: int | None
) -> Course[T]:
    """One batch of a loop that had these flags and ran so many steps; None: it never ran."""
    if any(ending.flagged):
        return _drive_by_flags(machine, ending, flags, stop)
    course: Course[T] = Course()
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


def _run_step(machine: Machine[T], course: Course[T], number: int, changes: Sequence[T]) -> list[T]:
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
    machine: Machine[T], ending: Ending, flags: dict[int, int], stop: int | None
) -> Course[T]:
    course: Course[T] = Course()
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


def _change_of_answer(machine: Machine[T], course: Course[T], known: int) -> list[T]:
    """The change of the answer: from X of the old stop to X of the new one."""
    del course.differences[course.stop + 1 :]
    parts = list(course.differences)
    for number in range(course.stop + 1, known + 1):
        gone = list(map(machine.negative, machine.differences(number)))
        parts.append(gone)
        course.differences.append(gone)
    return machine.sums(parts)


# --- Programs of a loop ---


Iterate: TypeAlias = Literal["default", "exact", "recompute", "diffuse"]
"""How loops are kept."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """How loops are kept, and when one that diffuses is run again.

    That is when the figure of its error passes `tolerance` times the sum of the sizes of its
    values, and after `resync` batches.
    """

    way: Iterate = "default"
    tolerance: float | None = None
    resync: int | None = None


@dataclass(frozen=True, slots=True)
class Looping:
    """The nodes of a loop, by their places.

    `inputs` and `variables` are given, in the order of the loop's; `initial` has the rows of the
    variables before the first step, `step` those after a step, and `flags` a row for each that
    says that the loop goes on (None for a variable without flags).
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    inputs: tuple[int, ...]
    variables: tuple[int, ...]
    initial: tuple[int, ...]
    step: tuple[int, ...]
    flags: tuple[int | None, ...]

    @property
    def moving(self) -> frozenset[int]:
        """The variables, and all nodes whose rows depend on them."""
        found = set(self.variables)
        for place, node in enumerate(self.nodes):
            if found.intersection(inputs(node)):
                found.add(place)
        return frozenset(found)

    @property
    def repeated(self) -> tuple[int, ...]:
        """The nodes that are run again in each step of the loop."""
        return tuple(sorted(self.moving.difference(self.variables)))

    @property
    def fixed(self) -> tuple[int, ...]:
        """The nodes whose rows are the same in all steps."""
        moving = self.moving
        return tuple(place for place in range(len(self.nodes)) if place not in moving)


def step_program(node: Repeated, script: typed.Script) -> Looping:
    """The program of one step."""
    names = _names(node)
    term = node.term
    step, flags = _flagless(term, term.step, names)
    return _plan(node, term.initial, step, flags, script)


def numbered_program(node: Repeated, script: typed.Script) -> Looping | str:
    """The program of all steps, over rows with the numbers of steps; or why there is none."""
    reason = why_not(node)
    if reason:
        return reason
    term = node.term
    names = _names(node)
    step, flags = _flagless(term, term.step, names)
    numbering = _Numbering(names)
    initial = [numbering.term(each) for each in term.initial]
    numbered_flags = [None if each is None else numbering.term(each) for each in flags]
    return _plan(
        node, initial, [numbering.term(each) for each in step], numbered_flags, script, tagged=True
    )


def why_not(node: Repeated) -> str:
    """Why a loop has no numbered program; nothing if it has one."""
    term = node.term
    for each in (t for whole in (*term.initial, *term.step) for t in terms(whole)):
        if isinstance(each, Sort):
            return "rows are taken by their order in each step"
        if isinstance(each, Repeat):
            return "there is another loop inside of it"
    return ""


def _names(node: Repeated) -> Names:
    found = [*node.variables, *variables_of(node.term)]
    return Names(max((variable.number for variable in found), default=0))


def _flagless(
    loop: Repeat, step: Sequence[Term], names: Names
) -> tuple[list[Term], list[Term | None]]:
    """The rows of a step without flags, and the flags that are true."""
    rows: list[Term] = []
    flags: list[Term | None] = []
    for term, flagged in zip(step, loop.flagged, strict=True):
        if not flagged:
            rows.append(term)
            flags.append(None)
            continue
        one, other = (names.variable("flagged", element(term)) for _ in range(2))
        rows.append(CMap(one, build.bag_of(build.item(build.var(one), 0)), term))
        goes_on = build.item(build.var(other), 1)
        flags.append(CMap(other, build.when(goes_on, build.bag_of(build.unit())), term))
    return rows, flags


def _plan(
    node: Repeated,
    initial: Sequence[Term],
    step: Sequence[Term],
    flags: Sequence[Term | None],
    script: typed.Script,
    *,
    tagged: bool = False,
) -> Looping:
    asked = [*initial, *step, *[each for each in flags if each is not None]]
    none = typed.Const(None, type=Tuple(()))
    parts = tuple(
        (typed.Variable("part", place, bag(element(term))), term)
        for place, term in enumerate(asked)
    )
    planning = Planning(Query(parts, none), script)
    planning.names = Names(max(planning.names.last, _names(node).last))
    inputs, variables = [], []
    for variable in node.variables:
        inputs.append(planning.add(Given(_element(variable.type))))
        planning.shared[variable] = inputs[-1]
    for variable in node.term.variables:
        known = _numbered(variable) if tagged else variable
        variables.append(planning.add(Given(_element(known.type))))
        planning.given[known] = variables[-1]
    for term in asked:
        planning.enter(term)
    return Looping(
        inputs=tuple(inputs),
        variables=tuple(variables),
        initial=tuple(map(planning.place, initial)),
        step=tuple(map(planning.place, step)),
        flags=tuple(None if each is None else planning.place(each) for each in flags),
        nodes=tuple(planning.nodes),
        edges=tuple(planning.edges),
    )


class _Numbering:
    """Terms over pairs (step, row)."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def term(self, term: Term) -> Term:
        """The same term with the numbers of steps."""
        match term:
            case Shared() | Values():
                row = self.names.variable("row", element(term))
                return CMap(
                    row, build.bag_of(_with_number(typed.Const(0, type=LONG), build.var(row))), term
                )
            case Loop(variable):
                return Loop(_numbered(variable))
            case CMap(variable, body, (GroupBy() | CoGroup()) as groups):
                return self.grouped(variable, body, groups)
            case GroupBy() | CoGroup():
                group = self.names.variable("group", element(term))
                return self.grouped(group, build.bag_of(build.var(group)), term)
            case CMap(variable, body, source):
                row = self.names.variable("numbered", _pair(element(source)))
                step, value = _parts(build.var(row))
                inner = _simple(substitute(body, {variable: value}))
                return CMap(row, self.each(step, inner), self.term(source))
            case Union(parts):
                return Union(tuple(map(self.term, parts)))
            case Scan() | Sort() | Repeat():
                raise InternalError("a term that has no numbers")

    def each(self, step: typed.Expr, rows: typed.Expr) -> typed.Expr:
        """The elements of a bag, each with a number."""
        match rows:
            case typed.MakeCollection((row,)):
                return build.bag_of(_with_number(step, row))
            case typed.MakeCollection(()):
                return build.empty(_pair(_element(rows.type)))
            case typed.If(condition, then, typed.MakeCollection(())):
                return build.when(condition, self.each(step, then))
            case _:
                one = self.names.variable("one", _element(rows.type))
                return build.for_each(one, rows, _with_number(step, build.var(one)))

    def grouped(self, group: typed.Variable, body: typed.Expr, groups: GroupBy | CoGroup) -> Term:
        """A function of groups: a join keeps numbers beside rows, others group by them."""
        below = (groups.source,) if isinstance(groups, GroupBy) else (groups.left, groups.right)
        sides = Judge(group, len(below)).additive(body)
        if sides is not None and len(sides) == 2:
            return self.joined(group, body, below)
        inner = [self.by_step(each) for each in below]
        fresh: Term = GroupBy(inner[0]) if len(inner) == 1 else CoGroup(inner[0], inner[1])
        whole = self.names.variable("group", element(fresh))
        step, key = _parts(at(whole, (0,)))
        known = build.tuple_of(key, at(whole, (1,)))
        return CMap(whole, self.each(step, _simple(substitute(body, {group: known}))), fresh)

    def by_step(self, source: Term) -> Term:
        """Pairs ((step, key), value)."""
        row = self.names.variable("numbered", _pair(element(source)))
        step, both = _parts(build.var(row))
        key, value = _parts(both)
        body = build.bag_of(build.tuple_of(_with_number(step, key), value))
        return CMap(row, body, self.term(source))

    def joined(self, group: typed.Variable, body: typed.Expr, below: Sequence[Term]) -> Term:
        """Pairs of rows, with the greater number."""
        sides = [self.by_key(each) for each in below]
        whole = self.names.variable("group", element(CoGroup(*sides)))
        one, other = (self.names.variable("side", pair(each)[1]) for each in sides)
        (left, first), (right, second) = _parts(build.var(one)), _parts(build.var(other))
        later = typed.Compare(">", left, right, type=BOOL)
        step = typed.If(later, left, right, type=LONG)
        rows = build.tuple_of(build.bag_of(first), build.bag_of(second))
        inner = _simple(substitute(body, {group: build.tuple_of(at(whole, (0,)), rows)}))
        made = self.names.variable("made", _element(body.type))
        qualifiers = [
            typed.Generator(typed.Bind(one), at(whole, (1, 0))),
            typed.Generator(typed.Bind(other), at(whole, (1, 1))),
            typed.Generator(typed.Bind(made), inner),
        ]
        head = _with_number(step, build.var(made))
        return CMap(whole, build.select(head, qualifiers), CoGroup(*sides))

    def by_key(self, source: Term) -> Term:
        """Pairs (key, (step, value))."""
        row = self.names.variable("numbered", _pair(element(source)))
        step, both = _parts(build.var(row))
        key, value = _parts(both)
        body = build.bag_of(build.tuple_of(key, _with_number(step, value)))
        return CMap(row, body, self.term(source))


def _numbered(variable: typed.Variable) -> typed.Variable:
    """A variable of a loop whose rows have numbers."""
    return typed.Variable(variable.name, variable.number, bag(_pair(_element(variable.type))))


def _with_number(step: typed.Expr, row: typed.Expr) -> typed.Expr:
    return build.tuple_of(step, row)


def _parts(both: typed.Expr) -> tuple[typed.Expr, typed.Expr]:
    return build.item(both, 0), build.item(both, 1)


def _pair(row: Type) -> Type:
    return Tuple((LONG, row))


def _element(type_: Type) -> Type:
    if not isinstance(type_, Collection):
        raise InternalError(f"{type_} is not a collection")
    return type_.element


def _simple(expr: typed.Expr) -> typed.Expr:
    """Components of tuples that are made on the spot, taken at once."""
    expr = map_children(_simple, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case _:
            return expr
