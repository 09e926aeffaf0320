"""What a run has left: a checkpoint that is looked at, verified or rewritten.

The script beside it may be gone: the program is made again from what the checkpoint says of it.
That is as safe as the script, if the user has started it; of others' checkpoints only the files in
them are read, and those that are allowed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.api.runs import RunInputs, open_driver
from incmrql.errors import CheckpointError, InternalError
from incmrql.io.files import Paths
from incmrql.plan.program import Program
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.checkpoint.ownership import ownership
from incmrql.runtime.checkpoint.program import (
    SavedState,
    TableFacts,
    read_program,
    saved_state,
    table_facts,
)
from incmrql.runtime.checkpoint.rewrite import rebucket
from incmrql.runtime.options import StreamOptions
from incmrql.runtime.report import Verified
from incmrql.values import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SavedRun:
    """A run that is not on, by the checkpoint in a folder.

    `modules` are the Python modules that its script may import, and `allowed` the paths that it
    may use.
    """

    def __init__(
        self, folder: Path, modules: Sequence[str] = (), allowed: Sequence[str | Path] = ()
    ) -> None:
        self.folder, self._modules = folder.absolute(), modules
        self._checkpoint = Checkpoint(self.folder)
        self._may = ownership(self._checkpoint, Paths.of(allowed))

    @cached_property
    def described(self) -> dict[str, Any]:
        """What the checkpoint says of its program."""
        return dict(self._checkpoint.described())

    @cached_property
    def _script(self) -> dict[str, Any]:
        return self.described.get("script") or {}

    @contextlib.contextmanager
    def _beside(self) -> Iterator[None]:
        """In the folder where the script was started, which its paths are relative to."""
        folder = self._script.get("folder", "")
        with contextlib.chdir(folder) if os.path.isdir(folder) else contextlib.nullcontext():
            yield

    @cached_property
    def program(self) -> Program:
        """The program, made again."""
        with self._beside():
            return read_program(self.folder, self._modules, self._may.program)[0]

    def facts(self) -> dict[str, Any]:
        """What it holds, as `incmrql state --json` says it."""
        checkpoint, described = self._checkpoint, self.described
        last, tables = checkpoint.last(), self.tables()
        intended = checkpoint.intent(last["batch"] + 1)
        return {
            "checkpoint": str(self.folder),
            "engine": described["engine"],
            "script": self._script,
            "window": bool(described.get("window")),
            "buckets": checkpoint.buckets,
            "batches": last["batch"] + 1,
            "last_commit": last["time"] if last["batch"] >= 0 else None,
            "begun": None if intended is None else len(intended),
            "files": len({file.path for batch in checkpoint.batches() for file, _ in batch}),
            "rows": sum(table.rows for table in tables),
            "bytes": sum(table.size for table in tables),
            "sources": described["streams"],
            "nodes": [
                {**{key: each[key] for key in ("kind", "about")}, "number": number}
                for number, each in enumerate(described["nodes"])
            ],
            "tables": [asdict(table) for table in tables],
        }

    def tables(self) -> list[TableFacts]:
        """Its state tables in numbers."""
        return table_facts(self._checkpoint.last()["tables"], self.described)

    @cached_property
    def _state(self) -> SavedState:
        program = self.program
        with self._beside():
            return saved_state(self.folder, program)

    def rows(self, table: str, limit: int) -> list[Value]:
        """The first rows of a state table."""
        return list(islice(self._state.rows(table), limit))

    def verify(self, spark: Callable[[], SparkSession]) -> Verified:
        """Compare its answers with those of the same queries over all that was ingested.

        Raises `DifferenceFound` with the rows that differ.
        """
        from incmrql.runtime.verify import verify

        program, described = self.program, self.described
        if described.get("diffuse"):
            message = f"loops of checkpoint {self.folder} diffuse"
            raise CheckpointError(f"{message}: its answer is an approximation, with a stated error")
        if described.get("window"):
            message = f"checkpoint {self.folder} answers for each batch alone"
            raise CheckpointError(f"{message}: there is no answer over all data to compare")
        options = StreamOptions(paths=self._may.program)
        inputs = RunInputs(program, spark, options, self._script)
        with self._beside(), open_driver(inputs, self.folder, read_only=True) as driver:
            if driver.state.number < 0:
                raise CheckpointError(f"checkpoint {self.folder} has taken in nothing yet")
            return verify(driver, spark())

    def rebucket(self, buckets: int) -> tuple[int, int]:
        """Cut its state in another number of parts; how many rows it has, and parts it had."""
        options = StreamOptions(
            window=bool(self.described.get("window")),
            iterate="diffuse" if self.described.get("diffuse") else "default",
            paths=self._may.outputs,
            reads_sources=False,
        )
        inputs = RunInputs(self.program, _no_spark, options, self._script)
        with self._beside(), open_driver(inputs, self.folder) as driver:
            before = driver.checkpoint.buckets
            driver.state = rebucket(driver.checkpoint, driver.state, buckets)
            return driver.state.rows, before


def _no_spark() -> SparkSession:
    raise InternalError("rewriting a checkpoint asked for Spark")
