"""Rules broken on purpose, one at a time: `python -m tests.plan.mutants`.

A mutant replaces a piece of one function's text, and a test must fail for it.  The function is
compiled anew in its module, and put wherever the old one was imported to; afterwards all is as
before.  A piece that is not there exactly once is an error: the list follows the code.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import pytest

from incmrql.syntax.depth import deep_recursion
from tests.algebra.check import install

Check = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule, how it is broken, and the tests that should notice, by module, name and arguments."""

    rule: str
    place: str
    """`module:function` or `module:Class.function` under `incmrql.plan`, or `oracle.…`."""
    old: str
    new: str
    tests: tuple[tuple[str, str, tuple[Any, ...]], ...]

    def __str__(self) -> str:
        return self.rule


def shape_tests(*shapes: str) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    """Tests of named shapes through the fixed history."""
    test = "test_a_shape_that_was_wrong_or_refused"
    return tuple(("test_shapes_named", test, (shape,)) for shape in shapes)


def stepper(*names: str) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    return tuple(("test_stepper", name, ()) for name in names)


def plan(name: str, *args: Any) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    return (("test_plan", name, args),)


def pair_tests(*pairs: tuple[str, str]) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    """One shape over another, through histories of all traits."""
    return tuple(("mutants", "check_pair", pair) for pair in pairs)


def laws(name: str) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    return (("test_laws", name, ()),)


def check_pair(top: str, below: str) -> None:
    """A shape over another, all traits."""
    from random import Random

    from tests.generators.stacked import over
    from tests.plan.seeded import EVERY
    from tests.plan.stepping import ALL, Run
    from tests.plan.test_coverage import step_through

    chance = Random(f"{top} over {below}")
    run = Run(over(top, below))
    for _ in range(3):
        for traits in EVERY:
            step_through(run, ALL, traits, chance)


def check_text(text: str) -> None:
    """A query through the fixed history."""
    from tests.plan.stepping import Run
    from tests.plan.test_shapes_named import HISTORY

    run = Run(text)
    for batch in HISTORY:
        run.step(batch)


JOIN, GROUPS, ORDERED = (
    "oracle.states.base:JoinState",
    "oracle.states.groups:GroupsState",
    "oracle.states.ordered:OrderedState",
)

