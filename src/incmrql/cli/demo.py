"""`incmrql demo`: a query over two growing, shrinking folders, batch by batch."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click

QUERIES = {
    "join": """incr select (x.A, avg(y.D))
from x in stream(line, "{folder}/S1", ",", type(< A: int, B: int >), deletes: "{folder}/S1-gone"),
     y in stream(line, "{folder}/S2", ",", type(< C: int, D: double >), deletes: "{folder}/S2-gone")
where x.B = y.C
group by x.A""",
    "groupby": """incr select (k, count(x), avg(x.B))
from x in stream(line, "{folder}/S1", ",", type(< A: int, B: int >), deletes: "{folder}/S1-gone")
group by k: x.A""",
}
_BATCHES = 5


@dataclass(slots=True)
class _Stream:
    """A generated stream: rows that are there now, written to a folder batch by batch."""

    name: str
    folder: Path
    rng: random.Random
    rows: list[tuple[int, int]]

    def write(self, number: int, rows: list[tuple[int, int]], suffix: str = "") -> None:
        target = self.folder / f"{self.name}{suffix}"
        target.mkdir(exist_ok=True)
        text = "".join(f"{a},{b}\n" for a, b in rows)
        (target / f"batch{number}.csv").write_text(text)

    def step(self, number: int, inserts: int, deletes: int) -> str:
        """Write one batch of insertions and deletions; what it did, in words."""
        gone = self.rng.sample(self.rows, min(deletes, len(self.rows)))
        for row in gone:
            self.rows.remove(row)
        new = [(self.rng.randrange(4), self.rng.randrange(6)) for _ in range(inserts)]
        self.rows += new
        self.write(number, new)
        self.write(number, gone, "-gone")
        return f"{self.name}: {len(new)} inserted, {len(gone)} deleted"


@click.command()
@click.argument("name", type=click.Choice(sorted(QUERIES)), default="join")
def demo(name: str) -> None:
    """Show NAME (join or groupby): a query, batches of changes, and what they do to the answer."""
    with tempfile.TemporaryDirectory(prefix="incmrql-demo-") as folder:
        _show(QUERIES[name], Path(folder))
    click.echo(
        "\nEach answer above is that of the whole query over all data so far, computed by the\n"
        "reference evaluator: the meaning that every faster way of running it has to match.\n"
        "Where to look next: README.md, docs/language.md, and `incmrql run --help`."
    )


def _show(query: str, folder: Path) -> None:
    from incmrql import api
    from incmrql.values import show

    rng = random.Random(7)
    streams = [_Stream(name, folder, rng, []) for name in ("S1", "S2")]
    used = [stream for stream in streams if stream.name in query]
    click.echo(f"the query:\n\n{query.format(folder='.')}\n")
    before: Counter[str] = Counter()
    for number in range(_BATCHES):
        sizes = (8, 0) if number == 0 else (rng.randrange(1, 4), rng.randrange(3))
        done = "; ".join(stream.step(number, *sizes) for stream in used)
        answer = api.run(query.format(folder=folder))[0].value
        after = Counter(show(row) for row in answer)
        click.echo(f"batch {number}   {done}")
        for row, weight in sorted(_difference(before, after).items()):
            click.echo(f"   {weight:+d}  {row}")
        click.echo(f"   answer: {show(answer)}\n")
        before = after


def _difference(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """What a batch did to an answer: rows with the change of their multiplicity."""
    rows = before.keys() | after.keys()
    return {row: after[row] - before[row] for row in rows if after[row] != before[row]}
