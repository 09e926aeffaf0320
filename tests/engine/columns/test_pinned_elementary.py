"""exp, log, pow, sin, ...: the doubles nearest to the exact values, in every binade."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from incmrql.values.elementary.functions import NAMES, elementary, elementary_scalar
from tests.engine.columns.pinned_exact import EXACT, Circle

Column = npt.NDArray[np.float64]
COUNT = 2_000
RANDOM = np.random.default_rng(20_260_813)


def uniform(low: float, high: float) -> Column:
    return RANDOM.uniform(low, high, COUNT)


def spread(low: int, high: int) -> Column:
    """Numbers of both signs with exponents from `low` to `high`."""
    return np.ldexp(uniform(-1, 1), RANDOM.integers(low, high, COUNT))


def angles() -> list[Column]:
    near = np.rint(uniform(-1e6, 1e6)) * (math.pi / 2)
    return [np.concatenate([uniform(-10, 10), uniform(-1e6, 1e6), spread(-40, 90), near])]


def units() -> list[Column]:
    near = 1 - np.abs(spread(-52, -1))
    return [np.concatenate([uniform(-1, 1), near, -near, spread(-40, 0), [1.0, -1.0, 0.5, -0.5]])]


def powers() -> list[Column]:
    whole = RANDOM.integers(1, 2**27, COUNT).astype(np.float64)
    few = RANDOM.choice([2.0, 3.0, 0.5, -1.0, -2.0, 1.5, 4.0, 0.25, 5.0], COUNT)
    bases = [np.abs(spread(-20, 20)), whole, uniform(0.9, 1.1), np.abs(spread(-1_070, 1_024))]
    return [np.concatenate(bases), np.concatenate([uniform(-30, 30), few, spread(0, 12), few])]


ARGUMENTS: dict[str, Callable[[], list[Column]]] = {
    "exp": lambda: [
        np.concatenate([uniform(-745.2, 709.8), uniform(-745.2, -708), spread(-60, 1)])
    ],
    "log": lambda: [
        np.abs(np.concatenate([spread(-1_074, 1_024), uniform(0.5, 2), 1 + spread(-50, -1)]))
    ],
    "pow": powers,
    "sin": angles,
    "cos": angles,
    "tan": angles,
    "asin": units,
    "acos": units,
    "atan": lambda: [np.concatenate([uniform(-10, 10), spread(-40, 70)])],
}


@pytest.mark.parametrize("name", NAMES)
def test_results_are_the_nearest_doubles(name: str) -> None:
    columns = ARGUMENTS[name]()
    kept = np.logical_and.reduce([column != 0 for column in columns])
    columns = [column[kept] for column in columns]
    results = elementary(name, *columns).tolist()
    wrong = []
    for *arguments, result in zip(*(column.tolist() for column in columns), results, strict=True):
        try:
            exact = EXACT[name](*arguments)
        except OverflowError:
            exact = math.inf
        if result != exact:
            wrong.append((arguments, result, exact))
    assert not wrong


def test_large_angles() -> None:
    """Up to the largest double, and the one that is nearest to a multiple of a quarter turn."""
    circle = Circle(1_300)
    large = np.abs(spread(30, 1_025))[:100].tolist()
    for x in [1e22, 1.7976931348623157e308, 6381956970095103.0 * 2.0**797, *large]:
        for name in ("sin", "cos", "tan"):
            exact = getattr(circle, name)
            assert elementary_scalar(name, x) == exact(x), (name, x)
            assert elementary_scalar(name, -x) == exact(-x), (name, -x)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pow"])
def test_what_is_not_a_number(name: str) -> None:
    defined = getattr(math, name)
    for x in (math.inf, -math.inf, math.nan, 0.0, -0.0, 2.0, -2.0, 1e300, 5e-324, -1e300):
        try:
            expected = defined(x)
        except OverflowError:
            expected = math.inf
        except ValueError:
            expected = -math.inf if name == "log" and x == 0 else math.nan
        result = elementary_scalar(name, x)
        assert result == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True), x
        assert math.copysign(1, result) == 1 or result != 0 or math.isnan(result)


def test_powers_of_the_special() -> None:
    some = [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e300, -1e300, 1e-300, 5e-324, 2.0**53,
            2.0**53 + 2, math.inf, -math.inf, math.nan]  # fmt: skip
    for x in some:
        for y in some:
            try:
                expected = math.pow(x, y)
            except OverflowError:
                expected = -math.inf if x < 0 and y % 2 == 1 else math.inf
            except ValueError:
                expected = math.inf if x == 0 else math.nan
            power = elementary_scalar("pow", x, y)
            assert power == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True), (x, y)


def test_powers_between_two_doubles_go_to_the_even_one() -> None:
    odd = [float(n) for n in range(2**26 + 1, 2**26 + 2_001, 2)]
    squares = elementary("pow", np.array(odd), np.full(len(odd), 2.0)).tolist()
    assert squares == [float(int(x) ** 2) for x in odd]
    small = 3 * 2.0**-538
    assert elementary_scalar("pow", small, 2.0) == small * small
    assert elementary_scalar("pow", 9 * 2.0**-1_074, 0.5) == 3 * 2.0**-537
