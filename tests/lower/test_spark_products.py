"""Products of decimals that may have too many digits: native for the rows where they have not."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from incmrql.lower import operators
from incmrql.lower.tree import Dialect, column, print_tree
from incmrql.types import typed
from incmrql.types.model import Decimal
from tests.lower.edges import combinations, edges
from tests.reference.running import const, of


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (Decimal(32, 4), Decimal(16, 2), Decimal(38, 6)),
        (Decimal(38, 18), Decimal(10, 2), Decimal(38, 14)),
        (Decimal(26, 4), Decimal(13, 2), Decimal(38, 6)),
        (Decimal(38, 0), Decimal(18, 4), Decimal(38, 4)),
        (Decimal(20, 10), Decimal(20, 12), Decimal(38, 19)),
    ],
)
def test_a_narrow_product_is_the_reference(left: Decimal, right: Decimal, result: Decimal) -> None:
    sides = [typed.Variable("x", -n, type_) for n, type_ in enumerate((left, right), 1)]
    one, other = (typed.Var(variable, type=variable.type) for variable in sides)
    expr = typed.Arithmetic("*", one, other, "ansi", type=result)
    narrow = operators.narrow_product(expr, column("a1"), column("b1"))
    assert narrow is not None
    rows = combinations([edges(left), edges(right)], 300)
    columns = {
        name: pa.array([row[n] for row in rows], pa.decimal128(type_.precision, type_.scale))
        for n, (name, type_) in enumerate((("a1", left), ("b1", right)))
    }
    fits, product = (print_tree(tree, Dialect.DUCKDB) for tree in narrow)
    with duckdb.connect() as connection:
        connection.register("arguments", pa.table(columns))
        results = connection.sql(f"SELECT {fits}, {product} FROM arguments").fetchall()
    native = 0
    for (a, b), (is_narrow, value) in zip(rows, results, strict=True):
        if is_narrow:
            native += a is not None and b is not None
            meaning = typed.Arithmetic("*", const(a, left), const(b, right), "ansi", type=result)
            assert value == of(meaning), (a, b)
    assert native > 20


def test_a_product_without_room_for_its_left_side_is_not_native() -> None:
    wide, narrow = Decimal(38, 38), Decimal(10, 2)
    sides = [typed.Variable("x", -n, type_) for n, type_ in enumerate((wide, narrow), 1)]
    one, other = (typed.Var(variable, type=variable.type) for variable in sides)
    expr = typed.Arithmetic("*", one, other, "ansi", type=Decimal(38, 38))
    assert operators.narrow_product(expr, column("a1"), column("b1")) is None
