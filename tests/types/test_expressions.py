"""The types of expressions, construct by construct."""

from __future__ import annotations

import pytest

from tests.types.inference import infer, type_of

LITERALS = [
    ("1;", "int"),
    ("2147483647;", "int"),
    ("2147483648;", "long"),
    ("12L;", "long"),
    ("1.5;", "double"),
    ("1e-3;", "double"),
    ('"a";', "string"),
    ("'a';", "string"),
    ("true;", "bool"),
    ("null;", "null"),
    ("();", "()"),
    ("PI;", "double"),
    ("NaN;", "double"),
    ("Infinity;", "double"),
    ("args;", "[string]"),
    ("args[0];", "string"),
    ('decimal("1.50");', "decimal(3,2)"),
    ('date("2026-01-31");', "date"),
    ('timestamp("2026-01-31T10:00:00Z");', "timestamp"),
]

STRUCTURES = [
    ('(1, "a");', "(int, string)"),
    ("(1);", "int"),
    ("<A: 1, B: 2.5>;", "< A: int, B: double >"),
    ("<select: 1>.select;", "int"),
    ("{};", "{null}"),
    ("[];", "[null]"),
    ("{null};", "{null}"),
    ("{1, null};", "{int}"),
    ("{1, 2};", "{int}"),
    ("[1, 2];", "[int]"),
    ("{1, 2L};", "{long}"),
    ("{1, 2.5};", "{double}"),
    ("{1, 2L, 1.5};", "{double}"),
    ("{{}, {1}};", "{{int}}"),
    ("{[1], {2}};", "{{int}}"),
    ("{[1], [2.0]};", "{[double]}"),
    ("{(1, 2.5), (1.5, 2)};", "{(double, double)}"),
    ("{(1, {}), (2, {1})};", "{(int, {int})}"),
    ("{(1, null), (null, 'a')};", "{(int, string)}"),
    ("{<A: 1, B: 'b'>, <A: 2.5>};", "{< A: double >}"),
    ("{<A: 1>, <A: 2.5, B: 'b'>};", "{< A: double >}"),
    ("{<A: 1, B: 'b'>, <B: 'c', A: 2>};", "{< A: int, B: string >}"),
    ("{<A: 1, B: 1>, <B: 2, C: 2>};", "{< B: int >}"),
    ("{<A: <X: 1, Y: 1>>, <A: <X: 2.5>>};", "{< A: < X: double > >}"),
    ("1..3;", "[long]"),
    ("1...3;", "{long}"),
    ("[1,2] as {int};", "{int}"),
    ("{1,2} as [long];", "[long]"),
]

OPERATORS = [
    ("1 + 2;", "int"),
    ("1 + 2L;", "long"),
    ("1 + 2.0;", "double"),
    ("3000000000 * 2;", "long"),
    ("1 / 2;", "int"),
    ("7 % 2L;", "long"),
    ("7 mod 2;", "int"),
    ("mod(7, 2);", "int"),
    ("select v.s + v.s from v in V;", "{int}"),
    ("select v.s + v.l from v in V;", "{long}"),
    ("select v.f + v.f from v in V;", "{double}"),
    ("select v.l + v.f from v in V;", "{double}"),
    ("select v.d + v.d from v in V;", "{decimal(11,2)}"),
    ("select v.d * v.d from v in V;", "{decimal(21,4)}"),
    ("select v.d + 1 from v in V;", "{decimal(13,2)}"),
    ("select v.d + 1.5 from v in V;", "{double}"),
    ("-1;", "int"),
    ("+1;", "int"),
    ("select -v.s from v in V;", "{int}"),
    ("select -v.f from v in V;", "{double}"),
    ("select -v.d from v in V;", "{decimal(10,2)}"),
    ('"a" + "b";', "string"),
    ('"a" + null;', "string"),
    ("1 + null;", "int"),
    ("null + null;", "null"),
    ("1 = 1.0;", "bool"),
    ("1 < 2L;", "bool"),
    ("null = 1;", "bool"),
    ("(1, 2) = (1.0, 2L);", "bool"),
    ("{1} = {1.5};", "bool"),
    ("[1] = {1};", "bool"),
    ("true and 1 = 1 or not false;", "bool"),
    ("exists {1};", "bool"),
    ("exists({});", "bool"),
    ("{1} union {2.5};", "{double}"),
    ("[1] union [2];", "{int}"),
    ("{1} intersect {};", "{int}"),
    ("{1} except {1L};", "{long}"),
    ("if true then 1 else 2.5;", "double"),
    ("if true then null else 1;", "int"),
    ("if true then {} else {1};", "{int}"),
    ("if null then 1 else 2;", "int"),
    ("if true then <A: 1, B: 2> else <A: 1.5>;", "< A: double >"),
    ("-1 as long;", "long"),
    ("trace(1 + 2);", "int"),
]

