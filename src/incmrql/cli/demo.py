"""`incmrql demo`: a query over generated streams of insertions and deletions, batch by batch.

Each batch is run by the incremental engine, which keeps the answer up to date, and once more by
the batch engine over all data so far; at the end the answer is verified.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from incmrql.api.runs import Batch, LoopWork
    from incmrql.api.session import Result, Session


# --- The streams of the loops ---


LOOP_QUERIES: Final = {
    "kmeans": """incr repeat centroids = {{ (1.0, 1.0), (1.0, 9.0), (9.0, 1.0), (9.0, 9.0) }}
  step select (avg(x), avg(y))
       from (x, y) in stream(line, "{folder}/points", ",", type((double, double)),
                             deletes: "{folder}/points-gone")
       group by k: (select c from c in centroids
                    order by (c#0 - x) * (c#0 - x) + (c#1 - y) * (c#1 - y))[0]
  limit 10""",
    "pagerank": """Links = stream(line, "{folder}/links", ",", type((int, int)),
               deletes: "{folder}/links-gone");
Degrees = select (page, count(to)) from (page, to) in Links group by page;
incr repeat ranks = select (page, 1.0) from (page, degree) in Degrees
  step select (to, 0.15 + 0.85 * sum(share))
       from (page, to) in Links, (page, rank) in ranks, (page, degree) in Degrees,
            share = rank / degree
       group by to
  limit 10""",
}
_SQUARES: Final = (2.0, 6.0)


@dataclass(slots=True)
class Lines:
    """A generated stream of lines: those that are there now, written batch by batch."""

    name: str
    folder: Path
    rng: random.Random
    line: Callable[[random.Random], str]
    lines: list[str] = field(default_factory=list)

    def step(self, number: int, inserts: int, deletes: int) -> None:
        """Write one batch of insertions and deletions."""
        self.rng.shuffle(self.lines)
        gone = [self.lines.pop() for _ in range(min(deletes, len(self.lines)))]
        new = [self.line(self.rng) for _ in range(inserts)]
        self.lines += new
        for suffix, some in (("", new), ("-gone", gone)):
            target = self.folder / f"{self.name}{suffix}"
            target.mkdir(parents=True, exist_ok=True)
            if some:
                (target / f"batch{number}.csv").write_text("".join(f"{line}\n" for line in some))


def lines_of(name: str, folder: Path, rng: random.Random, keys: int) -> Lines:
    """The stream of a loop; `keys` is how many pages there are."""
    if name == "kmeans":
        return Lines("points", folder, rng, _point)
    return Lines("links", folder, rng, lambda chance: _link(chance, keys))


def _point(rng: random.Random) -> str:
    return ",".join(f"{rng.choice(_SQUARES) + rng.randrange(200) / 100:.2f}" for _ in range(2))


def _link(rng: random.Random, pages: int) -> str:
    """A link; pages with small numbers have more of them."""
    return ",".join(str(min(rng.randrange(pages), rng.randrange(pages))) for _ in range(2))


def kept_by(loop: LoopWork) -> str:
    """How a loop was kept in a batch, and why so."""
    steps = "1 step" if loop.steps == 1 else f"{loop.steps} steps"
    return f"the loop: {loop.way}, {steps} ({loop.reason})"


# --- The demonstration ---


QUERIES = {
    "join": """incr select (x.A, avg(y.D))
from x in stream(line, "{folder}/S1", ",", type(< A: int, B: int >), deletes: "{folder}/S1-gone"),
     y in stream(line, "{folder}/S2", ",", type(< C: int, D: double >), deletes: "{folder}/S2-gone")
where x.B = y.C
group by x.A""",
    "groupby": """incr select (k, count(x), avg(x.B))
from x in stream(line, "{folder}/S1", ",", type(< A: int, B: int >), deletes: "{folder}/S1-gone")
group by k: x.A""",
    **LOOP_QUERIES,
}
_STREAMS = {"join": ("S1", "S2"), "groupby": ("S1",)}
_GROUPS = 5
_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class _Size:
    """Rows of a stream at first, then of each batch; join keys of a group, or pages; batches."""

    rows: int
    inserts: int
    deletes: int
    keys: int
    batches: int


_SMALL = _Size(40, 4, 2, 6, batches=3)
_LARGE = _Size(100_000, 200, 50, 20_000, batches=2)
_FEW = _Size(16, 2, 1, 5, batches=3)
_SIZES = {
    "join": (_SMALL, _LARGE),
    "groupby": (_SMALL, _LARGE),
    "kmeans": (_FEW, _Size(2_000, 100, 20, 1, batches=2)),
    "pagerank": (_FEW, _Size(20_000, 100, 20, 2_000, batches=2)),
}


@dataclass(slots=True)
class _Stream:
    """A generated stream: rows that are there now, written to a folder batch by batch."""

    name: str
    folder: Path
    rng: random.Random
    keys: int
    rows: list[tuple[int, int]] = field(default_factory=list)

    def row(self, group: int) -> tuple[int, int]:
        key = group * self.keys + self.rng.randrange(self.keys)
        return (group, key) if self.name == "S1" else (key, self.rng.randrange(100))

    def step(self, number: int, inserts: int, deletes: int) -> None:
        """Write one batch of insertions and deletions, after the first in two groups only."""
        first = self.rng.randrange(_GROUPS - 1)
        groups = range(first, first + 2) if number else range(_GROUPS)
        gone = [self._any(groups) for _ in range(min(deletes, len(self.rows)))]
        new = [self.row(self.rng.choice(groups)) for _ in range(inserts)]
        self.rows += new
        self._write(number, new, "")
        self._write(number, gone, "-gone")

    def _any(self, groups: range) -> tuple[int, int]:
        """A row of some groups that is there, taken away."""
        while True:
            place = self.rng.randrange(len(self.rows))
            first = self.rows[place][0]
            if (first if self.name == "S1" else first // self.keys) in groups:
                self.rows[place], self.rows[-1] = self.rows[-1], self.rows[place]
                return self.rows.pop()

    def _write(self, number: int, rows: list[tuple[int, int]], suffix: str) -> None:
        target = self.folder / f"{self.name}{suffix}"
        target.mkdir(parents=True, exist_ok=True)
        if rows:
            text = "".join(f"{a},{b}\n" for a, b in rows)
            (target / f"batch{number}.csv").write_text(text)


@click.command(short_help="Show how a query follows generated streams.")
@click.argument("name", type=click.Choice(sorted(QUERIES)), default="join")
def demo(name: str) -> None:
    """Run a query over generated streams, and show how each batch changes its answer.

    If you name no query, it runs "join".
    """
    from incmrql.api.session import Session

    click.echo(f"the query:\n\n{_indent(QUERIES[name].format(folder='.'))}\n")
    click.echo("how it follows changes, node by node (all of it: incmrql explain):\n")
    for line in _nodes(QUERIES[name].format(folder=".")):
        click.echo(f"  {line}")
    small, large = _SIZES[name]
    with Session() as session, tempfile.TemporaryDirectory(prefix="incmrql-demo-") as folder:
        click.echo("\nfew rows, with what each batch does to the answer:\n")
        _Demo(name, Path(folder, "small"), session).play(small, shows=True)
        changes = large.inserts + large.deletes
        click.echo(f"\n{large.rows:,} rows a stream, then {changes} changes a batch:\n")
        _Demo(name, Path(folder, "large"), session).play(large, shows=False)
    click.echo(
        "\nwhere to look next: incmrql examples DIR copies scripts to try, incmrql run --help has"
        "\nthe options of a run. README.md has a first script of your own, docs/language.md the"
        "\nlanguage, docs/operations.md running streams, docs/iteration.md loops."
    )


@dataclass(frozen=True, slots=True)
class _Demo:
    """A query over generated streams in a folder."""

    name: str
    folder: Path
    session: Session

    def play(self, size: _Size, *, shows: bool) -> None:
        """Run the batches: a large first one, then small ones."""
        text = QUERIES[self.name].format(folder=self.folder)
        rng = random.Random(7)
        streams = self._streams(rng, size)
        for stream in streams:
            stream.step(0, size.rows, 0)
        query = self.session.query(text)
        with query.start(settle=0.0) as run:
            for number in range(size.batches + 1):
                if number:
                    for stream in streams:
                        stream.step(number, size.inserts, size.deletes)
                batch = run.step()
                assert batch is not None
                self._tell(batch, query, shows=shows)
            if not shows:
                click.echo(f"{run.verify()}")

    def _streams(self, rng: random.Random, size: _Size) -> Sequence[_Stream | Lines]:
        if self.name in LOOP_QUERIES:
            return [lines_of(self.name, self.folder, rng, size.keys)]
        return [_Stream(name, self.folder, rng, size.keys) for name in _STREAMS[self.name]]

    def _tell(self, batch: Batch, query: Result, *, shows: bool) -> None:
        begun = time.perf_counter()
        query.collect()  # after batch 0 only to be warm
        again = ""
        if batch.number:
            again = f"; all of it again: {(time.perf_counter() - begun) * 1000:,.0f} ms"
        report = batch.report
        click.echo(
            f"batch {batch.number}: {report.inserted:,} rows in, {report.deleted:,} out;"
            f" {report.changed} changes in {batch.seconds * 1000:,.0f} ms{again}"
        )
        for loop in report.loops:
            click.echo(f"  {kept_by(loop)}")
        if shows:
            for line in _changes(batch):
                click.echo(f"  {line}")


def _changes(batch: Batch) -> Iterator[str]:
    """What a batch did to the answer, row by row."""
    from incmrql.values import show

    rows = sorted(batch.changes(), key=lambda change: (show(change[0][0]), change[1]))
    for row, weight in rows[:_MOST_SHOWN]:
        yield f"{weight:+d}  {show(row)}"
    if len(rows) > _MOST_SHOWN:
        yield f"and {len(rows) - _MOST_SHOWN} more"


def _nodes(query: str) -> Iterator[str]:
    """The nodes of a query, each with what it keeps and costs."""
    from incmrql import api

    for node in api.explain_data(query)[0]["nodes"]:
        kept = ", ".join(dict.fromkeys(item["what"] for item in node["keeps"])) or "nothing"
        below = ", ".join(map(str, node["inputs"]))
        of = f" of {below}" if below else ""
        yield f"{node['node']}: {node['does']}{of}"
        yield f"   keeps {kept}; costs {node['cost']}"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
