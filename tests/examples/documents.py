"""What the scripts over XML, JSON, text and trees should answer."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Callable
from math import asin, cos, fsum, radians, sin, sqrt
from pathlib import Path
from typing import Any

from tests.examples.running import by_text, json_lines, near


def xml_navigate(answers: list[Any], data: Path) -> None:
    books = _library(data).findall("book")
    by_year = sorted(books, key=lambda b: (int(b.attrib["year"]), b.attrib["id"]))
    titles = [(b.findtext("title"), int(b.attrib["year"])) for b in by_year]
    prices: defaultdict[str, list[float]] = defaultdict(list)
    written: Counter[str] = Counter()
    for book in books:
        for author in book.findall("author"):
            written[author.text or ""] += 1
            prices[author.text or ""] += [float(p.text or "") for p in book.findall("price")]
    authors = [(a, written[a], fsum(prices[a]) / len(prices[a])) for a in sorted(written)]
    unpriced = [b.attrib["id"] for b in books if b.find("price") is None]
    inner = by_text(
        {
            s.attrib["name"]
            for b in books
            for o in b.iter("section")
            for s in o.iterfind(".//section")
        }
    )
    first = [{"id": b.attrib["id"], "title": b.findtext("title")} for b in books[:2]]
    old: list[Any] = [
        ("Node", ("old", [], [("CData", b.findtext("title"))]))
        for b in books
        if int(b.attrib["year"]) < 2000
    ]
    near(answers, [titles, authors, unpriced, inner, first, ("Node", ("shelf", [], old))])


def xml_recursive(answers: list[Any], data: Path) -> None:
    library = _library(data)

    def depth(element: ET.Element) -> int:
        return 1 + max((depth(child) for child in element), default=0)

    def contents(element: ET.Element, level: int) -> list[tuple[int, str, int]]:
        is_section = element.tag == "section"
        pages = sum(int(section.attrib["pages"]) for section in element.iter("section"))
        own = [(level, element.attrib["name"], pages)] if is_section else []
        return own + [row for child in element for row in contents(child, level + is_section)]

    total = fsum(float(price.text or "") for price in library.iter("price"))
    sections = sorted(contents(library, 1), key=lambda row: row[1])
    near(answers, [round(total, 2), depth(library), sections])


def expressions(answers: list[Any], _: Path) -> None:
    places = (-1.0, 0.0, 0.5, 2.0)
    near(answers[0], "(3.0 * x^2 + (-2.0 * x + 7.0))")
    near(answers[1], by_text([3.0 * x**2 - 2.0 * x + 7.0 for x in places]))
    near(answers[2], "(3.0 * 2.0 * x + -2.0)")
    near(answers[3], by_text([6.0 * x - 2.0 for x in places]))
    near(answers[4], ("Num", 6.0))


def wordcount(answers: list[Any], data: Path) -> None:
    lines = (data / "words.txt").read_text().splitlines()
    words = Counter(word for line in lines for word in re.findall("[a-z]+", line.lower()))
    frequent = sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    lengths = Counter(len(line.split(" ")) for line in lines)
    near(answers, [frequent, sorted(lengths.items())])


def json_typed(answers: list[Any], data: Path) -> None:
    orders = json_lines(data / "orders.json")
    items = [item for order in orders for item in order["items"]]
    sums = []
    for product in sorted({item["product"] for item in items}):
        own = [item for item in items if item["product"] == product]
        value = round(fsum(item["pieces"] * item["price"] for item in own), 2)
        sums.append((product, sum(item["pieces"] for item in own), value))
    empty = [order["id"] for order in orders if not order["items"]]
    gifts = [(order["id"], "gift") for order in orders if order.get("note") == "gift"]
    first = [(order["id"], order["items"][0]["product"]) for order in orders if order["items"]]
    near(answers, [sums, empty, gifts, first])


def json_dynamic(answers: list[Any], data: Path) -> None:
    orders = json_lines(data / "orders.json")
    products = [(o["id"], [item["product"] for item in o["items"]]) for o in orders]
    gifts = [
        _with_constructors(
            {"order": o["id"], "what": [i["product"] for i in o["items"]], "gift": True}
        )
        for o in orders
        if o.get("note") == "gift"
    ]
    counts = [(order["customer"], len(order["items"])) for order in orders]
    totals = [(order["id"], round(_total(order), 2)) for order in orders]
    near(answers, [products[:3], gifts, counts, totals])


def geo(answers: list[Any], data: Path) -> None:
    text = (data / "places.txt").read_text()
    matches = re.findall(r"name: (\w+)\nat: ([-.\d]+) ([-.\d]+)", text)
    places = {name: (radians(float(north)), radians(float(east))) for name, north, east in matches}
    apart = {(a, b): _kilometres(places[a], places[b]) for a in places for b in places}
    pairs = sorted((pair for pair in apart if pair[0] < pair[1]), key=apart.__getitem__)
    closest = [(a, b, round(apart[a, b] / 1.609344, 1)) for a, b in pairs[:3]]
    nearest = [
        (a, min((b for b in places if b != a), key=lambda b: apart[a, b])) for a in sorted(places)
    ]
    halves = Counter("north" if north >= 0 else "south" for north, _ in places.values())
    near(answers, [closest, nearest, sorted(halves.items())])


def _library(data: Path) -> ET.Element:
    return ET.parse(data / "library.xml").getroot()


def _with_constructors(document: Any) -> Any:
    """A JSON document as the language has it: each value with its constructor."""
    match document:
        case dict():
            return (
                "JObject",
                by_text((name, _with_constructors(v)) for name, v in document.items()),
            )
        case list():
            return ("JArray", [_with_constructors(v) for v in document])
        case bool():
            return ("Jbool", document)
        case int():
            return ("Jlong", document)
        case _:
            return ("Jstring", document)


def _total(document: Any) -> float:
    match document:
        case dict():
            return fsum(_total(value) for value in document.values())
        case list():
            return fsum(map(_total, document))
        case int() | float():
            return float(document)
        case _:
            return 0.0


def _kilometres(a: tuple[float, float], b: tuple[float, float]) -> float:
    half = sin((b[0] - a[0]) / 2) ** 2 + cos(a[0]) * cos(b[0]) * sin((b[1] - a[1]) / 2) ** 2
    return 2 * 6371 * asin(sqrt(half))


CHECKS: dict[str, Callable[[list[Any], Path], None]] = {
    check.__name__: check
    for check in (
        xml_navigate, xml_recursive, expressions, wordcount, json_typed, json_dynamic, geo,
    )
}  # fmt: skip
