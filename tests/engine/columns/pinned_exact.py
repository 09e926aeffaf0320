"""exp, log, pow, sin, ... to 45 digits and more: by the decimal module, by series of integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

_EXPONENTS = 10**6


def _context(digits: int) -> Context:
    return Context(prec=digits, Emax=_EXPONENTS, Emin=-_EXPONENTS)


def exact_exp(x: float) -> float:
    return float(_context(45).exp(Decimal(x)))


def exact_log(x: float) -> float:
    return float(_context(45).ln(Decimal(x)))


def exact_pow(x: float, y: float) -> float:
    """By logarithms with digits to spare; by fractions where the power is one of few digits."""
    if y == int(y) and 0 < y < 60:
        power = Fraction(x) ** int(y)
        return power.numerator / power.denominator
    wide = _context(80)
    return float(wide.exp(wide.multiply(Decimal(y), wide.ln(Decimal(x)))))


class Circle:
    """Trigonometry in integers that stand for multiples of 2**-bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.one = 1 << bits
        # Euler: pi = 20 atan(1/7) + 8 atan(3/79)
        self.pi = 20 * self._small_atan(self.one // 7) + 8 * self._small_atan(3 * self.one // 79)

    def sin(self, x: float) -> float:
        return self._series(self._angle(x), 1) / self.one

    def cos(self, x: float) -> float:
        return self._series(self._angle(x), 0) / self.one

    def tan(self, x: float) -> float:
        angle = self._angle(x)
        return self._series(angle, 1) / self._series(angle, 0)

    def atan(self, x: float) -> float:
        return self._atan(self._to_fixed_point(x)) / self.one

    def asin(self, x: float) -> float:
        if abs(x) == 1:
            return math.copysign(self.pi / (2 * self.one), x)
        fixed = self._to_fixed_point(x)
        cosine = math.isqrt(self.one * self.one - fixed * fixed)
        return self._atan((fixed << self.bits) // cosine) / self.one

    def acos(self, x: float) -> float:
        if x == -1:
            return self.pi / self.one
        fixed = self._to_fixed_point(x)
        ratio = ((self.one - fixed) << 2 * self.bits) // (self.one + fixed)
        return 2 * self._atan(math.isqrt(ratio)) / self.one

    def _to_fixed_point(self, x: float) -> int:
        numerator, denominator = x.as_integer_ratio()
        return (numerator << self.bits) // denominator

    def _angle(self, x: float) -> int:
        """x without whole turns."""
        fixed = self._to_fixed_point(x)
        turns = (fixed + self.pi) // (2 * self.pi)
        return fixed - turns * 2 * self.pi

    def _series(self, x: int, n: int) -> int:
        """The sine, for n = 1, or the cosine, for n = 0."""
        total, term = 0, x if n else self.one
        square = x * x >> self.bits
        while term not in (0, -1):
            total += term
            term = -(term * square >> self.bits) // ((n + 1) * (n + 2))
            n += 2
        return total

    def _atan(self, x: int) -> int:
        """By halving the angle till the series is short."""
        for _ in range(10):
            x = (x << self.bits) // (self.one + math.isqrt(self.one * self.one + x * x))
        return self._small_atan(x) << 10

    def _small_atan(self, x: int) -> int:
        total, power, n = 0, x, 1
        square = x * x >> self.bits
        while power not in (0, -1):
            total += (power // n) * (1 if n % 4 == 1 else -1)
            power = power * square >> self.bits
            n += 2
        return total


_CIRCLE = Circle(300)

EXACT: dict[str, Callable[..., float]] = {
    "exp": exact_exp,
    "log": exact_log,
    "pow": exact_pow,
    **{name: getattr(_CIRCLE, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
}
