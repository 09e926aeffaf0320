"""Queries from Python, on Spark.

    session = incmrql.Session()
    session.register("orders", df)
    session.query("select (o.city, sum(o.price)) from o in orders group by o.city").collect()

Spark is started when the first query needs it, and only then.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from incmrql.algebra.scripts import ReferenceEngine
from incmrql.api.html import facts_html
from incmrql.api.results import PreparedScript, Result
from incmrql.api.scripts import SCRIPT_NAME, Answer, answer_type, load
from incmrql.api.tracebacks import short_tracebacks
from incmrql.compiler.cache import CompileCache
from incmrql.compiler.compiled import Compiled
from incmrql.compiler.load import Imports, catalog_for, typed_function
from incmrql.engine.local import needs_spark
from incmrql.errors import DataError, SourceText
from incmrql.io.files import Paths
from incmrql.io.notices import warn
from incmrql.io.rows import Policy, ReadReport
from incmrql.reference import World, new_world
from incmrql.reference.python import row_type
from incmrql.reference.script import check_script
from incmrql.types import model, typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.scope import Catalog
from incmrql.types.walk import with_sources
from incmrql.values import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.api.options import InputChoices, StartOptions
    from incmrql.api.plans import OnArithmetic, SparkAnswers
    from incmrql.api.programs import SessionView
    from incmrql.api.runs import Listener, Run
    from incmrql.api.streams import FrameStream, PushedStream
    from incmrql.compiler.plans import SessionSource
    from incmrql.plan.program import Program
    from incmrql.runtime.jobs import Runner
    from incmrql.runtime.options import StreamOptions
    from incmrql.spark.batch.scripts import ScriptRunner


Function = TypeVar("Function", bound=Callable[..., Any])
FloatSums = Literal["exact", "fast"]
EngineName = Literal["spark", "local"]


@short_tracebacks
class Session:
    """Runs queries on Spark, over registered data and with registered Python functions.

    Without arguments Spark runs on this machine.  A Spark session of the user's (`spark=`) is not
    stopped, and none of its settings change.  With `engine="local"` nothing runs on Spark: batches
    of streams run in this process, and batch queries by the reference evaluator.  With
    `allow_paths`, queries may read and write only there.  Spark starts inside the context that
    `on_start` gives.

    >>> session = Session()
    >>> session.register("orders", [{"city": "Oslo", "price": 2.5}, {"city": "Rome", "price": 1.0}])
    >>> session.query("select o.city from o in orders where o.price > 2.0").collect()
    Bag(['Oslo'])
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting
        self,
        spark: SparkSession | None = None,
        *,
        engine: EngineName = "spark",
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        float_sums: FloatSums = "exact",
        quarantine: str | Path | None = None,
        on_report: Callable[[ReadReport, Policy], None] | None = None,
        allow_paths: Sequence[str | Path] = (),
        on_start: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if spark is not None and (master is not None or conf):
            raise DataError("R212", "give either a Spark session, or a master and configuration")
        if float_sums not in ("exact", "fast"):
            raise DataError("R212", f'float_sums is "exact" or "fast", not {float_sums!r}')
        if engine not in ("spark", "local"):
            raise DataError("R212", f'engine is "spark" or "local", not {engine!r}')
        self._runs_locally = engine == "local"
        if self._runs_locally and (spark is not None or master is not None or conf):
            hint = "Leave them out, or use the engine spark."
            raise DataError("R212", 'engine="local" has no Spark to set up', hint=hint)
        self._users, self._master, self._conf = spark, master, dict(conf or {})
        self._own: SparkSession | None = None
        self._private: SparkSession | None = None
        self._data: dict[str, tuple[Any, model.Type]] = {}
        self._streams: dict[str, PushedStream | FrameStream] = {}
        self._frames: dict[str, DataFrame] = {}
        """What SQL texts know by a name: inputs and views that earlier texts have made."""
        self._views: dict[str, SessionView] = {}
        self._runs: list[Run] = []
        self._functions: dict[str, typed.PythonFunction] = {}
        self._compile_cache = CompileCache()
        self._float_sums = float_sums
        self._quarantine = None if quarantine is None else Path(quarantine)
        self._on_report = on_report
        self._paths = Paths.of(allow_paths)
        self._on_start = on_start

    @property
    def spark(self) -> SparkSession:
        """The Spark session of the user, or the one that this session starts on first use."""
        self._check_spark("session.spark")
        if self._users is not None:
            return self._users
        if self._own is None:
            from incmrql.spark.session import start

            with self._on_start():
                self._own = start(self._master, self._conf)
        return self._own

    @property
    def runs_locally(self) -> bool:
        """Whether nothing runs on Spark: the engine is local."""
        return self._runs_locally

    @property
    def runner(self) -> Runner:
        """What runs batches: how to get the Spark session, or None for the local engine."""
        return None if self._runs_locally else self.private_spark

    def _check_spark(self, what: str) -> None:
        """Refuse what needs Spark on the local engine."""
        if self._runs_locally:
            raise needs_spark(what)

    @property
    def paths(self) -> Paths:
        """Where queries may read and write."""
        return self._paths

    @property
    def sums_are_fast(self) -> bool:
        """Whether Spark adds up doubles, whose last bits then depend on the order of rows."""
        return self._float_sums == "fast"

    @property
    def quarantine(self) -> Path | None:
        """Where lines that cannot be read are kept."""
        return self._quarantine

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

        >>> session.register("stock", [("Oslo", 3)], type="(string, int)")
        """
        self._check_name(name, {*self._streams, *self._views})
        if hasattr(data, "toArrow"):
            self._check_spark(f'the DataFrame of Spark registered as "{name}"')
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

        >>> points = session.stream("points", "< X: int, Y: double >")
        >>> points.insert([(1, 2.0), {"X": 1, "Y": 4.0}])
        2
        """
        from incmrql.api.streams import frame_stream, pushed_stream

        self._check_name(name, {*self._data, *self._streams, *self._views})
        if isinstance(rows, str):
            stream: PushedStream | FrameStream = pushed_stream(name, rows, options, keep=keep)
        else:
            self._check_spark(f'the streaming DataFrame "{name}"')
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
        """Decorator that registers a Python function, typed by its annotations, for queries.

        >>> @session.function
        ... def initial(name: str) -> str:
        ...     return name[:1]
        >>> session.query("select initial(o.city) from o in orders").collect() == ["R", "O"]
        True
        """
        name = function.__name__
        self._functions[name] = typed_function(name, function)
        return function

    def query(
        self,
        query: str | Path | DataFrame,
        arguments: Sequence[str] = (),
        *,
        on_arithmetic: OnArithmetic | None = None,
        **inputs: Unpack[InputChoices],
    ) -> Result:
        """A query, optionally after declarations; it runs when its result is requested.

        It is a text of MRQL, or a DataFrame of Spark.  For a DataFrame, `static`, `inputs` and
        `on_modified` say how its inputs are followed, and arithmetic that fails is an error unless
        `on_arithmetic` says otherwise (`docs/spark.md`).

        >>> session.query("select < city: c, n: count(o) > from o in orders group by c: o.city")
        Result({< city: string, n: long >}; not run yet: collect(), to_df(), to_pandas() or start())
        """
        if not isinstance(query, str | Path):
            from incmrql.api.plans import InputOptions, of_frames

            if not _is_of_spark(query):
                load(query)  # says what a query is
            self._check_spark("the analysis of a DataFrame")
            plans = of_frames(self, [query], InputOptions(**inputs))
            item, fails = plans.compiled.items[0], on_arithmetic or "fail"
            return Result(self, plans.compiled, item, (), plans, fails)
        if inputs:
            message = f"{', '.join(inputs)}: options of the inputs of a DataFrame or a SQL text"
            hint = "In MRQL they are written in the query: stream(..., on_modified: replace)."
            raise DataError("R212", message, hint=hint)
        compiled = self._compile(query, arguments)
        kinds = ("print", "incr", "lineage", "debug")
        queries = [item for item in compiled.items if item.item.kind in kinds]
        if not queries:
            raise DataError("R212", "the text has no query", hint="End it with a query.")
        words = tuple(arguments)
        return Result(self, compiled, queries[-1], words, on_arithmetic=on_arithmetic)

    def sql(
        self,
        text: str,
        *,
        on_arithmetic: OnArithmetic = "fail",
        **inputs: Unpack[InputChoices],
    ) -> Result:
        """A query of Spark SQL, which sees tables, views and streams of the session by name.

        Statements before it may create temporary views, which later texts see too.

        >>> session.sql("SELECT city FROM orders ORDER BY city DESC").collect()
        Bag([Row(city='Rome'), Row(city='Oslo')])
        """
        self._check_spark("the analysis of a SQL text")
        from incmrql.api.plans import InputOptions, of_sql

        plans = of_sql(self, SourceText(text, SCRIPT_NAME), InputOptions(**inputs))
        return Result(self, plans.compiled, plans.compiled.items[-1], (), plans, on_arithmetic)

    def view(self, name: str, query: str | DataFrame | Result) -> SessionView:
        """Name a query, so that later queries of the session can read its rows.

        MRQL and SQL read them by the name, DataFrames by `df` of the view.  The rows are records:
        each column has a name.
        """
        from incmrql.api.programs import SessionView

        self._check_name(name, {*self._data, *self._streams, *self._frames, *self._views})
        view = SessionView(name, query if isinstance(query, Result) else self.query(query))
        view.known_to(lambda: self.spark)
        self._views[name] = view
        return view

    def start(
        self,
        queries: Mapping[str, Result | SessionView] | Sequence[str],
        **options: Unpack[StartOptions],
    ) -> Run:
        """Follow the streams of several queries in one run, with one checkpoint.

        They may be of different languages.  Each has a name; those that are views of the session
        need no other: `start(["totals", "best"])`.  What several of them read is kept once, and a
        batch is one Spark job.  `answer`, `changes` and `answer_df` of the run take a name.
        """
        from incmrql.api.programs import combine
        from incmrql.api.results import start_program

        if isinstance(queries, str) or not queries:
            hint = 'Write session.start({"totals": query, ...}) or session.start(["totals", ...]).'
            raise DataError("R212", "start takes queries by name", hint=hint)
        if not isinstance(queries, Mapping):
            missing = [name for name in queries if name not in self._views]
            if missing:
                hint = f"Make it with session.view({missing[0]!r}, query)."
                raise DataError("R212", f'there is no view "{missing[0]}"', hint=hint)
            queries = {name: self._views[name] for name in queries}
        answers = {
            name: query if isinstance(query, Result) else query.result
            for name, query in queries.items()
        }
        return start_program(self, combine(self, answers), options)

    def script(
        self, script: str | Path, arguments: Sequence[str] = (), **settings: Any
    ) -> PreparedScript:
        """A script; its items run when they are requested.  `settings` are those of `api.run`.

        A file whose name ends with `.sql` is a script of Spark SQL.
        """
        path = script if isinstance(script, Path) else None
        if path is not None and path.suffix == ".sql":
            self._check_spark("the analysis of a SQL text")
            from incmrql.api.plans import InputOptions, of_sql

            plans = of_sql(self, load(path), InputOptions())
            return PreparedScript(self, plans.compiled, tuple(arguments), path, settings, plans)
        compiled = self._compile(script, arguments)
        return PreparedScript(self, compiled, tuple(arguments), path, settings)

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

    def __repr__(self) -> str:
        return f"Session({'; '.join(f'{name}: {value}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        return facts_html("Session", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """What the session has, for people."""
        running = sum(run.status.state != "stopped" for run in self._runs)
        facts = [("engine", "local") if self._runs_locally else ("Spark", self._master_now())]
        for what, names in (
            ("data", self._data),
            ("streams", self._streams),
            ("views", self._views),
        ):
            if names:
                facts.append((what, ", ".join(names)))
        return [*facts, ("runs", str(running))] if running else facts

    def _master_now(self) -> str:
        """The master of its Spark, if that runs."""
        is_started = self._users is not None or self._own is not None
        return str(self.spark.sparkContext.master) if is_started else "not started yet"

    # --- what queries of Spark see ---

    def sources(self) -> dict[str, SessionSource]:
        """The data and streams of the session by name, for queries of Spark."""
        from incmrql.compiler.plans import SessionSource

        return {
            **{name: SessionSource(row, False) for name, (_, row) in self._data.items()},
            **{
                name: SessionSource(stream.row, True, dict(stream.options))
                for name, stream in self._streams.items()
            },
            **{name: view.source for name, view in self._views.items()},
        }

    @property
    def views(self) -> Mapping[str, SessionView]:
        """The queries that other queries can read, by name."""
        return self._views

    @property
    def functions(self) -> Mapping[str, typed.PythonFunction]:
        """The Python functions that queries of MRQL can call, by name."""
        return self._functions

    def registered(self) -> list[tuple[str, Any]]:
        """The names of registered data, with the data."""
        return [(name, data) for name, (data, _) in self._data.items()]

    def data_of(self, name: str) -> Any:
        """The rows that are there now under a name."""
        if name in self._views:
            return self._views[name].rows()
        return self._streams[name].rows() if name in self._streams else self._data[name][0]

    def add_view(self, name: str, frame: DataFrame) -> None:
        """Make a frame known to later SQL texts by a name."""
        self._frames[name] = frame

    def analysis_session(self, sources: Mapping[str, SessionSource]) -> SparkSession:
        """A copy of the user's Spark session with names for sources and for views of this one."""
        from incmrql.spark.internals import copied_session, in_session
        from incmrql.spark.plans.streams import stream_frame

        spark = copied_session(self.spark)
        for name, source in sources.items():
            stream_frame(spark, name, source.row).createOrReplaceTempView(name)
        for name, frame in self._frames.items():
            in_session(spark, frame).createOrReplaceTempView(name)
        return spark

    def _compile(self, script: str | Path, arguments: Sequence[str]) -> Compiled:
        source, imports = load(script), Imports(paths=self._paths)
        catalog: Catalog = replace(
            catalog_for(source, list(arguments), imports),
            registered={
                name: (known.row, known.streaming) for name, known in self.sources().items()
            },
            functions=self._functions,
        )
        options = {name: dict(stream.options) for name, stream in self._streams.items()}
        settings = frozenset((name, stream.options) for name, stream in self._streams.items())
        return self._compile_cache.compile(
            source, catalog, imports.include, settings, lambda script: script.with_options(options)
        )

    def item_engine(
        self, compiled: Compiled, arguments: Sequence[str], **settings: Any
    ) -> ScriptRunner | ReferenceEngine:
        """What runs the items of a script over the current data of the session."""
        if self._runs_locally:
            return ReferenceEngine(self._world(compiled, arguments, settings))
        return self.engine(compiled, arguments, **settings)

    def engine(self, compiled: Compiled, arguments: Sequence[str], **settings: Any) -> ScriptRunner:
        """What runs the items of a script on Spark."""
        from incmrql.spark.batch.queries import QueryCache
        from incmrql.spark.batch.scripts import ScriptRunner

        world = self._world(compiled, arguments, settings)
        cache = compiled.cache.setdefault("spark", QueryCache(compiled.items))
        return ScriptRunner(world, self.private_spark, self._float_sums == "fast", cache=cache)

    def _world(
        self, compiled: Compiled, arguments: Sequence[str], settings: Mapping[str, Any]
    ) -> World:
        given: dict[str, Any] = {"quarantine": self._quarantine, "paths": self._paths}
        given |= {"on_report": self._on_report or warn, **settings}
        registered = {name: data for name, (data, _) in self._data.items()}
        streams = self._streams_read_by(compiled.typed)
        registered.update({name: stream.rows() for name, stream in streams})
        world = new_world(compiled.typed, arguments=list(arguments), registered=registered, **given)
        check_script(compiled.typed, world)
        return world

    def _streams_read_by(
        self, script: typed.Script
    ) -> list[tuple[str, PushedStream | FrameStream | SessionView]]:
        """The streams and views of this session that a script reads."""
        known = {**self._streams, **self._views}
        if not known:
            return []
        names: set[str] = set()

        def note(source: typed.Source) -> typed.Source:
            names.add(source.name)
            return source

        with_sources(script, note)
        return [(name, stream) for name, stream in known.items() if name in names]

    def private_spark(self) -> SparkSession:
        """A second Spark session in the same application, with the settings that queries need."""
        self._check_spark("this")
        if self._private is None:
            from incmrql.spark.clusters import await_executors
            from incmrql.spark.session import private

            await_executors(self.spark)
            self._private = private(self.spark)
        return self._private

    def run_of(
        self,
        program: Program,
        options: StreamOptions,
        described: Mapping[str, Any],
        listener: Listener,
        answers: SparkAnswers | None = None,
        *,
        stepped: bool = False,
    ) -> Run:
        """A run of a program over the data and streams of the session."""
        from incmrql.api.drivers import RunInputs
        from incmrql.api.runs import Run
        from incmrql.api.streams import FrameTables

        data = {
            name: FrameTables(rows) if hasattr(rows, "sparkSession") else rows
            for name, (rows, _) in self._data.items()
        }
        options = replace(options, paths=self._paths)
        inputs = RunInputs(
            program,
            self.runner,
            options,
            described,
            self._on_report,
            dict(self._streams),
            data if answers is None else {**data, **answers.program.local_rows()},
            answers,
        )
        run = Run(inputs, listener, stepped=stepped)
        self._runs = [other for other in self._runs if other.status.state != "stopped"]
        self._runs.append(run)
        return run


def _is_of_spark(value: object) -> bool:
    """Whether a value is a DataFrame of PySpark, if only one of Spark Connect."""
    return any(base.__module__.startswith("pyspark.") for base in type(value).__mro__)


def _has_columns(data: Any) -> bool:
    """Whether data are a table of some library, not a list of rows."""
    return hasattr(data, "schema") or hasattr(data, "dtypes")


def _row_type(data: Any, name: str) -> model.Type:
    if not hasattr(data, "toArrow"):
        return row_type(data, name)
    from incmrql.spark.sources.registered import frame_row_type

    return frame_row_type(data.schema, name)


__all__ = ["FloatSums", "PreparedScript", "Result", "Session"]
