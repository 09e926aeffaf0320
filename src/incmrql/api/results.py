"""What has not run yet: a query and a script of a session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from incmrql.algebra.scripts import ReferenceEngine
from incmrql.api.html import facts_html
from incmrql.api.saved_answers import AnswerColumns
from incmrql.api.scripts import DEEPEST_EVALUATION, answer_type
from incmrql.api.tracebacks import short_tracebacks
from incmrql.compiler.checks import advice, unwatched_notes
from incmrql.compiler.compiled import Compiled, CompiledItem
from incmrql.compiler.plans import SessionSource, sources_to_json
from incmrql.compiler.stages import explain
from incmrql.engine.local import needs_spark
from incmrql.errors import DataError, Diagnostic, QueryError
from incmrql.runtime.checkpoint.manifests import PRIVATE
from incmrql.syntax.depth import deep_recursion
from incmrql.types import model, typed
from incmrql.values import Value, show

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from incmrql.algebra.scripts import Emit
    from incmrql.api.options import StartOptions
    from incmrql.api.plans import OnArithmetic, SparkAnswers, SparkProgram
    from incmrql.api.programs import CombinedProgram
    from incmrql.api.runs import Listener, Run
    from incmrql.api.session import Session
    from incmrql.plan.explain.text import Strict
    from incmrql.plan.program import LoopMode, Program
    from incmrql.runtime.options import StreamOptions
    from incmrql.spark.batch.scripts import ScriptRunner


_LOG: Final = logging.getLogger("incmrql")


@dataclass(frozen=True, slots=True)
class PreparedScript:
    """A script that has not run yet: items that are answered once, and a program of all others.

    The items that read a stream form the program and ingest the same batches.  With `incr` an item
    answers over everything so far, without it for each batch on its own.
    """

    session: Session = field(repr=False)
    compiled: Compiled = field(repr=False)
    arguments: tuple[str, ...]
    path: Path | None
    """The file of the script, if it has one."""
    settings: Mapping[str, Any] = field(repr=False)
    plans: SparkProgram | None = field(default=None, repr=False)
    """What Spark has analysed, if it is a script of SQL."""

    @property
    def streaming(self) -> tuple[CompiledItem, ...]:
        """The items of the program."""
        return self.compiled.streaming

    @property
    def window(self) -> bool:
        """Whether the program answers each batch on its own."""
        return bool(self.streaming) and not self.streaming[0].item.incremental

    def problems(
        self, *, strict: Strict = False, iterate: LoopMode = "default"
    ) -> tuple[Diagnostic, ...]:
        """Warnings and notes about its queries; with `strict`, also errors."""
        return tuple(advice(self.compiled, strict=strict, iterate=iterate))

    def plan_notes(self, options: StreamOptions, strict: Strict = False) -> Iterator[str]:
        """Plan the program and yield notes about it; raises `QueryError` if it is refused."""
        if strict:
            diagnostics = advice(self.compiled, strict=strict, iterate=options.iterate)
            problems = [problem for problem in diagnostics if problem.severity == "error"]
            if problems:
                raise QueryError(*problems)
        for item in self.compiled.items:
            if item.is_streaming and item.without_terms is not None:
                yield f"{item.without_terms}\nThe query is answered once, from the current data."
        if not self.streaming:
            return
        watch = options.on_arithmetic != "null"
        self.compiled.plans_of(self.streaming, watch=watch)  # refused before anything runs
        windowed = [item.item for item in self.streaming if not item.item.incremental]
        if windowed and len(windowed) < len(self.streaming):
            message = (
                "other items of the script have incr, but this one answers each batch on its own"
            )
            hint = "Write incr before all of them, or move those without incr to another script."
            raise QueryError(Diagnostic("A103", message, windowed[0].span, "has no incr", hint))
        if windowed:
            yield _EACH_BATCH_ALONE
        if watch:
            for item in self.streaming:
                yield from (note.render() for note in unwatched_notes(item))

    def answer(self, items: Sequence[CompiledItem], emit: Emit) -> Mapping[str, Value]:
        """Answer items once, in order, from the current data; returns the values they store."""
        if self.plans is not None:
            for item in items:
                emit(item.item, self.plans.rows(self.session, self.compiled.items.index(item)))
            return {}
        with deep_recursion(DEEPEST_EVALUATION):
            engine = self.session.item_engine(self.compiled, self.arguments, **self.settings)
            for item in items:
                engine.run_item(item.item, emit)
        return engine.world.stored

    def run(self, options: StreamOptions, emit: Emit, listener: Listener) -> Run | None:
        """Answer the items that follow no stream; returns a run of the others, None without any.

        The caller runs its batches, by `step` or `follow`.
        """
        once = [item for item in self.compiled.items if item not in self.streaming]
        stored = self.answer(once, emit)
        if not self.streaming:
            return None
        options = replace(options, window=self.window)
        if options.checkpoint_mode is None and self.session.is_local:
            options = replace(options, checkpoint_mode=PRIVATE)
        with deep_recursion(DEEPEST_EVALUATION):
            watch = options.on_arithmetic != "null"
            program = self.compiled.program(self.streaming, self.arguments, stored, watch=watch)
            return self.session.run_of(
                program, options, self._description(stored), listener, self._answers(), stepped=True
            )

    def _answers(self) -> SparkAnswers | None:
        """The answers of the program as Spark has them."""
        if self.plans is None:
            return None
        from incmrql.api.plans import SparkAnswers  # imports PySpark

        return SparkAnswers(self.plans, tuple(map(self.compiled.items.index, self.streaming)))

    def _description(self, stored: Mapping[str, Value]) -> dict[str, Any]:
        """What a checkpoint records, so that the program can be recompiled."""
        if self.plans is not None:
            return self.plans.description(list(map(self.compiled.items.index, self.streaming)))
        assert self.compiled.tree is not None
        return {
            "text": self.compiled.tree.span.source.text,
            "path": "" if self.path is None else str(self.path.absolute()),
            "arguments": list(self.arguments),
            "stored": {name: show(value) for name, value in stored.items()},
            "folder": str(Path.cwd()),
        }


_EACH_BATCH_ALONE: Final = (
    "note[W303]: the query has no incr: each batch is answered on its own."
    " Write incr before it for the answer over everything so far."
)


@short_tracebacks
@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """A query that has not run yet: `collect` runs it once, `start` follows its streams.

    >>> query = session.query("select (p.X, p.Y * 2.0) from p in points")
    >>> query.collect() == [(1, 4.0), (1, 8.0)]
    True
    >>> query.to_pandas()["_2"].sum()
    np.float64(12.0)
    """

    session: Session = field(repr=False)
    compiled: Compiled = field(repr=False)
    compiled_item: CompiledItem = field(repr=False)
    arguments: tuple[str, ...] = ()
    plans: SparkProgram | None = field(default=None, repr=False)
    """What Spark has analysed, if it is a query of Spark's."""
    on_arithmetic: OnArithmetic | None = None
    """What `start` does if arithmetic fails, unless `on_arithmetic` says otherwise."""

    @property
    def item(self) -> typed.ScriptItem:
        """The item of the query in the script."""
        return self.compiled_item.item

    @property
    def type(self) -> model.Type:
        """The type of the answer."""
        return answer_type(self.item)

    @property
    def number(self) -> int:
        """The number of the query among the items of its script."""
        return self.compiled.items.index(self.compiled_item)

    def collect(self) -> Value:
        """The answer as Python values."""
        if self.plans is not None:
            return self.plans.rows(self.session, self.number)
        answers: list[Value] = []
        with deep_recursion(DEEPEST_EVALUATION):
            engine = self._prepare_items()
            engine.run_item(self.item, lambda _, value: answers.append(value))
        return answers[0]

    def to_df(self, *, wide_sums: bool = False) -> DataFrame:
        """The rows of the answer as a DataFrame: a column for each field, or one `value`.

        A sum of doubles outside of 2^-96 to 2^63 fails the job that uses the DataFrame, because
        that job cannot be repeated with more bits; `wide_sums` uses all bits, and is slower.
        """
        if self.session.runs_locally:
            raise needs_spark("a DataFrame of the answer")
        from incmrql.spark.values import dataframe

        if self.plans is not None:
            return self.plans.current_frame(self.session, self.number)
        engine = self._prepare_engine()
        has_notes = self.item.kind in ("lineage", "debug")
        query = None if has_notes else engine.query(self.item.expr)
        frame = None if query is None else engine.frame(query, wide_sums=wide_sums)
        if frame is not None:
            return frame
        value = self.collect()
        type_ = self.type
        if isinstance(type_, model.Collection):
            return dataframe(self.session.private_spark(), value or [], type_.element)
        return dataframe(self.session.private_spark(), [value], type_)

    def to_pandas(self) -> pd.DataFrame:
        """The rows of the answer as a pandas DataFrame, with a column for each part of a row."""
        from incmrql.spark.values import ONE

        frame = self.to_df()
        if frame.schema.names == [ONE] and hasattr(frame.schema[0].dataType, "fields"):
            frame = frame.select(f"{ONE}.*")
        rows: pd.DataFrame = frame.toPandas()
        return rows

    def start(self, **options: Unpack[StartOptions]) -> Run:
        """Follow the streams of the query: its answer is kept up to date, batch by batch.

        Without a `trigger` every `step()` of the run is a batch; with one, as in `"1s"`, a loop in
        the background runs the batches.  Without a `checkpoint` nothing remains when the run is
        stopped.  `docs/python.md` lists the other options.

        >>> run = session.query("select (k, avg(p.Y)) from p in points group by k: p.X").start()
        >>> run.step().changes()
        [((1, 3.0), 1)]
        >>> points.insert([(2, 5.0)]), points.delete([(1, 4.0)])
        (1, 1)
        >>> batch = run.step()
        >>> run.answer() == [(1, 2.0), (2, 5.0)]
        True
        >>> run.verify().rows
        2
        >>> run.stop()
        """
        from incmrql.api.programs import combine, views_read

        if self.item.kind in ("lineage", "debug"):
            hint = "collect() answers it, from the current data."
            raise DataError("R212", f"{self.item.kind} does not follow streams", hint=hint)
        session = self.session
        if not self.compiled_item.reads_streams:
            hint = (
                "collect() answers it. To follow data, read stream(...) or a session.stream(...)."
            )
            if self.plans is not None:
                hint = "collect() answers it. Followed are files of spark.read and session streams."
            raise DataError("R212", "the query reads no stream", hint=hint)
        if views_read(session, self):
            return start_program(session, combine(session, {"": self}), options)
        settings = _settings(session, options, self.on_arithmetic)
        with deep_recursion(DEEPEST_EVALUATION):
            stored, watch = self._stored_values(), settings.on_arithmetic != "null"
            program = self.compiled.program(
                [self.compiled_item], self.arguments, stored, watch=watch
            )
            described = self._description(program, stored)
            run = _run(session, program, settings, described, self._answers())
        if not (self.item.incremental or settings.window):
            _LOG.warning(
                "the query has no incr: start() answers it over everything so far; incmrql run "
                "would answer each batch on its own, as start(window=True) does [W303]"
            )
        return run

    def __repr__(self) -> str:
        return f"Result({self.type}; not run yet: collect(), to_df(), to_pandas() or start())"

    def _repr_html_(self) -> str:
        text = self.item.span.text if self.plans is None else self.plans.text
        columns = AnswerColumns(self.type, tuple(self.item.columns))
        facts = [("query", text), ("type", str(self.type)), ("columns", ", ".join(columns.header))]
        return facts_html("a query that has not run yet", [fact for fact in facts if fact[1]])

    def _description(self, program: Program, stored: Mapping[str, Value]) -> dict[str, Any]:
        """What a checkpoint records, so that the program can be recompiled."""
        if self.plans is not None:
            return self.plans.description([self.number])
        sources = [stream.source for stream in program.streams]
        registered = [source for source in sources if source.format == "registered"]
        return {
            "text": self.item.span.source.text,
            "arguments": list(self.arguments),
            "stored": {name: show(value) for name, value in stored.items()},
            "item": self.compiled.typed.items.index(self.item),
            "registered": sources_to_json(
                {
                    source.name: SessionSource(source.row, source.streaming, dict(source.options))
                    for source in registered
                }
            ),
        }

    def _answers(self) -> SparkAnswers | None:
        """The answer as Spark has it."""
        if self.plans is None:
            return None
        from incmrql.api.plans import SparkAnswers  # imports PySpark

        return SparkAnswers(self.plans, (self.number,))

    def _stored_values(self) -> dict[str, Value]:
        """The values that earlier items store."""
        items = self.compiled.typed.items
        if not any(item.kind == "store-value" for item in items):
            return {}
        return self._prepare_items().world.stored

    def explain(self, stage: str | None = None, *, trace: bool = False) -> str:
        """The query at a stage: tree, types, algebra, normal, incremental or spark.

        Without a stage it is what Spark runs for MRQL, and what is kept for a query of Spark's.
        """
        from incmrql.api.programs import combine, views_read

        stage = stage or ("spark" if self.plans is None else "incremental")
        fast = self.session.sums_are_fast
        if stage == "incremental" and views_read(self.session, self):
            return explain(combine(self.session, {"": self}).compiled, stage, trace=trace)
        return explain(
            self.compiled, stage, items=[self.compiled_item], trace=trace, fast_sums=fast
        )

    def _prepare_engine(self) -> ScriptRunner:
        """The engine on Spark after it has run the items before the query that store values."""
        engine = self.session.engine(self.compiled, self.arguments)
        self._store_values(engine)
        return engine

    def _prepare_items(self) -> ScriptRunner | ReferenceEngine:
        """The same of the session's engine, which may be the local one."""
        engine = self.session.item_engine(self.compiled, self.arguments)
        self._store_values(engine)
        return engine

    def _store_values(self, engine: ScriptRunner | ReferenceEngine) -> None:
        for item in self.compiled.typed.items:
            if item is self.item:
                break
            if item.kind == "store-value":
                engine.run_item(item, lambda _item, _value: None)


