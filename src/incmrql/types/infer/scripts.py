"""Scripts: declarations collected, items typed in order, problems raised together."""

from __future__ import annotations

from collections.abc import Iterable

from incmrql.errors import OUTSIDE, DataError, QueryError, SourceText, Span, in_text_order
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_type_text
from incmrql.types import typed
from incmrql.types.infer.aggregates import function_value
from incmrql.types.infer.expressions import infer_expr
from incmrql.types.lattice import widens
from incmrql.types.model import BASIC_NAMES, Type, constructors
from incmrql.types.resolve import fit, parameter_names, refuse_repeated, resolve_type, widen
from incmrql.types.scope import Catalog, FunctionHead, Inference, Macro, Named, Scope

_TOP = Scope()


def infer_script(script: ast.Script, catalog: Catalog) -> typed.Script:
    """The typed script; raises one `QueryError` with every problem found."""
    inference = Inference(catalog, infer_expr)
    inference.python.update(catalog.functions)
    _declare_types(inference, script)
    for item in script.items:
        if isinstance(item, ast.Define | ast.StoreValue):
            inference.definitions.setdefault(item.name, []).append(item.span)
    kept = _without_repeated(inference, script.items)
    _declare_functions(inference, kept)
    functions: dict[str, typed.Function] = {}
    items: list[typed.ScriptItem] = []
    for item in kept:
        if isinstance(item, ast.DeclareFunction):
            functions[item.name] = _function(inference, item)
        elif (done := _item(inference, item)) is not None:
            items.append(done)
    if inference.problems:
        raise QueryError(*in_text_order(inference.problems))
    parsers = {name: parser for name, (parser, _) in inference.parsers.items()}
    return typed.Script(
        tuple(items), inference.queries, functions, inference.aggregations, inference.python,
        parsers, inference.data, catalog.allowed,
    )  # fmt: skip


def resolve_type_tree(tree: ast.TypeTree, data: Iterable[str] = ()) -> Type:
    """The type that a tree spells by itself, given the names of the data types there are."""
    inference = Inference(Catalog(), infer_expr)
    inference.data_names.update(data)
    found = resolve_type(inference, tree)
    if inference.problems:
        raise QueryError(*inference.problems)
    return found


# --- declarations ------------------------------------------------------------------------


def _declare_types(inference: Inference, script: ast.Script) -> None:
    """Types and data types may refer to each other, whatever their order."""
    datas: list[ast.DeclareData] = []
    for item in script.items:
        if isinstance(item, ast.DeclareType | ast.DeclareData):
            taken = (*BASIC_NAMES, "decimal", "any", *inference.aliases, *inference.data_names)
            if item.name in taken:
                _twice(inference, "a type", item.name, item.name_span)
                if isinstance(item, ast.DeclareData):
                    inference.broken.update(name for name, _ in item.constructors)
            elif isinstance(item, ast.DeclareType):
                inference.aliases[item.name] = item.type
            else:
                inference.data_names.add(item.name)
                datas.append(item)
    for name, tree in inference.aliases.items():
        resolve_type(inference, ast.NamedType(name, span=tree.span))
    for data in datas:
        known = inference.constructors()
        alternatives: list[tuple[str, Type]] = []
        for place, (name, tree) in enumerate(data.constructors):
            if name in known or name in dict(alternatives):
                spans = data.constructor_spans
                span = spans[place] if spans else data.span
                _twice(inference, "a constructor", name, span)
            alternatives.append((name, resolve_type(inference, tree)))
        inference.data[data.name] = constructors(data.name, *alternatives)


def _without_repeated(inference: Inference, items: tuple[ast.Item, ...]) -> list[ast.Item]:
    """The items less those that declare what can be called a second time."""
    known = dict.fromkeys(inference.constructors(), "a constructor")
    modules: dict[str, str] = {}
    kept: list[ast.Item] = []
    for item in items:
        fresh = True
        for what, name, span in _callables(item):
            again = isinstance(item, ast.Import) and modules.get(name) == item.module
            if name in known and not again:
                _twice(inference, known[name], name, span)
                fresh = isinstance(item, ast.Import)
            elif isinstance(item, ast.Import):
                modules[name] = item.module
            known.setdefault(name, what)
        if fresh:
            kept.append(item)
    return kept


