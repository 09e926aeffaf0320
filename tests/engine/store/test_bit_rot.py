"""A flipped bit in a state file is refused by name or changes nothing, wherever it is.

Blocks are small here, so that most flips lie in blocks that a look-up does not read.
"""

from __future__ import annotations

import os
import shutil
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from incmrql.engine.store import blocks, compaction, tables
from incmrql.engine.store import content as contents
from incmrql.engine.store.blocks import Trailer
from incmrql.engine.store.compaction import CompactionTask, run_compaction
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.lookup import grouped_rows, look_up, partners
from incmrql.engine.store.ordered import front, ranks_of, rows_between, totals
from incmrql.engine.store.segments import OpenSegments, Segment, verify_segment, write_segments
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Reader, StateTable, plan_writes, scan
from incmrql.errors import CheckpointError
from incmrql.types.model import DOUBLE, INT, LONG, STRING
from incmrql.values import Value, show
from tests.effort import scale
from tests.engine.kernels import KernelRun
from tests.engine.store.tables import Asked, Row, change, rows_of_content, weak
from tests.engine.store.test_ordered import MOST, ORDERED, UNORDERED, VALUES
from tests.engine.test_engine import compile_query
from tests.plan.stepping import ALL, r, s

BUCKETS = 3
FLIPS = 1
"""Of every kind of byte, form and seed."""
FORMS = [*UNORDERED, *ORDERED[::3], *ORDERED[-4:], *MOST]


@pytest.fixture(autouse=True)
def small_and_without_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(tables, "LEAST_BASE", 12)
    monkeypatch.setattr(blocks, "SHIFT", 7)
    monkeypatch.setattr(blocks, "BLOCK", 1 << 7)


# --- tables, and what is asked of them ------------------------------------------------------


def some_rows(schema: TableSchema, random: Random, count: int) -> list[tuple[Row, int]]:
    """Rows with weights; where keys are numbers or texts there are many of them."""

    def value(type_: Any) -> Any:
        if type_ in (INT, LONG) and random.random() < 0.9:
            return random.randrange(40)
        if type_ == STRING and random.random() < 0.7:
            return "text" * random.randrange(6) + str(random.randrange(20))
        return random.choice(VALUES[type_])

    types = (*schema.keys, *schema.rest)
    signs = [1, 2] if schema.most is not None or schema.ordered else [1, 2, -1]
    return [(tuple(map(value, types)), random.choice(signs)) for _ in range(count)]


def with_parts(content: SortedRows, random: Random) -> SortedRows:
    """A content with accumulators, where tables have some."""
    if content.schema.rest:
        return content
    numbers = np.array([random.randrange(1, 99) for _ in range(len(content))], np.int64)
    return replace(content, parts={"a0.n": numbers, "a1.nan": numbers[::-1].copy()})


def add(table: StateTable, reader: Reader, delta: SortedRows, turn: int) -> StateTable:
    """The table after a change."""
    writes = plan_writes(table, reader, delta, turn, range(BUCKETS))
    parts = [(written.content, written.counts) for written in writes.written]
    runs = (
        write_segments(reader.folder, f"{turn:06d}-{uuid.uuid4().hex}.run", parts) if parts else []
    )
    pairs = list(zip(runs, writes.written, strict=True))
    return writes.kept.with_segments(
        [run for run, written in pairs if not written.base],
        [run for run, written in pairs if written.base],
    )


def plain(content: SortedRows) -> Any:
    return rows_of_content(content), {name: part.tolist() for name, part in content.parts.items()}


@dataclass(frozen=True)
class Question:
    """Something that batches do with a table; what it says does not depend on chance."""

    name: str
    ask: Callable[[StateTable, Reader], Any]


