"""Rewriting a checkpoint: the answer of a replaced program, and the number of buckets.

The changes in an output directory add up to the answer of the program that wrote them.  When a new
program takes over the checkpoint, a batch publishes the rows in which the two answers differ: those
of the old one with weight -1, those of the new one with weight +1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from incmrql.compiler.load import READ_ONLY
from incmrql.engine.batch import CompiledProgram
from incmrql.engine.compile.program import compile_program
from incmrql.engine.jobs import Job
from incmrql.engine.messages import BatchRequest, Part
from incmrql.engine.store.segments import OpenSegments, Segment, write_segments
from incmrql.engine.store.tables import Reader, StateTable, by_bucket, scan
from incmrql.errors import CheckpointError
from incmrql.io.files import Paths
from incmrql.runtime.checkpoint.compatibility import table_schemas
from incmrql.runtime.checkpoint.manifests import Checkpoint, Commit, State
from incmrql.runtime.checkpoint.program import describe, recompile
from incmrql.runtime.sinks.folders import Sink

# --- The answer of the old program ---


@dataclass(frozen=True, slots=True)
class Retraction:
    """What to retract from sinks: the old program, its tables, and its answer for each sink."""

    compiled: CompiledProgram
    tables: Mapping[str, StateTable]
    answers: Mapping[int, int]

    @staticmethod
    def of_program(
        checkpoint: Checkpoint,
        bound: Sequence[Sink],
        recorded: Sequence[Mapping[str, Any]],
        paths: Paths,
    ) -> Retraction | None:
        """What to retract from sinks that had an answer of the old program; None if nothing.

        Compiling the old script may read its includes and the types of its files within `paths`.
        """
        known = {sink["folder"]: sink["answer"] for sink in recorded}
        answers = {
            index: known[str(sink.folder.absolute())]
            for index, sink in enumerate(bound)
            if sink.mode == "changes" and str(sink.folder.absolute()) in known
        }
        if not answers:
            return None
        try:
            program = recompile(
                checkpoint.folder, checkpoint.program, replace(READ_ONLY, paths=paths)
            )
        except CheckpointError as problem:
            raise _cannot_retract(str(problem)) from problem
        compiled = CompiledProgram(
            program, compile_program(program, keep_answer=checkpoint.program["keep_answer"])
        )
        now = describe(program, {}, compiled.physical.tables)["tables"]
        before = table_schemas(checkpoint.program)
        if any(digest != now[name]["form"] for name, digest in before.items() if name in now):
            raise _cannot_retract("this version of incmrql stores its state in different columns")
        old = Checkpoint(checkpoint.folder, compiled.physical.schemas)
        return Retraction.of_state(compiled, old.committed_state().tables, answers)

    @staticmethod
    def of_state(
        compiled: CompiledProgram, tables: Mapping[str, StateTable], answers: Mapping[int, int]
    ) -> Retraction:
        """The same of answers that some tables have."""
        if not all(compiled.physical.answers[answer].is_kept for answer in answers.values()):
            raise _cannot_retract("the checkpoint does not store the whole answer")
        return Retraction(compiled, tables, answers)

    def write(self, job: Job, request: BatchRequest) -> list[Part]:
        """Write to each target of a request what its readers need to get to the new answer."""
        indices = list(self.answers)
        others = [index for index in range(len(request.targets)) if index not in self.answers]
        parts: list[Part] = []
        if others:
            targets = tuple(request.targets[index] for index in others)
            written = job.write_answers(replace(request, targets=targets))
            parts += [replace(part, target=others[part.target]) for part in written]
        if not indices:
            return parts
        targets = tuple(
            replace(request.targets[index], answer=self.answers[index]) for index in indices
        )
        old = replace(request, tables=self.tables, targets=targets)
        return parts + job.write_differences(request, old, self.compiled, indices)


def _cannot_retract(why: str) -> CheckpointError:
    message = f"the answer before the rebuild cannot be retracted from the output: {why}"
    return CheckpointError(f"error: {message}\n = hint: Use a new directory (--output).")


# --- The number of buckets ---


def rebucket(checkpoint: Checkpoint, state: State, buckets: int) -> State:
    """Commit a batch that rewrites all tables with another number of buckets.

    The caller is the writer of the checkpoint and has published its last batch.  The new manifest
    changes everything at once.
    """
    if state.number < 0:
        message = f"checkpoint {checkpoint.folder} has no batch yet: there is nothing to rewrite"
        raise CheckpointError(message)
    if checkpoint.intent(state.number + 1) is not None:
        message = f"checkpoint {checkpoint.folder} has a batch that was started but not committed"
        raise CheckpointError(f"{message}: run the script once first")
    number, attempt = state.number + 1, checkpoint.attempt()
    reader = Reader(checkpoint.runs.absolute(), OpenSegments())
    tables = {}
    for name, table in state.tables.items():
        file = f"{number:06d}-{attempt}-{name}.run"
        tables[name] = _rebucket_table(table, reader, buckets, checkpoint.runs / file)
    checkpoint.buckets = buckets
    counts = {"rebucketed": buckets}
    return checkpoint.commit(state, Commit(tables, counts=counts, kind="rebucket", attempt=attempt))


def _rebucket_table(table: StateTable, reader: Reader, buckets: int, path: Path) -> StateTable:
    """A table of the same rows, with one base segment for each bucket that is not empty."""
    # Buckets are ranges of hashes, so the old buckets, one after the other, are already in order.
    pieces = [
        (bucket, rows)
        for old in range(table.buckets)
        for bucket, rows in by_bucket(scan(table, reader, old), buckets)
    ]
    segments: list[Segment] = []
    if pieces:
        contents = [(rows, {bucket: len(rows)}) for bucket, rows in pieces]
        segments = write_segments(path.parent, path.name, contents)
    return StateTable(table.name, table.schema, buckets, bases=tuple(segments))
