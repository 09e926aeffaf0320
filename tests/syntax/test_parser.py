"""What the parser makes of texts: precedence, every production, limits."""

from __future__ import annotations

import math

import pytest

from incmrql.errors import QueryError, SourceText
from incmrql.syntax import ast
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_query, parse_script, parse_type_text
from incmrql.syntax.parser.tokens import KEYWORDS
from incmrql.syntax.printer.scripts import format_script, format_type
from tests.effort import scale


def query(text: str) -> ast.Expr:
    return parse_query(SourceText(text))


def script(text: str) -> ast.Script:
    return parse_script(SourceText(text))


def code(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        script(text)
    return caught.value.code


# --- precedence ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        # postfix, then signs, then as
        ("-x.A", "-(x.A)"),
        ("-x[0]#1", "-((x[0])#1)"),
        ("-5.A", "-((5).A)"),
        ("- -x", "-(-x)"),
        ("-1 as long", "(-1) as long"),
        ("-x as long", "(-x) as long"),
        ("x as int as long", "(x as int) as long"),
        # ranges below as, above products
        ("1..n as long", "1..(n as long)"),
        ("1..n * 2", "(1..n) * 2"),
        ("1..2..3", "(1..2)..3"),
        ("-1..-x", "(-1)..(-x)"),
        ("1...n + 1", "(1...n) + 1"),
        # arithmetic
        ("x.A + y.B * 2", "x.A + (y.B * 2)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b % c mod d", "((a / b) % c) % d"),
        ("a * -b", "a * (-b)"),
        ("a - -5", "a - (-5)"),
        # comparisons, not, and, or
        ("a + 1 < b * 2", "(a + 1) < (b * 2)"),
        ("not a = b", "not (a = b)"),
        ("not a and b", "(not a) and b"),
        ("not not a", "not (not a)"),
        ("a or b and c", "a or (b and c)"),
        ("a and b or c and d", "(a and b) or (c and d)"),
        # unions are all of one level, from the left
        ("a union b union c", "(a union b) union c"),
        ("a except b union c intersect d", "((a except b) union c) intersect d"),
        ("a union b or c", "a union (b or c)"),
        # forms that take the longest expression
        ("if a then b else c union d", "if a then b else (c union d)"),
        ("if a then if b then c else d else e", "if a then (if b then c else d) else e"),
        ("let x = a in x union b", "let x = a in (x union b)"),
        (r"\(x: int): int. x union b", r"\(x: int): int. (x union b)"),
        ("some x in X: x = 1 or b", "some x in X: ((x = 1) or b)"),
        ("a and some x in X: b and c", "a and (some x in X: (b and c))"),
        ("exists X union Y", "exists (X union Y)"),
        ("exists (X) and b", "(exists X) and b"),
        ("exists X union Y and b", "(exists (X union Y)) and b"),
        ("not exists X and b", "(not (exists X)) and b"),
        ("exists select x from x in X where a or b", "exists (select x from x in X where a or b)"),
        ("repeat x = a step b union c", "repeat x = a step (b union c)"),
        ("a + if b then c else d + e", "a + (if b then c else (d + e))"),
        # selects
        (
            "select x from x in X where p union select y from y in Y",
            "(select x from x in X where p) union (select y from y in Y)",
        ),
        ("select x from x in X union Y", "select x from x in (X union Y)"),
        ("select x from x in X where a or b", "select x from x in X where (a or b)"),
        ("select x from x in X limit 3 + 4", "select x from x in X limit (3 + 4)"),
        ("select x from x in X order by x limit n union Y",
         "(select x from x in X order by x limit n) union Y"),
        ("select x from x in X group by k: x.A or b having c order by d desc, e",
         "select x from x in X group by k: ((x.A) or b) having (c) order by (d) desc, (e) asc"),
        # the limit of a repeat, and that of a select with an order
        ("repeat x = a step select y from y in x limit 3",
         "repeat x = a step (select y from y in x) limit 3"),
        ("repeat x = a step select y from y in x order by y limit 3",
         "repeat x = a step (select y from y in x order by y limit 3)"),
        ("repeat x = a step select y from y in x order by y limit 3 limit 4",
         "repeat x = a step (select y from y in x order by y limit 3) limit 4"),
        ("repeat x = a step repeat y = b step c limit 3",
         "repeat x = a step (repeat y = b step c limit 3)"),
        # records: > closes at depth 0, elsewhere it compares
        ("<A: (x > 3), B: f(y > 4)>", "<A: ((x > 3)), B: (f((y > 4)))>"),
        ("<A: x < 3>", "<A: (x < 3)>"),
        ("<A: 1> = <A: 2>", "(<A: 1>) = (<A: 2>)"),
        ("<A: [x > 1], B: {y >= 2}>", "<A: ([(x > 1)]), B: ({(y >= 2)})>"),
    ],
)  # fmt: skip
def test_precedence(text: str, meaning: str) -> None:
    assert query(text) == query(meaning)


