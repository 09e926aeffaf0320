"""Odd histories for loops: values at the edges of their types, and batches that come to nothing.

They are made from a seed, many times as fast as `loops.histories`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from math import copysign, inf, isnan, nan
from random import Random
from typing import Final

from incmrql.errors import DataError
from incmrql.plan.changes import Weighted
from incmrql.plan.program import LoopMode
from incmrql.reference import from_python
from incmrql.types import typed
from incmrql.types.model import DOUBLE, LONG, STRING, Tuple, Type
from incmrql.values import Value, identical, show
from tests.plan import loops
from tests.plan.loops import ABSENT, EXACT, OTHERS, Batch, Loops

ROWS: Final[dict[str, Type]] = {**loops.ROWS, "S": Tuple((STRING, STRING))}

MIRRORED = """repeat x = {0.0} step
  select distinct n from n in (x union (select -1.0 * b from (a, b) in P, a in x))"""
PRODUCTS = """repeat x = (select (i, m) from (i, j, m) in M) step
  select (j, v * m) from (i, j, m) in M, (i, v) in x limit 3"""
QUOTIENTS = """repeat x = (select distinct m from (i, j, m) in M) step
  select distinct v / -m from v in x, (i, j, m) in M where v <= 1.0 limit 3"""
BOUNDS = """repeat x = (select (i, m, m, 0) from (i, j, m) in M) step
  select (j, min(p), max(q), count(p)) from (i, j, m) in M, (i, l, g, c) in x,
    p = l * m, q = g - m group by j limit 3"""
SPREAD = """repeat x = (select (i, m) from (i, j, m) in M) step
  select (j, variance(z)) from (i, j, m) in M, (i, v) in x, z = v + m group by j limit 3"""
SETTLING = """repeat x = (select distinct (i, m) from (i, j, m) in M) step
  select ((i, v / 2.0), v > 0.25) from (i, v) in x limit 5"""
NAMED = """repeat x = (select distinct (a, a) from (a, b) in S) step
  select (n, max(t)) from (n, t) in
    (x union (select (b, t) from (a, b) in S, (a, t) in x)) group by n"""
SPELLED = """repeat x = {""} step
  select distinct t from t in (x union (select b from (a, b) in S, a in x))"""

RANKS = """repeat r = (select distinct (n, 1.0) from n in N) step
  select (k, sum(x)) from (k, x) in ((select distinct (n, 0.15) from n in N) union
    (select (b, 0.85 * x / count(o)) from (n, x) in r, (a, b) in E,
       o = (select f from f in E where f#0 = n) where a = n)) group by k limit 8"""
HEAT = """repeat h = (select (i, sum(m)) from (i, j, m) in M group by i) step
  select (k, sum(x)) from (k, x) in ((select (i, m) from (i, j, m) in M) union
    (select (n, 0.3 * x) from (n, x) in h) union
    (select (j, 0.1 * m * x) from (n, x) in h, (i, j, m) in M where i = n)) group by k limit 6"""

LOOPS: Final = {
    **EXACT,
    **OTHERS,
    "absent": ABSENT,
    "mirrored": MIRRORED,
    "products": PRODUCTS,
    "quotients": QUOTIENTS,
    "bounds": BOUNDS,
    "spread": SPREAD,
    "settling": SETTLING,
    "named": NAMED,
    "spelled": SPELLED,
    "ranks": RANKS,
    "heat": HEAT,
}
DIFFUSED: Final = ("pagerank", "means", "products", "ranks", "heat")
"""Those that may be diffused."""
MOST_STEPS: Final = 12
"""Of a loop without a limit."""

DOUBLES: Final = (0.0, 0.0, -0.0, 1.0, 0.5, 3.25, 4.0, -2.0)
ODD_DOUBLES: Final = (nan, nan, inf, -inf, -0.0, 5e-324, -5e-324, 2.3e-308, 1e308, -1.7e308, 0.1)
ODD_LONGS: Final = (-1, -5, 2**63 - 1, -(2**63), 2**62, 2**53 + 1)
TEXTS: Final = ("", "a", "b", "A")
ODD_TEXTS: Final = ("\0", "a\0", "é", "e\u0301", "\U0001f600", "\n", " ", "null", "x" * 70)


def _value(chance: Random, type_: Type, odd: float) -> Value:
    if isinstance(type_, Tuple):
        return tuple([_value(chance, item, odd) for item in type_.items])
    is_odd = chance.random() < odd
    if is_odd and chance.random() < 0.4:
        return None
    if type_ == DOUBLE:
        return chance.choice(ODD_DOUBLES if is_odd else DOUBLES)
    if type_ == STRING:
        return chance.choice(ODD_TEXTS if is_odd else TEXTS)
    return chance.choice(ODD_LONGS) if is_odd else chance.randrange(5)


def history(chance: Random, names: Collection[str], most: int = 6) -> list[Batch]:
    """Batches that bring and take rows, of values that are odd now and then."""
    odd = chance.choice((0.0, 0.15, 0.15, 0.4))
    there: dict[str, list[Value]] = {name: [] for name in names}
    gone: dict[str, list[Value]] = {name: [] for name in names}
    batches: list[Batch] = []
    for _ in range(chance.randrange(2, most + 1)):
        kind = chance.choice(("some", "some", "some", "all", "back", "twice", "passing", "none"))
        batch: Batch = {}
        for name in sorted(names):
            batch[name] = _changes(chance, kind, ROWS[name], odd, there[name], gone[name])
        batches.append(batch)
    return batches


def _changes(
    chance: Random, kind: str, type_: Type, odd: float, there: list[Value], gone: list[Value]
) -> list[tuple[Value, int]]:
    taken: list[Value] = []
    fresh: list[Value] = []
    match kind:
        case "some":
            fresh = [_value(chance, type_, odd) for _ in range(chance.randrange(5))]
            taken = chance.sample(there, chance.randrange(min(3, len(there) + 1)))
        case "all":
            taken = list(there)
        case "back":
            fresh, gone[:] = list(gone), []
        case "twice":
            fresh = chance.sample(there, chance.randrange(min(4, len(there) + 1)))
        case "passing":
            both = [_value(chance, type_, odd) for _ in range(chance.randrange(1, 4))]
            return [*[(row, 1) for row in both], *[(row, -1) for row in both]]
        case _:
            pass
    for row in taken:
        there.remove(row)
    there += fresh
    gone += taken
    changes = [*[(row, -1) for row in taken], *[(row, 1) for row in fresh]]
    chance.shuffle(changes)
    return changes


def canonical(batch: Batch) -> Batch:
    """A batch as a source reads it: with one zero and one NaN."""
    return {
        name: [(from_python(row, ROWS[name]), weight) for row, weight in rows]
        for name, rows in batch.items()
    }


def marks(batch: Batch) -> Counter[str]:
    """What is odd in a batch."""
    counts: Counter[str] = Counter()
    if not any(batch.values()):
        counts["nothing"] += 1
    for rows in batch.values():
        for row, _ in rows:
            for value in row if isinstance(row, tuple) else (row,):
                if value is None:
                    counts["null"] += 1
                elif isinstance(value, float) and isnan(value):
                    counts["nan"] += 1
                elif value == 0 and isinstance(value, float) and copysign(1.0, value) < 0:
                    counts["-0.0"] += 1
    return counts


def outcome(run: Callable[[], Value]) -> Value:
    """What something gives, or how it fails."""
    try:
        return run()
    except DataError as problem:
        return problem.code


def attempt(loop: Loops, batch: Batch, run: Callable[[], Value]) -> bool:
    """A batch that `run` answers as the batch loop does; or both fail, and the data stays."""
    before = {name: rows.copy() for name, rows in loop.data.items()}
    for name, rows in canonical(batch).items():
        loop.data[name].merge(Weighted(rows))
    expected, got = outcome(loop.evaluator_answer), outcome(run)
    assert identical(expected, got), f"{loop.text}\n{batch}\n{show(expected)}\n{show(got)}"
    if not isinstance(expected, str):
        return True
    loop.data = before
    return False


def odd_loop(name: str, iterate: LoopMode) -> Loops:
    """One of the loops."""
    return Loops(LOOPS[name], iterate, ROWS, MOST_STEPS)


# --- loops that fail ---------------------------------------------------------------------------


def _refuse_unlucky(number: int) -> int:
    if number == UNLUCKY:
        raise ValueError("unlucky")
    return number


UNLUCKY: Final = 13
FUNCTIONS: Final = {"checked": typed.PythonFunction("checked", (LONG,), LONG, _refuse_unlucky)}
CHECKED = """repeat x = {1} step
  select distinct n from n in (x union (select checked(b) from (a, b) in E, a in x))"""

FAILING: Final[dict[str, tuple[str, list[Batch], Batch, Batch]]] = {
    "endless": (
        EXACT["shortest"],
        [{"W": [((1, 2, 3), 1), ((2, 3, 1), 1)]}, {"W": [((1, 4, 1), 1), ((2, 3, 1), -1)]}],
        {"W": [((4, 1, -2), 1), ((4, 5, 1), 1)]},
        {"W": [((4, 5, 1), 1), ((2, 3, 2), 1), ((1, 4, 1), -1)]},
    ),
    "flagged": (
        EXACT["countdown"],
        [{"N": [(2, 1), (None, 1)]}, {"N": [(3, 1)]}],
        {"N": [(40, 1), (2, -1)]},
        {"N": [(4, 1), (3, -1)]},
    ),
    "raising": (
        CHECKED,
        [{"E": [((1, 2), 1), ((2, 3), 1)]}, {"E": [((3, 4), 1), ((1, 2), -1), ((1, 3), 1)]}],
        {"E": [((4, 5), 1), ((5, UNLUCKY), 1), ((1, 3), -1), ((1, 4), 1)]},
        {"E": [((4, 5), 1), ((1, 3), -1), ((1, 2), 1)]},
    ),
}
"""Loops that fail at a batch after some others; and a batch instead of it."""


def failing_loop(name: str, iterate: LoopMode) -> Loops:
    """One of the loops that fail."""
    return Loops(FAILING[name][0], iterate, ROWS, MOST_STEPS, FUNCTIONS)