MUTANTS: tuple[Mutant, ...] = (
    # --- weighted bags
    Mutant("weights add up", "changes:Weighted.add",
           "total = weight + self.weight(key)", "total = weight",
           laws("test_weights_add_up_and_rows_of_weight_0_leave")),
    Mutant("a row of weight 0 is not there", "changes:Weighted.add",
           "self.rows.pop(key, None)", "self.rows[key] = (value, 0)",
           laws("test_weights_add_up_and_rows_of_weight_0_leave")),
    Mutant("a bag is taken away with its weights", "changes:Weighted.merge",
           "weight * times", "weight",
           shape_tests("order by + limit")),
    Mutant("rows of a key are those of equal bytes", "oracle.changes:by_key",
           "encode(key)", "repr(type(key)).encode()",
           shape_tests("join + group by")),
    # --- linear
    Mutant("a map keeps the weight of its row", "oracle.states.base:LinearState.advance",
           "result.add(row, weight)", "result.add(row, 1)",
           shape_tests("filter without group by")),
    Mutant("a union has the rows of all parts", "oracle.states.base:MergeState.advance",
           "for change in changes:", "for change in changes[:1]:",
           shape_tests("group by over a union")),
    # --- bilinear
    Mutant("changes of both sides meet each other", f"{JOIN}.advance",
           "if identity in right:", "if False:",
           shape_tests("self-join")),
    Mutant("a change of the left meets the right before it", f"{JOIN}.advance",
           "self._meet(key, rows, self._rows_of_key(1, identity), change)", "pass",
           shape_tests("plain join", "self-join")),
    Mutant("a change of the right meets the left before it", f"{JOIN}.advance",
           "self._meet(key, self._rows_of_key(0, identity), rows, change)", "pass",
           stepper("test_a_partner_that_comes_alone_meets_the_rows_before_it")),
    Mutant("weights of pairs multiply", f"{JOIN}._meet",
           "times * weight", "times + weight",
           shape_tests("plain join")),
    Mutant("both sides of a join are kept", f"{JOIN}.commit",
           "for side in self.node.kept:", "for side in self.node.kept[:1]:",
           shape_tests("plain join")),
    Mutant("nothing is kept of rows that are gone", f"{JOIN}.commit",
           "if not known:", "if False:",
           laws("test_a_join_forgets_the_keys_that_are_gone")),
    # --- groups
    Mutant("the old answer is taken away", f"{GROUPS}._answer",
           "if old[0].is_there:", "if False:",
           shape_tests("join + group by")),
    Mutant("the new answer is given", f"{GROUPS}._answer",
           "if new[0].is_there:", "if False:",
           shape_tests("join + group by")),
    Mutant("the old answer has the old weight -1", f"{GROUPS}._answer",
           "self._bags(old[0], {}), -1, answer_change",
           "self._bags(old[0], {}), 1, answer_change",
           shape_tests("having")),
    Mutant("a group is there while it has a row", "oracle.states.groups:_Group.is_there",
           "any(self.counts)", "any(self.numbers)",
           stepper("test_a_group_stays_while_it_has_a_row_whatever_its_sum")),
    Mutant("a key without rows leaves", f"{GROUPS}.commit",
           "self.groups.pop(identity, None)", "self._keep(identity, after, rows)",
           (("test_plan", "test_nothing_is_kept_of_rows_that_are_gone",
             ("select (k, avg(x.C)) from x in R group by k: x.A",)),)),
    Mutant("row by row only while what is asked stays", "oracle.states.groups:_alike",
           "all(encode(a) == encode(b) for a, b in pairs)", "True",
           shape_tests("exists over a stream", "correlated sub-query")),
    Mutant("row by row goes with the weight", f"{GROUPS}._answer",
           "self._emit(new, {linear: Bag([value])}, weight, answer_change)",
           "self._emit(new, {linear: Bag([value])}, 1, answer_change)",
           shape_tests("exists over a stream")),
    Mutant("the rows of a touched group have its change", f"{GROUPS}._rows",
           "rows.merge(narrow_rows(change[side], self.node.columns[side]))", "pass",
           (("mutants", "check_text", ("select (k, x) from x in R group by k: x.A",)),
            *pair_tests(("nested", "R"), ("intersect", "R")))),
    Mutant("what takes all rows is computed again when they change", f"{GROUPS}._recompute_answers",
           "if request.side not in change:", "if True:",
           pair_tests(("pairs of a group", "R"), ("look-up", "R"), ("choice", "R"))),
    Mutant("multiplicities add up", f"{GROUPS}._after",
           "count + rows.get(side, _NOTHING).total", "rows.get(side, _NOTHING).total",
           shape_tests("having")),
    # --- accumulators and monoids
    Mutant("a deletion adds the inverse", "oracle.sums:_scale",
           "number * weight", "number",
           stepper("test_the_average_of_what_is_left") + shape_tests("having")),
    Mutant("exact sums scale too", "oracle.sums:_scale",
           "number.scaled(weight)", "number",
           stepper("test_float_sums_forget_what_was_deleted")),
    Mutant("null is no element", "oracle.sums:add_elements",
           'element is not None or accumulator.kind == "rows"', "True",
           shape_tests("total aggregates", "join + group by")),
    Mutant("a square is a square", "oracle.sums:_one",
           "Fraction(element) ** 2", "Fraction(element) * 2",
           pair_tests(("spread", "R"))),
    Mutant("all counts the falses", "oracle.sums:_one",
           "int(not element)", "int(element)",
           (("mutants", "check_text",
             ("select (k, all(b)) from x in R, b = x.B > 1 group by k: x.A",)),)),
    Mutant("sums are exact", "oracle.sums:_one",
           "ExactSum.of(element)", "ExactSum.of(round(element, 0) if element == element "
           "and abs(element) < 1e300 else element)",
           shape_tests("join + group by")),
    # --- judgments
    Mutant("predicates count", "additivity:Additivity.additive",
           "return None if self.sides_read(condition) else self._common_sides(then, otherwise)",
           "return self._common_sides(then, otherwise)",
           (("mutants", "check_text",
             ("select (k, sum(if count(x) > 1 then x.B else x.A)) from x in R "
              "group by k: x.A",)),)),
    Mutant("no side is gone through twice", "additivity:Additivity._joint_sides",
           "if more is None or sides & more:", "if more is None:",
           (("mutants", "check_text",
             ("select (k, count(select (y, z) from y in x, z in x)) from x in R group by k: x.A",)),
            *pair_tests(("pairs of a group", "R")))),
    Mutant("the head and the conditions of a query may not read rows",
           "additivity:Additivity.additive", "if any(map(self.sides_read, rest)):", "if False:",
           pair_tests(("own group", "R"), ("inequality", "R"), ("nested", "R"), ("outer", "R"))),
    Mutant("the branches of a choice grow alike", "additivity:Additivity._common_sides",
           "return sides if sides == self.additive(right) else None", "return sides",
           (("mutants", "check_text",
             ("select (k, count(if k > 1 then x.B else {5, 6})) from x in R group by k: x.A",)),)),
    Mutant("an invariant source never grows, others do", "nodes:edge_of",
           "not source.streaming", "True",
           shape_tests("plain join", "exists over a stream")),
    Mutant("what answers with -old +new takes away", "nodes:edge_of",
           "case Ordered() | Repeated():\n            return Edge(constant, invariant, invariant)",
           "case Ordered() | Repeated():\n            return Edge(constant, invariant, grows)",
           (("test_plan", "test_what_only_grows_is_known",
             ("select x.K from x in STREAM order by x.V limit 2", "", False)),)),
    Mutant("groups take away unless their answer cannot change", "nodes:_only_grows",
           "if not node.used and not node.requests:", "if not node.used:",
           (("test_plan", "test_what_only_grows_is_known",
             ("select (k, count(x)) from x in STREAM group by k: x.K", "", False)),)),
    # --- ordered
    Mutant("the first rows before are taken away", f"{ORDERED}.advance",
           "change.merge(before, -1)", "pass",
           shape_tests("order by + limit")),
    Mutant("a limit is a limit", f"{ORDERED}._first",
           "self.ranked.weights(0, most)", "self.ranked.weights(0, most + 1)",
           shape_tests("order by + limit")),
    Mutant("descending is not ascending", "oracle.ranked:rank",
           "_Falling(encode(key)) if falls else encode(key)", "encode(key)",
           shape_tests("order by + limit", "group by + order by")),
    Mutant("ties follow the order of values", "oracle.ranked:rank",
           "return (*ranks, encode(value[1]))", "return (*ranks, b'')",
           shape_tests("order by with ties", "order by + limit")),
    Mutant("the greatest is the last", "reading:read_value",
           "table.span(count - 1, count)[0]", "table.span(0, 1)[0]",
           stepper("test_least_and_greatest_come_back_when_the_extreme_is_deleted")),
    Mutant("a different value goes when its last copy goes", "oracle.tables:TableState.change",
           "(after > 0) - (after - weight > 0)", "(weight > 0) - (weight < 0)",
           pair_tests(("median", "R"), ("median", "union"))),
    Mutant("counts of blocks say where a place is", "oracle.ranked:Ranked.weights",
           "before += weight", "before += 1",
           pair_tests(("median", "union"), ("percentile", "union"))),
    # --- the stepper
    Mutant("deleting what is not there is refused", "oracle.ledgers:Ledgers.check",
           "self._weight(place, row) < times", "False",
           plan("test_deleting_what_is_not_there_is_refused_and_changes_nothing")),
    Mutant("the ledger counts", "oracle.ledgers:Ledgers.commit",
           "self.rows.setdefault(place, Weighted()).merge(change)", "pass",
           shape_tests("filter without group by")),
    Mutant("a batch that fails changes nothing", "oracle.stepper:Stepper._undone",
           "rows.merge(change, -1)", "pass",
           laws("test_an_answer_that_cannot_be_had_leaves_the_one_before")),
    Mutant("constants and static sources come once", "oracle.stepper:Stepper._first",
           "if self.batches:", "if False:",
           shape_tests("a join of a stream with a static source")),
    Mutant("totals are there from the first batch on", "oracle.stepper:Stepper._first",
           "Weighted((row, 1) for row in evaluate(expr, self.env) or ())", "Weighted()",
           stepper("test_totals_have_their_value_from_the_first_batch_on")),
    Mutant("a loop gives back its last result", "oracle.states.base:RepeatedState.advance",
           "difference.merge(self.result, -1)", "pass",
           shape_tests("iteration (double counting)", "PageRank")),
    Mutant("a loop runs over all of its input", "oracle.states.base:RepeatedState.advance",
           "rows.merge(change)", "rows = change",
           shape_tests("iteration (double counting)", "k-means")),
)  # fmt: skip
"""Each breaks one rule of change, judgment or monoid."""


