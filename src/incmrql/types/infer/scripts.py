"""Type inference of scripts: first the declarations, then the items in order.

Types and functions may be used before they are declared; queries and stored values may not.
All problems are raised together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from incmrql.errors import OUTSIDE, DataError, QueryError, SourceText, Span, in_text_order
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_type_text
from incmrql.types import typed
from incmrql.types.infer.aggregates import function_value
from incmrql.types.infer.conversions import fit, widen
from incmrql.types.infer.expressions import infer_expr
from incmrql.types.lattice import widens
from incmrql.types.model import BASIC_NAMES, Type, constructors
from incmrql.types.resolve import parameter_names, report_duplicates, resolve_type
from incmrql.types.scope import Catalog, FunctionHead, Inference, Macro, NamedQuery, Scope

_TOP = Scope()


def infer_script(script: ast.Script, catalog: Catalog) -> typed.Script:
    """The typed script; raises a `QueryError` with all of its problems."""
    inference = Inference(catalog, infer_expr, count=catalog.first)
    inference.python.update(catalog.functions)
    for name, view in catalog.views.items():
        inference.define(name, view)
    _declare_types(inference, script)
    for item in script.items:
        if isinstance(item, ast.Define | ast.StoreValue):
            inference.definitions.setdefault(item.name, []).append(item.span)
    unique = _unique_items(inference, script.items)
    _declare_functions(inference, unique)
    functions: dict[str, typed.Function] = {}
    items: list[typed.ScriptItem] = []
    for item in unique:
        if isinstance(item, ast.DeclareFunction):
            head = inference.functions[item.name]
            body = inference.infer(item.body, _TOP.bind_variables(head.parameters))
            body = fit(inference, body, head.result, f'the result of "{item.name}"')
            functions[item.name] = typed.Function(item.name, head.parameters, head.result, body)
        elif (typed_item := _item(inference, item)) is not None:
            items.append(typed_item)
    if inference.problems:
        raise QueryError(*in_text_order(inference.problems))
    parsers = {name: parser for name, (parser, _) in inference.parsers.items()}
    return typed.Script(
        tuple(items), inference.queries, functions, inference.aggregations, inference.python,
        parsers, inference.data, catalog.allowed,
    )  # fmt: skip


def resolve_type_tree(tree: ast.TypeTree, data: Iterable[str] = ()) -> Type:
    """The type that a tree spells outside a script, given the names of the data types there are."""
    inference = Inference(Catalog(), infer_expr)
    inference.data_names.update(data)
    type_ = resolve_type(inference, tree)
    if inference.problems:
        raise QueryError(*inference.problems)
    return type_


def type_from_text(text: str) -> Type:
    """The type that a text spells."""
    try:
        return resolve_type_tree(parse_type_text(SourceText(text, "<type>")))
    except QueryError as error:
        raise DataError("T606", f'"{text}" is not a type: {error.message}') from None


# --- Declarations ---


def _declare_types(inference: Inference, script: ast.Script) -> None:
    """Declare all types first: they may refer to each other in any order."""
    data_types: list[ast.DeclareData] = []
    for item in script.items:
        if isinstance(item, ast.DeclareType | ast.DeclareData):
            reserved = (*BASIC_NAMES, "decimal", "any", *inference.aliases, *inference.data_names)
            if item.name in reserved:
                _report_redeclaration(inference, "a type", item.name, item.name_span)
                if isinstance(item, ast.DeclareData):
                    inference.broken.update(name for name, _ in item.constructors)
            elif isinstance(item, ast.DeclareType):
                inference.aliases[item.name] = item.type
            else:
                inference.data_names.add(item.name)
                data_types.append(item)
    for name, tree in inference.aliases.items():
        resolve_type(inference, ast.NamedType(name, span=tree.span))
    for data in data_types:
        taken_names = inference.constructors()
        alternatives: list[tuple[str, Type]] = []
        for index, (name, tree) in enumerate(data.constructors):
            if name in taken_names or name in dict(alternatives):
                spans = data.constructor_spans
                span = spans[index] if spans else data.span
                _report_redeclaration(inference, "a constructor", name, span)
            alternatives.append((name, resolve_type(inference, tree)))
        inference.data[data.name] = constructors(data.name, *alternatives)


def _unique_items(inference: Inference, items: tuple[ast.Item, ...]) -> list[ast.Item]:
    """The items without those that declare a callable name again; reports these."""
    kinds = dict.fromkeys(inference.constructors(), "a constructor")
    modules: dict[str, str] = {}
    unique: list[ast.Item] = []
    for item in items:
        is_new = True
        for what, name, span in _callables(item):
            # The same import twice is harmless: two included scripts may both need a function.
            is_same_import = isinstance(item, ast.Import) and modules.get(name) == item.module
            if name in kinds and not is_same_import:
                _report_redeclaration(inference, kinds[name], name, span)
                is_new = isinstance(item, ast.Import)
            elif isinstance(item, ast.Import):
                modules[name] = item.module
            kinds.setdefault(name, what)
        if is_new:
            unique.append(item)
    return unique


def _callables(item: ast.Item) -> list[tuple[str, str, Span]]:
    """The kind, name and place of each callable that an item declares."""
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
    """Declare the signatures of all functions first: they may call each other in any order."""
    for item in items:
        if not isinstance(item, ast.DeclareFunction):
            continue
        parameters = tuple(
            inference.variable(p.name, resolve_type(inference, p.type)) for p in item.parameters
        )
        names = [parameter.name for parameter in parameters]
        places = parameter_names(item.parameters)
        report_duplicates(inference, names, "parameters", item.span, places)
        result = resolve_type(inference, item.result)
        inference.functions[item.name] = FunctionHead(item.name, parameters, result)


def _report_redeclaration(inference: Inference, what: str, name: str, span: Span) -> None:
    message = f'there already is {what} "{name}"'
    inference.problem("T105", span, message, "declared again", "Choose another name.")


def _aggregation(inference: Inference, item: ast.DeclareAggregation) -> typed.Aggregation | None:
    """The aggregation, or None if a problem leaves it without a meaning."""
    type_ = resolve_type(inference, item.type)
    merge = function_value(inference, item.merge, _TOP, 2)
    zero = inference.infer(item.zero, _TOP)
    zero = fit(inference, zero, type_, f'the zero of "{item.name}"', "T604")
    unit = None if item.unit is None else function_value(inference, item.unit, _TOP, 1)
    inverse = None if item.inverse is None else function_value(inference, item.inverse, _TOP, 1)
    if (
        merge is None
        or (unit is None and item.unit is not None)
        or (inverse is None and item.inverse is not None)
        or inference.has_error(type_)
    ):
        return None
    functions = (
        ("merge", merge, item.merge, (type_, type_), f"take two {type_} and return {type_}",
         f"Write \\(x: {type_}, y: {type_}): {type_}. …, or declare another result."),
        ("unit", unit, item.unit, None, f"return {type_}",
         "The unit turns one element into an accumulator."),
        ("inverse", inverse, item.inverse, (type_,), f"take {type_} and return {type_}",
         "Merging the inverse of an accumulator removes what that accumulator added."),
    )  # fmt: skip
    for what, function, expr, parameters, duty, hint in functions:
        if function is None or expr is None:
            continue
        types = tuple(parameter.type for parameter in function.parameters)
        if parameters not in (None, types) or not widens(function.body.type, type_):
            message = f'the {what} of "{item.name}" must {duty}'
            label = f"is ({', '.join(map(str, types))}) -> {function.body.type}"
            inference.problem("T604", expr.span, message, label, hint)
            return None
    return typed.Aggregation(
        item.name,
        _with_result(merge, type_),
        zero,
        None if unit is None else _with_result(unit, type_),
        type_ if unit is None else unit.parameters[0].type,
        type_,
        item.span,
        None if inverse is None else _with_result(inverse, type_),
    )


def _with_result(function: typed.Lambda, type_: Type) -> typed.Lambda:
    return typed.Lambda(function.parameters, widen(function.body, type_))


@contextmanager
def _loading(inference: Inference, name: str, span: Span) -> Iterator[None]:
    """Report a `DataError` inside the `with` block as a problem of the declaration of `name`."""
    try:
        yield
    except DataError as error:
        code = error.code if error.code == OUTSIDE else "T606"
        inference.problem(code, span, error.message, "here", error.hint)
        inference.broken.add(name)


# --- Items ---


def _item(inference: Inference, item: ast.Item) -> typed.ScriptItem | None:
    """The typed item, or None for a declaration."""
    match item:
        case ast.Evaluate(expr):
            return typed.ScriptItem("print", inference.infer(expr, _TOP), span=item.span)
        case ast.Define(name, expr):
            node = inference.infer(expr, _TOP)
            key = _key(inference, name)
            inference.queries[key] = node
            inference.define(name, NamedQuery(key, node.type, False))
            return None
        case ast.StoreValue(name, expr):
            node = inference.infer(expr, _TOP)
            key = _key(inference, name)
            inference.define(name, NamedQuery(key, node.type, True))
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
    catalog = inference.catalog
    match item:
        case ast.DeclareMacro(name, parameters):
            report_duplicates(inference, parameters, "parameters", item.span, item.parameter_spans)
            inference.macros[name] = Macro(item, inference.count)
        case ast.DeclareAggregation(name):
            aggregation = _aggregation(inference, item)
            if aggregation is None:
                inference.broken.add(name)
            else:
                inference.aggregations[name] = aggregation
        case ast.Import(names, module):
            for name in names:
                with _loading(inference, name, item.span):
                    if catalog.python_function is None:
                        raise DataError("T606", "Python functions cannot be imported here")
                    inference.python[name] = catalog.python_function(module, name)
        case ast.DeclareParser(name, path):
            with _loading(inference, name, item.span):
                if catalog.python_parser is None:
                    raise DataError("T606", "Python parsers cannot be used here")
                inference.parsers[name] = catalog.python_parser(path)
        case ast.Include():
            message = "include works only in scripts that are read from a file"
            inference.problem("P012", item.span, message, "here")
        case _:
            pass


def _key(inference: Inference, name: str) -> str:
    """A new key for a definition: redefining a name does not change its earlier uses."""
    inference.count += 1
    return f"{name}@{inference.count}"
