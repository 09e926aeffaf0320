"""What is read of a source is what a query uses of it."""

from __future__ import annotations

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import Scan
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import terms, used_type
from incmrql.errors import SourceText
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from tests.generators.tables import CATALOG

ITEMS = "items: [< product: string, pieces: int, price: double >]"
WHOLE = f"< id: int, customer: < name: string, city: string >, {ITEMS} >"
SOURCE = f'source(json, "orders", type({WHOLE}))'


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("select o.id from o in O", "< id: int >"),
        ("select o.customer.name from o in O where o.id > 1",
         "< id: int, customer: < name: string > >"),
        ("select o.customer from o in O", "< customer: < name: string, city: string > >"),
        ("select max(o.items.pieces) from o in O", "< items: [< pieces: int >] >"),
        ("select (o.id, (select i.price from i in o.items where i.pieces > 2)) from o in O",
         "< id: int, items: [< pieces: int, price: double >] >"),
        ("select (k, sum(i.pieces)) from o in O, i in o.items group by k: i.product",
         "< items: [< product: string, pieces: int >] >"),
        ("select (k, count(i), sum(i.pieces)) from o in O, i in o.items group by k: i.product",
         "< items: [< product: string, pieces: int >] >"),
        ("select 1 from o in O, i in o.items", "< items: [< product: string >] >"),
        ("select count(o.items) from o in O", f"< {ITEMS} >"),
        ("select n from o in O, < product: n > in o.items", f"< {ITEMS} >"),
        ("select (select (p, count(i)) from i in o.items group by p: i.product) from o in O",
         WHOLE),
        ("select o from o in O", WHOLE),
        ("O", WHOLE),
        ("(select o.id from o in O) union (select o.customer.city as int from o in O)",
         "< id: int, customer: < city: string > >"),
    ],
)  # fmt: skip
def test_only_what_is_used_is_read(query: str, used: str) -> None:
    text = query.replace("in O", f"in {SOURCE}") if query != "O" else SOURCE
    script = infer_script(parse_script(SourceText(f"{text};")), CATALOG)
    normal, _ = normal_form(translate(script.items[0].expr, script))
    (scan, *_) = [t for _, part in normal.parts for t in terms(part) if isinstance(t, Scan)]
    assert str(used_type(normal, scan)) == used
