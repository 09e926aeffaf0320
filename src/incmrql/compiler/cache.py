"""A session's cache of compiled texts.

A notebook or a dashboard sends the same text again and again.  Its meaning depends on the text,
its arguments, and the types and functions that the session knows: these are the key.  Everything
else that the compiler looked up, such as includes and the types of files, is looked up again each
time and compared.  A text that imports from a Python module, which may have changed, is not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final, ParamSpec, TypeVar

from incmrql.compiler.compiled import Compiled, ReadInclude, compile_script
from incmrql.errors import DataError, QueryError, SourceText
from incmrql.types.scope import Catalog

P = ParamSpec("P")
T = TypeVar("T")

CAPACITY: Final = 64
"""Texts that a session caches; the least recently used one is dropped first."""


@dataclass(slots=True)
class _Entry:
    """A compiled text and the lookups that it depends on."""

    compiled: Compiled
    lookups: _Lookups
    catalog: Catalog
    """Keeps alive the functions in the key: a key holds the `id` of each, which may be reused."""


@dataclass(slots=True)
class _Lookups:
    """What the compiler looked up outside the text, with the results."""

    results: list[tuple[Callable[[], object], object]] = field(default_factory=list)
    is_volatile: bool = False
    """Whether a lookup was made whose result cannot be compared."""

    def record(self, function: Callable[P, T]) -> Callable[P, T]:
        """The same function; each call and its result are recorded."""

        def recorder(*args: P.args, **kwargs: P.kwargs) -> T:
            result = function(*args, **kwargs)
            self.results.append((lambda: function(*args, **kwargs), result))
            return result

        return recorder

    def record_volatile(self, function: Callable[P, T] | None) -> Callable[P, T] | None:
        """The same function; a call makes the text volatile, so that it is not cached."""
        if function is None:
            return None
        wrapped = function

        def recorder(*args: P.args, **kwargs: P.kwargs) -> T:
            self.is_volatile = True
            return wrapped(*args, **kwargs)

        return recorder

    def is_current(self) -> bool:
        """Whether every lookup, made again now, gives the same result."""
        try:
            return all(lookup() == result for lookup, result in self.results)
        except (DataError, QueryError):
            return False


@dataclass(slots=True)
class CompileCache:
    """The compiled texts of a session, least recently used first."""

    _entries: dict[Hashable, _Entry] = field(default_factory=dict)

    def compile(
        self,
        source: SourceText,
        catalog: Catalog,
        include: ReadInclude,
        settings: Hashable,
        finish: Callable[[Compiled], Compiled],
    ) -> Compiled:
        """Compile a text, or return it from the cache; `finish` may depend only on `settings`."""
        key = (
            source.text,
            source.name,
            tuple(catalog.arguments or ()),
            frozenset(catalog.registered.items()),
            frozenset(
                (name, function.parameters, function.result, id(function.call))
                for name, function in catalog.functions.items()
            ),
            settings,
        )
        entry = self._entries.pop(key, None)
        if entry is None or not entry.lookups.is_current():
            lookups = _Lookups()
            recording = replace(
                catalog,
                functions=dict(catalog.functions),
                file_type=catalog.file_type and lookups.record(catalog.file_type),
                python_function=lookups.record_volatile(catalog.python_function),
                python_parser=lookups.record_volatile(catalog.python_parser),
            )
            compiled = compile_script(source, recording, lookups.record(include))
            entry = _Entry(finish(compiled), lookups, recording)
        if not entry.lookups.is_volatile:
            # Popped and inserted again: the order of the dictionary is the order of use.
            self._entries[key] = entry
            if len(self._entries) > CAPACITY:
                del self._entries[next(iter(self._entries))]
        return entry.compiled
