"""The types of declarations, items and sources."""

from __future__ import annotations

import pytest

from incmrql.types import typed
from tests.types.inference import infer, type_of

SHAPES = "data Shape = Circle: double | Box: (double, double) | Dot: () | Many: [Shape]; "

FUNCTIONS = [
    ("function f(x: int): double { x }; f(1);", "double"),
    ("function f(x: double): double { x }; f(1);", "double"),
    ("function f(): int { 1 }; f();", "int"),
    ("f(1); function f(x: int): int { x };", "int"),
    ("function even(n: int): bool { if n = 0 then true else odd(n - 1) };"
     "function odd(n: int): bool { if n = 0 then false else even(n - 1) }; odd(3);", "bool"),
    ("function f(x: {int}): long { sum(x) }; f([1, 2]);", "long"),
    ("function f(x: <A: int>): int { x.A }; f(elem(R));", "int"),
    ("function length(x: int): int { x }; length(1);", "int"),
    ("x = 'a'; function f(x: int): int { x }; f(1);", "int"),
    ("x = 'a'; function f(): string { x }; x = 1; f();", "string"),
    ("type T = {<A: int, B: U>}; type U = (int, string); function f(x: T): U { elem(x).B }; f({});",
     "(int, string)"),
    ("import half from 'module'; half(1);", "double"),
]  # fmt: skip

MACROS = [
    ("macro twice(e) { e + e }; twice(1.5);", "double"),
    ("macro first_of(p) { p#0 }; first_of(('a', 1));", "string"),
    # The macro's own x does not capture the x of the argument, nor the other way round.
    ("macro m(e) { let x = 1 in (x, e) }; let x = 'a' in m(x);", "(int, string)"),
    ("macro m(e) { select (x, e) from x in {1} }; select m(x.S) from x in R;",
     "{{(int, string)}}"),
    ("x = 'a'; macro m(e) { (x, e) }; let x = 1 in m(x);", "(string, int)"),
    ("macro m(x) { let x = 'a' in x }; m(1);", "string"),
    ("macro m(e) { select e from y in {1} }; let y = 'a' in m(y);", "{string}"),
    (r"macro apply(f, x) { f(x) }; apply(\(n: int): string. string(n), 1);", "string"),
    (r"macro apply(f, x) { f(x) }; let k = 'k' in apply(\(n: int): string. k + string(n), 1);",
     "string"),
    ("function g(x: int): double { x }; macro apply(f, x) { f(x) }; apply(g, 1);", "double"),
    ("macro apply(f, x) { f(x) }; apply(sqrt, 1);", "double"),
    ("macro apply(f, x) { f(x) }; macro h(y) { (y, y) }; apply(h, 1);", "(int, int)"),
    # The parameter g hides the function g, but not for the name that stands for f.
    ("function g(x: int): double { x }; macro m(f, g) { f(g) }; m(g, 1);", "double"),
    ("macro a(x) { b(x) + 1 }; macro b(x) { x * 2.5 }; a(1);", "double"),
    ("macro a(x) { x + 1 }; a(a(a(1)));", "int"),
    ("macro a(f, x) { f(x) }; macro b(f, x) { a(f, a(f, x)) }; b(sqrt, 1);", "double"),
    ("macro total(f, xs) { fold(f, 0, xs) }; total(\\(s: int, x: int): int. s + x, {1});", "int"),
    ("macro groups(xs) { select (k, count(x)) from x in xs group by k: x }; groups({'a'});",
     "{(string, long)}"),
    ("macro m(k) { select (k, count(x)) from x in R group by k: x.A }; m(1);", "{(int, long)}"),
    ("macro m(e) { e }; select m(x.A) from x in R group by x.A;", "{int}"),
    ("macro m(x) { x.A }; select m(x) from x in R group by x.A;", "{{int}}"),
    # The body takes names as they are where the macro is declared, arguments where it is used.
    ("n = 3; macro m(x) { x + n }; n = 'a'; m(1);", "int"),
    ("store n := 3; macro m(x) { x + n }; store n := 'a'; m(length(n));", "int"),
    ("n = 3; macro a(x) { b(x) }; n = 'a'; macro b(x) { (x, n) }; a(1);", "(int, string)"),
    # A macro that is used again in its own argument does not expand to itself.
    (r"macro ap(f, x) { f(x) }; ap(\(y: int): int. ap(\(z: int): int. z + y, 10), 1);", "int"),
    ("macro ap(f, x) { f(x) }; macro h(y) { ap(sqrt, y) }; ap(h, 1);", "double"),
    (r"macro t(f, x) { fold(f, 0, x) };"
     r"t(\(s: int, x: int): int. s + t(\(a: int, b: int): int. a + b, {x}), {1});", "int"),
]  # fmt: skip