def _callables(item: ast.Item) -> list[tuple[str, str, Span]]:
    """What an item declares that is called like a function: what it is, its name, where."""
    match item:
        case ast.DeclareFunction(name):
            return [("a function", name, item.name_span)]
        case ast.DeclareMacro(name):
            return [("a macro", name, item.name_span)]
        case ast.DeclareAggregation(name):
            return [("an aggregation", name, item.name_span)]
        case ast.Import(names):
            spans = item.name_spans or (item.span,) * len(names)
            return [("an imported function", n, s) for n, s in zip(names, spans, strict=True)]
        case _:
            return []


def _declare_functions(inference: Inference, items: list[ast.Item]) -> None:
    """Functions may call each other, whatever their order."""
    for item in items:
        if not isinstance(item, ast.DeclareFunction):
            continue
        parameters = tuple(
            inference.variable(p.name, resolve_type(inference, p.type)) for p in item.parameters
        )
        names = [parameter.name for parameter in parameters]
        places = parameter_names(item.parameters)
        refuse_repeated(inference, names, "parameters", item.span, places)
        result = resolve_type(inference, item.result)
        inference.functions[item.name] = FunctionHead(item.name, parameters, result)


def _twice(inference: Inference, what: str, name: str, span: Span) -> None:
    message = f'there is {what} "{name}" already'
    inference.problem("T105", span, message, "declared again", "Choose another name.")


def _function(inference: Inference, item: ast.DeclareFunction) -> typed.Function:
    head = inference.functions[item.name]
    body = inference.infer(item.body, _TOP.bind_variables(head.parameters))
    fitted = fit(inference, body, head.result, f'the result of "{item.name}"')
    return typed.Function(item.name, head.parameters, head.result, fitted)


def _aggregation(inference: Inference, item: ast.DeclareAggregation) -> None:
    type_ = resolve_type(inference, item.type)
    merge = function_value(inference, item.merge, _TOP, 2)
    zero = fit(
        inference, inference.infer(item.zero, _TOP), type_, f'the zero of "{item.name}"', "T604"
    )
    unit = None
    if item.unit is not None:
        unit = function_value(inference, item.unit, _TOP, 1)
    inverse = None
    if item.inverse is not None:
        inverse = function_value(inference, item.inverse, _TOP, 1)
    missing = [
        written is not None and found is None
        for written, found in ((item.unit, unit), (item.inverse, inverse))
    ]
    if merge is None or any(missing) or inference.spoiled(type_):
        inference.broken.add(item.name)
        return
    takes = all(parameter.type == type_ for parameter in merge.parameters)
    if not takes or not widens(merge.body.type, type_):
        kinds = ", ".join(str(parameter.type) for parameter in merge.parameters)
        message = f'the merge of "{item.name}" must take two {type_} and give {type_}'
        hint = f"Write \\(x: {type_}, y: {type_}): {type_}. …, or declare another result."
        label = f"is ({kinds}) -> {merge.body.type}"
        inference.problem("T604", item.merge.span, message, label, hint)
        inference.broken.add(item.name)
        return
    if unit is not None and not widens(unit.body.type, type_):
        message = f'the unit of "{item.name}" must give {type_}, and this gives {unit.body.type}'
        place = item.unit.span if item.unit is not None else item.span
        hint = "The unit makes an accumulator of one element."
        inference.problem("T604", place, message, f"gives {unit.body.type}", hint)
        inference.broken.add(item.name)
        return
    if inverse is not None and item.inverse is not None:
        takes = inverse.parameters[0].type == type_
        if not takes or not widens(inverse.body.type, type_):
            message = f'the inverse of "{item.name}" must take {type_} and give {type_}'
            label = f"is ({inverse.parameters[0].type}) -> {inverse.body.type}"
            hint = "The inverse of what was merged, merged, takes it away again."
            inference.problem("T604", item.inverse.span, message, label, hint)
            inference.broken.add(item.name)
            return
    element = unit.parameters[0].type if unit is not None else type_
    merged = typed.Lambda(merge.parameters, widen(merge.body, type_))
    made = None if unit is None else typed.Lambda(unit.parameters, widen(unit.body, type_))
    away = None
    if inverse is not None:
        away = typed.Lambda(inverse.parameters, widen(inverse.body, type_))
    inference.aggregations[item.name] = typed.Aggregation(
        item.name, merged, zero, made, element, type_, item.span, away
    )


