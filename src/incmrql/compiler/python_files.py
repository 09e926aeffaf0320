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
from typing import Final

from incmrql.diagnostics import DataError

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
