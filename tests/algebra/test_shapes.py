"""Shapes that random queries do not make, and those that Apache MRQL got wrong or refused.

For each the term, and its normal form, mean what the reference evaluator says.
"""

from __future__ import annotations

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import SourceText
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.values import Bag, Record, identical, show
from tests.algebra.evaluating import evaluate_query
from tests.generators.tables import CATALOG

NULL = Record({"A": None, "B": None, "C": None, "S": None})
ROWS = [
    Record({"A": a, "B": b, "C": c, "S": s})
    for a, b, c, s in [(1, 2, 0.5, "x"), (2, 3, 1e16, "y"), (2, 3, 1e16, "y"), (3, 1, -1e16, "")]
]
OTHERS = [Record({"A": a, "D": d, "T": "t"}) for a, d in [(2, 1.0), (2, 2.0), (5, None)]]
DATA = {
    "nothing": {"R": Bag(), "S": Bag(), "N": Bag(), "W": Bag()},
    "rows": {"R": Bag([*ROWS, NULL]), "S": Bag(OTHERS), "N": Bag(), "W": Bag()},
}

SHAPES = {
    "join and group by": "select (x.A, avg(y.D)) from x in R, y in S where x.A = y.A group by x.A",
    "self-join": "select (x.A, y.B) from x in R, y in R where x.B = y.A",
    "correlated": "select (x.A, (select y.D from y in S where y.A = x.A)) from x in R",
    "order by with ties": "select x.S from x in R order by x.B",
    "aggregates row by row": "select (k, sum(x.B * x.C), avg(x.C + y.D), count(x.B - y.D), "
    "count(k), max(k + x.B)) from x in R, y in S where x.A = y.A group by k: x.A",
    "row by row in having and order by": "select (x.A, sum(x.B * x.C)) from x in R group by x.A "
    "having some(x.B < x.C) order by max(x.B * x.C) desc, x.A",
    "bags added": "(select x.A from x in R) + S.A + { 9, 9 }",
    "lists added": "(select x.S from x in R order by x.S) + [ 'z', 'a' ] + "
    "(select y.T from y in S order by y.D desc)",
    "an aggregate of bags added": "select (k, count(x.B + { 9, 8 }), sum(x.B + x.A)) from x in R "
    "group by k: x.A",
    "group by and order by": "select (k, sum(x.C)) from x in R group by k: x.A order by sum(x.C)",
    "group by over group by": "select (n, count(k)) from (k, n) in "
    "(select (a, count(x)) from x in R group by a: x.A) group by n",
    "aggregate over a grouped query": "max(select count(x) from x in R group by x.A)",
    "filter": "select x.A from x in R where x.B > 1",
    "distinct": "select distinct x.A from x in R",
    "having": "select k from x in R group by k: x.A having count(x) > 1",
    "exists": "select x.A from x in R where not exists (select y from y in S where y.A = x.A)",
    "all": "select x.A from x in R where all y in S: y.A <> x.A or y.D > 1.0",
    "cross product": "select (x.A, y.A) from x in R, y in S",
    "group by over a union": "select (k, count(z)) from z in R.A union S.A group by k: z",
    "order by and limit": "select x.C from x in R order by x.C desc limit 2",
    "total aggregates": "(count(R), sum(R.C), max(S.D), avg(R.A))",
    "record of queries": "< A: (select x.A from x in R), B: count(S) >",
    "nested twice": "select x.A from x in R where x.A = count(select y from y in S "
    "where y.A = x.A and exists (select z from z in R where z.B = y.A and z.A <> x.B))",
    "repeat with flags": "repeat v = select (a, 0) from a in R.A "
    "step select ((a, n + 1), n < 2) from (a, n) in v",
    "repeat with flags and a limit": "repeat v = R.A step select (x, true) from x in v limit 3",
    "repeat with null flags": "repeat v = R.A step select (x + 1, x < 2) from x in v limit 9",
    "repeat to a fixpoint": "repeat v = select distinct x.A from x in R "
    "step select distinct z from z in v union (select y.B from y in R, w in v where y.A = w)",
    "repeat of two variables": "repeat (v, w) = (R.A, S.A) step (w, v union w) limit 3",
    "xml template": "select [xml| <a b='{{x.S}}'>{{x.A}}{{x.B}}</a> |] from x in R",
    "json template": "select [json| {\"a\": {{x.A}}, \"s\": [{{x.S}}]} |].s[0] from x in R",
    "template over a source": "[xml| <a>{{ select [xml| <r>{{x.A}}</r> |] from x in R }}</a> |]",
    "null in place of a bag": "if count(R) >= 0 then null as {int} else R.A",
    "projection of null": "(if count(R) >= 0 then null as {< A: int >} else (select < A: x.A > "
    "from x in R)).A",
    "case without a match": "let v = R.A in case 1 { 2: v }",
    "null beside a union": "(if count(R) >= 0 then null as {int} else R.A) union R.A",
    "null rows with flags": "repeat v = R.A "
    "step (select (x, true) from x in v) union {null} limit 2",
    "repeat without a source in its step": "repeat v = count(R) step v + 1 limit 3",
    "aggregate of two parts of a row": "select (x.K, max(case x.K { 1: x.items.v | "
    "*: x.items.v })) from x in N, y in R",
    "recursive function": "function up(n: int): int { if n < 3 then up(n + 1) else n }; "
    "select up(x.A) from x in R",
    "function over a source": "function near(k: int): long { count(select x from x in R "
    "where x.A = k) }; select (y.A, near(y.A)) from y in S",
    "macro over sources": "macro j(X, Y) { select (x.A, y.A) from x in X, y in Y "
    "where x.A = y.A }; j(R, S) union j(R, R)",
}  # fmt: skip


@pytest.mark.parametrize("rows", DATA)
@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str, rows: str) -> None:
    script = infer_script(parse_script(SourceText(SHAPES[name])), CATALOG)
    expr = script.items[0].expr
    env = Environment(new_world(script, registered=DATA[rows]))
    with deep_recursion():
        query = translate(expr, script)
        expected = evaluate(expr, env)
        for answer in (evaluate_query(query, env), evaluate_query(normal_form(query)[0], env)):
            assert identical(answer, expected), f"{show(answer)}\n{show(expected)}"
