"""Type trees to types, and values into the type that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.errors import QueryError, SourceText, Span, nearest
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_query
from incmrql.types import typed
from incmrql.types.lattice import castable, widens
from incmrql.types.model import (
    ANY,
    BASIC_NAMES,
    BOOL,
    BYTE,
    DECIMAL,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    PREDEFINED,
    SHORT,
    STRING,
    XML,
    Basic,
    Collection,
    Data,
    Decimal,
    Function,
    Record,
    Tuple,
    Type,
    bag,
    is_float,
    is_integer,
    list_of,
)
from incmrql.types.scope import Inference

# --- `text(xs)` of several trees ---
#
# On its own `text(xs)` is the collection of the trees' texts. Where that has no type and one
# string has, as in `text(x.name.first) = "Ann"`, it is the text of all trees joined, as in Apache
# MRQL: of a list in its order, of a bag in the canonical order.


_NODE = next(c for c in PREDEFINED["XML"] if c.name == "Node")


def joined_text(node: typed.Expr) -> typed.Expr | None:
    """The joined text of all trees, if `node` is the text of each tree of a collection."""
    match node:
        case typed.MapOver(one, trees, typed.Builtin("text", (typed.Var(used),)), False):
            if used != one or not isinstance(trees.type, Collection):
                return None
        case _:
            return None
    span = node.span
    children: typed.Expr = trees
    if trees.type.kind == "bag":
        children = typed.Builtin("sort", (trees,), type=list_of(XML), span=span)
    pair: Type = Tuple((STRING, STRING))
    # `text` joins all text below an element: an element around the trees saves a built-in of its
    # own in every engine.
    content = typed.MakeTuple(
        (
            typed.Const("", type=STRING, span=span),
            typed.MakeCollection((), type=bag(pair), span=span),
            children,
        ),
        type=_NODE.content,
        span=span,
    )
    around = typed.MakeData(_NODE, content, type=XML, span=span)
    return typed.Builtin("text", (around,), type=STRING, span=span)


def as_text(node: typed.Expr) -> typed.Expr:
    """The joined text where there is one, else `node` itself."""
    return joined_text(node) or node


# --- Types and conversions ---


_COLLECTIONS = ("bag", "list", "set", "Bag", "List", "Set")
_HABITS = {"integer": "int", "bigint": "long", "float64": "double", "str": "string",
           "varchar": "string", "text": "string", "boolean": "bool", "datetime": "timestamp",
           "real": "double", "smallint": "short", "tinyint": "byte"}  # fmt: skip


def resolve_type(inference: Inference, tree: ast.TypeTree, hint: str = "") -> Type:
    """The type that a tree spells; the hint is for a name that is like no type at all."""
    match tree:
        case ast.NamedType(name):
            return _named(inference, name, tree.span, hint)
        case ast.TupleType(items):
            return Tuple(tuple(resolve_type(inference, item) for item in items))
        case ast.RecordType(fields):
            return _record(inference, fields)
        case ast.ListType(element):
            return list_of(resolve_type(inference, element))
        case ast.BagType(element):
            return bag(resolve_type(inference, element))
        case ast.DistributedType(inner):
            return resolve_type(inference, inner)
        case ast.DecimalType(precision, scale):
            if not (0 <= scale <= precision and 1 <= precision <= 38):
                message = f"decimal({precision}, {scale}) does not exist"
                hint = "The precision goes from 1 to 38 and the scale from 0 to the precision."
                inference.problem("T103", tree.span, message, "no such type", hint)
                return DECIMAL
            return Decimal(precision, scale)
        case ast.AppliedType(name, arguments):
            given = [resolve_type(inference, argument) for argument in arguments]
            if name in _COLLECTIONS and len(given) == 1:
                return list_of(given[0]) if name.lower() == "list" else bag(given[0])
            hint = "Collections are {T} or bag(T), [T] or list(T), set(T)."
            message = f'there is no type "{name}" of other types'
            inference.problem("T103", tree.span, message, "unknown type", hint)
            return NOTHING


def _named(inference: Inference, name: str, span: Span, other_hint: str) -> Type:
    if name in inference.aliases:
        if name in inference.resolving:
            message = f'the type "{name}" is made of itself'
            hint = f"Declare a data type instead: data {name} = Constructor: …;"
            inference.problem("T105", span, message, "goes round in a circle", hint)
            return NOTHING
        inference.resolving.add(name)
        found = resolve_type(inference, inference.aliases[name])
        inference.resolving.discard(name)
        return found
    if name in inference.data_names:
        return Data(name)
    if name in BASIC_NAMES:
        return Basic(name)
    if name == "decimal":
        return DECIMAL
    if name == "any":
        return ANY
    if name == "null":
        return NOTHING
    known = [*BASIC_NAMES, "decimal", "any", *inference.aliases, *inference.data_names]
    habit = _HABITS.get(name.lower())
    hint = f'Did you mean "{habit}"?' if habit else nearest(name, known) or other_hint
    inference.problem("T103", span, f'there is no type "{name}"', "unknown type", hint)
    return NOTHING


def _record(inference: Inference, fields: tuple[tuple[str, ast.TypeTree], ...]) -> Type:
    seen: dict[str, Type] = {}
    for name, tree in fields:
        if name in seen:
            message = f'the field "{name}" occurs twice in this record'
            inference.problem("T402", tree.span, message, "again", "Choose another name.")
        seen[name] = resolve_type(inference, tree)
    return Record(tuple(seen.items()))


def refuse_repeated(
    inference: Inference,
    names: Sequence[str],
    what: str,
    span: Span,
    places: Sequence[Span] = (),
) -> None:
    """A problem for every name that stands in a list of names more than once."""
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        second = names.index(name, names.index(name) + 1)
        message = f'two {what} are called "{name}"'
        place = places[second] if places else span
        inference.problem("T402", place, message, "here", "Choose another name.")


def parameter_names(parameters: Sequence[ast.Parameter]) -> tuple[Span, ...]:
    """Where the names of parameters stand."""
    return tuple(Span(p.span.source, p.span.start, p.span.start + len(p.name)) for p in parameters)


def fit(
    inference: Inference, node: typed.Expr, wanted: Type, what: str, code: str = "T308"
) -> typed.Expr:
    """`node` in the type `wanted`, or a problem that says what did not fit."""
    if widens(node.type, wanted):
        return widen(node, wanted)
    if wanted == STRING and (text := joined_text(node)) is not None:
        return text
    if inference.spoiled(wanted) or inference.spoiled(node.type):
        return typed.Const(None, type=wanted, span=node.span)
    message = f"{what} must be {wanted}, and this is {node.type}"
    return inference.problem(code, node.span, message, f"is {node.type}", cast_hint(node, wanted))


def cast_hint(node: typed.Expr, wanted: Type) -> str:
    """How to turn a value into the wanted type, if there is a way."""
    if wanted == BOOL:
        return "Compare it with something: a condition is true or false."
    if not isinstance(wanted, Function) and castable(node.type, wanted):
        text = node.span.text.strip()
        shown = _operand(text) if text and len(text) <= 30 and "\n" not in text else "e"
        cuts = is_integer(wanted) and (is_float(node.type) or isinstance(node.type, Decimal))
        note = "fractions are cut off" if cuts else "null where that fails"
        return f"Convert it: {shown} as {wanted} ({note})."
    if isinstance(node.type, Collection) and widens(node.type.element, wanted):
        return "It is a collection: take one element with elem(…), or an aggregate such as sum(…)."
    return ""


def _operand(text: str) -> str:
    """The text of an expression as what stands before `as`: in parentheses where it must."""
    try:
        tree = parse_query(SourceText(f"{text} as int"))
    except QueryError:
        return f"({text})"
    whole = isinstance(tree, ast.Cast) and tree.subject.span.text == text
    return text if whole else f"({text})"


def condition(inference: Inference, node: typed.Expr, what: str) -> typed.Expr:
    """`node` as a condition."""
    return fit(inference, node, BOOL, what, "T303")


def widen(node: typed.Expr, wanted: Type) -> typed.Expr:
    """`node` in a type that it widens to."""
    if node.type == wanted:
        return node
    if isinstance(node, typed.Const):
        if (node.type in (BYTE, SHORT, INT) and wanted == LONG) or node.value is None:
            return typed.Const(node.value, type=wanted, span=node.span)
        if node.type in (INT, LONG) and wanted == DOUBLE:
            return typed.Const(float(node.value), type=wanted, span=node.span)
    return typed.Widen(node, type=wanted, span=node.span)


def plain_string(inference: Inference, expr: ast.Expr) -> str | None:
    """The text that an expression spells without running anything, if it does."""
    match expr:
        case ast.Literal(str(value), "string"):
            return value
        case ast.Binary("+", left, right):
            first, second = plain_string(inference, left), plain_string(inference, right)
            return None if first is None or second is None else first + second
        case ast.Index(ast.Name("args"), ast.Literal(int(index), "int")):
            words = inference.catalog.arguments
            in_range = words is not None and 0 <= index < len(words)
            return words[index] if words is not None and in_range else None
        case ast.Name(name) if (named := inference.named(name)) is not None:
            query = inference.queries.get(named.key)
            known = isinstance(query, typed.Const) and query.type == STRING
            return str(query.value) if isinstance(query, typed.Const) and known else None
        case _:
            return None
