"""What the scripts over tables should answer."""

from __future__ import annotations

import csv
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from datetime import date
from decimal import Decimal
from math import factorial, fsum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow.parquet as pq

from tests.examples.running import by_text, near, rows_after_header, table

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Employee(NamedTuple):
    name: str
    department: int | None
    salary: int
    year: int


class Department(NamedTuple):
    number: int
    name: str
    city: str


def join(answers: list[Any], data: Path) -> None:
    s1, s2 = table(data / "S1.csv", int, int), table(data / "S2.csv", int, float)
    joined = _groups(((a, d) for a, b in s1 for c, d in s2 if b == c))
    averages = by_text((a, fsum(ds) / len(ds)) for a, ds in joined.items())
    firsts = set(s1)
    shared = _groups(
        ((a1, a2), d) for a1, b1 in firsts for a2, b2 in firsts for c, d in s2
        if a1 < a2 and b1 == b2 == c
    )  # fmt: skip
    sums = [(a1, a2, fsum(ds)) for (a1, a2), ds in shared.items()]
    best = sorted(sums, key=lambda row: (-row[2], row[:2]))[:3]
    near(answers, [averages, averages, best, by_text(joined[3])])


def group(answers: list[Any], data: Path) -> None:
    staff = _by_department(data)
    sums = [(d, len(s), sum(e.salary for e in s), max(e.year for e in s)) for d, s in staff]
    best = [
        (d, min((-e.salary, e.name) for e in s)[::-1]) for d, s in staff if len(s) > 2
    ]  # fmt: skip
    # Those in no department are a group, but their null is not counted as a department.
    hires = Counter(max(Counter(e.year for e in s).values()) for d, s in staff if d)
    spread = []
    for d, s in staff:
        salaries = [e.salary for e in s]
        quartile = float(np.percentile(salaries, 75))
        middle = float(statistics.median(salaries))
        spread.append((d, middle, quartile, statistics.stdev(salaries)))
    named = [(d, (name, -salary)) for d, (name, salary) in best]
    near(answers, [sums, named, sorted(hires.items()), spread])


def quantifiers(answers: list[Any], data: Path) -> None:
    employees, departments = _employees(data), _departments(data)
    staff = {d: [e for e in employees if e.department == d.number] for d in departments}
    numbers = {d.number for d in departments}
    bergen = {d.number for d in departments if d.city == "Bergen"}
    hired = _groups((e.year, e.department) for e in employees)
    recent = {e.department for e in employees if e.year >= 2020}
    near(
        answers,
        [
            by_text(d.name for d, s in staff.items() if any(e.salary > 80000 for e in s)),
            by_text(d.name for d, s in staff.items() if all(e.salary >= 35000 for e in s)),
            by_text(d.name for d, s in staff.items() if not s),
            by_text(e.name for e in employees if e.department not in numbers),
            (max(e.salary for e in employees) > 89000, min(e.year for e in employees) >= 2010),
            by_text(year for year, towns in hired.items() if bergen <= set(towns)),
            by_text({d.city for d in departments if d.number in recent}),
        ],
    )


def nested(answers: list[Any], data: Path) -> None:
    employees, departments = _employees(data), _departments(data)
    staff = {d: [e for e in employees if e.department == d.number] for d in departments}
    members = by_text({"name": d.name, "staff": [e.name for e in s]} for d, s in staff.items())
    # Who is in no department has no colleagues there either: null equals nothing.
    above = [
        (e.name, e.salary) for s in staff.values() for e in s
        if e.salary > statistics.mean(o.salary for o in s)
    ]  # fmt: skip
    paid, before = [], 0
    for d, s in _by_department(data):
        total = sum(e.salary for e in s)
        if d is None or total > before:
            paid.append((d, total))
        before += total if d is not None else 0
    newest = {
        d: [e.name for e in s if e.year == max(o.year for o in s)] for d, s in staff.items()
    }  # fmt: skip
    cities = _groups((d.city, (d.name, names)) for d, names in newest.items())
    biggest = sorted(departments, key=lambda d: (-len(staff[d]), d.name))
    near(
        answers,
        [
            members,
            sorted(above),
            paid,
            by_text((city, by_text(names)) for city, names in cities.items()),
            [d.name for d in biggest],
        ],
    )


def aggregation(answers: list[Any], data: Path) -> None:
    spans = [
        (d, _span(e.salary for e in s), len({e.year for e in s})) for d, s in _by_department(data)
    ]
    whole = _span(e.salary for e in _employees(data))
    near(answers, [factorial(10), 1, spans, whole])


def report(answers: list[Any], data: Path) -> None:
    sales = _sales(data / "sales.csv")
    assert len(sales) == 48
    monthly = _groups(((day.month, city), price) for day, city, _, price in sales)
    rows = [[str(m), c, str(len(ps)), str(sum(ps))] for (m, c), ps in sorted(monthly.items())]
    written = list(csv.reader(Path("report.csv").read_text().splitlines()))
    assert written == [["month", "city", "sales", "total"], *rows]
    cities = _groups((item, city) for _, city, item, _ in sales)
    documents = [json.loads(line) for line in Path("report.json").read_text().splitlines()]
    assert documents == [{"item": i, "cities": sorted(set(cs))} for i, cs in sorted(cities.items())]
    stored = [tuple(row.values()) for row in pq.read_table("sales.parquet").to_pylist()]
    assert Counter(stored) == Counter(sales)
    prices = _groups((item, price) for _, _, item, price in sales)
    near(answers, [True, by_text((item, max(seen)) for item, seen in prices.items())])


def _sales(path: Path) -> list[tuple[date, str, str, Decimal]]:
    """The lines that are sales."""
    with path.open(newline="") as file:
        lines = list(csv.reader(file))[1:]
    good = [line for line in lines if line[0] != "2026-02-30" and line[3] != "cheap"]
    return [(date.fromisoformat(d), city, item, Decimal(price)) for d, city, item, price in good]


def _span(values: Iterable[int]) -> dict[str, int]:
    all_values = list(values)
    return {"low": min(all_values), "high": max(all_values)}


def _employees(data: Path) -> list[Employee]:
    return [Employee(*row) for row in rows_after_header(data / "employees.csv", str, int, int, int)]


def _departments(data: Path) -> list[Department]:
    return [Department(*row) for row in rows_after_header(data / "departments.csv", int, str, str)]


def _by_department(data: Path) -> list[tuple[int | None, list[Employee]]]:
    """The departments by number, those in none first."""
    by_department = _groups((e.department, e) for e in _employees(data))
    return sorted(by_department.items(), key=lambda pair: pair[0] or 0)


def _groups(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    groups: defaultdict[Key, list[Item]] = defaultdict(list)
    for key, item in pairs:
        groups[key].append(item)
    return dict(groups)


CHECKS: dict[str, Callable[[list[Any], Path], None]] = {
    check.__name__: check
    for check in (join, group, quantifiers, nested, aggregation, report)
}  # fmt: skip
