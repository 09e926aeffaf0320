"""Batches of a streaming DataFrame, each spooled once under the name of its query and its number.

A Spark query that resumes after a crash repeats its last batch. A number that was spooled before,
whether it still waits or was ingested long ago, is therefore not spooled again.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from incmrql.errors import DataError, nearest
from incmrql.io.scalars import Unparsable, weight
from incmrql.io.spools import spooling
from incmrql.plan.program import Stream
from incmrql.runtime.feeds.spooled import Arrivals, SpoolFolder, original
from incmrql.storage.files import load, write_over

_NAME: Final = re.compile(r"(?P<query>[\w-]+)\.(?P<number>\d+)\.arrow")


class FrameFeed(SpoolFolder):
    """The batches that `foreachBatch` of a streaming DataFrame delivers.

    The column named by the option `sign` has the weight of each row: a number, or a word for
    insertion or deletion.
    """

    def __init__(
        self,
        stream: Stream,
        folder: Path,
        ingested: Iterable[str] = (),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(stream.place, folder, ())
        self._check = check
        self._stream = stream
        self._sign: str = dict(stream.source.options).get("sign", "")
        self._lock = threading.Lock()
        names = {Path(path).name for path in ingested}
        for name in sorted(names | {path.name for path in self.folder.glob("*.arrow")}):
            if match := _NAME.fullmatch(original(name)):
                self._note(match["query"], int(match["number"]))
        self._note_ingested(names)
        self.finish_superseding(stream.element)

    def take(self, tables: Iterable[Any], query_id: str, batch_id: int) -> bool:
        """Spool a batch, given as Arrow tables; False if it was spooled before.

        The rows survive a crash when this returns.
        """
        query = _safe(query_id)
        with self._lock:
            path = self.folder / f"{query}.{batch_id:012d}.arrow"
            if batch_id <= self._last(query) or path.exists():
                return False
            with spooling(path, self._stream.element) as spool:
                for table in tables:
                    rows, weights = self._with_weights(table)
                    spool.table(rows, weights)
            if not spool.count:
                path.unlink()
            self._check()
            self._note(query, batch_id)
        return True

    def poll(self, now: float) -> Arrivals:  # noqa: ARG002 - spooled files do not change
        """The batches that wait."""
        self.finish_superseding(self._stream.element)
        return self.waiting(".arrow")

    def _with_weights(self, table: Any) -> tuple[Any, Any]:
        """The rows of a table with a weight other than 0, and their weights."""
        if not self._sign:
            return table, None
        if self._sign not in table.column_names:
            names = table.column_names
            hint = f"{nearest(self._sign, names)} Columns are: {', '.join(names)}."
            message = f'there is no sign column "{self._sign}"'
            raise DataError("R112", message, place=self._stream.name, hint=hint.strip())
        signs = table.column(self._sign)
        if pa.types.is_integer(signs.type) and not signs.null_count:
            weights = signs.cast(pa.int64()).combine_chunks()
        else:
            weights = pa.array(self._read(signs.to_pylist()), pa.int64())
        if self._sign not in _fields(self._stream):
            table = table.drop_columns([self._sign])
        counts = pa.compute.not_equal(weights, 0)
        return table.filter(counts), weights.filter(counts)

    def _read(self, signs: list[Any]) -> list[int]:
        weights = []
        for number, sign in enumerate(signs):
            try:
                weights.append(weight(sign, self._sign))
            except Unparsable as problem:
                message = f"row {number}: {problem.reason}"
                raise DataError("R306", message, place=self._stream.name) from None
        return weights

    def _last(self, query: str) -> int:
        path = self.folder / f"{query}.json"
        return int(load(path)["last"]) if path.exists() else -1

    def _note(self, query: str, number: int) -> None:
        if number > self._last(query):
            write_over(self.folder / f"{query}.json", {"last": number})


def _fields(stream: Stream) -> tuple[str, ...]:
    return tuple(getattr(stream.element, "names", ()))


def _safe(query: str) -> str:
    """The name of a query as part of a file's name."""
    if re.fullmatch(r"[\w-]{1,64}", query, re.ASCII):
        return query
    return hashlib.blake2b(query.encode(), digest_size=16).hexdigest()