def test_a_sign_before_a_number_is_part_of_it_unless_it_stands_apart() -> None:
    assert query("-5") == ast.Literal(-5, "int")
    assert query("-(5)") == ast.Unary("-", ast.Literal(5, "int"))
    assert query("- 5") == ast.Literal(-5, "int")
    assert query("+5") == ast.Unary("+", ast.Literal(5, "int"))


@pytest.mark.parametrize("text", ["a < b < c;", "(a = b = c);", "a <= b <> c;"])
def test_comparisons_do_not_chain(text: str) -> None:
    assert code(text) == "P006"


# --- every production ------------------------------------------------------------------------

ITEMS = r"""
1 + 2;
x = 3;
store x := 3;
store "out" from X; store "out" from incr X;
dump "out.csv" from X; dump "out.csv" from incr X;
incr select x from x in X;
lineage X; debug X;
type T = <A: int, B: (string, [double]), C: {bag(int)}, D: !{any}, E: (), F: decimal(10, 2)>;
type U = list(T);
data Shape = Circle: double | Square: (double, double) | Dot: ();
function f(): int { 3 };
function f(x: int, y: string): <A: int> { <A: x> };
macro m(x, y) { x + y };
aggregation a(plus, 0): int;
aggregation a(\(x: int, y: int): int. x + y, 0, \(x: string): int. 1): int;
import f from "module"; import f, g from "module";
parser p = "module.Class";
include "other.mrql";
"""

EXPRESSIONS = r"""
x | 1 | "s" | true | false | null | () | (1) | (1, 2) | {} | {1} | {1, 2} | [] | [1, 2]
<A: 1> | <A: 1, B: 2> | f() | f(1) | f(1, 2) | source(line, "p", key: 1, on_modified: fail)
x.A | x.* | x.@a | x.@* | x#0 | x[0] | x[1:2] | x as int | 1..2 | 1...2
+x | -x | not x | exists x | a mod b
if a then b else c | let (x, y) = p in x | case x { A(y): y | *: 0 } | case x { 1: 2 }
\(x: int): int. x | \(x: int, y: int): int. x | repeat x = a step b | repeat x = a step b limit 3
repeat (x, y) = (1, 2) step (y, x) limit 3 | xpath(.//a[@b = "c"]/d[1]) | type(int) | trace(x)
[xml| <a b="c" d={{x}}>text {{y}}<e/></a> |] | [json| {"a": [1, true, null, {{x}}]} |]
select x from x in X | select distinct x from x in X, y = x.A where y > 3
select (k, count(x)) from x in X group by k: x.A, j: x.B having count(x) > 2
select k from x in X group by x.A | select i from (x, i) in X group by i
select x from x in X group by (i, j)
select x from x in X order by x.A asc, x.B desc limit 10
some x in X: x > 3 | all x in X, y in x.A: x = y | some (x, y) in X: x = y | some x = 3: x > 2
some(select x > 3 from x in X) | all(X) | some(some x in X: x) | distinct(X) | mod(a, b)
"""

PATTERNS = r"""
x | * | 1 | -1 | "s" | 1.5 | NaN | Infinity | -Infinity | (x, NaN)
true | null | () | (x) | (x, y) | [] | [x, *] | Node(t, a, cs) | <A: x>
<A: x, select: (y, 1)> | x as int | (x, y) as (int, int) | [xml| <a b={{c}}>{{d}}</a> |]
[json| {"a": {{x}}} |]
"""

