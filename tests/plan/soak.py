"""Very many random cases: `python -m tests.plan.soak --cases 50000`.

A case is a random query over random rows that come and go in random batches, the stepper compared
with the evaluator after each.  Four in five are shapes over shapes with every trait; the rest are
random queries of all generators, three histories each.  Every failure is shown with its seed, and
the exit code tells whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from incmrql.syntax.depth import deep_recursion
from tests.algebra.check import install
from tests.algebra.shapes import shape_queries
from tests.generators.queries import queries, scripts
from tests.generators.stacked import over, over_views, stacked_shapes
from tests.plan.seeded import EVERY
from tests.plan.stepping import Run
from tests.plan.test_coverage import STREAMS, every_pair, step_through
from tests.plan.test_stepper import HISTORIES, holds

EXAMPLES = 100
"""Random queries of one seed."""
EVERY_SECONDS = 30
"""How often it says how far it is."""


@dataclass(slots=True)
class Tally:
    """How much was tried, and what went wrong."""

    cases: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, where: str) -> None:
        """Keep the failure that is being handled."""
        self.failures.append(f"{where}\n{traceback.format_exc(limit=-3)}")
        say(self.failures[-1])


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


Shard = Callable[[Tally], None]


def shape_shards(number: int) -> Iterator[Shard]:
    """A shard for each pair of shapes."""
    for at, (top, below) in enumerate(every_pair()):

        def shard(tally: Tally, top: str = top, below: str = below, at: int = at) -> None:
            name = f"{top} over {below}, seed {number}"
            chance = Random(name)
            streams = STREAMS[(at + number) % len(STREAMS)]
            try:
                run = Run(over(top, below, chance.choice(("S", "N", "R"))), streams)
                for traits in EVERY:
                    step_through(run, streams, traits, chance)
                    tally.cases += 1
            except Exception:
                tally.note(name)

        yield shard


GENERATORS = {
    "stacked": stacked_shapes,
    "queries": queries,
    "shaped": shape_queries,
    "scripts": scripts,
    "views": over_views,
}


def query_shards(number: int) -> Iterator[Shard]:
    """A shard for each generator, and for terms that are not in normal form."""
    for name, generator in GENERATORS.items():
        for normal in (True, False) if name in ("stacked", "shaped") else (True,):

            def shard(
                tally: Tally,
                name: str = name,
                generator: Callable[[], st.SearchStrategy[str]] = generator,
                normal: bool = normal,
            ) -> None:
                @seed(number)
                @settings(
                    max_examples=EXAMPLES,
                    database=None,
                    deadline=None,
                    phases=[Phase.generate, Phase.shrink],
                    suppress_health_check=list(HealthCheck),
                )
                @given(text=generator(), data=st.data())
                def run_example(text: str, data: st.DataObject) -> None:
                    holds(text, data, normal=normal)
                    tally.cases += HISTORIES

                try:
                    run_example()
                except Exception:
                    tally.note(f"{name}, seed {number}, normal {normal}")

            yield shard


def main() -> int:
    install()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="0/1", help="which part of how many: 0/2")
    wanted = parser.parse_args()
    part, parts = map(int, wanted.shard.split("/"))
    tally, start = Tally(), time.monotonic()
    said = start
    most, number = wanted.cases // parts, wanted.seed
    with deep_recursion():
        while tally.cases < most:
            shapes = list(shape_shards(number))[part::parts] if tally.cases < 4 * most // 5 else []
            for shard in (*shapes, *query_shards(number * parts + part + 1_000)):
                shard(tally)
                if tally.cases >= most:
                    break
                if time.monotonic() - said > EVERY_SECONDS:
                    said = time.monotonic()
                    say(f"{tally.cases} cases, {said - start:.0f} s")
            number += 1
    say(f"{tally.cases} cases, {len(tally.failures)} failures")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
