"""Random values: of any kind, and pairs of one shape that are often close to each other."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import strategies as st

from incmrql.values import Bag, Data, LocalTime, Months, Record, Value

Values: TypeAlias = st.SearchStrategy[Any]

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
NAMES = ("A", "B", "name", "_x1", "select")
CONSTRUCTORS = {"Leaf": 0, "Node": 1, "Add": 2, "null_": 300}
ODD_FLOATS = [
    *[0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308],
    *[-1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 1e16, 1.0, -1.0],
    *[9007199254740993.0, 1e-3, 1e-5, 0.1, 1e22, 2.0**-1022, 2.0**1023, 123456789.125],
]
ODD_CHARACTERS = "\0\x01\x02\t\n\r\"\\ a~b\x7f\x85\xffé\u2028\ufffe\uffff\U00010000\U0010ffff'"


def integers() -> st.SearchStrategy[int]:
    ends = st.sampled_from([LONG_MIN, LONG_MIN + 1, LONG_MAX, 255, 256, -256])
    return st.one_of(st.integers(-2, 2), st.integers(LONG_MIN, LONG_MAX), ends)


def floats() -> st.SearchStrategy[float]:
    return st.one_of(st.sampled_from(ODD_FLOATS), st.floats())


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    """At most 38 digits, scale 0 to 38, zeros at the end included."""
    scale = draw(st.integers(0, 38))
    digits = draw(st.one_of(st.integers(-200, 200), st.integers(-(10**38) + 1, 10**38 - 1)))
    sign, *_ = Decimal(digits).as_tuple()
    return Decimal((sign, Decimal(digits).as_tuple().digits, -scale))


def texts() -> st.SearchStrategy[str]:
    return st.one_of(st.text(st.sampled_from(ODD_CHARACTERS), max_size=4), st.text(max_size=6))


def dates() -> st.SearchStrategy[date]:
    return st.one_of(st.dates(), st.dates(date(1969, 12, 30), date(1970, 1, 2)))


def timestamps() -> st.SearchStrategy[datetime]:
    zones = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30))])
    whole = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)).map(_without_fraction)
    near = st.datetimes(datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1, 0, 0, 1))
    moments = st.one_of(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), whole, near)
    return st.builds(_in_zone, moments, zones)


def local_times() -> st.SearchStrategy[LocalTime]:
    return st.one_of(st.datetimes().map(LocalTime.of), st.just(LocalTime(1970, 1, 1)))


def months() -> st.SearchStrategy[Months]:
    return st.one_of(st.integers(-14, 14), st.integers(-(2**31), 2**31 - 1)).map(Months)


def durations() -> st.SearchStrategy[timedelta]:
    micros = st.one_of(st.integers(-2, 2), st.integers(LONG_MIN, LONG_MAX))
    return micros.map(lambda count: timedelta(microseconds=count))


def binaries() -> st.SearchStrategy[bytes]:
    return st.one_of(st.binary(max_size=4), st.sampled_from([b"\0", b"\0\0", b"\0\xff", b"\xff"]))


def leaves() -> list[Values]:
    """One strategy per kind of scalar."""
    return [
        *[st.none(), st.booleans(), integers(), floats(), decimals()],
        *[texts(), dates(), timestamps()],
        *[local_times(), months(), durations(), binaries()],
    ]


def values(max_leaves: int = 12) -> Values:
    """Any value, without tuples of one component, which the language does not have."""
    return st.recursive(st.one_of(*leaves()), _grow, max_leaves=max_leaves)


def pairs() -> st.SearchStrategy[tuple[Value, Value]]:
    """Two values of one shape, small enough that they often agree for a while."""
    shapes = st.recursive(st.sampled_from(leaves()), _grow_shape, max_leaves=5)
    return shapes.flatmap(lambda shape: st.tuples(shape, shape))


def any_pairs() -> st.SearchStrategy[tuple[Value, Value]]:
    """Two values: of one shape, of any shapes, or nearly the same one."""
    return st.one_of(pairs(), st.tuples(values(5), values(5)), values(5).flatmap(_near))


def bags() -> Values:
    return st.lists(values(5), max_size=5).map(Bag)


def _grow(inner: Values) -> Values:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    content = st.one_of(inner, several, st.just(()))
    return st.one_of(
        st.one_of(several, st.just(())),
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(Bag),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), texts()), inner, max_size=3).map(Record),
        st.builds(_data, st.sampled_from(sorted(CONSTRUCTORS)), content),
    )


def _grow_shape(shapes: st.SearchStrategy[Values]) -> st.SearchStrategy[Values]:
    return st.one_of(
        st.builds(lambda a, b: st.tuples(a, b), shapes, shapes),
        shapes.map(lambda shape: st.lists(shape, max_size=3)),
        shapes.map(lambda shape: st.lists(shape, max_size=3).map(Bag)),
        st.builds(
            lambda a, b: st.builds(lambda x, y: Record({"A": x, "B": y}), a, b), shapes, shapes
        ),
        shapes.map(lambda shape: st.builds(_data, st.sampled_from(sorted(CONSTRUCTORS)), shape)),
        shapes.map(lambda shape: st.one_of(st.none(), shape)),
    )


def _near(value: Value) -> st.SearchStrategy[tuple[Value, Value]]:
    """The value beside one that is made from it."""
    neighbours = [value, (value, None), [value], [value, value], Bag([value]), Bag([value, value])]
    neighbours += [Record({"A": value}), Record({"AB": value}), Data("Leaf", 0, value)]
    return st.tuples(st.sampled_from(neighbours), st.sampled_from(neighbours))


def _data(name: str, content: Value) -> Data:
    return Data(name, CONSTRUCTORS[name], content)


def _without_fraction(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _in_zone(moment: datetime, zone: timezone | None) -> datetime:
    return moment.replace(tzinfo=zone)