CONVERSIONS = [
    ('"1" as int;', "int"),
    ("1 as string;", "string"),
    ("1 as double;", "double"),
    ("1.5 as int;", "int"),
    ("1 as any;", "any"),
    ("(1 as any) as int;", "int"),
    ("1.5 as decimal(10, 2);", "decimal(10,2)"),
    ("1 as decimal;", "decimal(38,18)"),
    ('"2026-01-31" as date;', "date"),
    ('date("2026-01-31") as timestamp;', "timestamp"),
    ("(1, 2) as (string, double);", "(string, double)"),
    ("<A: 1, B: 2> as <A: string>;", "< A: string >"),
    ("{1} as {string};", "{string}"),
    ("{1} as bag(long);", "{long}"),
    ("{1} as !{long};", "{long}"),
    ("[1] as list(short);", "[short]"),
    ("(1, {(1, 'a')}) as JSON;", "JSON"),
    ("([json| 1 |]) as int;", "int"),
    ("([xml| <a/> |]) as string;", "string"),
    ('toBool("true");', "bool"),
    ("toShort(1);", "short"),
    ("toInt(1.5);", "int"),
    ("toLong(1);", "long"),
    ("toFloat(1);", "float"),
    ("toDouble('1');", "double"),
    ("string(<A: {1}>);", "string"),
    ("decimal(1);", "decimal(38,18)"),
]

ACCESS = [
    ("<A: 1>.A;", "int"),
    ("<A: <B: 'b'>>.A.B;", "string"),
    ("(1, 'a')#1;", "string"),
    ("{<A: 1>}.A;", "{int}"),
    ("[<A: 1>].A;", "[int]"),
    ("{{<A: 1>}}.A;", "{{int}}"),
    ("{[<A: 1>]}.A;", "{[int]}"),
    ("{(1, 'a')}#1;", "{string}"),
    ("[{(1, 'a')}]#0;", "[{int}]"),
    ("N.items;", "{{< v: int, w: double >}}"),
    ("N.items.v;", "{{int}}"),
    ("P#1;", "{string}"),
    ("[1, 2][0];", "int"),
    ("[1, 2][-1];", "int"),
    ("[1, 2][0:1];", "[int]"),
    ("{(1, 'a')}[1];", "string"),
    ("{(1, 'a')}[1.5];", "string"),
    ("{(1.5, 'a')}[1];", "string"),
    ("{('k', 1)}['k'];", "int"),
    ("{('k', 1)}.k;", "int"),
    ("[('k', 1)].k;", "int"),
    ("[(1, 'a')][0];", "(int, string)"),
    ("P[1];", "string"),
    ("null.A;", "null"),
    ("null#0;", "null"),
    ("null[0];", "null"),
    ("{}.A;", "{null}"),
    ("{}[0];", "null"),
    ("(1 as any).A;", "any"),
    ("(1 as any)[0];", "any"),
]

TREES = [
    ("[xml| <a b='1'>x{{'y'}}</a> |];", "XML"),
    ("[xml| <a b='{{1}}'>{{[xml| <c/> |]}}{{1.5}}</a> |];", "XML"),
    ("[xml| <a>{{select [xml| <b>{{x.A}}</b> |] from x in R}}</a> |];", "XML"),
    ("[xml| <a/> |].b;", "[XML]"),
    ("[xml| <a/> |].b.c;", "[XML]"),
    ("[xml| <a/> |].*;", "[XML]"),
    ("[xml| <a/> |].@b;", "string"),
    ("[xml| <a/> |].@*;", "{(string, string)}"),
    ("[xml| <a/> |].@*.b;", "string"),
    ("{[xml| <a/> |]}.b;", "{XML}"),
    ("{[xml| <a/> |]}.b.c;", "{XML}"),
    ("{[[xml| <a/> |]]}.b;", "{XML}"),
    ("{[xml| <a/> |]}.*;", "{XML}"),
    ("[[xml| <a/> |]].@b;", "[string]"),
    ("{[xml| <a/> |]}.@*;", "{(string, string)}"),
    ("text([xml| <a/> |]);", "string"),
    ("tag([xml| <a/> |]);", "string"),
    ("text([xml| <a/> |].b);", "[string]"),
    ('text([xml| <a/> |].b) = "b";', "bool"),
    ('text([xml| <a/> |].b) = ["b"];', "bool"),
    ('text([xml| <a/> |].b) + "b";', "string"),
    ('text([xml| <a/> |].b) + ["b"];', "[string]"),
    ("toInt(text([xml| <a/> |].b));", "int"),
    ("text([xml| <a/> |].b) as double;", "double"),
    ('contains(text([xml| <a/> |].b), "c");', "bool"),
    ("text({[xml| <a/> |]}.b.c);", "{string}"),
    ('[json| {"a": [1, 2.5, true, null, "x", {{1 + 1}}]} |];', "JSON"),
    ("[json| {{R}} |];", "JSON"),
    ('[json| {"a": 1} |].a;', "JSON"),
    ('[json| {"a": 1} |].a.b;', "JSON"),
    ("[json| [1] |][0];", "JSON"),
    ('[json| {"a": 1} |]["a"];', "JSON"),
    ('{[json| {"a": 1} |]}.a;', "{JSON}"),
    ("select x as int from x in [json| [1, 2] |];", "{int}"),
    ("select x from x in (1 as any);", "{any}"),
    ("Node('a', {}, []);", "XML"),
    ("CData('a');", "XML"),
    ("Node('a', {('k', 'v')}, [CData('x')]).@k;", "string"),
    ("JArray([Jlong(1), Jdouble(1), Jstring('a'), Jbool(true), Jnull()]);", "JSON"),
    ("JObject({('a', Jlong(1))}).a;", "JSON"),
]

