"""Loads what a script refers to: its file, includes, Python functions and parsers."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import inspect
import os
import sys
import types
import typing
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

from incmrql.compiler.python import module_file, read_function, read_parser
from incmrql.errors import OUTSIDE, DataError, Diagnostic, QueryError, SourceText, Span
from incmrql.io.files import ANYWHERE, Paths
from incmrql.io.parquet import schema_type
from incmrql.reference.python import describe_exception, user_code
from incmrql.syntax import ast
from incmrql.types import model, typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.scope import Catalog

LARGEST_SCRIPT = 64 * 1024 * 1024


def read_script(path: Path) -> SourceText:
    """The text of a script file."""
    try:
        size = path.stat().st_size
        if size > LARGEST_SCRIPT:
            message = f"{path} has {size} bytes, and a script may have {LARGEST_SCRIPT}"
            hint = "Data belong in files that the script reads."
            raise DataError("P014", message, place=str(path), hint=hint)
        data = path.read_bytes()
    except OSError as error:
        message = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise DataError("P014", message, place=str(path)) from None
    try:
        return SourceText(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        source = SourceText(data.decode("utf-8", "replace"), str(path))
        at = len(data[: error.start].decode("utf-8"))
        message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        span = Span(source, at, at + 1)
        hint = "Save the script as UTF-8."
        raise QueryError(Diagnostic("P011", message, span, "here", hint)) from None


def read_include(item: ast.Include, source: SourceText, paths: Paths = ANYWHERE) -> SourceText:
    """The text that an include names, relative to the file that holds it."""
    directory = Path(source.name).parent if Path(source.name).is_file() else Path()
    path = Path(os.path.normpath(directory / item.path))
    try:
        paths.check(path)
        return read_script(path)
    except (DataError, QueryError) as error:
        code = OUTSIDE if error.code == OUTSIDE else "P012"
        hint = error.hint or "Includes are looked for beside the file that includes them."
        problem = Diagnostic(code, error.message, item.span, "included here", hint)
        raise QueryError(problem) from None


@dataclass(frozen=True, slots=True)
class Imports:
    """Which Python modules a script may import; None allows every module.

    `paths` limits where its includes, its modules and the files that give types may be.
    A module that is not allowed is only read where types suffice (`check`, `explain`), or refused.
    """

    allowed: frozenset[str] | None = None
    is_read: bool = False
    """Whether signatures of modules that are not allowed are read from their files."""
    paths: Paths = ANYWHERE

    def include(self, item: ast.Include, source: SourceText) -> SourceText:
        """The text that an include names."""
        return read_include(item, source, self.paths)

    def function(self, module: str, name: str, folder: Path) -> typed.PythonFunction:
        """A function of a module, imported or read."""
        self._check_file(module, folder)
        if self._allows(module):
            return python_function(module, name, folder)
        return read_function(module, name, folder)

    def parser(self, path: str, folder: Path) -> tuple[object, model.Type]:
        """A parser by its dotted path, imported or read."""
        self._check_file(path.rpartition(".")[0], folder)
        if self._allows(path.rpartition(".")[0]):
            return python_parser(path, folder)
        return read_parser(path, folder)

    def _check_file(self, module: str, folder: Path) -> None:
        """Refuse a module whose file is not allowed, wherever Python finds it."""
        if self.paths == ANYWHERE:
            return
        name = module_name(module)
        file = module_file(name, folder)
        if file is None:
            message = f'the Python module "{name}" has no file among those that may be read'
            raise DataError(OUTSIDE, message, hint="Modules are limited as all paths are.")
        self.paths.check(file)

    def _allows(self, module: str) -> bool:
        if self.allowed is None or module in self.allowed:
            return True
        if self.is_read:
            return False
        message = f'the Python module "{module}" may not be imported'
        hint = f"If you trust its code, allow it: --allow-import {module}"
        raise DataError("T606", message, hint=hint)


READ_ONLY: Final = Imports(frozenset(), is_read=True)
"""Nothing is imported; types are read from files."""


def catalog_for(
    script: SourceText, arguments: Sequence[str] | None, imports: Imports | None = None
) -> Catalog:
    """A catalog that looks up modules beside the script and in the current directory."""
    folder = Path(script.name).parent if Path(script.name).is_file() else Path()
    rules = imports or Imports()
    return Catalog(
        arguments=arguments,
        file_type=partial(schema_type, paths=rules.paths),
        python_function=lambda module, name: rules.function(module, name, folder),
        python_parser=lambda path: rules.parser(path, folder),
        allowed=rules.paths.allowed,
    )


# --- Python ------------------------------------------------------------------------------


@contextmanager
def _search_path(*folders: Path) -> Iterator[None]:
    """Search these directories first for imported modules."""
    saved = list(sys.path)
    sys.path[:0] = [str(folder.resolve()) for folder in folders]
    try:
        yield
    finally:
        sys.path[:] = saved


def module_name(module: str) -> str:
    """The dotted name of a module that is given by name or by the path of its file."""
    return module.removesuffix(".py").replace("/", ".")


def _module(name: str, folder: Path) -> types.ModuleType:
    """A Python module: the file beside the script, else where Python looks."""
    module = module_name(name)
    file = folder.joinpath(*module.split(".")).with_suffix(".py")
    try:
        with _search_path(folder, Path()), user_code():
            return _from_file(file) if file.is_file() else importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            hint = "Modules are looked for beside the script, then where Python looks."
            raise DataError("T606", f'there is no Python module "{module}"', hint=hint) from None
        raise DataError("T606", f'the module "{module}" needs "{error.name}"') from None
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        cause = describe_exception(error).removeprefix("raised ")
        message = f'importing the module "{module}" failed: {cause}'
        raise DataError("T606", message) from None


def _from_file(file: Path) -> types.ModuleType:
    """Load a file under a unique module name: two scripts may have modules of the same name."""
    path = file.resolve()
    name = f"incmrql_script_{zlib.crc32(str(path).encode())}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def python_function(module: str, name: str, folder: Path) -> typed.PythonFunction:
    """A function of a module, imported and typed by its annotations."""
    function = getattr(_module(module, folder), name, None)
    if not callable(function):
        raise DataError("T606", f'the module "{module}" has no function "{name}"')
    return typed_function(name, function)


def typed_function(name: str, function: typing.Callable[..., object]) -> typed.PythonFunction:
    """A Python function as a function of the language, typed by its annotations."""
    hint = "Annotate every parameter and the result: def f(x: float) -> float."
    try:
        with user_code():
            hints = typing.get_type_hints(function, include_extras=True)
            parameters = list(inspect.signature(function).parameters)
    except (Exception, SystemExit) as error:  # annotations are the user's code
        message = f'the annotations of "{name}" cannot be read: {error}'
        raise DataError("T606", message, hint=hint) from None
    missing = [p for p in (*parameters, "return") if p not in hints]
    if missing:
        message = f'the function "{name}" has no annotation for {", ".join(missing)}'
        raise DataError("T606", message, hint=hint)
    types_ = tuple(annotation_type(hints[parameter]) for parameter in parameters)
    return typed.PythonFunction(name, types_, annotation_type(hints["return"]), function)


_ANNOTATIONS: dict[object, model.Type] = {
    bool: model.BOOL, int: model.LONG, float: model.DOUBLE, str: model.STRING,
    Decimal: model.DECIMAL, datetime.date: model.DATE, datetime.datetime: model.TIMESTAMP,
    typing.Any: model.ANY, object: model.ANY, type(None): model.NOTHING,
}  # fmt: skip


def annotation_type(annotation: object) -> model.Type:
    """The type that a Python annotation stands for."""
    with suppress(TypeError):  # not every annotation has a hash
        if annotation in _ANNOTATIONS:
            return _ANNOTATIONS[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and arguments:
        return model.list_of(annotation_type(arguments[0]))
    if origin is tuple and Ellipsis not in arguments:
        return model.Tuple(tuple(map(annotation_type, arguments)))
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in arguments if a is not type(None)]
        if len(rest) == 1:
            return annotation_type(rest[0])
    if origin is typing.Annotated and isinstance(arguments[1], str):
        return type_from_text(arguments[1])
    message = f"the annotation {annotation} has no type of the language"
    hint = 'Use bool, int, float, str, list[T], tuple[...], or Annotated[..., "< A: int >"].'
    raise DataError("T606", message, hint=hint)


def python_parser(path: str, folder: Path) -> tuple[object, model.Type]:
    """A parser by the dotted path of its class: the parser object and its element type."""
    module, _, name = path.rpartition(".")
    if not module:
        raise DataError("T606", f'"{path}" names no class', hint='Write "module.Class".')
    parser = getattr(_module(module, folder), name, None)
    text = getattr(parser, "type", None)
    if parser is None or not callable(getattr(parser, "parse", None)) or not isinstance(text, str):
        message = f'"{path}" is not a parser'
        hint = 'A parser is a class with type = "< A: int >" and parse(self, text) -> rows.'
        raise DataError("T606", message, hint=hint)
    return _instance(parser, path), type_from_text(text)


def _instance(parser: object, path: str) -> object:
    """An instance of a parser class; an object that is no class is used as it is."""
    if not isinstance(parser, type):
        return parser
    try:
        with user_code():
            instance: object = parser()
    except (Exception, SystemExit) as error:
        message = f'making a parser of class "{path}" {describe_exception(error)}'
        hint = "A parser is made without arguments."
        raise DataError("T606", message, hint=hint) from None
    return instance