# --- Starting ---


def start_program(session: Session, combined: CombinedProgram, options: Mapping[str, Any]) -> Run:
    """Follow the streams of several queries in one run."""
    settings = _settings(session, options, combined.on_arithmetic)
    for name, item in zip(combined.queries.answers, combined.compiled.items, strict=True):
        if not item.reads_streams:
            hint = "collect() answers it. To follow data, read a stream or files of spark.read."
            raise DataError("R212", f'the query "{name}" reads no stream', hint=hint)
    with deep_recursion(DEEPEST_EVALUATION):
        program = combined.compiled.program(
            combined.compiled.items,
            combined.queries.arguments,
            watch=settings.on_arithmetic != "null",
        )
        return _run(session, program, settings, combined.description(), combined.answers)


def _settings(
    session: Session, given: Mapping[str, Any], on_arithmetic: OnArithmetic | None
) -> StreamOptions:
    """The options of `start`, with what the session and the query say where they say nothing."""
    from incmrql.api.options import stream_options

    options = dict(given)
    if on_arithmetic is not None:
        options.setdefault("on_arithmetic", on_arithmetic)
    if session.is_local:
        options.setdefault("checkpoint_mode", PRIVATE)
    settings = stream_options(options)
    is_stepped = settings.trigger is None and not settings.available_now
    keep_changes = is_stepped or settings.on_batch is not None
    settings = replace(settings, keep_changes=keep_changes, quarantine=session.quarantine)
    if settings.checkpoint is not None:
        settings = replace(settings, checkpoint=settings.checkpoint.absolute())
    return settings


def _run(
    session: Session,
    program: Program,
    settings: StreamOptions,
    described: Mapping[str, Any],
    answers: SparkAnswers | None,
) -> Run:
    """A run of a program, and a warning for arithmetic in it that is not watched."""
    from incmrql.api.runs import Warnings

    run = session.run_of(program, settings, described, Warnings(settings.on_batch), answers)
    for span in program.unwatched:
        _LOG.warning(
            "arithmetic in %s (%s) is not watched: overflow and division by zero there give "
            "null, and batches do not report them [W304]", span.text, span,
        )  # fmt: skip
    return run


__all__ = ["PreparedScript", "Result", "start_program"]
