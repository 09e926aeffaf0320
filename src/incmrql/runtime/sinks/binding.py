"""The output directories of a checkpoint: a binding that outlives a run.

The changes in an output directory add up to the answer only if the directory has all of them. So
the manifest records directory, mode, format and row type of every output. A run that names no
output continues the recorded one. A directory that is new to the checkpoint first gets the whole
answer so far, as a batch of its own; a known directory keeps its mode, format and row type.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.engine.outputs import PLACE
from incmrql.errors import CheckpointError, DataError
from incmrql.io.arrow.columns import WEIGHT
from incmrql.plan.program import Program
from incmrql.runtime.sinks.folders import Sink, sinks_of

if TYPE_CHECKING:
    from incmrql.runtime.options import StreamOptions


@dataclass(frozen=True, slots=True)
class SinkBinding:
    """The sinks of a run, those of them that first need the whole answer, and notices for users."""

    sinks: tuple[Sink, ...]
    fresh: tuple[Sink, ...] = ()
    notices: tuple[str, ...] = ()

    def as_json(self, program: Program) -> list[dict[str, Any]]:
        """The binding for a manifest."""
        return [
            {
                "answer": sink.answer,
                "folder": str(sink.folder.absolute()),
                "mode": sink.mode,
                "format": sink.format,
                "named": sink.named,
                "row": str(program.outputs[sink.answer].row),
                "list": program.outputs[sink.answer].is_list,
            }
            for sink in self.sinks
        ]


def bind(
    program: Program,
    recorded: Sequence[Mapping[str, Any]],
    output: Path | None,
    options: StreamOptions,
    *,
    has_batches: bool,
) -> SinkBinding:
    """The sinks of a run; refused if the batches in a directory would no longer add up."""
    known = {sink["folder"]: sink for sink in recorded}
    sinks = _requested_sinks(program, known, output, options)
    notices = []
    if output is None and not options.detach_output:
        continued = [sink for sink in recorded if not sink["named"]]
        sinks += [_recorded_sink(sink, options) for sink in continued]
        _refuse_other_answers(program, continued)
        notices += [f"output continues in {sink['folder']}, as recorded" for sink in continued]
    _refuse_shared(sinks)
    for sink in sinks:
        _refuse_equal_names(program, sink)
    if not has_batches:
        return SinkBinding(tuple(sinks), notices=tuple(notices))
    folders = {str(sink.folder.absolute()) for sink in sinks}
    notices += [f"output to {folder} has ended" for folder in known if folder not in folders]
    fresh = []
    for sink in sinks:
        before = known.get(str(sink.folder.absolute()))
        if before is not None:
            _refuse_other_kind(program, sink, before)
        elif not options.window:
            fresh.append(sink)
    return SinkBinding(tuple(sinks), tuple(fresh), tuple(notices))


def _refuse_shared(sinks: Sequence[Sink]) -> None:
    """Refuse two answers in one directory: their changes would be mixed."""
    directories = [os.path.realpath(sink.folder) for sink in sinks]
    for index, directory in enumerate(directories):
        if directory in directories[:index]:
            message = f"two items write to {sinks[index].folder}"
            hint = "Give each item a directory of its own."
            raise CheckpointError(f"error: {message}\n = hint: {hint}")


def refuse_used(sinks: Sequence[Sink]) -> None:
    """Refuse directories with batches of another run: those add up to that run's answer."""
    for sink in sinks:
        if any(sink.folder.glob("batch=*")):
            message = f"{sink.folder} has the output of another run"
            hint = "Use a new directory (--output), or the checkpoint of that run."
            raise CheckpointError(f"error: {message}\n = hint: {hint}")


def _requested_sinks(
    program: Program,
    known: Mapping[str, Mapping[str, Any]],
    output: Path | None,
    options: StreamOptions,
) -> list[Sink]:
    """The sinks that the script and the options name; what they leave open is as recorded."""
    sinks = sinks_of(program, output, options.mode or "changes", options.format or "parquet")
    return [_as_recorded(sink, known, options) for sink in sinks]


def _as_recorded(
    sink: Sink, known: Mapping[str, Mapping[str, Any]], options: StreamOptions
) -> Sink:
    before = known.get(str(sink.folder.absolute()))
    if before is None:
        return sink
    mode = before["mode"] if options.mode is None else sink.mode
    is_open = options.format is None and not sink.named
    return replace(sink, mode=mode, format=before["format"] if is_open else sink.format)


def _recorded_sink(before: Mapping[str, Any], options: StreamOptions) -> Sink:
    """A recorded sink; refused if the options disagree with it."""
    folder = Path(before["folder"])
    for name, given in (("mode", options.mode), ("format", options.format)):
        if given is not None and given != before[name]:
            raise _refusal(f"{folder} was written with --{name} {before[name]}, not {given}")
    return Sink(before["answer"], folder, before["mode"], before["format"])


def _refuse_other_answers(program: Program, kept: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a script that has gained or lost answers: recorded directories would not fit."""
    outputs = enumerate(program.outputs)
    answers = [number for number, output in outputs if output.kind not in ("store", "dump")]
    if kept and sorted(sink["answer"] for sink in kept) != answers:
        raise _refusal(f"{kept[0]['folder']} was written by a script with other answers")


def _refuse_other_kind(program: Program, sink: Sink, before: Mapping[str, Any]) -> None:
    """Refuse to write to a directory in a mode, format or row type that it did not have before."""
    answer = program.outputs[sink.answer]
    row = str(answer.row)
    for name, now in (("mode", sink.mode), ("format", sink.format), ("row", row)):
        if before[name] != now:
            what = "rows of type" if name == "row" else f"--{name}"
            raise _refusal(f"{sink.folder} was written with {what} {before[name]}, not {now}")
    was_list = before.get("list")  # unknown in manifests of earlier versions
    if sink.mode == "changes" and was_list is not None and was_list != answer.is_list:
        was, now = ("with", "without") if was_list else ("without", "with")
        rows = f"rows of type {row} {was} a column {PLACE}, not {now} it"
        raise _refusal(f"{sink.folder} was written with {rows}")


def _refuse_equal_names(program: Program, sink: Sink) -> None:
    """Refuse columns of one name, in any case, and the names of the columns of changes."""
    columns = program.outputs[sink.answer].item.columns
    own = (WEIGHT, PLACE) if sink.mode == "changes" and columns else ()
    names = [name.lower() for name in (*columns, *own)]
    equal = next((name for name in columns if names.count(name.lower()) > 1), None)
    if equal is not None:
        message = f'the answer has two columns "{equal}", and a file holds one'
        hint = "Rename one: df.toDF(...), df.withColumnRenamed(...), or AS in SQL."
        if equal in own:
            message = f'files of changes have a column "{equal}" of their own'
        raise DataError("R326", message, place=str(sink.folder), hint=hint)


def _refusal(message: str) -> CheckpointError:
    hint = "Use a new directory (--output): it first gets the whole answer so far."
    return CheckpointError(f"error: {message}\n = hint: {hint}")
