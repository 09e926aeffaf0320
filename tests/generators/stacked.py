"""Queries made of shapes, one over the other: every shape takes rows of R's type and gives such.

`SHAPES` has each as a text in which XX stands for the rows below it and YY for those of another
table; `stacked_shapes` puts random shapes over each other, `over` a given shape over another, and
`over_views` one over named queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

ROW: Final = "< A: int, B: int, C: double, S: string >"

TABLES_BELOW: Final[Mapping[str, str]] = {
    "R": "R",
    "S": "(select < A: y.A, B: y.A, C: y.D, S: y.T > from y in S)",
    "N": "(select < A: x.K, B: i.v, C: i.w, S: 'n' > from x in N, i in x.items)",
    "R and S": "((select x from x in R) union "
    "(select < A: y.A, B: y.A, C: y.D, S: y.T > from y in S))",
}
"""What stands at the bottom, streams or not."""

LINEAR: Final = {
    "filter": "select x from x in XX where x.B > 0",
    "map": "select < A: x.B, B: x.A, C: x.C, S: x.S > from x in XX",
    "unnest": "select < A: x.A, B: v, C: x.C, S: x.S > from x in XX, v in {x.A, x.B, 1}",
    "union": "(select x from x in XX) union (select y from y in YY)",
    "union with constants": "(select x from x in XX) union { < A: 1, B: 2, C: 0.5, S: 'c' > }",
}  # fmt: skip

BILINEAR: Final = {
    "join": "select < A: x.A, B: y.B, C: y.C, S: x.S > from x in XX, y in YY where x.A = y.A",
    "join from the right":
        "select < A: x.A, B: y.B, C: y.C, S: x.S > from y in YY, x in XX where x.A = y.A",
    "self-join": "select < A: x.A, B: y.B, C: x.C, S: y.S > from x in XX, y in XX where x.A = y.B",
    "theta join": "select < A: x.A, B: y.B, C: y.C, S: x.S > from x in XX, y in YY where x.A < y.B",
    "cross product": "select < A: x.A, B: y.B, C: x.C, S: y.S > from x in XX, y in YY",
    "join with constants":
        "select < A: x.A, B: n, C: x.C, S: s > from x in XX, (n, s) in {(1, 'a'), (2, 'b')} "
        "where x.A = n",
}  # fmt: skip

FOLDS: Final = {
    "count and sum":
        "select < A: k, B: (count(x) as int), C: sum(x.C), S: 'f' > from x in XX group by k: x.A",
    "average":
        "select < A: k, B: (sum(x.B) as int), C: avg(x.C), S: 'f' > from x in XX group by k: x.A",
    "spread":
        "select < A: k, B: 1, C: variance(x.B), S: string(stddev(x.C)) > from x in XX "
        "group by k: x.A",
    "least and greatest":
        "select < A: k, B: min(x.B), C: max(x.C), S: max(x.S) > from x in XX group by k: x.A",
    "having":
        "select < A: k, B: l, C: sum(x.C), S: 'h' > from x in XX group by (k, l): (x.A, x.B) "
        "having count(x) > 1",
    "distinct": "select distinct x from x in XX",
    "totals as a row":
        "{ < A: 1, B: count(XX) as int, C: sum(select x.C from x in XX), S: 't' > }",
    "average as a row": "{ < A: 1, B: 2, C: avg(select x.C from x in XX), S: 't' > }",
    "total beside rows":
        "select < A: x.A, B: (count(XX) as int), C: sum(select z.C from z in XX), S: x.S > "
        "from x in YY",
    "average of all": "select x from x in XX where x.C >= avg(select z.C from z in YY)",
    "average of all below": "select y from y in YY where y.C >= avg(select x.C from x in XX)",
}  # fmt: skip

PER_KEY: Final = {
    "median":
        "select < A: k, B: count(distinct(x.B)) as int, C: median(x.C), S: 'm' > from x in XX "
        "group by k: x.A",
    "percentile":
        "select < A: k, B: 1, C: percentile(x.C, 0.25), S: 'p' > from x in XX group by k: x.A",
    "collect":
        "select < A: k, B: y.B, C: y.C, S: y.S > from (k, g) in "
        "(select (k, x) from x in XX group by k: x.A), y in g",
    "first of a group":
        "select < A: k, B: y.B, C: y.C, S: y.S > from (k, y) in (select (k, "
        "(select z from z in x order by z.C desc)[0]) from x in XX group by k: x.A)",
    "top of a group":
        "select < A: k, B: y.B, C: y.C, S: y.S > from (k, g) in (select (k, "
        "(select z from z in x order by z.C, z.B desc limit 2)) from x in XX group by k: x.A), "
        "y in g",
    "greatest of all": "select y from y in YY where y.C >= max(select x.C from x in XX)",
    "pairs of a group":
        "select < A: k, B: count(select y from y in x, z in x where y.B < z.B) as int, C: 0.5, "
        "S: 'q' > from x in XX group by k: x.A",
    "intersect": "(select x from x in XX) intersect (select y from y in YY)",
    "except": "(select x from x in XX) except (select y from y in YY)",
    "except below": "(select y from y in YY) except (select x from x in XX)",
}  # fmt: skip

PARTNERS: Final = {
    "semi": "select x from x in XX where exists (select y from y in YY where y.A = x.A)",
    "semi below": "select y from y in YY where exists (select x from x in XX where x.A = y.A)",
    "anti": "select x from x in XX where not exists (select y from y in YY where y.A = x.A)",
    "outer":
        "select < A: x.A, B: count(select y from y in YY where y.A = x.A) as int, "
        "C: sum(select y.C from y in YY where y.A = x.A), S: x.S > from x in XX",
    "greatest partner":
        "select < A: x.A, B: x.B, C: max(select y.C from y in YY where y.A = x.A), S: x.S > "
        "from x in XX",
    "nested":
        "select < A: a, B: b, C: c, S: 'n' > from (a, c, g) in (select (x.A, x.C, "
        "(select y.B from y in YY where y.A = x.A)) from x in XX), b in g",
    "own group": "select x from x in XX where x.C >= avg(select z.C from z in XX where z.A = x.A)",
    "inequality": "select x from x in XX where x.A > count(select y from y in YY where y.B < x.B)",
    "inequality below":
        "select y from y in YY where y.A > count(select x from x in XX where x.B < y.B)",
    "some": "select x from x in XX where some y in YY: y.A = x.B",
    "all": "select x from x in XX where all y in YY: y.A <> x.B",
    "member": "select x from x in XX where member(x.A, (select y.B from y in YY))",
    "look-up":
        "select < A: x.A, B: x.B, C: (select (y.A, y.C) from y in YY)[x.A], S: x.S > from x in XX",
}  # fmt: skip

ORDERED: Final = {
    "order by": "select x from x in XX order by x.C, x.A desc",
    "order by, limit": "select x from x in XX order by x.C desc limit 2",
    "limit": "select x from x in XX limit 2",
}  # fmt: skip

LOOPS: Final = {
    "loop":
        "repeat v = (select x from x in XX) step select distinct z from z in "
        "(select < A: x.B, B: x.A, C: x.C, S: x.S > from x in v) union (select y from y in YY) "
        "limit 2",
    "flagged loop":
        "repeat v = (select x from x in XX) step "
        "select (< A: x.A - 1, B: x.B, C: x.C, S: x.S >, x.A > 1) from x in v limit 3",
}  # fmt: skip

CHOICES: Final = {
    "choice": "if count(XX) > 2 then (select x from x in XX) else (select y from y in YY)",
    "null or rows": f"if count(XX) > 1 then (select x from x in XX) else (null as {{{ROW}}})",
}

SHAPES: Final[dict[str, str]] = (
    LINEAR | BILINEAR | FOLDS | PER_KEY | PARTNERS | ORDERED | LOOPS | CHOICES
)

TOPS: Final = {
    "totals": "(count(XX), sum((select x.C from x in XX)), min((select y.C from y in YY)))",
    "record of queries": "< n: count(XX), rows: (select x.S from x in XX order by x.B limit 1), "
    "also: (select y.A from y in YY where y.B > 0) >",
    "json": "select [json| {\"a\": {{x.A}}, \"c\": [{{x.C}}]} |] from x in XX",
    "xml": "select [xml| <r a={{x.A}}>{{x.S}}</r> |] from x in XX where x.B > 0",
    "nested groups": "select (k, (select (l, count(y)) from y in x group by l: y.B), count(x)) "
    "from x in XX group by k: x.A",
    "elements": "(elem(select x from x in XX order by x.A), first((select x.S from x in XX)), "
    "exists XX)",
    "bags of bags": "select distinct (select y.B from y in YY where y.A = x.A) from x in XX",
}  # fmt: skip
"""Shapes that only stand at the top: what they give are no rows of R's type."""

