"""What takes readers of an output folder from the answer of the old program to that of a new one.

The folder's changes add up to the old answer. A rebuild publishes all rows of the old answer with
weight -1 and all rows of the new one with weight +1; a row in both cancels out when changes are
added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from incmrql.compiler.load import READ_ONLY
from incmrql.engine.batch import CompiledProgram
from incmrql.engine.compile.program import compile_program
from incmrql.engine.messages import BatchRequest, Part
from incmrql.engine.store.tables import StateTable
from incmrql.errors import CheckpointError
from incmrql.io.files import Paths
from incmrql.runtime.checkpoint.changed import forms
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.checkpoint.program import describe, remade
from incmrql.runtime.sinks.folders import Sink
from incmrql.spark.stream_job import StreamJob


@dataclass(frozen=True, slots=True)
class Retraction:
    """The old program, its tables, and which of its answers each target had, by place."""

    compiled: CompiledProgram
    tables: Mapping[str, StateTable]
    answers: Mapping[int, int]

    @staticmethod
    def of(
        checkpoint: Checkpoint,
        bound: Sequence[Sink],
        recorded: Sequence[Mapping[str, Any]],
        paths: Paths,
    ) -> Retraction | None:
        """What has to be taken back from sinks; None if nothing.

        The old script may read its includes and the types of its files where `paths` allows it.
        """
        known = {each["folder"]: each["answer"] for each in recorded}
        answers = {
            place: known[str(sink.folder.absolute())]
            for place, sink in enumerate(bound)
            if sink.mode == "changes" and str(sink.folder.absolute()) in known
        }
        if not answers:
            return None
        try:
            program = remade(checkpoint.folder, checkpoint.program, replace(READ_ONLY, paths=paths))
        except CheckpointError as problem:
            raise _unknown(str(problem)) from problem
        compiled = CompiledProgram(
            program, compile_program(program, keep_answer=checkpoint.program["keep_answer"])
        )
        now = describe(program, {}, compiled.physical.tables)["tables"]
        if any(form != now[n]["form"] for n, form in forms(checkpoint.program).items() if n in now):
            raise _unknown("this version of incmrql keeps its state in other columns")
        if not all(compiled.physical.answers[answer].is_kept for answer in answers.values()):
            raise _unknown("the checkpoint does not keep the whole answer")
        old = Checkpoint(checkpoint.folder, compiled.physical.schemas)
        return Retraction(compiled, old.recovered().tables, answers)

    def write(self, job: StreamJob, order: BatchRequest) -> list[Part]:
        """Write the old answers with weight -1 to the targets of an order."""
        places = list(self.answers)
        targets = [replace(order.targets[p], answer=self.answers[p]) for p in places]
        mine = replace(order, tables=self.tables, targets=tuple(targets))
        parts = job.write_answers(mine, -1, self.compiled)
        return [replace(part, target=places[part.target]) for part in parts]


def _unknown(why: str) -> CheckpointError:
    message = f"the answer before the rebuild cannot be taken back from the output: {why}"
    return CheckpointError(f"error: {message}\n = hint: Use a new folder (--output).")