PATHS = r"""
. | a | /a | //a | .//a/b | * | @a | @* | a/@b | n:a/@m:b | a[1] | a[b] | a[@b = "c"] | a[. = 'c"']
a[b/c[1] = -2.5][3] | a[12] | .[a]
"""


def alternatives(text: str) -> list[str]:
    """The examples of a block, split at bars that stand between spaces outside of brackets."""
    examples, depth = [""], 0
    for line in text.strip().splitlines():
        for word in line.split(" "):
            depth += sum(word.count(c) for c in "{[(") - sum(word.count(c) for c in "}])")
            if word == "|" and depth == 0:
                examples.append("")
            else:
                examples[-1] = f"{examples[-1]} {word}".strip()
        examples.append("")
    return [example for example in examples if example]


@pytest.mark.parametrize("text", [line for line in ITEMS.strip().splitlines() if line])
def test_every_item_parses(text: str) -> None:
    parsed = script(text)
    assert parsed.items
    assert script(format_script(parsed)) == parsed


@pytest.mark.parametrize("text", alternatives(EXPRESSIONS))
def test_every_expression_parses(text: str) -> None:
    assert script(format_script(script(text))) == script(text)


@pytest.mark.parametrize("text", alternatives(PATTERNS))
def test_every_pattern_parses_wherever_patterns_stand(text: str) -> None:
    parsed = query(f"let {text} = e in e")
    assert isinstance(parsed, ast.Let)
    assert query(f"select e from {text} in X, {text} = y").binds == (  # type: ignore[union-attr]
        ast.Generator(parsed.pattern, ast.Name("X")),
        ast.Binding(parsed.pattern, ast.Name("y")),
    )
    case = query(f"case e {{ {text}: 1 | {text}: 2 }}")
    assert isinstance(case, ast.Case)
    assert [branch.pattern for branch in case.branches] == [parsed.pattern] * 2
    keyed = query(f"select e from x in X group by {text}: e")
    assert isinstance(keyed, ast.Select)
    assert keyed.keys == (ast.Key(parsed.pattern, ast.Name("e")),)


@pytest.mark.parametrize("text", alternatives(PATHS))
def test_every_path_parses(text: str) -> None:
    assert isinstance(query(f"xpath({text})"), ast.XPath)


def test_group_by_keys() -> None:
    parsed = query("select 1 from x in X group by a, (b, c), x.A, (a, 1), p: e, ()")
    assert isinstance(parsed, ast.Select)
    a, b, c = (ast.NamePattern(name) for name in "abc")
    x = ast.Project(ast.Name("x"), "A")
    pair = ast.TupleExpr((ast.Name("a"), ast.Literal(1, "int")))
    assert parsed.keys == (
        ast.Key(a, None),
        ast.Key(ast.TuplePattern((b, c)), None),
        ast.Key(None, x),
        ast.Key(None, pair),
        ast.Key(ast.NamePattern("p"), ast.Name("e")),
        ast.Key(ast.TuplePattern(()), None),
    )


# --- words ---------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [*sorted(KEYWORDS), "true", "FROM", "XPath"])
def test_keywords_are_attributes_tags_and_labels(word: str) -> None:
    assert query(f"x.{word}.{word}") == ast.Project(ast.Project(ast.Name("x"), word), word)
    assert query(f"x.@{word}") == ast.Attribute(ast.Name("x"), word)
    one = ast.Literal(1, "int")
    assert query(f"<{word}: 1, {word} : 1>") == ast.RecordExpr(((word, one), (word, one)))
    assert query(f"f({word}: 1)") == ast.Call("f", (ast.Argument(word, one),))
    assert query(f"type(<{word}: int>)") == ast.TypeExpr(
        ast.RecordType(((word, ast.NamedType("int")),))
    )
    assert query(f"[xml| <{word} {word}='1'/> |]") == ast.Template(
        ast.XmlElement(word, ((word, (ast.XmlText("1"),)),), ())
    )


