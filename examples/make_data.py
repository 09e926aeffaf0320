"""The small data files that the scripts beside this one read; always the same ones.

    python examples/make_data.py FOLDER

writes them into FOLDER.  `examples/data` holds what this program writes, so that every script
can be run at once: `incmrql run examples/kmeans.mrql examples/data`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

CITIES = ("Arlington", "Bergen", "Coimbra", "Dublin", "Essen", "Faro", "Graz", "Hilo")
WORDS = ("a", "batch", "that", "arrives", "changes", "the", "answer", "and", "with", "each")
SEED = 2017


def main(folder: Path) -> None:
    """Write every file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, make) in enumerate(FILES.items()):
        (folder / name).write_text(make(Random(SEED + number)), encoding="utf-8")


def lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows as lines of fields with commas between them."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def points(random: Random) -> str:
    """X,Y: points around four places that lie at no corners of a square."""
    places = [(2.0, 2.0), (2.5, 8.0), (8.5, 2.5), (8.0, 8.5)]
    return lines(
        (round(random.gauss(x, 0.8), 3), round(random.gauss(y, 0.8), 3)) for x, y in places * 15
    )


def links(random: Random) -> str:
    """from,to: a web of 20 pages in which every page links to another one."""
    found = {(page, (page + 1) % 20) for page in range(20)}
    while len(found) < 60:
        start, end = random.randrange(20), int(20 * random.random() ** 2)
        if start != end:
            found.add((start, end))
    return lines(sorted(found))


def roads(random: Random) -> str:
    """from,to,km: one-way roads; some junctions cannot be reached from 0."""
    found: dict[tuple[int, int], int] = {}
    while len(found) < 40:
        start, end = random.randrange(24), random.randrange(24)
        if start != end:
            found[start, end] = random.randrange(1, 40)
    return lines((start, end, km) for (start, end), km in sorted(found.items()))


def friends(random: Random) -> str:
    """Pairs of names that know each other, in several circles."""
    circles = [[f"{city[:3].lower()}{n}" for n in range(5)] for city in CITIES[:4]]
    return lines(sorted({tuple(random.sample(circle, 2)) for circle in circles for _ in range(6)}))


def matrix(rows: int, columns: int, share: float, random: Random) -> str:
    """row,column,value: a part of the cells of a matrix, none of them zero."""
    cells = [(i, j) for i in range(rows) for j in range(columns) if random.random() < share]
    return lines((i, j, random.randrange(1, 90) / 10) for i, j in cells)


def ratings(random: Random) -> str:
    """row,column,value: a full 8 by 6 matrix that is nearly a product of two thin ones."""
    left = [[random.random() for _ in range(2)] for _ in range(8)]
    right = [[random.random() for _ in range(6)] for _ in range(2)]
    return lines(
        (i, j, round(sum(left[i][k] * right[k][j] for k in range(2)) + 0.01, 3))
        for i in range(8)
        for j in range(6)
    )


def employees(random: Random) -> str:
    """name,department,salary,year: two of them in no department."""
    rows = [
        (f"e{n:02}", random.randrange(1, 6), random.randrange(30, 90) * 1000,
         random.randrange(2010, 2026))
        for n in range(28)
    ]  # fmt: skip
    return lines([("name", "department", "salary", "year"), *rows, ("e28", "", 40000, 2020),
                  ("e29", "", 52000, 2021)])  # fmt: skip


def departments(_: Random) -> str:
    """number,name,city: one of them without employees."""
    names = ["sales", "research", "service", "law", "press", "archive"]
    rows = [(n, name, CITIES[n % 4]) for n, name in enumerate(names, 1)]
    return lines([("number", "name", "city"), *rows])


def s1(random: Random) -> str:
    """A,B: the first input of the paper's query."""
    return lines((random.randrange(6), random.randrange(10)) for _ in range(40))


def s2(random: Random) -> str:
    """C,D: the second input of the paper's query."""
    return lines((random.randrange(12), random.randrange(1000) / 8) for _ in range(30))


def sales(random: Random) -> str:
    """day,city,item,price: with text that needs quotes, and some lines that are no sales."""
    rows = [
        (f"2026-{random.randrange(1, 4):02}-{random.randrange(1, 29):02}", random.choice(CITIES),
         random.choice(["lamp", '"desk, small"', '"a ""good"" chair"']),
         f"{random.randrange(100, 99999) / 100:.2f}")
        for _ in range(50)
    ]  # fmt: skip
    rows[20] = ("2026-02-30", "Faro", "lamp", "12.00")
    rows[33] = ("2026-02-03", "Faro", "lamp", "cheap")
    return lines([("day", "city", "item", "price"), *rows])


def text(random: Random) -> str:
    """Some lines of words with marks between them."""
    written = [" ".join(random.choices(WORDS, k=random.randrange(3, 12))) for _ in range(25)]
    return "".join(
        f"{line.capitalize()}{random.choice(['.', '!', ', too.'])}\n" for line in written
    )


def orders(random: Random) -> str:
    """A JSON document a line: orders with their items; a note is not always there."""
    made = []
    for number in range(1, 16):
        items = [
            {"product": random.choice(["tea", "rice", "salt"]), "pieces": random.randrange(1, 6),
             "price": random.randrange(50, 900) / 100}
            for _ in range(random.randrange(4))
        ]  # fmt: skip
        order = {"id": number, "customer": random.choice(CITIES), "items": items}
        made.append(order | ({"note": "gift"} if random.random() < 0.3 else {}))
    return "".join(json.dumps(order) + "\n" for order in made)


def library(random: Random) -> str:
    """An XML document: books with attributes, authors, a price, and sections inside sections."""
    books = "".join(_book(number, random) for number in range(1, 9))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<library>\n{books}</library>\n'


def _book(number: int, random: Random) -> str:
    authors = random.sample(["Ada", "Ben", "Cem", "D&amp;D"], random.randrange(1, 4))
    lines = [f'<book id="b{number}" year="{random.randrange(1990, 2026)}">']
    lines += [f"  <title>Title {number}</title>"]
    lines += [f"  <author>{author}</author>" for author in authors]
    if number != 5:
        lines += [f"  <price>{random.randrange(500, 9000) / 100}</price>"]
    lines += _sections(str(number), 2, random)
    return "\n".join([*lines, "</book>", ""])


def _sections(prefix: str, depth: int, random: Random) -> list[str]:
    if depth == 0 or random.random() < 0.2:
        return [f'  <section name="{prefix}" pages="{random.randrange(1, 9)}"/>']
    inner = [
        line for n in range(1, random.randrange(2, 4))
        for line in _sections(f"{prefix}.{n}", depth - 1, random)
    ]  # fmt: skip
    return [f'  <section name="{prefix}" pages="1">', *inner, "  </section>"]


def places(random: Random) -> str:
    """Blocks of `name:`, `at:` lines for a parser written in Python."""
    return "\n".join(
        f"name: {city}\nat: {random.uniform(-60, 60):.4f} {random.uniform(-170, 170):.4f}\n"
        for city in CITIES
    )


FILES = {
    "points.csv": points,
    "links.csv": links,
    "roads.csv": roads,
    "friends.csv": friends,
    "left.csv": lambda random: matrix(6, 5, 0.5, random),
    "right.csv": lambda random: matrix(5, 7, 0.5, random),
    "ratings.csv": ratings,
    "employees.csv": employees,
    "departments.csv": departments,
    "S1.csv": s1,
    "S2.csv": s2,
    "sales.csv": sales,
    "words.txt": text,
    "orders.json": orders,
    "library.xml": library,
    "places.txt": places,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