# --- making and killing them -------------------------------------------------------------------


@contextmanager
def apply_mutant(mutant: Mutant) -> Iterator[None]:
    """Replace one function of the package while the block runs."""
    module_name, _, path = mutant.place.partition(":")
    package = "tests" if module_name.startswith("oracle.") else "incmrql.plan"
    module = importlib.import_module(f"{package}.{module_name}")
    owner: Any = module
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    old = vars(owner)[name]
    new = _mutated_function(module, old, mutant)
    places = [(owner, name)] if owner is not module else list(_uses(old))
    for place, known in places:
        setattr(place, known, new)
    try:
        yield
    finally:
        for place, known in places:
            setattr(place, known, old)


def _mutated_function(module: ModuleType, old: Any, mutant: Mutant) -> Any:
    function: Any = old.fget if isinstance(old, property) else old
    text = textwrap.dedent(inspect.getsource(function))
    count = text.count(mutant.old)
    assert count == 1, f"{mutant}: {mutant.old!r} is {count} times in {mutant.place}"
    tree = ast.parse("from __future__ import annotations\n" + text.replace(mutant.old, mutant.new))
    definition = tree.body[-1]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    space: dict[str, Any] = {}
    exec(compile(tree, f"<{mutant}>", "exec"), vars(module), space)
    fresh = space[definition.name]
    assert isinstance(fresh, FunctionType)
    return property(fresh) if isinstance(old, property) else fresh


