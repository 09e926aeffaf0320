"""Queries from Python, on Spark.

    session = incmrql.Session()
    session.register("orders", df)
    session.query("select (o.city, sum(o.price)) from o in orders group by o.city").collect()

Spark is started when the first query needs it, and only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from incmrql.api import Answer, answer_type, load
from incmrql.diagnostics import DataError
from incmrql.formats import Policy, ReadReport
from incmrql.loading import annotated, catalog_for, read_include, type_from_text
from incmrql.pipeline import Compiled, compile_script, explain
from incmrql.reference import new_world
from incmrql.reference.python_types import row_type, table_type
from incmrql.syntax.depth import room
from incmrql.types import Catalog, model, typed
from incmrql.values import Value

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.spark.scripts import Engine

Function = TypeVar("Function", bound=Callable[..., Any])
FloatSums = Literal["exact", "fast"]


class Session:
    """A place to run queries: a Spark, registered data and Python functions.

    Without arguments Spark runs on this machine.  A session of the user's (`spark=`) is used as
    it is: it is not stopped, and nothing that others see of it changes.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        float_sums: FloatSums = "exact",
        quarantine: str | Path | None = None,
        on_report: Callable[[ReadReport, Policy], None] | None = None,
    ) -> None:
        if spark is not None and (master is not None or conf):
            raise DataError("R212", "give either a Spark session, or a master and configuration")
        if float_sums not in ("exact", "fast"):
            raise DataError("R212", f'float_sums is "exact" or "fast", not {float_sums!r}')
        self._users, self._master, self._conf = spark, master, dict(conf or {})
        self._own: SparkSession | None = None
        self._private: SparkSession | None = None
        self._data: dict[str, tuple[Any, model.Type]] = {}
        self._functions: dict[str, typed.PythonFunction] = {}
        self._float_sums = float_sums
        self._quarantine = None if quarantine is None else Path(quarantine)
        self._on_report = on_report or (lambda _report, _policy: None)

    @property
    def spark(self) -> SparkSession:
        """The Spark session that was given, or the one that was started."""
        if self._users is not None:
            return self._users
        if self._own is None:
            from incmrql.spark.session import start

            self._own = start(self._master, self._conf)
        return self._own

    def register(self, name: str, data: Any, type: str | None = None) -> None:  # noqa: A002
        """Make data known to queries by a name.

        The data are a DataFrame of Spark or pandas, an Arrow table, or a list of dicts or
        tuples; `type`, as in `"< A: int, B: string >"`, says what a list cannot.
        """
        if not name.isidentifier():
            message = f"{name!r} cannot be the name of a source"
            raise DataError("R212", message, hint="Use letters, digits and underscores.")
        rows = list(data) if isinstance(data, Iterable) and not _has_columns(data) else data
        known = _row_type(rows, name) if type is None else type_from_text(type)
        self._data[name] = rows, known

    def function(self, function: Function) -> Function:
        """Make a Python function known to queries, typed by its annotations; a decorator."""
        name = function.__name__
        self._functions[name] = annotated(name, function)
        return function

    def query(self, text: str, arguments: Sequence[str] = ()) -> Result:
        """A query, maybe after declarations; it runs when its result is asked for."""
        compiled = self._compiled(text, arguments)
        answers = [item for item in compiled.typed.items if item.kind in _ANSWERING]
        if not answers:
            raise DataError("R212", "the text holds no query", hint="End it with a query.")
        return Result(self, compiled, answers[-1], tuple(arguments))

    def run(
        self,
        script: str | Path,
        arguments: Sequence[str] = (),
        *,
        on_answer: Callable[[Answer], None] | None = None,
        follow: Callable[[typed.ScriptItem, typed.Script], bool] | None = None,
        **settings: Any,
    ) -> list[Answer]:
        """Run a script: the answers of its items, in order.

        `follow` gets the items with `incr`, and says whether it has dealt with one; the others
        are answered from what is there now.
        """
        answers: list[Answer] = []

        def emit(item: typed.ScriptItem, value: Value) -> None:
            answers.append(Answer(value, answer_type(item), item.kind))
            if on_answer is not None:
                on_answer(answers[-1])

        compiled = self._compiled(script, arguments)
        with room(DEEPEST):
            engine = self._engine(compiled, arguments, **settings)
            for item in compiled.typed.items:
                if item.kind == "incr" and follow is not None and follow(item, compiled.typed):
                    continue
                engine.run_item(item, emit)
        return answers

    def stop(self) -> None:
        """Stop Spark, if this session started it."""
        self._private = None
        if self._own is not None:
            self._own.stop()
            self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self.stop()

    def _compiled(self, script: str | Path, arguments: Sequence[str]) -> Compiled:
        source = load(script)
        catalog: Catalog = replace(
            catalog_for(source, list(arguments)),
            registered={name: (row, False) for name, (_, row) in self._data.items()},
            functions=self._functions,
        )
        return compile_script(source, catalog, read_include)

    def _engine(self, compiled: Compiled, arguments: Sequence[str], **settings: Any) -> Engine:
        from incmrql.spark.scripts import Engine

        given = {"quarantine": self._quarantine, "on_report": self._on_report, **settings}
        registered = {name: data for name, (data, _) in self._data.items()}
        world = new_world(compiled.typed, arguments=list(arguments), registered=registered, **given)
        return Engine(world, self.private_spark, self._float_sums == "fast")

    def private_spark(self) -> SparkSession:
        """A session of our own beside the user's, with the settings that queries need."""
        if self._private is None:
            from incmrql.spark.session import private

            self._private = private(self.spark)
        return self._private


