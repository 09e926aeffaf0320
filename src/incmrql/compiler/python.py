"""Signatures of Python functions and parsers, read from their files without running anything.

`check` and `explain` need the types of what a script imports, and must not run untrusted code to
get them.  A module is searched where Python would search, directory by directory:
`find_spec("a.b")` would import `a`.  The file is parsed, and annotations are read as text.  Names
in annotations are resolved through the imports and plain assignments of the file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from incmrql.errors import DataError
from incmrql.types import model, typed
from incmrql.types.infer.scripts import type_from_text

_LARGEST: Final = 16 * 1024 * 1024
_MOST_STEPS: Final = 20
"""How many assignments and imports are followed from a name to its definition."""
UNREADABLE_HINT: Final = (
    "It is read without running it. Annotate it in the file itself, or let it be imported: "
    "--allow-import {module}"
)

DottedName = str
"""A name with its module, such as `datetime.date`."""


def module_file(name: str, folder: Path) -> Path | None:
    """The file of a module: beside the script, else where Python looks; nothing is imported."""
    parts = name.split(".")
    beside = folder.joinpath(*parts).with_suffix(".py")
    if beside.is_file():
        return beside
    places = [folder, Path(), *(Path(entry or ".") for entry in sys.path)]
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        for place in places:
            package = place / part / "__init__.py"
            if package.is_file():
                if is_last:
                    return package
                places = [package.parent]
                break
            if is_last and (place / f"{part}.py").is_file():
                return place / f"{part}.py"
        else:
            # No __init__.py: a namespace package may have parts in several directories.
            portions = [place / part for place in places if (place / part).is_dir()]
            if is_last or not portions:
                return None
            places = portions
    return None


@dataclass(slots=True)
class PythonSource:
    """A parsed Python file, with the statement that binds each name of its top level."""

    name: str
    path: Path
    folder: Path
    """The directory of the script, which is searched first for modules."""
    bindings: dict[str, ast.stmt] = field(default_factory=dict)

    def function(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The definition of a function, in this file or in the file that it is imported from."""
        _, statement = self.definition(name)
        return statement if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def definition(self, name: str, steps: int = 0) -> tuple[PythonSource, ast.stmt | None]:
        """The file and the statement that define a name, through imports and assignments."""
        statement = self.bindings.get(name)
        # A cycle of imports has no definition: stop after a number of steps.
        if steps > _MOST_STEPS or statement is None:
            return self, None
        match statement:
            case ast.Assign(value=ast.Name(id=alias)):
                return self.definition(alias, steps + 1)
            case ast.ImportFrom():
                source = self._import_source(statement)
                original = next(a.name for a in statement.names if (a.asname or a.name) == name)
                return (self, None) if source is None else source.definition(original, steps + 1)
            case _:
                return self, statement

    def _import_source(self, statement: ast.ImportFrom) -> PythonSource | None:
        """The module that a statement imports from, if it has a file."""
        module = statement.module or ""
        if statement.level:
            is_package = self.path.name == "__init__.py"
            base = self.name.split(".")
            levels = len(base) - statement.level + (1 if is_package else 0)
            module = ".".join([*base[: max(levels, 0)], *([module] if module else [])])
        try:
            return parse_module(module, self.folder)
        except DataError:
            return None

    def dotted_name(self, node: ast.expr) -> DottedName:
        """The full name, with its module, of a name in an annotation; else the name itself."""
        match node:
            case ast.Name(id=name):
                match self.bindings.get(name):
                    case ast.ImportFrom(module=str(module), names=names, level=0):
                        original = next(a.name for a in names if (a.asname or a.name) == name)
                        return f"{module}.{original}"
                    case ast.Import(names=names):
                        return next((a.name for a in names if (a.asname or a.name) == name), name)
                    case _:
                        return name
            case ast.Attribute(value=inner, attr=name):
                return f"{self.dotted_name(inner)}.{name}"
            case _:
                return ""

    def alias(self, name: str) -> ast.expr | None:
        """The value assigned to a name of the file, as in `Point = tuple[float, float]`."""
        match self.bindings.get(name):
            case ast.Assign(value=value):
                return value
            case ast.AnnAssign(value=value):
                return value
            case _:
                return None