def look_ups(schema: TableSchema, random: Random) -> Iterator[Question]:
    """What is read of a few keys."""
    rows = some_rows(schema, random, 3)
    touched = change(schema, rows)
    asked = Asked.of(schema, [row[: len(schema.keys)] for row, _ in rows])
    keys = asked.hashes, asked.keys

    def weights(table: StateTable, reader: Reader) -> Any:
        counts, parts = look_up(table, reader, touched)
        return counts.tolist(), {name: part.tolist() for name, part in parts.items()}

    def plain_answer(answer: tuple[Any, SortedRows]) -> Any:
        return answer[0].tolist(), plain(answer[1])

    yield Question("look_up", weights)
    yield Question("grouped", lambda t, r: plain_answer(grouped_rows(t, r, *keys)))
    yield Question(
        "partners", lambda t, r: [plain_answer(answer) for answer in partners(t, r, *keys)]
    )
    if not schema.ordered:
        return
    yield Question("totals", lambda t, r: totals(t, r, None, *keys).tolist())
    yield Question("front", lambda t, r: plain_answer(front(t, r, None, *keys, 2)))
    starts = np.full(len(asked.hashes), 1)
    yield Question(
        "at", lambda t, r: plain_answer(rows_between(t, r, None, *keys, starts, starts + 2))
    )
    if not schema.keys and schema.most is None:
        yield Question("ranks", lambda t, r: ranks_of(t, r, None, touched).tolist())


def merges(schema: TableSchema, random: Random, folder: Path) -> Iterator[Question]:
    """What reads all of a table, or writes it anew."""
    few = with_parts(change(schema, some_rows(schema, random, 2)), Random(1))
    many = with_parts(change(schema, some_rows(schema, random, 200)), Random(1))

    def everything(table: StateTable, reader: Reader) -> Any:
        return [plain(scan(table, reader, bucket)) for bucket in range(BUCKETS)]

    def beside(table: StateTable, reader: Reader) -> Any:
        (bucket,) = random_bucket(table)
        runs = tuple(run.only((bucket,)) for run in table.segments if bucket in run.buckets)
        merged = run_compaction(
            CompactionTask(table.name, (bucket,), runs, base=True), table, reader
        )
        if merged is None:
            return None
        return plain(OpenSegments().rows(folder, merged, schema).content())

    yield Question("scan", everything)
    yield Question("few", lambda t, r: everything(add(t, r, few, 9), r))
    yield Question("many", lambda t, r: everything(add(t, r, many, 9), r))
    yield Question("beside", beside)


def random_bucket(table: StateTable) -> list[int]:
    """Some bucket that has rows."""
    return sorted({bucket for run in table.segments for bucket in run.buckets})[:1]


# --- flips --------------------------------------------------------------------------------


def kinds_of_bytes(folder: Path, run: Segment) -> dict[str, list[tuple[int, int]]]:
    """Where a run has its columns, their offsets and masks, its metadata and its trailer."""
    section = pa.py_buffer((folder / run.file).read_bytes()[run.offset :][: run.size])
    trailer = Trailer.of_section(section, run.checksum)
    assert trailer is not None
    ranges: dict[str, list[tuple[int, int]]] = {
        "head": [(0, trailer.body[0])],
        "foot": [(trailer.body[1], trailer.size)],
        "trailer": [(trailer.size, run.size)],
    }
    data = section.slice(0, trailer.size)
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        table = reader.read_all()
    for name in table.column_names:
        for number, buffer in enumerate(table.column(name).chunk(0).buffers()):
            if buffer is not None and buffer.size:
                start = buffer.address - data.address
                ranges.setdefault(f"{name}.{number}", []).append((start, start + buffer.size))
    return ranges


def flip_bit(
    folder: Path, run: Segment, where: tuple[int, int], random: Random
) -> Callable[[], None]:
    """Flip a bit of a segment in its file; returns a function that flips it back."""
    path = folder / run.file
    whole = path.read_bytes()
    data = bytearray(whole)
    data[run.offset + random.randrange(*where)] ^= 1 << random.randrange(8)
    path.write_bytes(data)

    def back() -> None:
        path.write_bytes(whole)

    return back


def outcome(question: Question, table: StateTable, folder: Path, file: str) -> Any:
    """What a question says, asked by a process that has read nothing yet; None if it is refused."""
    try:
        return question.ask(table, Reader(folder, OpenSegments()))
    except CheckpointError as problem:
        message = str(problem)
    assert message.startswith("error[R361]: state file")
    assert f"{file} is damaged" in message
    return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scale(1, 2)))
