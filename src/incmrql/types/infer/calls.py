"""Type inference of calls: built-ins, declared functions, constructors, macros and lambdas."""

from __future__ import annotations

from incmrql.errors import nearest
from incmrql.syntax import ast
from incmrql.types import builtins, typed
from incmrql.types.infer.access import map_over
from incmrql.types.infer.aggregates import (
    count_of,
    function_value,
    infer_aggregate,
    infer_lambda,
    infer_user_aggregate,
    wrong_count,
)
from incmrql.types.infer.conversions import (
    as_text,
    cast_hint,
    convert,
    fit,
    infer_decimal,
    widen,
)
from incmrql.types.infer.operators import arithmetic, collection
from incmrql.types.lattice import widens
from incmrql.types.model import (
    BOOL,
    NOTHING,
    STRING,
    XML,
    Basic,
    Collection,
    Constructor,
    Data,
    Tuple,
    Type,
)
from incmrql.types.scope import Inference, MacroArgument, Place, Scope, placeholder

_MOST_EXPANSIONS = 60
"""Macro calls that expand deeper than this are refused."""

_IS_NULL = "Write case x { null: true | *: false }."
_COALESCE = "Write case x { null: y | z: z }."
_OTHER_LANGUAGES = {
    "coalesce": _COALESCE,
    "ifnull": _COALESCE,
    "nvl": _COALESCE,
    "isnull": _IS_NULL,
    "is_null": _IS_NULL,
    "int": 'Did you mean "toInt"?  Or write x as int.',
    "integer": 'Did you mean "toInt"?  Or write x as int.',
    "long": 'Did you mean "toLong"?  Or write x as long.',
    "float": 'Did you mean "toDouble"?  Or write x as double.',
    "double": 'Did you mean "toDouble"?  Or write x as double.',
    "bool": 'Did you mean "toBool"?  Or write x as bool.',
    "str": 'Did you mean "string"?',
    "now": "There is no clock in a query: give the time as an argument, timestamp(args[0]).",
    "print": "Write e; to print an expression, and trace(e) to print a part of one.",
    "len": 'Did you mean "length" (of a string) or "count" (of a collection)?',
    "size": 'Did you mean "length" (of a string) or "count" (of a collection)?',
    "upper": 'Did you mean "toUpperCase"?',
    "lower": 'Did you mean "toLowerCase"?',
    "mean": 'Did you mean "avg"?',
    "average": 'Did you mean "avg"?',
    "ln": 'Did you mean "log"?',
}