def test_keywords_are_case_insensitive_and_names_are_not() -> None:
    assert query("SELECT Distinct x FROM x iN X WHERE NOT x AND TRUE oRDER By x DESC") == query(
        "select distinct x from x in X where not x and TRUE order by x desc"
    )
    assert query("TRUE") == ast.Name("TRUE")
    assert query("SOME x IN X: x Mod 2") == query("some x in X: x % 2")
    assert query("XPATH(a)") == query("xpath(a)")
    assert query("x") != query("X")


@pytest.mark.parametrize("word", [*sorted(KEYWORDS), "true", "false", "null", "NaN", "Infinity"])
def test_keywords_and_constants_cannot_be_names(word: str) -> None:
    assert code(f"macro f({word}) {{ 1 }};") == "P013"
    assert code(f"repeat {word} = 1 step 2;") == "P013"
    if word != "null":  # the type of null has no other name
        assert code(f"type T = [{word}];") == "P013"


def test_a_constant_is_compared_and_not_defined() -> None:
    assert script("true = x;").items == (ast.Evaluate(query("(true) = x")),)
    assert script("NaN = x;").items == (ast.Evaluate(query("(NaN) = x")),)


def test_names_of_numbers_are_names_in_expressions_and_constants_in_patterns() -> None:
    assert query("-Infinity") == ast.Unary("-", ast.Name("Infinity"))
    parsed = query("let (NaN, Infinity, -Infinity, -NaN) = x in 1")
    assert isinstance(parsed, ast.Let)
    values = (math.nan, math.inf, -math.inf, math.nan)
    literals = (ast.LiteralPattern(ast.Literal(value, "double")) for value in values)
    assert parsed.pattern == ast.TuplePattern(tuple(literals))
    keyed = query("select 1 from x in X group by NaN, (x, NaN)")
    assert isinstance(keyed, ast.Select)
    pair = ast.TupleExpr((ast.Name("x"), ast.Name("NaN")))
    assert keyed.keys == (ast.Key(None, ast.Name("NaN")), ast.Key(None, pair))


# --- constants -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("12", 12, "int"),
        ("012", 12, "int"),
        ("2147483647", 2147483647, "int"),
        ("-2147483648", -2147483648, "int"),
        ("2147483648", 2147483648, "long"),
        ("-2147483649", -2147483649, "long"),
        ("12L", 12, "long"),
        ("-12l", -12, "long"),
        ("9223372036854775807", 2**63 - 1, "long"),
        ("-9223372036854775808", -(2**63), "long"),
        ("00000000000000000000000012", 12, "int"),
        ("1.5", 1.5, "double"),
        ("-1.5", -1.5, "double"),
        ("1e-3", 0.001, "double"),
        ("1E+3", 1000.0, "double"),
        ("2.5e3", 2500.0, "double"),
        ("1e-400", 0.0, "double"),
        ("-0.0", 0.0, "double"),
        ("true", True, "bool"),
        ("null", None, "null"),
        ('"text"', "text", "string"),
        ("'it is \"quoted\"'", 'it is "quoted"', "string"),
        ('"two\nlines"', "two\nlines", "string"),
        (r'"\n\t\r\b\f\0\"\'\\\/\u00e9"', "\n\t\r\b\f\0\"'\\/é", "string"),
        (r'"\ud83d\ude00"', "\U0001f600", "string"),
        ('"one \\\nline"', "one line", "string"),
        ('"// no /* comment"', "// no /* comment", "string"),
        ('"{{ |] }}"', "{{ |] }}", "string"),
    ],
)
def test_constants(text: str, value: object, kind: str) -> None:
    literal = query(text)
    assert isinstance(literal, ast.Literal)
    assert (literal.value, literal.kind) == (value, kind)
    assert str(literal.value) == str(value)


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775808;",
        "9223372036854775808L;",
        "-9223372036854775809;",
        "-(9223372036854775808);",
        "9" * 6000 + ";",
        "1e400;",
        "-1e400;",
        "t#99999999999999999999;",
        f"xpath(a[{'9' * 6000}]);",
        f"xpath(a[b = {'9' * 6000}]);",
        f"xpath(a[b = {'9' * 6000}.0]);",
        f"[json| {'9' * 6000} |];",
        "[json| 1e400 |];",
    ],
)
def test_numbers_that_fit_nothing(text: str) -> None:
    assert code(text) == "P005"