AGGREGATIONS = [
    (r"aggregation total(\(x: long, y: long): long. x + y, 0): long; total(R.A);", "long"),
    (r"aggregation words(\(x: int, y: int): int. x + y, 0, \(s: string): int. length(s)): int;"
     "words(R.S);", "int"),
    ("function plus(x: double, y: double): double { x + y };"
     "function half(x: int): double { x / 2.0 };"
     "aggregation halves(plus, 0, half): double; halves({1, 2});", "double"),
    (r"aggregation pairs(\(x: {(int, int)}, y: {(int, int)}): {(int, int)}. x union y, {},"
     r"\(a: int): {(int, int)}. {(a, a)}): {(int, int)}; pairs(R.A);", "{(int, int)}"),
    (r"aggregation total(\(x: long, y: long): long. x + y, 0): long;"
     "select (k, total(x.B)) from x in R group by k: x.A;", "{(int, long)}"),
    (r"aggregation total(\(x: long, y: long): long. x + y, 0): long; total({});", "long"),
]  # fmt: skip

DATA = [
    (SHAPES + "Circle(1);", "Shape"),
    (SHAPES + "Box(1, 2);", "Shape"),
    (SHAPES + "Box((1, 2));", "Shape"),
    (SHAPES + "Dot();", "Shape"),
    (SHAPES + "Many([Circle(1), Dot()]);", "Shape"),
    (SHAPES + "{Circle(1), Dot()};", "{Shape}"),
    (SHAPES + "case Dot() { Circle(r): r | Box(w, h): w * h | Dot(): 0 };", "double"),
    (SHAPES + "case Dot() { Box(p): p#0 };", "double"),
    (SHAPES + "case Dot() { Many([Circle(r), *]): r };", "double"),
    (SHAPES + "select r from Circle(r) in {Circle(1), Dot()};", "{double}"),
    (SHAPES + "Circle(1) = Dot();", "bool"),
    (SHAPES + "max({Circle(1)});", "Shape"),
    ("data Tree = Leaf: int | Fork: (Tree, Tree);"
     "function sum_of(t: Tree): int { case t { Leaf(n): n | Fork(l, r): sum_of(l) + sum_of(r) } };"
     "sum_of(Fork(Leaf(1), Leaf(2)));", "int"),
    ("data A = X: B; data B = Y: A | Z: int; X(Y(X(Z(1))));", "A"),
]  # fmt: skip

