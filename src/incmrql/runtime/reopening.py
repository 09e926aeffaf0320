"""A checkpoint without the script beside it: its program made again, and what its tables hold.

Nothing here needs Spark, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.loading import READ_ONLY, Imports, catalog_for
from incmrql.diagnostics import CheckpointError, IncmrqlError, Source
from incmrql.formats import ANYWHERE, Paths
from incmrql.incremental.streams import Program
from incmrql.kernel.columns import column_values
from incmrql.kernel.compile import compiled
from incmrql.kernel.content import Content
from incmrql.kernel.runs import Opened
from incmrql.kernel.table import Reader, Table, scan
from incmrql.runtime.checkpoint import Checkpoint
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.types.texts import type_from_text
from incmrql.values import Bag, Record, Value, read


def read_program(
    folder: Path, modules: Iterable[str] = (), paths: Paths = ANYWHERE
) -> tuple[Program, dict[str, Any]]:
    """The program of a checkpoint and its description; refused if it cannot be made again.

    Paths of the script mean what they meant when it was started only in the same folder.  Only
    the Python `modules` that are named are imported: whoever wrote the checkpoint chose its code.
    Includes and types of files are read where `paths` allows it.
    """
    described = dict(Checkpoint(folder).described())
    return remade(folder, described, Imports(frozenset(modules), paths=paths)), described


def remade(folder: Path, described: Mapping[str, Any], imports: Imports = READ_ONLY) -> Program:
    """The program that the description in a checkpoint tells of, with what it may import."""
    asked = described.get("script") or {}
    if "text" not in asked:
        message = f"checkpoint {folder} does not say which script it is of"
        raise CheckpointError(f"{message}: it was not made by incmrql run")
    try:
        program = _compiled_again(asked, imports, watch=bool(described.get("watch")))
    except IncmrqlError as problem:
        message = f"the script of checkpoint {folder} cannot be read again"
        raise CheckpointError(f"{message}:\n{problem}") from problem
    if program.identity != described["identity"]:
        message = f"checkpoint {folder} is of another version of its script or of incmrql"
        raise CheckpointError(f"{message} ({described['engine']})")
    return program


def _compiled_again(asked: dict[str, Any], imports: Imports, *, watch: bool) -> Program:
    path, words = asked.get("path", ""), list(asked.get("arguments", ()))
    source = Source(asked["text"], path or "<query>")
    known = asked.get("registered", {})
    registered = {n: (type_from_text(each["type"]), each["streaming"]) for n, each in known.items()}
    catalog = replace(catalog_for(source, words, imports), registered=registered)
    compiled = compile_script(source, catalog, imports.include)
    items = compiled.streaming
    if "item" in asked:  # of a session in Python, which follows one query of a text
        compiled = compiled.with_options({n: _options(each) for n, each in known.items()})
        items = (compiled.items[asked["item"]],)
    return compiled.program(items, words, _stored(asked, compiled.typed), watch=watch)


def _options(registered: dict[str, Any]) -> dict[str, Any]:
    """What a session has declared of a source; JSON has no tuples."""
    options = registered["options"].items()
    return {name: tuple(each) if isinstance(each, list) else each for name, each in options}


def _stored(asked: dict[str, Any], script: typed.Script) -> dict[str, Value]:
    data = script.data or PREDEFINED
    positions = {
        each.name: position
        for constructors in data.values()
        for position, each in enumerate(constructors)
    }
    texts = asked.get("stored", {})
    return {name: read(text, positions) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A state table in numbers."""

    name: str
    node: int | None
    """The node it belongs to; None for a part of an answer."""
    holds: str
    rows: int
    """A key counts once for each run that holds it."""
    size: int
    runs: int


def table_facts(tables: Mapping[str, Any], described: Mapping[str, Any]) -> list[TableFacts]:
    """The tables that a manifest lists, those of nodes first, as their program is described."""
    known = described.get("tables", {})

    def order(name: str) -> tuple[bool, int, str]:
        table = known.get(name, {})
        owner = table.get("node")
        return owner is None, table.get("answer") or 0 if owner is None else owner, name

    found = []
    for name in sorted(tables, key=order):
        runs = [*tables[name]["bases"], *tables[name]["levels"]]
        table = known.get(name, {})
        rows = sum(sum(run["counts"]) for run in runs)
        size = sum(run["size"] for run in runs)
        node, holds = table.get("node"), table.get("holds", "")
        found.append(TableFacts(name, node, holds, rows, size, len(runs)))
    return found


@dataclass(frozen=True, slots=True)
class SavedState:
    """The committed state tables of a checkpoint."""

    tables: Mapping[str, Table]
    reader: Reader

    def rows(self, name: str) -> Iterator[Value]:
        """The rows of a table as records: the key, the row, how often, what is added up.

        Each is there once, with what all runs add up to.
        """
        table = self.tables[name]
        for bucket in range(table.buckets):
            yield from _records(scan(table, self.reader, bucket))


def saved_state(folder: Path, program: Program) -> SavedState:
    """The state that the program of a checkpoint has left there."""
    checkpoint = Checkpoint(folder, compiled(program).forms)
    checkpoint.described()
    reader = Reader(checkpoint.runs.absolute(), Opened())
    return SavedState(checkpoint.recovered().tables, reader)


def _records(content: Content) -> Iterator[Value]:
    form = content.form
    keys = _tuples(content.keys.columns, form.keys, len(content))
    rest = _tuples(content.rest.columns, form.rest, len(content))
    weights = content.weights.tolist()
    parts = {name: column.tolist() for name, column in content.parts.items()}
    for place, key in enumerate(keys):
        fields: dict[str, Value] = {"key": key}
        if form.rest:
            fields["row"] = rest[place]
        fields["times"] = weights[place]
        if parts:
            fields["sums"] = Bag([(name, each[place]) for name, each in parts.items()])
        yield Record.of(tuple(fields), list(fields.values()))


def _tuples(columns: tuple[Any, ...], types: tuple[Any, ...], count: int) -> list[Value]:
    """The values of several columns; of one column, those alone."""
    lists = [column_values(c, t) for c, t in zip(columns, types, strict=True)]
    if not lists:
        return [()] * count
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