def test_digits_of_other_scripts_are_not_numbers() -> None:
    assert code("x = \u0663;") == "P002"


def test_comments_and_spaces() -> None:
    text = "/* a\n * b */ x // c\n\t= /**/ 1 // the end"
    assert script(text) == script("x=1;")
    assert script("\ufeffx = 1;\r\ny = 2;") == script("x = 1; y = 2;")
    assert script(" ; ; ") == ast.Script(())
    assert script("") == ast.Script(())


# --- templates -------------------------------------------------------------------------------


def test_the_text_of_a_template() -> None:
    parsed = query("[xml| <a b='1 {{x}}'> &lt;&#65;&#x42; {{y}}\n<c/> </a> |]")
    x: ast.Hole[ast.Expr] = ast.Hole(ast.Name("x"))
    y: ast.Hole[ast.Expr] = ast.Hole(ast.Name("y"))
    child: ast.XmlElement[ast.Expr] = ast.XmlElement("c", (), ())
    attributes = (("b", (ast.XmlText("1 "), x)),)
    assert parsed == ast.Template(ast.XmlElement("a", attributes, (ast.XmlText(" <AB "), y, child)))


@pytest.mark.parametrize(
    "inner",
    ['"|]"', '"}}"', r'"\"}}"', "{{1}, {2}}", "[json| {{x}} |]", "x /* }} |] */", 'xpath(a["}}"])',
     "case x { p: 1 | q: {2} }", "[xml| <b c='{{\"|]\"}}'>it's</b> |]"],
)  # fmt: skip
def test_a_hole_ends_where_its_expression_ends(inner: str) -> None:
    held = query(inner) if not inner.startswith("xpath") else None
    for template in (f"[xml| <a>{{{{{inner}}}}}</a> |]", f"[json| [{{{{ {inner} }}}}] |]"):
        if held is None:
            with pytest.raises(QueryError, match="P010"):
                query(template)
        else:
            assert ast.Hole(held) in _holes(query(template))


def _holes(expr: ast.Expr) -> list[object]:
    assert isinstance(expr, ast.Template)
    body = expr.body
    return list(body.children if isinstance(body, ast.XmlElement) else body.items)  # type: ignore[union-attr]


# --- found by random trees -------------------------------------------------------------------


def test_a_path_after_the_point_of_a_lambda() -> None:
    # `xpath` after a point was taken for an attribute.
    assert query(r"\(): x. xpath(a)") == ast.Lambda((), ast.NamedType("x"), query("xpath(a)"))


def test_some_as_a_call_before_in_and_equals() -> None:
    # `some (x) in` was always read as a quantifier, also where `in` belongs to a let.
    assert query("let v = some(x) in v") == query("let v = (some(x)) in v")
    assert query("some(x) = y") == query("(some(x)) = y")
    assert query("let v = some (x) in X: x in v") == query("let v = (some (x) in X: x) in v")


def test_select_distinct_takes_the_word() -> None:
    assert query("select distinct(x) from x in X") == query("select distinct x from x in X")
    assert query("select (distinct(x)) from x in X") != query("select distinct x from x in X")


# --- depth and size --------------------------------------------------------------------------