def parse_module(name: str, folder: Path) -> PythonSource:
    """The parsed file of a module; raises `DataError` if the module has no Python file."""
    path = module_file(name, folder)
    if path is None:
        hint = "Modules are looked for beside the script, then where Python looks."
        raise DataError("T606", f'there is no Python module "{name}"', hint=hint)
    try:
        if path.stat().st_size > _LARGEST:
            raise DataError("T606", f'the file of module "{name}" is too large to be read')
        tree = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        message = f'the module "{name}" cannot be read: {problem}'
        raise DataError("T606", message, place=str(path)) from None
    source = PythonSource(name, path, folder)
    for statement in _statements(tree.body):
        for binding in _names(statement):
            source.bindings[binding] = statement
    return source


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of the top level, including those inside `if` and `try`.

    The main branch comes last, because a later binding of a name replaces an earlier one.
    """
    for statement in body:
        match statement:
            case ast.If(body=then, orelse=otherwise):
                yield from _statements(otherwise)
                yield from _statements(then)
            case ast.Try(body=then, handlers=handlers, orelse=otherwise):
                for handler in handlers:
                    yield from _statements(handler.body)
                yield from _statements([*then, *otherwise])
            case _:
                yield statement


def _names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


# --- Types of functions and parsers ---


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
    """A function of a module, typed by its annotations without importing it; not callable."""
    module_name = module.removesuffix(".py").replace("/", ".")
    source, definition = parse_module(module_name, folder).definition(name)
    if definition is None:
        message = f'the module "{module}" has no function "{name}" that can be read'
        raise DataError("T606", message, hint=UNREADABLE_HINT.format(module=module))
    if not isinstance(definition, ast.FunctionDef):
        message = f'"{name}" of the module "{module}" is not defined as a function'
        raise DataError("T606", message, hint=UNREADABLE_HINT.format(module=module))
    spec = definition.args
    variadic = [parameter for parameter in (spec.vararg, spec.kwarg) if parameter is not None]
    parameters = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *variadic]
    missing = [parameter.arg for parameter in parameters if parameter.annotation is None]
    missing += ["return"] if definition.returns is None else []
    if missing:
        message = f'the function "{name}" has no annotation for {", ".join(missing)}'
        raise DataError("T606", message, hint=ANNOTATE)
    reader = _Annotations(source, module)
    annotations = [parameter.annotation for parameter in parameters]
    types = tuple(reader.type(annotation) for annotation in annotations if annotation)
    assert definition.returns is not None
    result = reader.type(definition.returns)
    return typed.PythonFunction(name, types, result, import_stub(module))


def read_parser(path: str, folder: Path) -> tuple[object, model.Type]:
    """A parser by the dotted path of its class, and its element type; the parser is a stub."""
    module, _, name = path.rpartition(".")
    if not module:
        raise DataError("T606", f'"{path}" names no class', hint='Write "module.Class".')
    _, definition = parse_module(module, folder).definition(name)
    text, has_parse = None, False
    for statement in definition.body if isinstance(definition, ast.ClassDef) else []:
        match statement:
            case ast.Assign(targets=[ast.Name(id="type")], value=ast.Constant(value=str(value))):
                text = value
            case ast.AnnAssign(target=ast.Name(id="type"), value=ast.Constant(value=str(value))):
                text = value
            case ast.FunctionDef(name="parse"):
                has_parse = True
            case _:
                pass
    if text is None or not has_parse:
        message = f'"{path}" is not a parser that can be read'
        hint = 'A parser is a class with type = "< A: int >" and parse(self, text) -> rows. '
        raise DataError("T606", message, hint=hint + UNREADABLE_HINT.format(module=module))
    return import_stub(module), type_from_text(text)


class _ImportStub:
    """A function or parser of a module that was read but not imported; calling it raises."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __call__(self, *_: object) -> NoReturn:
        message = f'the module "{self.module}" is not imported'
        raise DataError("R243", message, hint=f"Allow it: --allow-import {self.module}")

    parse = __call__


def import_stub(module: str) -> _ImportStub:
    """A stub for a function or parser of a module that was not imported."""
    return _ImportStub(module)


class _Annotations:
    """Reads the annotations of one file as types of the language."""

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
                return self.type(self._parse(text, node), depth + 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._union([left, right], node, depth)
            case ast.Subscript(value=base, slice=inner):
                arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return self._generic(self.source.dotted_name(base), arguments, node, depth)
            case ast.Name() | ast.Attribute():
                return self._type_of_name(node, depth)
            case _:
                return self._refuse(node)

    def _type_of_name(self, node: ast.Name | ast.Attribute, depth: int) -> model.Type:
        if isinstance(node, ast.Name) and (alias := self.source.alias(node.id)) is not None:
            return self.type(alias, depth + 1)
        name = self.source.dotted_name(node)
        if name not in _NAMES:
            self._refuse(node)
        return _NAMES[name]

    def _generic(
        self, base: str, arguments: list[ast.expr], node: ast.expr, depth: int
    ) -> model.Type:
        if base in _LISTS and len(arguments) == 1:
            return model.list_of(self.type(arguments[0], depth + 1))
        if base in _TUPLES:
            return model.Tuple(tuple(self.type(argument, depth + 1) for argument in arguments))
        if base in ("typing.Optional", "typing.Union"):
            return self._union(arguments, node, depth)
        match arguments:
            case [_, ast.Constant(value=str(text)), *_] if base in _ANNOTATED:
                return type_from_text(text)
            case _:
                return self._refuse(node)

    def _union(self, parts: list[ast.expr], node: ast.expr, depth: int) -> model.Type:
        types = [self.type(part, depth + 1) for part in parts]
        # None is no type of its own: every type of the language has null.
        others = [type_ for type_ in types if type_ != model.NOTHING]
        if len(others) != 1:
            self._refuse(node)
        return others[0]

    def _parse(self, text: str, node: ast.expr) -> ast.expr:
        try:
            return ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            self._refuse(node)

    def _refuse(self, node: ast.expr) -> NoReturn:
        message = f"the annotation {ast.unparse(node)} has no type of the language"
        hint = 'Use bool, int, float, str, list[T], tuple[...], or Annotated[..., "< A: int >"].'
        raise DataError("T606", message, hint=hint)
