"""Signatures of Python functions and parsers, read from their files without running anything.

`check` and `explain` need the types of what a script imports, and must not run a stranger's code
for it.  A module is looked for where Python would look, folder by folder: `find_spec("a.b")` would
import `a`.  The file is parsed, and annotations are read as text.  Names in them mean what the
imports and plain assignments of the file say.
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
"""Names that are followed from one assignment or import to the next."""
UNREADABLE_HINT: Final = (
    "It is read without running it. Annotate it in the file itself, or let it be imported: "
    "--allow-import {module}"
)

Named = str
"""A dotted name of the standard library, as `datetime.date`."""


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
            spaces = [place / part for place in places if (place / part).is_dir()]
            if is_last or not spaces:
                return None
            places = spaces
    return None


@dataclass(slots=True)
class PythonSource:
    """A parsed file of Python, with what its top level binds to each name."""

    name: str
    path: Path
    folder: Path
    """Of the script, where modules are looked for first."""
    bound: dict[str, ast.stmt] = field(default_factory=dict)

    def function(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The definition of a function, in this file or in one that it is imported from."""
        found = self._definition(name)
        return found[1] if isinstance(found[1], ast.FunctionDef | ast.AsyncFunctionDef) else None

    def _definition(self, name: str, steps: int = 0) -> tuple[PythonSource, ast.stmt | None]:
        statement = self.bound.get(name)
        if steps > _MOST_STEPS or statement is None:
            return self, None
        match statement:
            case ast.Assign(value=ast.Name(id=other)):
                return self._definition(other, steps + 1)
            case ast.ImportFrom():
                source = self._imported(statement)
                original = next(a.name for a in statement.names if (a.asname or a.name) == name)
                return (self, None) if source is None else source._definition(original, steps + 1)
            case _:
                return self, statement

    def _imported(self, statement: ast.ImportFrom) -> PythonSource | None:
        """The module that a statement imports from, if it has a file."""
        wanted = statement.module or ""
        if statement.level:
            is_package = self.path.name == "__init__.py"
            base = self.name.split(".")
            kept = len(base) - statement.level + (1 if is_package else 0)
            wanted = ".".join([*base[: max(kept, 0)], *([wanted] if wanted else [])])
        try:
            return parsed_module(wanted, self.folder)
        except DataError:
            return None

    def defining(self, name: str) -> tuple[PythonSource, ast.stmt | None]:
        """The file and the statement that define a name."""
        return self._definition(name)

    def dotted(self, node: ast.expr) -> Named:
        """What a name in an annotation stands for, spelled out from its module; else itself."""
        match node:
            case ast.Name(id=name):
                match self.bound.get(name):
                    case ast.ImportFrom(module=str(module), names=names, level=0):
                        own = next(a.name for a in names if (a.asname or a.name) == name)
                        return f"{module}.{own}"
                    case ast.Import(names=names):
                        return next((a.name for a in names if (a.asname or a.name) == name), name)
                    case _:
                        return name
            case ast.Attribute(value=inner, attr=name):
                return f"{self.dotted(inner)}.{name}"
            case _:
                return ""

    def alias(self, name: str) -> ast.expr | None:
        """What a name of the file was assigned to, as in `Point = tuple[float, float]`."""
        match self.bound.get(name):
            case ast.Assign(value=value):
                return value
            case ast.AnnAssign(value=value):
                return value
            case _:
                return None


def parsed_module(name: str, folder: Path) -> PythonSource:
    """A module, parsed; refused if it has no file of Python."""
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
        for bound in _names(statement):
            source.bound[bound] = statement
    return source


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of the top level, those of `if` and `try` included."""
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
            return [each.asname or each.name.partition(".")[0] for each in names]
        case ast.ImportFrom(names=names):
            return [each.asname or each.name for each in names]
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