NESTS = {
    "parentheses": ("(", "x", ")", "{}"),
    "lists": ("[", "x", "]", "{}"),
    "bags": ("{", "x", "}", "{}"),
    "records": ("<A: ", "x", ">", "{}"),
    "calls": ("f(", "x", ")", "{}"),
    "ifs": ("if a then b else ", "x", "", "{}"),
    "conditions": ("if ", "x", " then a else b", "{}"),
    "lets": ("let y = ", "x", " in y", "{}"),
    "selects": ("select y from y in ", "x", "", "{}"),
    "heads": ("select ", "x", " from y in Y", "{}"),
    "keys": ("select y from y in Y group by (", "x", " + 1)", "{}"),
    "quantifiers": ("some y in Y: ", "x", "", "{}"),
    "called quantifiers": ("some(a) = (", "x", ")", "{}"),
    "cases": ("case y { *: ", "x", " }", "{}"),
    "lambdas": ("\\(x: int): int. ", "x", "", "{}"),
    "repeats": ("repeat y = a step ", "x", "", "{}"),
    "signs": ("- ", "x", "", "{}"),
    "negations": ("not ", "x", "", "{}"),
    "indexes": ("y[", "x", "]", "{}"),
    "types": ("[", "int", "]", "type({})"),
    "elements": ("<a>", "", "</a>", "[xml| {} |]"),
    "values": ("[", "", "]", "[json| {} |]"),
    "paths": ("a[", "b", "]", "xpath({})"),
    "patterns": ("(1, ", "x", ")", "let {} = a in b"),
    "templates": ("[xml| <a>{{", "x", "}}</a> |]", "{}"),
}


def nested(name: str, times: int) -> str:
    before, inner, after, frame = NESTS[name]
    return frame.replace("{}", before * times + inner + after * times)


@pytest.mark.parametrize("name", NESTS)
def test_nesting_of_300_levels_parses(name: str) -> None:
    parsed = script(nested(name, 300))
    again = script(format_script(parsed))
    with deep_recursion():
        assert parsed == again


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTS)
def test_nesting_of_1200_levels_is_refused(name: str) -> None:
    assert code(nested(name, 1200)) == "P008"


CHAINS = {
    "sums": ("1", " + 1"),
    "unions": ("X", " union X"),
    "conjunctions": ("a", " and a"),
    "projections": ("x", ".A"),
    "indexes": ("x", "[0]"),
    "casts": ("x", " as int"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_900_parse_and_longer_ones_are_refused(name: str) -> None:
    first, link = CHAINS[name]
    parsed = script(first + link * 900)
    again = script(format_script(parsed))
    with deep_recursion():
        assert parsed == again
    assert code(first + link * 1001) == "P008"


def test_depth_adds_up_along_the_left_side() -> None:
    # Each part is less deep than allowed, all of them together are not.
    text = "1" + " + 1" * 400
    assert code(f"(({text}) {' + 1' * 400}) {' + 1' * 400};") == "P008"
    assert code("let x " + "as int " * 1001 + "= 1 in x;") == "P008"


def test_deep_types_alone() -> None:
    assert (
        format_type(parse_type_text(SourceText("[" * 900 + "int" + "]" * 900)))[899:903] == "[int"
    )
    with pytest.raises(QueryError, match="P008"):
        parse_type_text(SourceText("!" * 1200 + "int"))


def test_wide_is_not_deep() -> None:
    binds = ", ".join(f"x{n} as int in X.A.B.C" for n in range(2000))
    parsed = query(f"select [{', '.join(['1 + 2'] * 2000)}] from {binds}")
    assert isinstance(parsed, ast.Select)
    assert len(parsed.binds) == 2000


def test_undecided_quantifiers_take_no_exponential_time() -> None:
    text = "some(a) = (" * 200 + "x" + ")" * 200
    assert isinstance(query(text), ast.Binary)


MEGABYTE = scale(200_000, 1_000_000)
"""Only at full size is a megabyte one."""


@pytest.mark.slow
def test_a_script_of_five_megabytes() -> None:
    item = 'x = select (a.B, sum(a.C)) from a in A, b in B where a.K = b.K and a.S <> "text";\n'
    text = item * (5 * MEGABYTE // len(item))
    assert len(script(text).items) == text.count(";")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["(" * (MEGABYTE // 2), '"' + "a" * (5 * MEGABYTE), "a " * (MEGABYTE // 4),
     "/*" * (5 * MEGABYTE // 2), "'" * (5 * MEGABYTE - 1), "[xml|" * MEGABYTE],
    ids=["parentheses", "string", "words", "comment", "quotes", "templates"],
)  # fmt: skip
def test_five_megabytes_of_nonsense_fail_clearly(text: str) -> None:
    assert code(text) in ("P001", "P003", "P008")