def infer_call(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """`f(a, b)`: the script's own declarations come before built-ins."""
    entry = scope.names.get(call.function)
    if isinstance(entry, MacroArgument):
        return _through_argument(inference, call, entry, scope)
    return _declared_call(inference, call, scope)


def _declared_call(
    inference: Inference, call: ast.Call, scope: Scope, place: Place | None = None
) -> typed.Expr:
    """A call of a function that the script declares or that is built in, not of a local name.

    `place` is the place of the function's name, if that differs from the place of the arguments.
    """
    name = call.function
    named_arguments = [argument for argument in call.arguments if argument.name is not None]
    if named_arguments:
        message = f'"{name}" has no argument named "{named_arguments[0].name}"'
        return inference.problem(
            "T307", named_arguments[0].span, message, "named", "Leave the name out."
        )
    if name in inference.macros:
        return _macro(inference, call, scope, place or inference.place)
    if name in inference.functions:
        head = inference.functions[name]
        expected = tuple(parameter.type for parameter in head.parameters)
        arguments = _arguments(inference, call, expected, scope)
        return typed.Call(name, arguments, type=head.result, span=call.span)
    if name in inference.python:
        function = inference.python[name]
        arguments = _arguments(inference, call, function.parameters, scope)
        return typed.PythonCall(name, arguments, type=function.result, span=call.span)
    constructors = inference.constructors()
    if name in constructors:
        return _construct(inference, call, constructors[name], scope)
    if name in inference.aggregations:
        return infer_user_aggregate(inference, call, scope)
    return _built_in(inference, call, scope)


def _built_in(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    name, count = call.function, len(call.arguments)
    if name in builtins.AGGREGATES and not (name in ("min", "max") and count == 2):
        return infer_aggregate(inference, call, scope)
    if name == "fold":
        return _fold(inference, call, scope)
    if name not in builtins.NAMES:
        return _unknown_function(inference, call, scope)
    arguments = tuple(inference.infer(argument.value, scope) for argument in call.arguments)
    if name in builtins.CONVERSIONS:
        if count != 1:
            return wrong_count(inference, call, "1 value")
        return convert(inference, arguments[0], Basic(builtins.CONVERSIONS[name]), call.span)
    match name:
        case "mod" if count == 2:
            return arithmetic(inference, "%", arguments[0], arguments[1], call.span)
        case "exists" if count == 1:
            inner = collection(inference, arguments[0], "the argument of exists")
            return typed.Exists(inner, type=BOOL, span=call.span)
        case "decimal" if count == 1:
            return infer_decimal(inference, arguments[0], call.span)
        case "text" | "tag" if count == 1:
            return _tree_function(inference, call, arguments[0])
        case _ if name in builtins.FUNCTIONS:
            return _function(inference, call, arguments)
        case _:
            return wrong_count(inference, call, "2 values" if name == "mod" else "1 value")


def _unknown_function(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    name = call.function
    for argument in call.arguments:
        inference.infer(argument.value, scope)
    query = inference.query_named(name)
    if name in inference.broken or (query is not None and inference.has_error(query.type)):
        return placeholder(call.span)
    if name in scope.names or query is not None:
        hint = f'"{name}" is a value: only functions, macros and constructors can be called.'
    else:
        candidates = [*builtins.NAMES, *inference.functions, *inference.macros, *inference.python,
                 *inference.aggregations, *inference.constructors()]  # fmt: skip
        hint = _OTHER_LANGUAGES.get(name.lower()) or nearest(name, candidates)
    message = f'there is no function "{name}"'
    return inference.problem("T102", call.name_span, message, "unknown function", hint)


def _function(
    inference: Inference, call: ast.Call, arguments: tuple[typed.Expr, ...]
) -> typed.Expr:
    """A built-in with the first of its signatures that fits the arguments."""
    name = call.function
    resolved = builtins.resolve(name, tuple(argument.type for argument in arguments))
    texts = tuple(map(as_text, arguments))
    if resolved is None and texts != arguments:
        resolved = builtins.resolve(name, tuple(argument.type for argument in texts))
        arguments = arguments if resolved is None else texts
    if resolved is not None:
        parameters, result = resolved
        fitted = tuple(map(widen, arguments, parameters))
        return typed.Builtin(name, fitted, type=result, span=call.span)
    signatures = builtins.FUNCTIONS[name]
    counts = sorted({len(signature.parameters) for signature in signatures})
    if len(arguments) not in counts:
        fewer = " or ".join(map(str, counts[:-1])) + " or " if len(counts) > 1 else ""
        if len(counts) > 2 and counts == list(range(counts[0], counts[-1] + 1)):
            fewer = f"{counts[0]} to "
        return wrong_count(inference, call, fewer + count_of(counts[-1], "value"))
    if inference.has_error(*(argument.type for argument in arguments)):
        return placeholder(call.span)
    kinds = ", ".join(str(argument.type) for argument in arguments)
    hint = f"It is declared as {' or '.join(name + str(signature) for signature in signatures)}."
    if len(signatures) == 1:
        for argument, shape in zip(arguments, signatures[0].parameters, strict=True):
            if isinstance(shape, Basic) and not widens(argument.type, shape):
                hint = f"{hint}  {cast_hint(argument, shape)}".strip()
                break
    return inference.problem(
        "T308", call.span, f'"{name}" does not apply to ({kinds})', f"given ({kinds})", hint
    )


def _arguments(
    inference: Inference, call: ast.Call, expected: tuple[Type, ...], scope: Scope
) -> tuple[typed.Expr, ...]:
    """The arguments of a call in the expected types; empty after reporting a wrong number."""
    nodes = [inference.infer(argument.value, scope) for argument in call.arguments]
    if len(nodes) != len(expected):
        wrong_count(inference, call, count_of(len(expected), "value"))
        return ()
    return tuple(
        fit(inference, node, type_, f'argument {i} of "{call.function}"')
        for i, (node, type_) in enumerate(zip(nodes, expected, strict=True), 1)
    )


def _tree_function(inference: Inference, call: ast.Call, argument: typed.Expr) -> typed.Expr:
    """`text(x)`, `tag(x)`; over a collection, of each element."""

    def apply(node: typed.Expr) -> typed.Expr:
        if isinstance(node.type, Collection):
            return map_over(inference, node, apply, call.span)
        if node.type not in (XML, NOTHING):
            message = f'"{call.function}" applies to XML, not to {node.type}'
            return inference.problem("T308", node.span, message, f"is {node.type}")
        return typed.Builtin(call.function, (widen(node, XML),), type=STRING, span=call.span)

    return apply(argument)


def _construct(
    inference: Inference, call: ast.Call, constructor: Constructor, scope: Scope
) -> typed.Expr:
    content_type = constructor.content
    if len(call.arguments) == 1 and content_type != Tuple(()):
        node = inference.infer(call.arguments[0].value, scope)
        content = fit(inference, node, content_type, f'the content of "{constructor.name}"')
    else:
        items = content_type.items if isinstance(content_type, Tuple) else (content_type,)
        parts = _arguments(inference, call, items, scope)
        content = typed.MakeTuple(parts, type=content_type, span=call.span)
    return typed.MakeData(constructor, content, type=Data(constructor.owner), span=call.span)


def _fold(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    if len(call.arguments) != 3:
        return wrong_count(inference, call, "a function, a start value and a collection")
    function = function_value(inference, call.arguments[0].value, scope, 2)
    zero, operand = (inference.infer(argument.value, scope) for argument in call.arguments[1:])
    operand = collection(inference, operand, "the third argument of fold")
    if function is None:
        return placeholder(call.span)
    state, element = (parameter.type for parameter in function.parameters)
    if inference.has_error(state):
        return placeholder(call.span)
    if not widens(function.body.type, state):
        message = f"the function takes {state} first, but returns {function.body.type}"
        hint = "Its first parameter is the result so far, and it returns the next result."
        return inference.problem("T308", call.span, message, "must return what it takes", hint)
    kind = operand.type.kind if isinstance(operand.type, Collection) else "bag"
    return typed.Fold(
        typed.Lambda(function.parameters, widen(function.body, state)),
        fit(inference, zero, state, "the start value of fold"),
        fit(inference, operand, Collection(kind, element), "the collection of fold"),
        type=state,
        span=call.span,
    )


# --- Macros ---


def _macro(inference: Inference, call: ast.Call, scope: Scope, place: Place) -> typed.Expr:
    """The macro's body, in which each parameter stands for its argument expression."""
    macro = inference.macros[call.function].declaration
    if len(macro.parameters) != len(call.arguments):
        return wrong_count(inference, call, count_of(len(macro.parameters), "expression"))
    if macro.name in inference.endless:
        return placeholder(call.span)
    if inference.place.depth > _MOST_EXPANSIONS:
        inference.endless.add(macro.name)
    if macro.name in place.expanding or macro.name in inference.endless:
        message = f'the macro "{macro.name}" calls itself'
        hint = "Recursion needs a function: function f(x: T): T { … };"
        return inference.problem("T603", call.span, message, "recursive", hint)
    inside = Scope().bind(
        (name, MacroArgument(argument.value, scope, inference.place))
        for name, argument in zip(macro.parameters, call.arguments, strict=True)
    )
    before = inference.macros[macro.name].before
    expanding = (*place.expanding, macro.name)
    with inference.at(Place(before, expanding, inference.place.depth + 1)):
        return inference.infer(macro.body, inside)


def _through_argument(
    inference: Inference, call: ast.Call, entry: MacroArgument, scope: Scope
) -> typed.Expr:
    """`f(a)` where f is a macro's parameter: applies the lambda or function given for it."""
    while isinstance(entry.expr, ast.Name):
        name = entry.expr.name
        inner = entry.scope.names.get(name)
        if isinstance(inner, MacroArgument):
            entry = inner
            continue
        renamed = ast.Call(name, call.arguments, span=call.span, name_span=entry.expr.span)
        return _declared_call(inference, renamed, scope, entry.place)
    if not isinstance(entry.expr, ast.Lambda):
        message = f'the argument for "{call.function}" is called, but is not a function'
        hint = "Pass a lambda or the name of a function."
        return inference.problem("T601", entry.expr.span, message, "not a function", hint)
    with inference.at(entry.place):
        function = infer_lambda(inference, entry.expr, entry.scope)
    expected = tuple(parameter.type for parameter in function.parameters)
    arguments = _arguments(inference, call, expected, scope)
    pattern = typed.TupleOf(tuple(map(typed.Bind, function.parameters)))
    values = typed.MakeTuple(arguments, type=Tuple(expected), span=call.span)
    branch = typed.Branch(pattern, function.body)
    return typed.Case(values, (branch,), type=function.body.type, span=call.span)
