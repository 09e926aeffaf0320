"""Calls: built-ins, aggregates, declared functions, constructors, macros, lambdas."""

from __future__ import annotations

from incmrql.errors import nearest
from incmrql.syntax import ast
from incmrql.types import builtins, typed
from incmrql.types.infer.access import over
from incmrql.types.infer.aggregates import (
    counted,
    function_value,
    infer_aggregate,
    infer_lambda,
    infer_user_aggregate,
    wrong_count,
)
from incmrql.types.infer.operators import arithmetic, collection, convert, infer_decimal
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
from incmrql.types.resolve import as_text, cast_hint, fit, widen
from incmrql.types.scope import Inference, MacroArgument, Place, Scope

MOST_EXPANSIONS = 60


def infer_call(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    """`f(a, b)`: what the script declares comes before what is built in."""
    entry = scope.names.get(call.function)
    if isinstance(entry, MacroArgument):
        return _through_argument(inference, call, entry, scope)
    return _declared_call(inference, call, scope)


def _declared_call(
    inference: Inference, call: ast.Call, scope: Scope, place: Place | None = None
) -> typed.Expr:
    """A call of what the script or the language declares, whatever the local names are.

    `place` is where the function's name is written, if not where its arguments are.
    """
    name = call.function
    named = [argument for argument in call.arguments if argument.name is not None]
    if named:
        message = f'"{name}" takes no named arguments, and here is "{named[0].name}"'
        return inference.problem("T307", named[0].span, message, "named", "Leave the name out.")
    if name in inference.macros:
        return _macro(inference, call, scope, place or inference.place)
    if name in inference.functions:
        head = inference.functions[name]
        wanted = tuple(parameter.type for parameter in head.parameters)
        arguments = _fitted(inference, call, wanted, scope)
        return typed.Call(name, arguments, type=head.result, span=call.span)
    if name in inference.python:
        function = inference.python[name]
        arguments = _fitted(inference, call, function.parameters, scope)
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
        known = [*builtins.NAMES, *inference.functions, *inference.macros, *inference.python,
                 *inference.aggregations, *inference.constructors()]  # fmt: skip
        for argument in call.arguments:
            inference.infer(argument.value, scope)
        query = inference.named(name)
        if name in inference.broken or (query is not None and inference.spoiled(query.type)):
            return typed.Const(None, type=NOTHING, span=call.span)
        message = f'there is no function "{name}"'
        hint = _HABITS.get(name.lower()) or nearest(name, known)
        if name in scope.names or query is not None:
            hint = f'"{name}" is a value here: only functions, macros and constructors are called.'
        return inference.problem("T102", call.name_span, message, "unknown function", hint)
    arguments = tuple(inference.infer(argument.value, scope) for argument in call.arguments)
    if name in builtins.CONVERSIONS:
        target: Type = Basic(builtins.CONVERSIONS[name])
        return _conversion(inference, call, arguments, target)
    match name:
        case "mod" if count == 2:
            return arithmetic(inference, "%", arguments[0], arguments[1], call.span)
        case "exists" if count == 1:
            inner = collection(inference, arguments[0], "the argument of exists")
            return typed.Exists(inner, type=BOOL, span=call.span)
        case "decimal" if count == 1:
            return infer_decimal(inference, arguments[0], call.span)
        case "text" | "tag" if count == 1:
            return _of_tree(inference, call, arguments[0])
        case _ if name in builtins.FUNCTIONS:
            return _resolved(inference, call, arguments)
        case _:
            return wrong_count(inference, call, "2 values" if name == "mod" else "1 value")


_IS_NULL = "Write case x { null: true | *: false }."
_COALESCE = "Write case x { null: y | z: z }."
_HABITS = {
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
    "print": "An expression that is an item is printed: e; and trace(e) prints within another.",
    "len": 'Did you mean "length" (of a string) or "count" (of a collection)?',
    "size": 'Did you mean "length" (of a string) or "count" (of a collection)?',
    "upper": 'Did you mean "toUpperCase"?',
    "lower": 'Did you mean "toLowerCase"?',
    "mean": 'Did you mean "avg"?',
    "average": 'Did you mean "avg"?',
    "ln": 'Did you mean "log"?',
}


def _resolved(
    inference: Inference, call: ast.Call, arguments: tuple[typed.Expr, ...]
) -> typed.Expr:
    name = call.function
    found = builtins.resolve(name, tuple(argument.type for argument in arguments))
    texts = tuple(map(as_text, arguments))
    if found is None and texts != arguments:
        found = builtins.resolve(name, tuple(argument.type for argument in texts))
        arguments = arguments if found is None else texts
    if found is not None:
        parameters, result = found
        fitted = tuple(map(widen, arguments, parameters))
        return typed.Builtin(name, fitted, type=result, span=call.span)
    signatures = builtins.FUNCTIONS[name]
    counts = sorted({len(signature.parameters) for signature in signatures})
    if len(arguments) not in counts:
        some = " or ".join(map(str, counts[:-1])) + " or " if len(counts) > 1 else ""
        if len(counts) > 2 and counts == list(range(counts[0], counts[-1] + 1)):
            some = f"{counts[0]} to "
        return wrong_count(inference, call, some + counted(counts[-1], "value"))
    if any(inference.spoiled(argument.type) for argument in arguments):
        return typed.Const(None, type=NOTHING, span=call.span)
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


def _fitted(
    inference: Inference, call: ast.Call, wanted: tuple[Type, ...], scope: Scope
) -> tuple[typed.Expr, ...]:
    given = [inference.infer(argument.value, scope) for argument in call.arguments]
    if len(given) != len(wanted):
        wrong_count(inference, call, counted(len(wanted), "value"))
        return ()
    return tuple(
        fit(inference, node, type_, f'argument {i} of "{call.function}"')
        for i, (node, type_) in enumerate(zip(given, wanted, strict=True), 1)
    )


def _conversion(
    inference: Inference, call: ast.Call, arguments: tuple[typed.Expr, ...], target: Type
) -> typed.Expr:
    if len(arguments) != 1:
        return wrong_count(inference, call, "1 value")
    return convert(inference, arguments[0], target, call.span)


def _of_tree(inference: Inference, call: ast.Call, argument: typed.Expr) -> typed.Expr:
    """`text(x)`, `tag(x)`; over a collection, of each element."""

    def one(node: typed.Expr) -> typed.Expr:
        if isinstance(node.type, Collection):
            return over(inference, node, one, call.span)
        if node.type not in (XML, NOTHING):
            message = f'"{call.function}" applies to XML, and this is {node.type}'
            return inference.problem("T308", node.span, message, f"is {node.type}")
        return typed.Builtin(call.function, (widen(node, XML),), type=STRING, span=call.span)

    return one(argument)


def _construct(
    inference: Inference, call: ast.Call, constructor: Constructor, scope: Scope
) -> typed.Expr:
    wanted = constructor.content
    owner = Data(constructor.owner)
    given = call.arguments
    if len(given) == 1 and wanted != Tuple(()):
        content = inference.infer(given[0].value, scope)
        what = f'what "{constructor.name}" holds'
        return typed.MakeData(
            constructor, fit(inference, content, wanted, what), type=owner, span=call.span
        )
    items = wanted.items if isinstance(wanted, Tuple) else (wanted,)
    parts = _fitted(inference, call, items, scope)
    inner = typed.MakeTuple(parts, type=wanted, span=call.span)
    return typed.MakeData(constructor, inner, type=owner, span=call.span)


def _fold(inference: Inference, call: ast.Call, scope: Scope) -> typed.Expr:
    if len(call.arguments) != 3:
        return wrong_count(inference, call, "a function, a start value and a collection")
    function = function_value(inference, call.arguments[0].value, scope, 2)
    zero, operand = (inference.infer(argument.value, scope) for argument in call.arguments[1:])
    operand = collection(inference, operand, "the third argument of fold")
    if function is None:
        return typed.Const(None, type=NOTHING, span=call.span)
    state, element = (parameter.type for parameter in function.parameters)
    if inference.spoiled(state):
        return typed.Const(None, type=NOTHING, span=call.span)
    if not widens(function.body.type, state):
        message = f"the function takes {state} first and gives {function.body.type}"
        hint = "It takes what was made so far and an element, and gives what was made then."
        return inference.problem("T308", call.span, message, "must give what it takes", hint)
    kind = operand.type.kind if isinstance(operand.type, Collection) else "bag"
    return typed.Fold(
        typed.Lambda(function.parameters, widen(function.body, state)),
        fit(inference, zero, state, "the start value of fold"),
        fit(inference, operand, Collection(kind, element), "the collection of fold"),
        type=state,
        span=call.span,
    )


# --- macros ------------------------------------------------------------------------------


def _macro(inference: Inference, call: ast.Call, scope: Scope, place: Place) -> typed.Expr:
    """The macro's body with its parameters standing for the argument expressions."""
    macro = inference.macros[call.function].declaration
    if len(macro.parameters) != len(call.arguments):
        return wrong_count(inference, call, counted(len(macro.parameters), "expression"))
    if macro.name in inference.endless:
        return typed.Const(None, type=NOTHING, span=call.span)
    if inference.place.depth > MOST_EXPANSIONS:
        inference.endless.add(macro.name)
    if macro.name in place.expanding or macro.name in inference.endless:
        message = f'the macro "{macro.name}" expands to itself'
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
    """`f(a)` where f is a macro's parameter: the lambda or function given for it is applied."""
    while isinstance(entry.expr, ast.Name):
        name = entry.expr.name
        inner = entry.scope.names.get(name)
        if isinstance(inner, MacroArgument):
            entry = inner
            continue
        renamed = ast.Call(name, call.arguments, span=call.span, name_span=entry.expr.span)
        return _declared_call(inference, renamed, scope, entry.place)
    if not isinstance(entry.expr, ast.Lambda):
        message = f'"{call.function}" is called, and what stands for it is not a function'
        hint = "Give a lambda or the name of a function for it."
        return inference.problem("T601", entry.expr.span, message, "not a function", hint)
    with inference.at(entry.place):
        function = infer_lambda(inference, entry.expr, entry.scope)
    wanted = tuple(parameter.type for parameter in function.parameters)
    arguments = _fitted(inference, call, wanted, scope)
    pattern = typed.TupleOf(tuple(map(typed.Bind, function.parameters)))
    values = typed.MakeTuple(arguments, type=Tuple(wanted), span=call.span)
    branch = typed.Branch(pattern, function.body)
    return typed.Case(values, (branch,), type=function.body.type, span=call.span)