SOURCES = [
    ("source(line, 'f', ',', type(<A: int, B: string>));", "{< A: int, B: string >}"),
    ("source(line, 'f', ',', type(<A: int, B: any, C: date>));", "{< A: int, C: date >}"),
    ("source(csv, 'f', type((int, double)), header: true, quote: \"'\", null: 'NA');",
     "{(int, double)}"),
    ("source(line, 'f', '\\t', type((any, double, any)));", "{double}"),
    ("source(line, args[0], ',', type(<A: decimal(10, 2)>));", "{< A: decimal(10,2) >}"),
    ("d = ';'; source(line, 'a' + 'b', d, type(<A: int>), on_error: drop);", "{< A: int >}"),
    ("type T = <A: int>; source(line, 'f', ',', type(T), on_error: 'fail');", "{< A: int >}"),
    ("source(json, 'f');", "{JSON}"),
    ("source(json, 'f', {'a', 'b'});", "{JSON}"),
    ("source(json, 'f', type(<A: {<B: int>}>));", "{< A: {< B: int >} >}"),
    ("source(xml, 'f', {'book'});", "{XML}"),
    ("source(xml, 'f', {'book', 'article'}, xpath(.//title));", "{XML}"),
    ("source(xml, 'f', {'book'}, xpath(./@id));", "{string}"),
    ("source(xml, 'f', {'book'}, type(<title: string>));", "{< title: string >}"),
    ("source(binary, 'f');", "{< A: int, B: string >}"),
    ("source(parquet, 'f');", "{< A: int, B: string >}"),
    ("source(binary, args[1]);", "{< A: int, B: string >}"),
    ("p = 'f'; source(binary, p);", "{< A: int, B: string >}"),
    ("source(binary, string(1), type(<A: int>));", "{< A: int >}"),
    ("source(text, 'f');", "{string}"),
    ("source(R).A;", "{int}"),
    ("R.A;", "{int}"),
    ("stream(line, 'f', ',', type(<A: int>), deletes: 'g', trusted_deletes: true);",
     "{< A: int >}"),
    ("stream(line, 'f', ',', type(<A: int, B: string>), key: A);", "{< A: int, B: string >}"),
    ("stream(line, 'f', ',', type(<A: int, B: int>), key: (A, 'B'));", "{< A: int, B: int >}"),
    ("stream(json, 'f', type(<A: int>), insert_only: true, on_modified: replace);",
     "{< A: int >}"),
    ("stream(line, 'localhost', 9999, ',', type(<A: int>));", "{< A: int >}"),
    ("stream(json, 'localhost', 9999);", "{JSON}"),
    ("stream(xml, 'localhost', 9999, {'a'});", "{XML}"),
    ("p = 9999; stream(text, 'localhost', p);", "{string}"),
    # Not every second argument of a stream is a port.
    ("d = ';'; stream(line, 'f', d, type(<A: int>));", "{< A: int >}"),
    ("stream(line, 'f', args[1], type(<A: int>));", "{< A: int >}"),
    ("stream(Events);", "{< A: int >}"),
    ("parser pairs = 'module.Pairs'; source(pairs, 'f');", "{(string, long)}"),
    ("parser pairs = 'module.Pairs'; stream(pairs, 'f', type(<A: int>));", "{< A: int >}"),
]  # fmt: skip

ITEMS = [
    ("store x := {1}; x;", "{int}"),
    ("store x := 1; y = x; store x := 'a'; y;", "int"),
    ("store x := 1; x = x + 1.5; x;", "double"),
    ("incr count(Events);", "long"),
    ("incr select (k, count(e)) from e in Events group by k: e.A;", "{(int, long)}"),
    ("lineage select x.A from x in R;", "{int}"),
    ("debug select x.A from x in R;", "{int}"),
    ("store 'out' from R.A;", "{int}"),
    ("dump 'out.csv' from incr Events.A;", "{int}"),
    ("R = {1}; R;", "{int}"),
    ("PI = 'pie'; PI;", "string"),
    ("x = 1; x = x + 1; x = string(x); x;", "string"),
]


@pytest.mark.parametrize(
    ("script", "type_"),
    [*FUNCTIONS, *MACROS, *AGGREGATIONS, *DATA, *SOURCES, *ITEMS],
)
def test_type(script: str, type_: str) -> None:
    assert type_of(script) == type_


def test_items_keep_what_they_say() -> None:
    script = infer("store 'a' from incr R; dump 'b.csv' from R; incr R; lineage R; debug R; R;")
    assert [(item.kind, item.target, item.incremental) for item in script.items] == [
        ("store", "a", True),
        ("dump", "b.csv", False),
        ("incr", "", True),
        ("lineage", "", False),
        ("debug", "", False),
        ("print", "", False),
    ]


def source_of(text: str) -> typed.Source:
    read = infer(text).items[-1].expr
    assert isinstance(read, typed.Read)
    return read.source


def test_a_source_keeps_its_arguments() -> None:
    line = source_of("d = ';'; source(csv, 'f', d, type(<A: int, B: any>), header: true);")
    assert (line.format, line.delimiter, line.options) == ("line", ";", (("header", True),))
    assert str(line.row) == "< A: int, B: any >"
    xml = source_of("source(xml, 'f', {'a', 'b'}, xpath(./c/@d));")
    assert (xml.keys, len(xml.steps)) == (("a", "b"), 3)
    tcp = source_of("stream(line, 'localhost', 9999, '|', type(<A: int>));")
    assert (tcp.streaming, tcp.path, tcp.delimiter) == (True, None, "|")
    assert tcp.host is not None
    assert tcp.port is not None
    assert source_of("Events;").name == "Events"
    assert source_of("stream(line, 'f', type(<A: int>), key: A);").options == (("key", ("A",)),)
