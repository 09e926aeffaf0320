"""Types of Python functions and parsers that are read, not imported (`python_sources`)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final, NoReturn

from incmrql.compiler.python_files import UNREADABLE_HINT, PythonSource, parsed_module
from incmrql.diagnostics import DataError
from incmrql.types import model, typed
from incmrql.types.texts import type_from_text

_DEEPEST: Final = 30
_NAMES: Final[dict[str, model.Type]] = {
    "bool": model.BOOL, "int": model.LONG, "float": model.DOUBLE, "str": model.STRING,
    "decimal.Decimal": model.DECIMAL, "datetime.date": model.DATE,
    "datetime.datetime": model.TIMESTAMP, "typing.Any": model.ANY, "object": model.ANY,
    "None": model.NOTHING,
}  # fmt: skip
_LISTS: Final = ("list", "typing.List")
_TUPLES: Final = ("tuple", "typing.Tuple")
_ANNOTATED: Final = ("typing.Annotated", "typing_extensions.Annotated")
ANNOTATE: Final = "Annotate every parameter and the result: def f(x: float) -> float."


def read_function(module: str, name: str, folder: Path) -> typed.PythonFunction:
    """A function of a module with the types that its annotations say; it cannot be called."""
    wanted = module.removesuffix(".py").replace("/", ".")
    source, found = parsed_module(wanted, folder).defining(name)
    if found is None:
        message = f'the module "{module}" has no function "{name}" that can be read'
        raise DataError("T606", message, hint=UNREADABLE_HINT.format(module=module))
    if not isinstance(found, ast.FunctionDef):
        message = f'"{name}" of the module "{module}" is not defined as a function'
        raise DataError("T606", message, hint=UNREADABLE_HINT.format(module=module))
    spec = found.args
    rest = [each for each in (spec.vararg, spec.kwarg) if each is not None]
    parameters = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest]
    missing = [each.arg for each in parameters if each.annotation is None]
    missing += ["return"] if found.returns is None else []
    if missing:
        message = f'the function "{name}" has no annotation for {", ".join(missing)}'
        raise DataError("T606", message, hint=ANNOTATE)
    reader = _Annotations(source, module)
    types = tuple(reader.type(each.annotation) for each in parameters if each.annotation)
    assert found.returns is not None
    return typed.PythonFunction(name, types, reader.type(found.returns), not_imported(module))


def read_parser(path: str, folder: Path) -> tuple[object, model.Type]:
    """A parser class by its dotted path, with the type that it gives; it cannot be used."""
    module, _, name = path.rpartition(".")
    if not module:
        raise DataError("T606", f'"{path}" names no class', hint='Write "module.Class".')
    _, found = parsed_module(module, folder).defining(name)
    text, parses = None, False
    for statement in found.body if isinstance(found, ast.ClassDef) else []:
        match statement:
            case ast.Assign(targets=[ast.Name(id="type")], value=ast.Constant(value=str(given))):
                text = given
            case ast.AnnAssign(target=ast.Name(id="type"), value=ast.Constant(value=str(given))):
                text = given
            case ast.FunctionDef(name="parse"):
                parses = True
            case _:
                pass
    if text is None or not parses:
        message = f'"{path}" is not a parser that can be read'
        hint = 'A parser is a class with type = "< A: int >" and parse(self, text) -> rows. '
        raise DataError("T606", message, hint=hint + UNREADABLE_HINT.format(module=module))
    return not_imported(module), type_from_text(text)


class _NotImported:
    """Stands for a function or parser of a module that was read and not imported."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __call__(self, *_: object) -> NoReturn:
        message = f'the module "{self.module}" is not imported'
        raise DataError("R243", message, hint=f"Allow it: --allow-import {self.module}")

    parse = __call__


def not_imported(module: str) -> _NotImported:
    """What is called in the place of a function of a module that was not imported."""
    return _NotImported(module)


class _Annotations:
    """The annotations of one file as types of the language."""

    def __init__(self, source: PythonSource, module: str) -> None:
        self.source, self.module = source, module

    def type(self, node: ast.expr, depth: int = 0) -> model.Type:
        """The type that an annotation stands for."""
        if depth > _DEEPEST:
            self._refuse(node)
        match node:
            case ast.Constant(value=None):
                return model.NOTHING
            case ast.Constant(value=str(text)):
                return self.type(self._parsed(text, node), depth + 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._union([left, right], node, depth)
            case ast.Subscript(value=base, slice=inner):
                given = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return self._generic(self.source.dotted(base), given, node, depth)
            case ast.Name() | ast.Attribute():
                return self._named(node, depth)
            case _:
                return self._refuse(node)

    def _named(self, node: ast.Name | ast.Attribute, depth: int) -> model.Type:
        if isinstance(node, ast.Name) and (alias := self.source.alias(node.id)) is not None:
            return self.type(alias, depth + 1)
        name = self.source.dotted(node)
        if name not in _NAMES:
            self._refuse(node)
        return _NAMES[name]

    def _generic(self, base: str, given: list[ast.expr], node: ast.expr, depth: int) -> model.Type:
        if base in _LISTS and len(given) == 1:
            return model.list_of(self.type(given[0], depth + 1))
        if base in _TUPLES:
            return model.Tuple(tuple(self.type(each, depth + 1) for each in given))
        if base in ("typing.Optional", "typing.Union"):
            return self._union(given, node, depth)
        match given:
            case [_, ast.Constant(value=str(text)), *_] if base in _ANNOTATED:
                return type_from_text(text)
            case _:
                return self._refuse(node)

    def _union(self, parts: list[ast.expr], node: ast.expr, depth: int) -> model.Type:
        types = [self.type(part, depth + 1) for part in parts]
        rest = [each for each in types if each != model.NOTHING]
        if len(rest) != 1:
            self._refuse(node)
        return rest[0]

    def _parsed(self, text: str, node: ast.expr) -> ast.expr:
        try:
            return ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            self._refuse(node)

    def _refuse(self, node: ast.expr) -> NoReturn:
        message = f"the annotation {ast.unparse(node)} has no type of the language"
        hint = 'Use bool, int, float, str, list[T], tuple[...], or Annotated[..., "< A: int >"].'
        raise DataError("T606", message, hint=hint)
