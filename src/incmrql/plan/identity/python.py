"""The source texts of a Python function or parser, which are equal for equal code.

They are the text of the function itself and of everything that it uses from the top level of its
module: functions, classes and constants, and what these use in turn.  Of other modules only the
import statement is included, and of closures and defaults the values that can be encoded.

Source text is used and not bytecode, which differs between versions of Python.  Only code without
source, as from a prompt, is identified by its bytecode.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from incmrql.errors import InternalError
from incmrql.values import encode


def python_texts(code: Any) -> list[str]:
    """The texts of a function, a class or an object of a class, and of what they use."""
    return list(_CodeTexts().texts(code))


class _CodeTexts:
    """Yields the texts of code, each object once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def texts(self, code: Any) -> Iterator[str]:
        if isinstance(code, functools.partial):
            yield from ("partial", *self._values([*code.args, *sorted(code.keywords.items())]))
            yield from self.texts(code.func)
            return
        if inspect.ismethod(code):
            yield from self.texts(code.__self__)
            yield code.__func__.__qualname__
            return
        if not isinstance(code, type | types.FunctionType):
            if inspect.isbuiltin(code):
                yield f"{code.__module__}.{code.__qualname__}"
                return
            code = type(code)
        if id(code) in self.seen:
            return
        self.seen.add(id(code))
        yield from self._code_texts(code)

    def _code_texts(self, code: type | types.FunctionType) -> Iterator[str]:
        text = _source(code)
        function = code if isinstance(code, types.FunctionType) else None
        names = set() if function is None else set(_names_in_code(function.__code__))
        if text is None:
            if function is None:
                yield f"{code.__module__}.{code.__qualname__}"
                return
            yield from _bytecode_texts(function.__code__)
        else:
            yield text
            names |= _names_in_text(text)
        if function is not None:
            cells = [_cell_value(cell) for cell in function.__closure__ or ()]
            defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
            yield from self._values([*cells, *defaults])
        yield from self._referenced_texts(code, names)

    def _referenced_texts(self, code: type | types.FunctionType, names: set[str]) -> Iterator[str]:
        """The texts of what code uses from the top level of its module."""
        module = sys.modules.get(code.__module__)
        bound = _top_level(module)
        waiting, visited = sorted(names), {code.__name__} if bound.get(code.__name__) else set()
        spaces = getattr(code, "__globals__", None) or vars(module) if module else {}
        while waiting:
            name = waiting.pop(0)
            if name in visited:
                continue
            visited.add(name)
            if name in bound:
                for text in bound[name]:
                    yield text
                    waiting += sorted(_names_in_text(text) - visited)
            elif isinstance(spaces.get(name), types.FunctionType):
                yield from self.texts(spaces[name])

    def _values(self, values: list[Any]) -> Iterator[str]:
        """Values in closures and defaults: code as text, others as canonical bytes or by type."""
        for value in values:
            if isinstance(value, types.FunctionType | functools.partial):
                yield from self.texts(value)
                continue
            try:
                yield encode(value).hex()
            except InternalError:
                yield f"{type(value).__module__}.{type(value).__qualname__}"


def _source(code: Any) -> str | None:
    try:
        return textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):
        return None


def _top_level(module: types.ModuleType | None) -> dict[str, list[str]]:
    """The texts of the top-level statements of a module, by the names that they bind."""
    text = None if module is None else _source(module)
    if text is None:
        return {}
    return _statements(text)


@functools.lru_cache(maxsize=64)
def _statements(text: str) -> dict[str, list[str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    statements: dict[str, list[str]] = {}
    for statement in tree.body:
        source = ast.get_source_segment(text, statement) or ""
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            decorators = [ast.get_source_segment(text, d) or "" for d in statement.decorator_list]
            source = "\n".join([*decorators, source])
        for name in _bound_names(statement):
            statements.setdefault(name, []).append(source)
    return statements


def _bound_names(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds."""
    match statement:
        case ast.FunctionDef(name) | ast.ClassDef(name) | ast.AsyncFunctionDef(name):
            return {name}
        case ast.Import(names) | ast.ImportFrom(names=names):
            return {(alias.asname or alias.name).partition(".")[0] for alias in names}
        case _:
            nodes = ast.walk(statement)
            return {
                node.id
                for node in nodes
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
            }


def _names_in_text(text: str) -> set[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a lambda within a longer expression
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _names_in_code(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in_code(constant)


def _bytecode_texts(code: types.CodeType) -> Iterator[str]:
    """The bytecode and constants of code without a source."""
    yield code.co_code.hex()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bytecode_texts(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)
    yield repr((code.co_names, code.co_varnames, code.co_freevars))


def _cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is still empty
        return None