def _uses(function: object) -> Iterator[tuple[ModuleType, str]]:
    """All modules of ours that know a function, and by which name."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("incmrql", "tests.oracle")):
            for known, value in list(vars(module).items()):
                if value is function:
                    yield module, known


def checks(mutant: Mutant) -> Iterator[tuple[str, Check]]:
    """The tests of a mutant, from fresh plans."""
    for module_name, name, arguments in mutant.tests:
        module = importlib.import_module(f"tests.plan.{module_name}")
        test = getattr(module, name)
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
        words = ", ".join(map(str, arguments))
        yield (
            f"{module_name}::{name}" + (f"[{words}]" if words else ""),
            partial(test, *arguments),
        )


def failing(mutant: Mutant) -> str | None:
    """The first test that fails now."""
    with deep_recursion():
        for name, check in checks(mutant):
            try:
                check()
            except (Exception, pytest.fail.Exception):
                return name
    return None


def killer(mutant: Mutant) -> str | None:
    """The test that fails for a mutant, and for nothing else."""
    healthy = failing(mutant)
    assert healthy is None, f"{healthy} fails without any mutant"
    with apply_mutant(mutant):
        test = failing(mutant)
    list(checks(mutant))  # no plan that the mutant made is left
    return test


def main() -> int:
    install()
    start, survivors = time.monotonic(), []
    for mutant in MUTANTS:
        test = killer(mutant)
        survivors += [mutant] if test is None else []
        sys.stdout.write(f"{'killed' if test else 'ALIVE '}  {mutant}  {test or ''}\n")
    seconds = time.monotonic() - start
    sys.stdout.write(f"{len(MUTANTS)} mutants, {len(survivors)} alive, {seconds:.0f} s\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
