"""One version of incmrql in a process of its own, which runs what it is asked to run.

Reads a request per line from stdin and writes a response per line to stdout, both as JSON.  It uses
the public interface only, so that the same file works with the sources of an older version.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final, TextIO

import incmrql

COUNTS: Final = (
    "rows_in", "state_read", "jobs", "stages", "tasks", "rows_shuffled", "state_rows", "state_bytes"
)  # fmt: skip
"""Numbers of a batch's report that two versions are compared by."""


class Side:
    """A session, and the run that is open."""

    def __init__(self, session: incmrql.Session) -> None:
        self.session = session
        self.run: Any = None

    def batch(self, text: str) -> dict[str, Any]:
        """Run a batch query and write its rows nowhere."""
        begun = time.perf_counter()
        frame = self.session.query(text).to_df()
        frame.write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - begun}

    def open(self, text: str, checkpoint: str, options: dict[str, Any]) -> dict[str, Any]:
        """Start a run over the history."""
        self.run = self.session.query(text).start(
            checkpoint=Path(checkpoint), settle=0.0, **options
        )
        return self.step()

    def step(self) -> dict[str, Any]:
        """Ingest what was added."""
        begun = time.perf_counter()
        batch = self.run.step()
        seconds = time.perf_counter() - begun
        assert batch is not None, "nothing was added"
        return {"seconds": seconds, **{name: getattr(batch.report, name) for name in COUNTS}}

    def close(self) -> dict[str, Any]:
        """End the run; a digest of its answer."""
        rows = sorted(map(repr, self.run.answer()))
        self.run.stop()
        return {"answer": hashlib.sha256("\n".join(rows).encode()).hexdigest(), "rows": len(rows)}


def main() -> None:
    """Serve requests until there are no more."""
    responses = own_stdout()
    with incmrql.Session(master="local[2]", conf={"spark.driver.memory": "3g"}) as session:
        side = Side(session)
        for line in sys.stdin:
            name, arguments = json.loads(line)
            print(json.dumps(getattr(side, name)(**arguments)), file=responses, flush=True)


def own_stdout() -> TextIO:
    """What was stdout; from now on, all that others print goes to stderr."""
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return responses


if __name__ == "__main__":
    main()
