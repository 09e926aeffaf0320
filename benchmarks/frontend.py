"""How long parsing and typing take: a script of 1,000 lines, stage by stage.

Prints the median of several rounds.  Compiling Python source of the same number of lines
with the built-in `compile` is timed in the same run, for a sense of the machine.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from incmrql.errors import SourceText
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.scope import Catalog

ROUNDS = 9
LINES = 1000

BLOCK = """S{n} = source(line, "sales{n}.csv", ",", type(< id: int, city: string, price: double >));
C{n} = source(json, "cities{n}.json", type(< name: string, country: string, size: long >));
function tax{n}(p: double, size: long): double {{
  if size > 1000000 then p * 0.2 else p * 0.1
}};
macro joined{n}(X, Y) {{ select (x, y) from x in X, y in Y where x.city = y.name }};
select (c, count(x), sum(x.price), avg(t))
from (x, y) in joined{n}(S{n}, C{n}), t = tax{n}(x.price, y.size)
where x.price > 10.0 and (y.size < 5 or exists (select z from z in S{n} where z.id = x.id))
group by c: y.country having count(x) > 3 order by sum(x.price) desc limit 10;
"""


def script(lines: int = LINES) -> str:
    """A script of about that many lines, made of ordinary items."""
    per_block = BLOCK.count("\n")
    return "".join(BLOCK.format(n=n) for n in range(lines // per_block))


def python_source(lines: int = LINES) -> str:
    """Python code of that many lines."""
    return "".join(f"def f{n}(x, y=1):\n    return [x + {n} for z in (x, y) if z]\n"
                   for n in range(lines // 2))  # fmt: skip


def median_ms(work: Callable[[], object]) -> float:
    """The median time of `work` over the rounds, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def main() -> None:
    """Measure and print."""
    text = script()
    source = SourceText(text, "bench.mrql")
    code = python_source()
    with deep_recursion():
        tree = parse_script(source)
        rows = (
            ("parse", median_ms(lambda: parse_script(source))),
            ("type", median_ms(lambda: infer_script(tree, Catalog()))),
            ("Python's own compile", median_ms(lambda: compile(code, "x", "exec"))),
        )
    lines = text.count("\n")
    sys.stdout.write(f"a script of {lines} lines, {len(text)} characters, {ROUNDS} rounds\n")
    for name, milliseconds in rows:
        sys.stdout.write(f"{name:22} {milliseconds:8.1f} ms\n")


if __name__ == "__main__":
    main()