@pytest.mark.parametrize("hashed", ["hash", "weak hash"])
def test_a_flipped_bit_is_refused_or_changes_nothing(
    tmp_path: Path, seed: int, hashed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kinds of bytes of all kinds of tables; what is not refused says what it said before."""
    if hashed == "weak hash":
        monkeypatch.setattr(contents, "hash_keys", weak)
    monkeypatch.setattr(compaction, "MOST", 20)
    tried: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for number, schema in enumerate(FORMS):
        random = Random(f"{seed} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        table = StateTable("t", schema, BUCKETS)
        for turn, count in enumerate((60, 15, 4)):
            delta = with_parts(change(schema, some_rows(schema, random, count)), random)
            table = add(table, Reader(folder, OpenSegments()), delta, turn)
        looks = list(look_ups(schema, random))
        reads = list(merges(schema, random, folder))
        wanted = {
            question.name: question.ask(table, Reader(folder, OpenSegments()))
            for question in looks + reads
        }
        for run in table.segments:
            for kind, places in kinds_of_bytes(folder, run).items():
                for _ in range(FLIPS):
                    back = flip_bit(folder, run, random.choice(places), random)
                    with pytest.raises(CheckpointError, match="R361"):
                        verify_segment(folder, run)
                    for question in (random.choice(looks), random.choice(reads)):
                        got = outcome(question, table, folder, run.file)
                        is_look = question in looks
                        label = f"{'look' if is_look else 'read'} {kind.split('.')[0][:6]}"
                        tried[label] += 1
                        if got is None:
                            refused[label] += 1
                        else:
                            assert got == wanted[question.name], (schema, kind, question.name)
                    back()
    assert_reached(tried, refused)


def assert_reached(tried: Counter[str], refused: Counter[str]) -> None:
    """Flips were met by look-ups and by merges, and others were left alone by look-ups."""
    assert sum(tried.values()) > 1000
    for way in ("look", "read"):
        for kind in ("head", "foot", "traile", "_hash", "k0", "_order", "r0", "_weigh", "a0"):
            label = f"{way} {kind}"
            assert refused[label] > tried[label] / 50, (label, refused[label], tried[label])
    columns = [f"look {kind}" for kind in ("_hash", "k0", "_order", "r0", "_weigh")]
    missed = sum(tried[label] - refused[label] for label in columns)
    assert missed > sum(tried[label] for label in columns) / 20


# --- searches that are led astray -------------------------------------------------------------


def weights_of(touched: SortedRows, table: StateTable, reader: Reader) -> Any:
    return look_up(table, reader, touched)[0].tolist()


def numbered_run(folder: Path, schema: TableSchema, count: int) -> tuple[Segment, int]:
    """A run of the first numbers, and where in it the hashes start."""
    delta = change(schema, [((n,), 1) for n in range(count)])
    (run,) = write_segments(folder, f"{count}.run", [(delta, dict.fromkeys(range(BUCKETS), 1))])
    ((start, _),) = kinds_of_bytes(folder, run)["_hash.1"]
    return run, start


def test_a_search_that_a_corrupt_hash_leads_astray_is_refused(tmp_path: Path) -> None:
    """Half of all keys lie on the other side of the first row that a search looks at.

    That row is the last one of its block, so that the row at which the search ends is in another.
    """
    schema = TableSchema((INT,))
    written = [(count, *numbered_run(tmp_path, schema, count)) for count in range(4000, 4064, 2)]
    count, run, start = next(
        (count, run, start)
        for count, run, start in written
        if (start + 8 * (count // 2) + 8) % blocks.BLOCK == 0
    )
    middle = count // 2
    table = StateTable("t", schema, BUCKETS, levels=(run,))
    path = tmp_path / run.file
    data = bytearray(path.read_bytes())
    word = run.offset + start + 8 * middle
    data[word : word + 8] = bytes(8)
    path.write_bytes(data)
    results = []
    for number in range(0, count, 13):
        touched = change(schema, [((number,), 1)])
        question = Question("weights", partial(weights_of, touched))
        results.append(outcome(question, table, tmp_path, run.file))
    assert results.count(None) > 20
    assert results.count([1]) > 20
    assert results.count(None) + results.count([1]) == len(results)


# --- how much is read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema", [TableSchema((INT,)), TableSchema((STRING,), (DOUBLE,), (False,))], ids=str
)
def test_opening_and_look_ups_read_a_few_blocks(
    schema: TableSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SHIFT", 12)
    monkeypatch.setattr(blocks, "BLOCK", 1 << 12)
    rows = [(tuple(f"key {n}" if t == STRING else t_of(t, n) for t in schema.keys + schema.rest), 1)
            for n in range(20_000)]  # fmt: skip
    delta = change(schema, rows)
    (run,) = write_segments(tmp_path, "a.run", [(delta, dict.fromkeys(range(BUCKETS), 1))])
    table = StateTable("t", schema, BUCKETS, levels=(run,))
    opened = OpenSegments()
    reader = Reader(tmp_path, opened)
    reader.whole(table, run)
    verified, total = opened.blocks()
    assert total > 80
    assert verified <= 3, "those of the metadata"
    look_up(table, reader, change(schema, rows[:1]))
    verified, _ = opened.blocks()
    assert verified <= 15
    look_up(table, reader, change(schema, rows[:1]))
    assert opened.blocks()[0] == verified, "nothing is verified twice"
    reader.read(table, run)
    assert opened.blocks() == (total, total)


def t_of(type_: Any, number: int) -> Any:
    return float(number) if type_ == DOUBLE else number


# --- whole batches ------------------------------------------------------------------------------

PROGRAMS = {
    "group": "select (k, sum(x.B), avg(x.C)) from x in R group by k: x.A",
    "join": "select (x.S, y.T) from x in R, y in S where x.A = y.A",
    "joined groups": "select (k, sum(y.D)) from x in R, y in S where x.A = y.A group by k: x.S",
    "extremes": "select (k, min(x.C), max(x.B)) from x in R group by k: x.A",
    "distinct": "select distinct x.S from x in R",
    "order": "select (x.B, x.S) from x in R order by x.B limit 7",
}


def some_batch(random: Random, count: int) -> dict[str, list[tuple[Value, int]]]:
    """New rows of both streams."""
    texts = [f"text {n}" for n in range(12)]
    first = [
        r(random.randrange(25), random.randrange(9), random.random(), random.choice(texts))
        for _ in range(count)
    ]
    second = [s(random.randrange(25), random.random(), random.choice(texts)) for _ in range(count)]
    return {"R": [(row, 1) for row in first], "S": [(row, 1) for row in second]}


@pytest.mark.slow
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_a_batch_over_damaged_state_is_refused_or_right(text: str, tmp_path: Path) -> None:
    """The batch after a flip, and the whole answer after it, by a process that starts then."""
    random = Random(text)
    _, program, physical = compile_query(text, ALL)
    kernel = KernelRun(program, tmp_path / "state", BUCKETS, physical)
    for count in (40, 10, 4):
        kernel.step(some_batch(random, count))
    batch = some_batch(random, 2)

    def later(_: StateTable, reader: Reader) -> tuple[Any, str]:
        folder = reader.folder
        again = KernelRun(program, folder, BUCKETS, physical)
        again.tables, again.number = dict(kernel.tables), kernel.number
        changes = again.step(batch)
        return changes, show(again.answer())

    question = Question("batch", later)
    some = next(iter(kernel.tables.values()))
    right = Path(shutil.copytree(tmp_path / "state", tmp_path / "right"))
    wanted = outcome(question, some, right, "")
    assert wanted is not None
    results = []
    runs = [run for table in kernel.tables.values() for run in table.segments]
    for number in range(scale(40, 80)):
        folder = Path(shutil.copytree(tmp_path / "state", tmp_path / str(number)))
        run = random.choice(runs)
        flip_bit(folder, run, (0, run.size), random)
        results.append(outcome(question, some, folder, run.file))
        shutil.rmtree(folder)
    assert results.count(None) > len(results) / 10
    assert results.count(wanted) > 0
    assert results.count(None) + results.count(wanted) == len(results)


def test_a_trailer_counts_only_if_it_is_as_it_was_written() -> None:
    """Any flipped bit of it is found when a run is opened, and so is a section that was cut."""
    data = bytes(range(256)) * 3
    checksums = np.array(blocks.block_checksums(data), np.uint32)
    trailer = Trailer(checksums, len(data), (8, 700)).to_bytes()
    section, checksum = data + trailer, zlib.crc32(trailer)
    opened = Trailer.of_section(section, checksum)
    assert opened is not None
    assert (opened.size, opened.body) == (len(data), (8, 700))
    for bit in range(8 * len(data), 8 * len(section)):
        flipped = bytearray(section)
        flipped[bit // 8] ^= 1 << bit % 8
        assert Trailer.of_section(bytes(flipped), checksum) is None, bit
    for length in (0, 3, len(trailer), len(section) - 1):
        assert Trailer.of_section(section[-length:] if length else b"", checksum) is None
