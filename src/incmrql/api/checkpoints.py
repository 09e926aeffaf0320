"""Checkpoints of runs that are not running: inspected, verified or rewritten.

The script file may be gone, so the program is recompiled from its description in the checkpoint.
That is as safe as running the script, if the user has started it; of somebody else's checkpoint
only its own files are read, and those that the user allows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.api.drivers import RunInputs, open_driver
from incmrql.api.html import facts_html
from incmrql.api.named import named_rows, number_of_answer
from incmrql.api.saved_answers import SavedAnswer
from incmrql.api.tracebacks import short_traceback, short_tracebacks
from incmrql.errors import CheckpointError, InternalError
from incmrql.io.files import Paths
from incmrql.plan.program import Program
from incmrql.runtime.checkpoint.copy import copy_checkpoint
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
from incmrql.runtime.checkpoint.rollback import RolledBack, roll_back
from incmrql.runtime.options import StreamOptions
from incmrql.runtime.report import Verified
from incmrql.values import Value

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from incmrql.api.plans import SparkAnswers
    from incmrql.api.session import Session
    from incmrql.runtime.driver import Driver
    from incmrql.runtime.expected import Against, Judge


@short_tracebacks
class SavedRun:
    """A run that is not running, opened by its checkpoint.

    `modules` are the Python modules that its script may import, and `allowed` the paths that it
    may use.
    """

    def __init__(
        self, folder: Path, modules: Sequence[str] = (), allowed: Sequence[str | Path] = ()
    ) -> None:
        self.folder, self._modules = folder.absolute(), modules
        self._checkpoint = Checkpoint(self.folder)
        self._ownership = ownership(self._checkpoint, Paths.of(allowed))

    @cached_property
    def described(self) -> dict[str, Any]:
        """The description of the program in the checkpoint."""
        return dict(self._checkpoint.description())

    @cached_property
    def _script(self) -> dict[str, Any]:
        return self.described.get("script") or {}

    @contextlib.contextmanager
    def _in_script_folder(self) -> Iterator[None]:
        """Changes to the directory where the script was started: its paths are relative to that."""
        folder = self._script.get("folder", "")
        with contextlib.chdir(folder) if os.path.isdir(folder) else contextlib.nullcontext():
            yield

    @cached_property
    def program(self) -> Program:
        """The program, recompiled."""
        with self._in_script_folder():
            return read_program(self.folder, self._modules, self._ownership.program)[0]

    def facts(self) -> dict[str, Any]:
        """The content of the checkpoint, as `incmrql state --json` prints it."""
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
                {"kind": node["kind"], "about": node["about"], "number": number}
                for number, node in enumerate(described["nodes"])
            ],
            "tables": [asdict(table) for table in tables],
        }

    def tables(self) -> list[TableFacts]:
        """Its state tables: what they hold, and their sizes."""
        return table_facts(self._checkpoint.last()["tables"], self.described)

    @cached_property
    def _state(self) -> SavedState:
        program = self.program
        with self._in_script_folder():
            return saved_state(self.folder, program)

    def rows(self, table: str, limit: int) -> list[Value]:
        """The first rows of a state table."""
        return list(islice(self._state.rows(table), limit))

    def answer(self, item: int | str = 0, *, as_of: int | None = None) -> Value:
        """The answer of an item after the last batch, or after `as_of`, as `Run.answer` has it."""
        return self.saved_answer(item, as_of=as_of).value

    def to_pandas(self, item: int | str = 0, *, as_of: int | None = None) -> pd.DataFrame:
        """The same as a pandas DataFrame."""
        return self.saved_answer(item, as_of=as_of).to_pandas()

    def __repr__(self) -> str:
        batch = self._checkpoint.last()["batch"]
        return f"SavedRun(checkpoint={str(self.folder)!r}, batch={batch})"

    def _repr_html_(self) -> str:
        facts = self.facts()
        shown = ("batches", "files", "rows", "bytes")
        return facts_html(repr(self), [(name, f"{facts[name]:,}") for name in shown])

    def saved_answer(self, item: int | str = 0, *, as_of: int | None = None) -> SavedAnswer:
        """The same with its type and the names of its columns.

        It is computed from the state: nothing runs, and Spark does not start.  `as_of` is one of
        the last batches, whose state a run keeps (`keep_batches`).
        """
        options = StreamOptions(
            window=bool(self.described.get("window")),
            iterate="diffuse" if self.described.get("diffuse") else "default",
            paths=self._ownership.program,
            reads_sources=False,
            as_of=as_of,
        )
        inputs = RunInputs(self.program, _no_spark, options, self._script)
        with self._in_script_folder(), open_driver(inputs, self.folder, read_only=True) as driver:
            if driver.state.number < 0:
                raise CheckpointError(f"checkpoint {self.folder} has not ingested anything yet")
            number = number_of_answer(driver.program, item)
            output = driver.program.outputs[number]
            value = named_rows(driver.answer(number), output)
            return SavedAnswer.of(value, output, driver.state.number)

    def verify(
        self,
        session: Session,
        *,
        against: Against | None = None,
        on_notice: Callable[[str], None] = lambda _notice: None,
    ) -> Verified:
        """Compare its answers with those of the same queries over everything that was ingested.

        A SQL text is analysed again for `against="spark"`.  Raises `DifferenceFound` with the rows
        that differ.
        """
        from incmrql.runtime.verify import verify

        program, described = self.program, self.described
        if described.get("diffuse"):
            message = f"checkpoint {self.folder} was created with --iterate diffuse"
            raise CheckpointError(f"{message}: its answer is approximate, with an error bound")
        if described.get("window"):
            message = f"checkpoint {self.folder} answers each batch on its own"
            raise CheckpointError(f"{message}: there is no answer over all data to compare")
        options = StreamOptions(paths=self._ownership.program)
        judge = self._judge(session)
        inputs = RunInputs(program, session.runner, options, self._script)
        with self._in_script_folder(), open_driver(inputs, self.folder, read_only=True) as driver:
            if driver.state.number < 0:
                raise CheckpointError(f"checkpoint {self.folder} has not ingested anything yet")
            return verify(
                driver, inputs.session(), judge=judge, against=against, on_notice=on_notice
            )

    def _judge(self, session: Session) -> Judge | None:
        """Spark's own plans of the answers, if they can be made again from a SQL text."""
        if not self._script.get("plans") or not self._script["text"]:
            return None

        @cache
        def answers() -> SparkAnswers:
            from incmrql.api.plans import analyzed_again

            return analyzed_again(session, self._script)

        return lambda number, rows: answers().frame(number, rows)

    def rebucket(self, buckets: int) -> tuple[int, int]:
        """Change the number of buckets; returns the rows of the state and the old number."""
        with self._writer() as driver:
            before = driver.checkpoint.buckets
            driver.state = rebucket(driver.checkpoint, driver.state, buckets)
            return driver.state.rows, before

    def roll_back(self, to: int) -> RolledBack:
        """Go back to the state after an earlier batch, as a batch of its own.

        Outputs get the rows in which the two answers differ, and later files are new input again.
        """
        with self._writer() as driver:
            return roll_back(driver, to)

    def copy_to(self, folder: str | Path) -> int:
        """Copy the checkpoint to a new directory; returns the last batch.

        The copy has no outputs: a run of it that names a new one first gets the whole answer.
        """
        return copy_checkpoint(self.folder, Path(folder).absolute())

    @contextlib.contextmanager
    def _writer(self) -> Iterator[Driver]:
        """A driver that rewrites the checkpoint and reads no source."""
        options = StreamOptions(
            window=bool(self.described.get("window")),
            iterate="diffuse" if self.described.get("diffuse") else "default",
            paths=self._ownership.outputs,
            reads_sources=False,
        )
        inputs = RunInputs(self.program, _no_spark, options, self._script)
        with self._in_script_folder(), open_driver(inputs, self.folder) as driver:
            yield driver


@short_traceback
def open_checkpoint(
    checkpoint: str | Path,
    *,
    allow_import: Sequence[str] = (),
    allow_path: Sequence[str | Path] = (),
) -> SavedRun:
    """A run that is not running, by its checkpoint: `answer()` reads its answer without Spark.

    For a checkpoint of somebody else, `allow_import` names the Python modules that its script may
    import and `allow_path` the paths that it may use.
    """
    saved = SavedRun(Path(checkpoint), allow_import, allow_path)
    _ = saved.described  # raises if there is none
    return saved


def _no_spark() -> SparkSession:
    raise InternalError("rewriting a checkpoint needs no Spark")


__all__ = ["RolledBack", "SavedRun", "open_checkpoint"]