BRANCHES = [
    ("let x = 1 in x + 1.5;", "double"),
    ("let (x, y) = (1, 'a') in y;", "string"),
    ("let <A: x> = <A: 1, B: 2> in x;", "int"),
    ("let x = 1 in let x = 'a' in x;", "string"),
    ("case 1 { 1: 'a' | x: 'b' };", "string"),
    ("case 1 { 1: 1 | *: 2.5 };", "double"),
    ("case 'a' { null: 0 | x: length(x) };", "int"),
    ("case (1, 'a') { (1, s): s | (*, *): null };", "string"),
    ("case [1, 2] { []: 0 | [x]: x | [x, y]: x + y };", "int"),
    ("case <A: 1, B: 'b'> { <B: b>: b };", "string"),
    ("case '12' { x as int: x };", "int"),
    ("case (1 as any) { 1: 1 | x as string: 2 | (x, y): 3 | [z]: 4 | <A: a>: 5 };", "int"),
    ("case (1 as any) { (x, y): x };", "any"),
    ("case null { (x, <A: y>): x };", "null"),
    ("case [xml| <a/> |] { Node(t, a, cs): t | CData(s): s };", "string"),
    ("case [xml| <a/> |] { [xml| <a b='{{x}}'>{{y}}t</a> |]: (x, y) };", "(string, XML)"),
    ("case [xml| <a/> |] { [xml| <a b='c'/> |]: 1 };", "int"),
    ("case [json| 1 |] { Jlong(n): n | Jnull(): 0 };", "long"),
    ('case [json| 1 |] { [json| {"a": {{x}}, "b": [1, null, {{y}}]} |]: (x, y) };', "(JSON, JSON)"),
    ("case 1.0 { 1: 'one' };", "string"),
    ("case 1 { 1.0: 'one' };", "string"),
    ("select case v.s { 1: 'a' } from v in V;", "{string}"),
    ("select case v.f { 1: 'a' | 2.5: 'b' } from v in V;", "{string}"),
    ("select case v.d { 1: 'a' | 2.5: 'b' } from v in V;", "{string}"),
]


@pytest.mark.parametrize(
    ("script", "type_"),
    [*LITERALS, *STRUCTURES, *OPERATORS, *CONVERSIONS, *ACCESS, *TREES, *BRANCHES],
)
def test_type(script: str, type_: str) -> None:
    assert type_of(script) == type_


def test_a_named_query_captures_neither_pattern_variables_nor_attributes() -> None:
    assert type_of("x = 'a'; select x from x in {1};") == "{int}"
    assert type_of("A = 'a'; <A: 1>.A;") == "int"
    assert type_of("x = 'a'; let (x, y) = (1, 2) in x;") == "int"
    assert type_of("x = 'a'; case 1 { x: x };") == "int"


def test_a_query_keeps_the_names_that_it_was_written_with() -> None:
    script = infer('x = 1; y = x; x = "a"; y; x;')
    assert [str(item.expr.type) for item in script.items] == ["int", "string"]
    assert len(script.queries) == 3


def test_stored_values_are_told_apart_however_often_a_name_is_used() -> None:
    script = infer("store x := 1; store x := 'a'; store x := 1.5; store x := true; x;")
    assert len({item.target for item in script.items}) == 5
    assert str(script.items[-1].expr.type) == "bool"
