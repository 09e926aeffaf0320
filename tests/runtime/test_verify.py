"""Verifying: answers that were kept against the same queries over all input."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import incmrql
from incmrql.api.runs import Run
from incmrql.engine.store.blocks import Trailer, block_checksums
from incmrql.io.arrow.columns import WEIGHT
from incmrql.runtime import Driver
from incmrql.runtime.checkpoint.program import read_program
from incmrql.runtime.verify import _row_lines, verify
from incmrql.storage.files import load, write_over
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

JOIN = (
    "select < who: c.name, spent: sum(o.price) > from o in orders, c in customers "
    "where o.who = c.id group by c.name"
)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[incmrql.Session]:
    with incmrql.Session(spark=spark) as opened:
        yield opened


def plant(checkpoint: Path, table: str, change: Any) -> None:
    """Change the Arrow data of the first run of a table in its place, with all checksums right."""
    last = max((checkpoint / "manifests").glob("[0-9]*.json"))
    manifest = load(last)
    run, *_ = _runs(manifest["tables"][table])
    path = checkpoint / "runs" / run["file"]
    data = bytearray(path.read_bytes())
    section = bytes(data[run["offset"] : run["offset"] + run["size"]])
    trailer = Trailer.of_section(section, run["checksum"])
    assert trailer is not None
    part = section[: trailer.size]
    with pa.ipc.open_file(pa.BufferReader(part)) as reader:
        changed = change(reader.read_all())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, changed.schema) as writer:
        writer.write_table(changed.combine_chunks())
    content = sink.getvalue().to_pybytes()
    assert len(content) == len(part)
    assert content != part
    checksums = np.array(block_checksums(content), np.uint32)
    end = replace(trailer, checksums=checksums).to_bytes()
    data[run["offset"] : run["offset"] + run["size"]] = content + end
    path.write_bytes(data)
    run["checksum"] = zlib.crc32(end)
    write_over(last, manifest)


def flip(checkpoint: Path, table: str) -> None:
    """Change one bit of the weights in the first run of a table."""
    last = max((checkpoint / "manifests").glob("[0-9]*.json"))
    run, *_ = _runs(load(last)["tables"][table])
    path = checkpoint / "runs" / run["file"]
    data = bytearray(path.read_bytes())
    section = bytes(data[run["offset"] :][: run["size"]])
    trailer = Trailer.of_section(section, run["checksum"])
    assert trailer is not None
    with pa.ipc.open_file(pa.BufferReader(section[: trailer.size])) as reader:
        weights = reader.read_all().column(WEIGHT).chunk(0).buffers()[1].to_pybytes()
    data[data.index(weights, run["offset"])] ^= 2
    path.write_bytes(data)


def _runs(json_value: Any) -> Iterator[dict[str, Any]]:
    """All runs anywhere inside of what a manifest says of a table."""
    if isinstance(json_value, dict) and "checksum" in json_value:
        yield json_value
    elif isinstance(json_value, dict | list):
        for item in json_value.values() if isinstance(json_value, dict) else json_value:
            yield from _runs(item)


def one_more(table: Any) -> Any:
    """The first row once more."""
    place = table.column_names.index(WEIGHT)
    weights = table.column(place).to_pylist()
    changed = pa.array([weights[0] + 1, *weights[1:]], table.schema.field(place).type)
    return table.set_column(place, table.schema.field(place), changed)


def counted_once_more(table: Any) -> Any:
    """The count of the first group is one more."""
    (name,) = [name for name in table.column_names if name.endswith(".n")]
    place = table.column_names.index(name)
    counts = table.column(place).to_pylist()
    changed = pa.array([counts[0] + 1, *counts[1:]], table.schema.field(place).type)
    return table.set_column(place, table.schema.field(place), changed)


def reopen(session: incmrql.Session, text: str, checkpoint: Path) -> Run:
    return session.query(text).start(checkpoint=checkpoint, check_runs=False)


def answer_table(run: Run) -> str:
    """The table that an answer is kept in."""
    (part,) = run._driver.compiled.physical.answers[0].parts
    assert part.table is not None
    return part.table


def test_a_flipped_bit_is_refused_by_all_who_read_it(
    session: incmrql.Session, tmp_path: Path
) -> None:
    """At the start, which reads everything; without that by answer, verify and batch alike."""
    rows = session.stream("rows", "< K: int, V: string >")
    text = "select (r.K, r.V) from r in rows where r.K > 0"
    rows.insert([(k, f"v{k}") for k in range(5)])
    with session.query(text).start(checkpoint=tmp_path / "ck", buckets=1) as run:
        run.step()
        table = answer_table(run)
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    flip(tmp_path / "copy", table)
    with pytest.raises(incmrql.CheckpointError, match=r"R361.*runs/.*\.run is damaged"):
        session.query(text).start(checkpoint=tmp_path / "copy")
    with reopen(session, text, tmp_path / "copy") as run:
        for read in (run.answer, run.verify):
            with pytest.raises(incmrql.CheckpointError, match=r"R361.*runs/.*\.run is damaged"):
                read()
        rows.insert([(k, f"w{k}") for k in range(1, 9)])  # enough for a merge with what is there
        with pytest.raises(incmrql.CheckpointError, match=r"R361.*runs/.*\.run is damaged"):
            run.step()


def test_a_planted_row_is_found_and_named(session: incmrql.Session, tmp_path: Path) -> None:
    rows = session.stream("rows", "< K: int, V: string >")
    text = "select (r.K, r.V) from r in rows where r.K > 0"
    rows.insert([(k, f"v{k}") for k in range(5)])
    with session.query(text).start(checkpoint=tmp_path / "ck", buckets=1) as run:
        run.step()
        table = answer_table(run)
        assert run.verify().rows == 4
    plant(tmp_path / "ck", table, one_more)
    with reopen(session, text, tmp_path / "ck") as run:
        with pytest.raises(incmrql.DifferenceFound) as caught:
            run.verify()
        difference = caught.value
        ((row, count),) = difference.extra
        assert (difference.batch, difference.missing, count) == (0, (), 1)
        ((about, sources),) = difference.lineage
        assert about == row
        assert [(name, (leaf.K, leaf.V)) for name, leaf in sources] == [("rows", row)]
        assert f'too many: ({row[0]},"{row[1]}")' in str(difference)
        assert "comes from" in str(difference)


def test_a_planted_error_in_a_group_is_found(session: incmrql.Session, tmp_path: Path) -> None:
    rows = session.stream("rows", "< K: int, V: int >")
    text = "select (k, count(r)) from r in rows group by k: r.K"
    rows.insert([(k % 2, k) for k in range(6)])
    with session.query(text).start(checkpoint=tmp_path / "ck", buckets=1) as run:
        run.step()
        (table,) = [name for name, table in run._driver.state.tables.items() if table.rows == 2]
    plant(tmp_path / "ck", table, counted_once_more)
    with reopen(session, text, tmp_path / "ck") as run:
        with pytest.raises(incmrql.DifferenceFound) as caught:
            run.verify()
        ((extra, _),), ((missing, _),) = caught.value.extra, caught.value.missing
        assert extra == (missing[0], 4)
        lineage = dict(caught.value.lineage)
        assert len(lineage[missing]) == 3
        assert lineage[extra] == ()
        assert "no source row produces" in str(caught.value)


@pytest.mark.parametrize("key", [None, "K"])
def test_a_planted_error_in_a_ledger_is_found(
    session: incmrql.Session, tmp_path: Path, key: str | None
) -> None:
    options: dict[str, Any] = {} if key is None else {"key": key}
    rows = session.stream("rows", "< K: int, V: string >", **options)
    rows.insert([(k, f"v{k}") for k in range(3)])
    with session.query("count(rows)").start(checkpoint=tmp_path / "ck", buckets=1) as run:
        run.step()
        assert run.verify().rows == 1
        (table,) = [name for name in run._driver.state.tables if name.startswith("l")]
    plant(tmp_path / "ck", table, one_more)
    with reopen(session, "count(rows)", tmp_path / "ck") as run:
        with pytest.raises(incmrql.DifferenceFound, match="the ledger of rows") as caught:
            run.verify()
        ((row, count),) = caught.value.extra
        assert (row.V, count) == (f"v{row.K}", 1)


VERIFIED = (
    JOIN,
    "select distinct o.who from o in orders",
    "select o from o in orders order by o.price desc, o.who limit 3",
    "(count(orders), max(orders.price))",
    "select (a.who, b.who) from a in orders, b in orders where a.price = b.price",
    "select (c.id, (select o.price from o in orders where o.who = c.id)) from c in customers",
)


@pytest.mark.parametrize("text", sample(VERIFIED, 2))
def test_right_answers_are_verified(session: incmrql.Session, text: str) -> None:
    orders = session.stream("orders", "< who: int, price: double >")
    customers = session.stream("customers", "< id: int, name: string >")
    with session.query(text).start() as run:
        customers.insert([(1, "Ann"), (2, "Bo"), (3, None)])
        orders.insert([(1, 0.1), (1, 0.2), (2, float("nan")), (2, -0.0), (1, 0.1)])
        run.step()
        orders.delete([(1, 0.1), (2, 0.0)])
        orders.insert([(3, 1e300), (1, float("nan"))])
        run.step()
        report = run.verify()
        answer = run.answer()
        assert report.rows == (len(answer) if isinstance(answer, list) else 1)
        assert "verified after batch 1" in str(report)


def test_sources_of_every_kind(session: incmrql.Session, tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000, 1_000_000))

    put("sales/1.csv", "1,10\n2,20\nx,y\n")
    put("gone/1.csv", "2,20\n")
    put("json/1.json", '{"id": 1, "tags": ["a", "b"]}\nnull\n')
    put("fixed/1.csv", "1,one\n")
    text = (
        f'select (s.V, n, j) from s in stream(line, "{tmp_path}/sales", ",", '
        f'type(< K: int, V: int >), deletes: "{tmp_path}/gone"), '
        f'(i, n) in source(line, "{tmp_path}/fixed", ",", type((int, string))), '
        f'j in stream(json, "{tmp_path}/json", type(< id: int, tags: list(string) >)) '
        "where s.K = i and j.id = i"
    )
    with session.query(text).start() as run:
        with pytest.warns(incmrql.IncmrqlWarning, match=r"1 line of .*sales/1\.csv was dropped"):
            run.step()
        assert len(run.answer()) == 1
        assert run.verify().rows == 1
        put("sales/2.csv", "1,30\n")
        run.step()
        assert run.verify().rows == 2
        (tmp_path / "sales" / "1.csv").unlink()
        with pytest.raises(incmrql.DataError, match="changed or is gone") as caught:
            run.verify()
        assert caught.value.code == "R305"


def test_a_checkpoint_can_be_verified_without_the_session_that_made_it(
    session: incmrql.Session, spark: SparkSession, tmp_path: Path
) -> None:
    rows = session.stream("rows", "< K: int, V: string >", key=("K",))
    session.register("names", [(1, "one")], type="(int, string)")
    text = "store least := 0; select (n, r.V) from r in rows, (i, n) in names where r.K = i;"
    with session.query(text).start(checkpoint=tmp_path / "ck") as run:
        rows.insert([(1, "a"), (2, "b")])
        run.step()
    program, described = read_program(tmp_path / "ck")
    with Driver(program, tmp_path / "ck", None, spark, script=described["script"]) as driver:
        assert verify(driver, spark).rows == 1


def test_input_that_was_not_kept_cannot_be_verified(session: incmrql.Session) -> None:
    rows = session.stream("rows", "int")
    rows.insert([1])
    with session.query("sum(rows)").start(keep_input="none") as run:
        run.step()
        with pytest.raises(incmrql.DataError, match="was not kept") as caught:
            run.verify()
        assert caught.value.code == "R305"
        assert run.answer() == 1


def test_batches_that_were_skipped_are_no_part_of_it(
    session: incmrql.Session, tmp_path: Path
) -> None:
    rows = session.stream("rows", "int")
    with session.query("sum(rows)").start(checkpoint=tmp_path / "ck", skip_batch=1) as run:
        for number in range(3):
            rows.insert([10**number])
            run.step()
        assert run.answer() == 101
        assert run.verify().rows == 1


def test_every_so_many_batches(session: incmrql.Session, tmp_path: Path) -> None:
    rows = session.stream("rows", "int")
    text = "select x from x in rows"
    rows.insert([1])
    with session.query(text).start(checkpoint=tmp_path / "ck", buckets=1) as run:
        run.step()
        table = answer_table(run)
    plant(tmp_path / "ck", table, one_more)
    query = session.query(text)
    with query.start(checkpoint=tmp_path / "ck", check_runs=False, verify=3) as run:
        rows.insert([2])
        run.step()
        rows.insert([3])
        with pytest.raises(incmrql.DifferenceFound, match="too many: 1"):
            run.step()
        assert run.status.batch == 2


def test_a_planted_error_in_any_table_is_found(session: incmrql.Session, tmp_path: Path) -> None:
    """One row more in any state table, also where no answer shows it yet."""
    orders = session.stream("orders", "< who: int, price: double >")
    customers = session.stream("customers", "< id: int, name: string >")
    checkpoint = tmp_path / "ck"
    with session.query(JOIN).start(checkpoint=checkpoint) as run:
        orders.insert([{"who": n % 3, "price": float(n)} for n in range(9)])
        customers.insert([{"id": n, "name": f"name {n}"} for n in range(3)])
        run.step()
        run.verify()
        tables = [name for name, table in run._driver.state.tables.items() if table.segments]
    assert len(tables) > 4
    for number, name in enumerate(tables):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(checkpoint, copy)
        plant(copy, name, one_more)
        with (
            session.query(JOIN).start(checkpoint=copy, check_runs=False) as again,
            pytest.raises(incmrql.DifferenceFound),
        ):
            again.verify()


def test_lineage_and_debug_of_rows_of_an_answer(session: incmrql.Session) -> None:
    """Over all ingested rows: what was deleted again is missing."""
    rows = session.stream("rows", "< K: int, V: int >")
    rows.insert([(1, 5), (1, 6), (2, 7)])
    with session.query("select (k, sum(r.V)) from r in rows group by k: r.K").start() as run:
        run.step()
        rows.delete([(1, 6)])
        run.step()
        ((row, leaves),) = run.lineage([(1, 5)])
        assert row == (1, 5)
        assert [(name, (leaf.K, leaf.V)) for name, leaf in leaves] == [("rows", (1, 5))]
        assert {row for row, _ in run.lineage()} == {(1, 5), (2, 7)}
        ((row, tree),) = run.debug([(2, 7)])
        assert row == (2, 7)
        assert "7" in str(tree)


def test_rows_that_are_not_named_are_counted() -> None:
    assert _row_lines("missing", [(1, 1), ("a", 2)], 5) == [
        "missing: 1", 'missing: "a", 2 times', "missing: 3 more rows"
    ]  # fmt: skip
    assert _row_lines("missing", [(1, 1)], 1) == ["missing: 1"]