NAMES: Final = tuple(SHAPES)


def over(top: str, below: str, other: str = "S") -> str:
    """The shape `top` over the shape `below`, both with `other` beside them."""
    beside = TABLES_BELOW[other]
    under = TABLES_BELOW.get(below) or f"({_fill(SHAPES[below], TABLES_BELOW['R'], beside)})"
    return _fill((SHAPES | TOPS)[top], under, beside)


@st.composite
def stacked_shapes(draw: st.DrawFn) -> str:
    """Up to three shapes, one over the other."""
    bottoms = st.sampled_from(tuple(TABLES_BELOW.values()))
    text, grows = draw(bottoms), 0
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(NAMES))
        grows += name in BILINEAR
        if grows < 3:  # not more than some hundred rows of a few
            text = f"({_fill(SHAPES[name], text, draw(bottoms))})"
    top = draw(st.sampled_from([*NAMES, *TOPS]))
    return _fill((SHAPES | TOPS)[top], text, draw(bottoms))


@st.composite
def over_views(draw: st.DrawFn) -> str:
    """Named queries, each over those before it, and a query over them: most have several uses."""
    tables, texts = list(TABLES_BELOW.values()), list[str]()
    names, grows = list[str](), 0
    for number in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(NAMES))
        grows += shape in BILINEAR
        if grows < 3:
            below, beside = (draw(st.sampled_from([*names, *names, *tables])) for _ in range(2))
            texts.append(f"view{number} = {_fill(SHAPES[shape], below, beside)}; ")
            names.append(f"view{number}")
    top = draw(st.sampled_from([name for name in NAMES if name not in BILINEAR or grows < 2]))
    one, other = (draw(st.sampled_from(names[-2:])) for _ in range(2))
    return "".join(texts) + _fill(SHAPES[top], one, other)


def _fill(shape: str, below: str, beside: str) -> str:
    return shape.replace("XX", below).replace("YY", beside)