_ANSWERING = ("print", "incr", "lineage", "debug")
"""The kinds of items that have an answer."""
DEEPEST = 200_000
"""Python frames for the deepest recursion of a script's functions that is allowed."""


@dataclass(frozen=True, slots=True)
class Result:
    """A query that has not run yet."""

    session: Session = field(repr=False)
    compiled: Compiled = field(repr=False)
    item: typed.ScriptItem = field(repr=False)
    arguments: tuple[str, ...] = ()

    @property
    def type(self) -> model.Type:
        """The type of the answer."""
        return answer_type(self.item)

    def collect(self) -> Value:
        """The answer as Python values."""
        found: list[Value] = []
        with room(DEEPEST):
            engine = self._prepared()
            engine.run_item(self.item, lambda _, value: found.append(value))
        return found[0]

    def to_df(self, *, wide_sums: bool = False) -> DataFrame:
        """The rows of the answer as a DataFrame: a column for each field, or one `value`.

        A sum of doubles outside of 2^-96 to 2^63 stops the job that uses the frame, as nobody
        can then start it again with more bits; `wide_sums` takes all bits at once, and is slower.
        """
        from incmrql.spark.values import dataframe

        engine = self._prepared()
        told = self.item.kind in ("lineage", "debug")
        query = None if told else engine.query(self.item.expr)
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

    def explain(self, stage: str = "spark", *, trace: bool = False) -> str:
        """The query at a stage of its way: tree, types, algebra, normal or spark."""
        only = replace(self.compiled.typed, items=(self.item,))
        fast = self.session._float_sums == "fast"
        return explain(replace(self.compiled, typed=only), stage, trace=trace, fast_sums=fast)

    def _prepared(self) -> Engine:
        """The engine, after the items that stand before the query."""
        engine = self.session._engine(self.compiled, self.arguments)
        for item in self.compiled.typed.items:
            if item is self.item:
                break
            if item.kind == "store-value":
                engine.run_item(item, lambda _item, _value: None)
        return engine


def _has_columns(data: Any) -> bool:
    """Whether data are a table of some library, and not rows."""
    return hasattr(data, "schema") or hasattr(data, "dtypes")


def _row_type(data: Any, name: str) -> model.Type:
    if not hasattr(data, "toArrow"):
        return row_type(data, name)
    from pyspark.sql.pandas.types import to_arrow_schema

    return table_type(to_arrow_schema(data.schema), name)
