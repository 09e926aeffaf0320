"""Queries from Python, on Spark.

    session = incmrql.Session()
    session.register("orders", df)
    session.query("select (o.city, sum(o.price)) from o in orders group by o.city").collect()

Spark is started when the first query needs it, and only then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, Unpack, overload

from incmrql.api.scripts import DEEPEST_EVALUATION, Answer, answer_type, load
from incmrql.compiler.cache import CompileCache
from incmrql.compiler.compiled import Compiled, CompiledItem
from incmrql.compiler.load import Imports, catalog_for, typed_function
from incmrql.compiler.stages import explain
from incmrql.errors import DataError, Diagnostic, QueryError
from incmrql.io.files import Paths
from incmrql.io.notices import warn
from incmrql.io.rows import Policy, ReadReport
from incmrql.reference import new_world
from incmrql.reference.python import row_type
from incmrql.reference.script import check_script
from incmrql.runtime.checkpoint.manifests import PRIVATE
from incmrql.syntax.depth import deep_recursion
from incmrql.types import model, typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.scope import Catalog
from incmrql.types.walk import with_sources
from incmrql.values import Value, show

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.algebra.scripts import Emit
    from incmrql.api.options import StartOptions
    from incmrql.api.runs import Listener, Run
    from incmrql.api.streams import FrameStream, PushedStream
    from incmrql.plan.explain.text import Strict
    from incmrql.plan.program import Program
    from incmrql.runtime.options import StreamOptions
    from incmrql.spark.batch.scripts import Engine


Function = TypeVar("Function", bound=Callable[..., Any])
FloatSums = Literal["exact", "fast"]


class Session:
    """Runs queries on Spark, over registered data and with registered Python functions.

    Without arguments Spark runs on this machine.  A Spark session of the user's (`spark=`) is not
    stopped, and none of its settings change.  With `allow_paths`, queries may read and write only
    there.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting
        self,
        spark: SparkSession | None = None,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        float_sums: FloatSums = "exact",
        quarantine: str | Path | None = None,
        on_report: Callable[[ReadReport, Policy], None] | None = None,
        allow_paths: Sequence[str | Path] = (),
    ) -> None:
        if spark is not None and (master is not None or conf):
            raise DataError("R212", "give either a Spark session, or a master and configuration")
        if float_sums not in ("exact", "fast"):
            raise DataError("R212", f'float_sums is "exact" or "fast", not {float_sums!r}')
        self._users, self._master, self._conf = spark, master, dict(conf or {})
        self._own: SparkSession | None = None
        self._private: SparkSession | None = None
        self._data: dict[str, tuple[Any, model.Type]] = {}
        self._streams: dict[str, PushedStream | FrameStream] = {}
        self._runs: list[Run] = []
        self._functions: dict[str, typed.PythonFunction] = {}
        self._compile_cache = CompileCache()
        self._float_sums = float_sums
        self._quarantine = None if quarantine is None else Path(quarantine)
        self._on_report = on_report
        self._paths = Paths.of(allow_paths)

    @property
    def spark(self) -> SparkSession:
        """The Spark session of the user, or the one that this session starts on first use."""
        if self._users is not None:
            return self._users
        if self._own is None:
            from incmrql.spark.session import start

            self._own = start(self._master, self._conf)
        return self._own

    @property
    def paths(self) -> Paths:
        """Where queries may read and write."""
        return self._paths

    @property
    def is_local(self) -> bool:
        """Whether all tasks run on this machine, as this user."""
        context = None if self._users is None else self._users.sparkContext
        master = self._master if context is None else context.master
        return master is None or master.startswith("local")

    def register(self, name: str, data: Any, type: str | None = None) -> None:  # noqa: A002
        """Register data under a name that queries can use.

        The data are a DataFrame of Spark or pandas, an Arrow table, or a list of dicts or
        tuples; `type`, as in `"< A: int, B: string >"`, says what a list cannot.
        """
        self._check_name(name, self._streams)
        rows = list(data) if isinstance(data, Iterable) and not _has_columns(data) else data
        known = _row_type(rows, name) if type is None else type_from_text(type)
        self._data[name] = rows, known

    @overload
    def stream(
        self, name: str, rows: str, *, keep: bool = True, **options: Any
    ) -> PushedStream: ...

    @overload
    def stream(self, name: str, rows: DataFrame, **options: Any) -> FrameStream: ...

    def stream(
        self, name: str, rows: str | DataFrame, *, keep: bool = True, **options: Any
    ) -> PushedStream | FrameStream:
        """Register a stream under a name that queries can use.

        If `rows` is a type, as in `"< A: int, B: string >"`, call `insert` and `delete` of the
        returned stream to push rows; `keep` says whether a run that starts later gets all rows
        pushed so far.  If `rows` is a streaming DataFrame, its column `_weight`, or the one that
        `sign` names, says whether a row is inserted or deleted.

        `insert_only`, `key` and `trusted_deletes` are as in `stream(...)` of the language.
        """
        from incmrql.api.streams import frame_stream, pushed_stream

        self._check_name(name, {*self._data, *self._streams})
        if isinstance(rows, str):
            stream: PushedStream | FrameStream = pushed_stream(name, rows, options, keep=keep)
        else:
            stream = frame_stream(name, rows, options)
        stream.known_to(lambda: self.spark)
        self._streams[name] = stream
        return stream

    def _check_name(self, name: str, used: Container[str]) -> None:
        if not name.isidentifier():
            message = f"{name!r} cannot be the name of a source"
            raise DataError("R212", message, hint="Use letters, digits and underscores.")
        if name in used:
            raise DataError("R212", f'there is a source "{name}" already', hint="Use another name.")

    def function(self, function: Function) -> Function:
        """Decorator that registers a Python function, typed by its annotations, for queries."""
        name = function.__name__
        self._functions[name] = typed_function(name, function)
        return function

    def query(self, text: str, arguments: Sequence[str] = ()) -> Result:
        """A query, optionally after declarations; it runs when its result is requested."""
        compiled = self._compile(text, arguments)
        queries = [item for item in compiled.items if item.item.kind in _ANSWERING]
        if not queries:
            raise DataError("R212", "the text has no query", hint="End it with a query.")
        return Result(self, compiled, queries[-1], tuple(arguments))

    def script(self, script: str | Path, arguments: Sequence[str] = (), **settings: Any) -> Script:
        """A script; its items run when they are requested.  `settings` are those of `api.run`."""
        compiled = self._compile(script, arguments)
        path = script if isinstance(script, Path) else None
        return Script(self, compiled, tuple(arguments), path, settings)

    def run(
        self,
        script: str | Path,
        arguments: Sequence[str] = (),
        *,
        on_answer: Callable[[Answer], None] | None = None,
        **settings: Any,
    ) -> list[Answer]:
        """Run a script over the current data; returns the answers of its items, in order."""
        answers: list[Answer] = []

        def emit(item: typed.ScriptItem, value: Value) -> None:
            answers.append(Answer(value, answer_type(item), item.kind))
            if on_answer is not None:
                on_answer(answers[-1])

        prepared = self.script(script, arguments, **settings)
        prepared.answer(prepared.compiled.items, emit)
        return answers

    def stop(self) -> None:
        """Stop all runs; and Spark, if this session started it."""
        for run in self._runs:
            run.stop()
        for stream in self._streams.values():
            stream.close()
        self._private = None
        if self._own is not None:
            self._own.stop()
            self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self.stop()

    def _compile(self, script: str | Path, arguments: Sequence[str]) -> Compiled:
        source, imports = load(script), Imports(paths=self._paths)
        catalog: Catalog = replace(
            catalog_for(source, list(arguments), imports),
            registered={
                **{name: (row, False) for name, (_, row) in self._data.items()},
                **{name: (stream.row, True) for name, stream in self._streams.items()},
            },
            functions=self._functions,
        )
        options = {name: dict(stream.options) for name, stream in self._streams.items()}
        settings = frozenset((name, stream.options) for name, stream in self._streams.items())
        return self._compile_cache.compile(
            source, catalog, imports.include, settings, lambda script: script.with_options(options)
        )

    def _engine(self, compiled: Compiled, arguments: Sequence[str], **settings: Any) -> Engine:
        from incmrql.spark.batch.queries import QueryCache
        from incmrql.spark.batch.scripts import Engine

        given: dict[str, Any] = {"quarantine": self._quarantine, "paths": self._paths}
        given |= {"on_report": self._on_report or warn, **settings}
        registered = {name: data for name, (data, _) in self._data.items()}
        streams = self._streams_read_by(compiled.typed)
        registered.update({name: stream.rows() for name, stream in streams})
        world = new_world(compiled.typed, arguments=list(arguments), registered=registered, **given)
        check_script(compiled.typed, world)
        cache = compiled.cache.setdefault("spark", QueryCache(compiled.items))
        return Engine(world, self.private_spark, self._float_sums == "fast", cache=cache)

    def _streams_read_by(
        self, script: typed.Script
    ) -> list[tuple[str, PushedStream | FrameStream]]:
        """The streams of this session that a script reads."""
        if not self._streams:
            return []
        names: set[str] = set()

        def note(source: typed.Source) -> typed.Source:
            names.add(source.name)
            return source

        with_sources(script, note)
        return [(name, stream) for name, stream in self._streams.items() if name in names]

    def private_spark(self) -> SparkSession:
        """A second Spark session in the same application, with the settings that queries need."""
        if self._private is None:
            from incmrql.spark.clusters import await_executors
            from incmrql.spark.session import private

            await_executors(self.spark)
            self._private = private(self.spark)
        return self._private

    def _run_of(
        self,
        program: Program,
        options: StreamOptions,
        described: Mapping[str, Any],
        listener: Listener,
        *,
        stepped: bool = False,
    ) -> Run:
        """A run of a program over the data and streams of the session."""
        from incmrql.api.runs import Run, RunInputs
        from incmrql.api.streams import FrameTables

        data = {
            name: FrameTables(rows) if hasattr(rows, "sparkSession") else rows
            for name, (rows, _) in self._data.items()
        }
        options = replace(options, paths=self._paths)
        inputs = RunInputs(
            program,
            self.private_spark,
            options,
            described,
            self._on_report,
            dict(self._streams),
            data,
        )
        run = Run(inputs, listener, stepped=stepped)
        self._runs = [other for other in self._runs if other.status.state != "stopped"]
        self._runs.append(run)
        return run


