"""Fields, components, indices, slices, look-ups, XML and JSON trees."""

from __future__ import annotations

import pytest

from incmrql.reference.navigate import element_at, navigate, slice_of
from incmrql.values import Bag, Data, Record, Value
from tests.reference.running import answer_text

XML = "[xml| <a k='1' l='2'>t<b>1</b><c/><b>2<b>3</b></b></a> |]"
JSON = '[json| {"a": [1, {"b": null}], "c": "x"} |]'

TABLE: list[tuple[str, str]] = [
    ("<A: 1>.A", "1"),
    ("(if false then <A: 1> else null).A", "null"),
    ("(1, 2)#1", "2"),
    ("(if false then (1, 2) else null)#1", "null"),
    ("{<A: 1>, <A: null>, null}.A", "{ null, null, 1 }"),
    ("[(1, 2), (3, 4)]#0", "[ 1, 3 ]"),
    ("(if false then {<A: 1>} else null).A", "null"),
    ("[5, 6, 7][0]", "5"),
    ("[5, 6, 7][-1]", "7"),
    ("[5, 6, 7][3]", "null"),
    ("[5, 6, 7][-4]", "null"),
    ("[5][null]", "null"),
    ("(if false then [5] else null)[0]", "null"),
    ("[5, 6, 7][0:1]", "[ 5, 6 ]"),
    ("[5, 6, 7][1:9]", "[ 6, 7 ]"),
    ("[5, 6, 7][-2:-1]", "[ 6, 7 ]"),
    ("[5, 6, 7][-9:0]", "[ 5 ]"),
    ("[5, 6, 7][2:1]", "[ ]"),
    ("[5, 6, 7][null:1]", "null"),
    ('{("a", 1), ("b", 2)}["b"]', "2"),
    ('{("a", 1), ("a", 0)}["a"]', "0"),
    ('{("a", 1)}["z"]', "null"),
    ('{("a", 1)}.a', "1"),
    ("{(null, 1)}[null]", "null"),
    ("{(1, 5)}[1.0]", "5"),
    ("{(NaN, 5)}[NaN]", "5"),
    # XML
    (f"text({XML})", '"t123"'),
    (f"tag({XML})", '"a"'),
    (f"{XML}.@k", '"1"'),
    (f"{XML}.@z", "null"),
    (f"{XML}.@*", '{ ("k","1"), ("l","2") }'),
    (f"text({XML}.b)", '[ "1", "23" ]'),
    (f"tag({XML}.*)", '[ "b", "c", "b" ]'),
    (f"text({XML}.b.b)", '[ "3" ]'),
    (f"text({XML}.b) = '123'", "true"),
    (f"text({XML}.b.b) = '3'", "true"),
    (f"text({XML}.z) = ''", "true"),
    (f"text({XML}.b) < '124'", "true"),
    (f"text({XML}.b) = ['1', '23']", "true"),
    (f"text({{{XML}, CData('0')}}.b) = '123'", "true"),
    (f"text({{{XML}, CData('0')}}) = '0t123'", "false"),
    (f"text({{{XML}, CData('0')}}) = 't1230'", "true"),
    (f"text({XML}.b) + '!'", '"123!"'),
    (f"toInt(text({XML}.b)) + 1", "124"),
    (f"text({XML}.b) as long", "123"),
    (f"length(text({XML}.b))", "3"),
    (f"{XML}.b.@k", "[ null, null ]"),
    (f"{XML}.z", "[ ]"),
    ('tag(CData("x"))', "null"),
    ('CData("x").*', "[ ]"),
    ('CData("x").@a', "null"),
    # JSON
    (f"{JSON}.a[0] as int", "1"),
    (f"{JSON}.a[1].b", "Jnull()"),
    (f"{JSON}.a[1].b as int", "null"),
    (f"{JSON}.a[-1].z", "null"),
    (f"{JSON}.a[7]", "null"),
    (f'{JSON}["c"]', 'Jstring("x")'),
    (f"{JSON}.c.d", "null"),
    (f"{JSON}.a.b", "JArray([ Jnull() ])"),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_navigation(text: str, expected: str) -> None:
    assert answer_text(text) == expected


LEAF = Data("Jlong", 3, 5)
OBJECT = Data("JObject", 0, Bag([("k", LEAF)]))
NODE = Data("Node", 0, ("a", Bag([("k", "v")]), [Data("Node", 0, ("k", Bag([]), []))]))

DYNAMIC: list[tuple[Value, str, Value]] = [
    (Record({"k": 1}), "k", 1),
    (Record({"k": 1}), "z", None),
    (OBJECT, "k", LEAF),
    (OBJECT, "z", None),
    (LEAF, "k", None),
    (NODE, "k", NODE.content[2]),
    (5, "k", None),
    (None, "k", None),
    ([Record({"k": 1}), OBJECT], "k", [1, LEAF]),
    (Bag([NODE, NODE]), "k", Bag(NODE.content[2] * 2)),
]


@pytest.mark.parametrize(("subject", "name", "expected"), DYNAMIC, ids=str)
def test_dynamic_navigation(subject: Value, name: str, expected: Value) -> None:
    assert navigate("dynamic", subject, name) == expected


AT: list[tuple[Value, Value, Value]] = [
    ([1, 2], 1, 2),
    ((1, 2), -1, 2),
    (Record({"k": 1}), "k", 1),
    (Record({"k": 1}), "z", None),
    (Bag([("k", 1)]), "k", 1),
    (OBJECT, "k", LEAF),
    (OBJECT, 0, None),
    (Data("JArray", 1, [LEAF]), 0, LEAF),
    ("abc", 0, None),
    (None, 0, None),
    ([1], None, None),
]


@pytest.mark.parametrize(("subject", "index", "expected"), AT, ids=str)
def test_dynamic_index(subject: Value, index: Value, expected: Value) -> None:
    assert element_at(subject, index) == expected


@pytest.mark.parametrize("first", range(-5, 6))
@pytest.mark.parametrize("last", range(-5, 6))
def test_slices_hold_the_positions_between(first: int, last: int) -> None:
    values = ["a", "b", "c"]
    low = first + 3 if first < 0 else first
    high = last + 3 if last < 0 else last
    expected = [value for position, value in enumerate(values) if low <= position <= high]
    assert slice_of(values, first, last) == expected
