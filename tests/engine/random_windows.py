"""Shows that windows are kept right: random queries and batches, engine against the evaluator.

    python -m tests.engine.random_windows [--cases N] [--first SEED] [--processes N]

Half of the cases have small partitions and also run in the oracle, the others large ones.  The exit
code is 1 if an answer differs; the seed, the query and both answers are printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from multiprocessing import Pool
from pathlib import Path

from tests.catalyst.test_windows import follow_random
from tests.engine.test_windows import follow_large


def difference(seed: int) -> str:
    """What differs in a case; nothing if all agree."""
    follow = follow_large if seed % 2 else follow_random
    with tempfile.TemporaryDirectory(prefix="incmrql-windows-") as directory:
        try:
            follow(seed, Path(directory) / "case")
        except Exception as problem:
            return f"seed {seed}: {type(problem).__name__}: {problem}"
    return ""


def main() -> int:
    """Run the cases, print what differs, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.cases)
    differences = 0
    with Pool(chosen.processes) as pool:
        for done, difference_found in enumerate(pool.imap(difference, seeds, chunksize=10), 1):
            if difference_found:
                differences += 1
                sys.stdout.write(f"{difference_found}\n")
            if done % 500 == 0:
                sys.stdout.write(f"{done} cases, {differences} differ\n")
                sys.stdout.flush()
    sys.stdout.write(f"{chosen.cases} random windows, {differences} differ\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