_LOG: Final = logging.getLogger("incmrql")
_ANSWERING: Final = ("print", "incr", "lineage", "debug")
"""The kinds of items that have an answer."""


@dataclass(frozen=True, slots=True)
class Script:
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

    @property
    def streaming(self) -> tuple[CompiledItem, ...]:
        """The items of the program."""
        return self.compiled.streaming

    @property
    def window(self) -> bool:
        """Whether the program answers each batch on its own."""
        return bool(self.streaming) and not self.streaming[0].item.incremental

    def plan_notes(self, options: StreamOptions, strict: Strict = False) -> Iterator[str]:
        """Plan the program and yield notes about it; raises `QueryError` if it is refused."""
        from incmrql.compiler.checks import advice, unwatched_notes

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
        with deep_recursion(DEEPEST_EVALUATION):
            engine = self.session._engine(self.compiled, self.arguments, **self.settings)
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
            return self.session._run_of(
                program, options, self._description(stored), listener, stepped=True
            )

    def _description(self, stored: Mapping[str, Value]) -> dict[str, Any]:
        """What a checkpoint records, so that the program can be recompiled."""
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


@dataclass(frozen=True, slots=True)
class Result:
    """A query that has not run yet."""

    session: Session = field(repr=False)
    compiled: Compiled = field(repr=False)
    compiled_item: CompiledItem = field(repr=False)
    arguments: tuple[str, ...] = ()

    @property
    def item(self) -> typed.ScriptItem:
        """The item of the query in the script."""
        return self.compiled_item.item

    @property
    def type(self) -> model.Type:
        """The type of the answer."""
        return answer_type(self.item)

    def collect(self) -> Value:
        """The answer as Python values."""
        answers: list[Value] = []
        with deep_recursion(DEEPEST_EVALUATION):
            engine = self._prepare_engine()
            engine.run_item(self.item, lambda _, value: answers.append(value))
        return answers[0]

    def to_df(self, *, wide_sums: bool = False) -> DataFrame:
        """The rows of the answer as a DataFrame: a column for each field, or one `value`.

        A sum of doubles outside of 2^-96 to 2^63 fails the job that uses the DataFrame, because
        that job cannot be repeated with more bits; `wide_sums` uses all bits, and is slower.
        """
        from incmrql.spark.values import dataframe

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
        """The rows of the answer as a pandas DataFrame."""
        frame: pd.DataFrame = self.to_df().toPandas()
        return frame

    def start(self, **options: Unpack[StartOptions]) -> Run:
        """Follow the streams of the query: its answer is kept up to date, batch by batch.

        Without a `trigger` every `step()` of the run is a batch; with one, as in `"1s"`, a loop in
        the background runs the batches.  Without a `checkpoint` nothing remains when the run is
        stopped.  `docs/python.md` lists the other options.
        """
        from incmrql.api.options import stream_options
        from incmrql.api.runs import Warnings

        if self.item.kind in ("lineage", "debug"):
            hint = "collect() answers it, from the current data."
            raise DataError("R212", f"{self.item.kind} does not follow streams", hint=hint)
        session = self.session
        if not self.compiled_item.reads_streams:
            hint = (
                "collect() answers it. To follow data, read stream(...) or a session.stream(...)."
            )
            raise DataError("R212", "the query reads no stream", hint=hint)
        if session.is_local:
            options.setdefault("checkpoint_mode", PRIVATE)
        settings = stream_options(options)
        is_stepped = settings.trigger is None and not settings.available_now
        keep_changes = is_stepped or settings.on_batch is not None
        settings = replace(settings, keep_changes=keep_changes, quarantine=session._quarantine)
        if settings.checkpoint is not None:
            settings = replace(settings, checkpoint=settings.checkpoint.absolute())
        with deep_recursion(DEEPEST_EVALUATION):
            stored, watch = self._stored_values(), settings.on_arithmetic != "null"
            program = self.compiled.program(
                [self.compiled_item], self.arguments, stored, watch=watch
            )
            described = self._description(program, stored)
            run = session._run_of(program, settings, described, Warnings(settings.on_batch))
        if not (self.item.incremental or settings.window):
            _LOG.warning(
                "the query has no incr: start() answers it over everything so far; incmrql run "
                "would answer each batch on its own, as start(window=True) does [W303]"
            )
        for span in program.unwatched:
            _LOG.warning(
                "arithmetic in %s (%s) is not watched: overflow and division by zero there give "
                "null, and batches do not report them [W304]", span.text, span,
            )  # fmt: skip
        return run

    def _description(self, program: Program, stored: Mapping[str, Value]) -> dict[str, Any]:
        """What a checkpoint records, so that the program can be recompiled."""
        sources = [stream.source for stream in program.streams]
        registered = [source for source in sources if source.format == "registered"]
        return {
            "text": self.item.span.source.text,
            "arguments": list(self.arguments),
            "stored": {name: show(value) for name, value in stored.items()},
            "item": self.compiled.typed.items.index(self.item),
            "registered": {
                source.name: {
                    "type": str(source.row),
                    "streaming": source.streaming,
                    "options": dict(source.options),
                }
                for source in registered
            },
        }

    def _stored_values(self) -> dict[str, Value]:
        """The values that earlier items store."""
        items = self.compiled.typed.items
        if not any(item.kind == "store-value" for item in items):
            return {}
        return self._prepare_engine().world.stored

    def explain(self, stage: str = "spark", *, trace: bool = False) -> str:
        """The query at a stage of compilation: tree, types, algebra, normal or spark."""
        fast = self.session._float_sums == "fast"
        return explain(
            self.compiled, stage, items=[self.compiled_item], trace=trace, fast_sums=fast
        )

    def _prepare_engine(self) -> Engine:
        """The engine after it has run the items before the query that store values."""
        engine = self.session._engine(self.compiled, self.arguments)
        for item in self.compiled.typed.items:
            if item is self.item:
                break
            if item.kind == "store-value":
                engine.run_item(item, lambda _item, _value: None)
        return engine


def _has_columns(data: Any) -> bool:
    """Whether data are a table of some library, not a list of rows."""
    return hasattr(data, "schema") or hasattr(data, "dtypes")


def _row_type(data: Any, name: str) -> model.Type:
    if not hasattr(data, "toArrow"):
        return row_type(data, name)
    from incmrql.spark.sources.registered import frame_row_type

    return frame_row_type(data.schema, name)


__all__ = ["FloatSums", "Result", "Script", "Session"]