def _import(inference: Inference, item: ast.Import) -> None:
    for name in item.names:
        try:
            if inference.catalog.python_function is None:
                raise DataError("T606", "Python functions cannot be imported here")
            inference.python[name] = inference.catalog.python_function(item.module, name)
        except DataError as error:
            code = error.code if error.code == OUTSIDE else "T606"
            inference.problem(code, item.span, error.message, "here", error.hint)
            inference.broken.add(name)


def _parser(inference: Inference, item: ast.DeclareParser) -> None:
    try:
        if inference.catalog.python_parser is None:
            raise DataError("T606", "Python parsers cannot be used here")
        inference.parsers[item.name] = inference.catalog.python_parser(item.path)
    except DataError as error:
        code = error.code if error.code == OUTSIDE else "T606"
        inference.problem(code, item.span, error.message, "here", error.hint)
        inference.broken.add(item.name)


# --- items -------------------------------------------------------------------------------


def _item(inference: Inference, item: ast.Item) -> typed.ScriptItem | None:
    """What an item does, or nothing where it only declares."""
    match item:
        case ast.Evaluate(expr):
            return typed.ScriptItem("print", inference.infer(expr, _TOP), span=item.span)
        case ast.Define(name, expr):
            node = inference.infer(expr, _TOP)
            key = _key(inference, name)
            inference.queries[key] = node
            inference.define(name, Named(key, node.type, False))
            return None
        case ast.StoreValue(name, expr):
            node = inference.infer(expr, _TOP)
            key = _key(inference, name)
            inference.define(name, Named(key, node.type, True))
            return typed.ScriptItem("store-value", node, key, span=item.span)
        case ast.Output(kind, path, incremental, expr):
            node = inference.infer(expr, _TOP)
            return typed.ScriptItem(kind, node, path, incremental, span=item.span)
        case ast.Incremental(expr):
            node = inference.infer(expr, _TOP)
            return typed.ScriptItem("incr", node, incremental=True, span=item.span)
        case ast.Inspect(kind, expr):
            return typed.ScriptItem(kind, inference.infer(expr, _TOP), span=item.span)
        case _:
            _declare(inference, item)
            return None


def _declare(inference: Inference, item: ast.Item) -> None:
    match item:
        case ast.DeclareMacro():
            places = item.parameter_spans
            refuse_repeated(inference, item.parameters, "parameters", item.span, places)
            inference.macros[item.name] = Macro(item, inference.count)
        case ast.DeclareAggregation():
            _aggregation(inference, item)
        case ast.Import():
            _import(inference, item)
        case ast.DeclareParser():
            _parser(inference, item)
        case ast.Include():
            message = "an include can only be read from a file"
            inference.problem("P012", item.span, message, "here")
        case _:
            pass


def _key(inference: Inference, name: str) -> str:
    """A key of its own for each definition, so that an earlier use keeps its meaning."""
    inference.count += 1
    return f"{name}@{inference.count}"


# --- Types from text ---


def type_from_text(text: str) -> Type:
    """The type that a text spells."""
    source = SourceText(text, "<type>")
    try:
        return resolve_type_tree(parse_type_text(source))
    except QueryError as error:
        raise DataError("T606", f'"{text}" is not a type: {error.message}') from None
