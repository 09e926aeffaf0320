"""Texts that were asked before, and what became of them.

A notebook or a dashboard asks the same text again and again.  What it means depends on the text,
its arguments, and the types and functions that the session knows: a text is known by all of
these.  What else was looked at while it was compiled, includes and the types of files, is looked
at again each time.  A text that imports from a Python module, which may have changed, is not kept.
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

MOST_TEXTS: Final = 64
"""Texts that a session keeps; the one that was not asked for longest goes first."""


@dataclass(slots=True)
class _Known:
    """A compiled text, and what was looked at for it."""

    compiled: Compiled
    looked_at: _LookedAt
    catalog: Catalog
    """Keeps the functions alive that the text is known by."""


@dataclass(slots=True)
class _LookedAt:
    """Questions about the outside, with their answers."""

    answers: list[tuple[Callable[[], object], object]] = field(default_factory=list)
    may_change: bool = False
    """Whether something was asked whose answer cannot be compared."""

    def noted(self, function: Callable[P, T]) -> Callable[P, T]:
        """The same function; its answers are noted."""

        def asked(*given: P.args, **named: P.kwargs) -> T:
            found = function(*given, **named)
            self.answers.append((lambda: function(*given, **named), found))
            return found

        return asked

    def refused(self, function: Callable[P, T] | None) -> Callable[P, T] | None:
        """The same function; what it says may be different the next time."""
        if function is None:
            return None
        wrapped = function

        def asked(*given: P.args, **named: P.kwargs) -> T:
            self.may_change = True
            return wrapped(*given, **named)

        return asked

    def is_as_before(self) -> bool:
        """Whether the outside says the same as it did."""
        try:
            return all(again() == found for again, found in self.answers)
        except (DataError, QueryError):
            return False


@dataclass(slots=True)
class CompileCache:
    """The texts that a session was asked last."""

    _known: dict[Hashable, _Known] = field(default_factory=dict)

    def compiled(
        self,
        source: SourceText,
        catalog: Catalog,
        include: ReadInclude,
        settings: Hashable,
        finish: Callable[[Compiled], Compiled],
    ) -> Compiled:
        """A text compiled, and finished in a way that depends on nothing but the settings."""
        key = (
            source.text,
            source.name,
            tuple(catalog.arguments or ()),
            frozenset(catalog.registered.items()),
            frozenset(
                (name, each.parameters, each.result, id(each.call))
                for name, each in catalog.functions.items()
            ),
            settings,
        )
        known = self._known.pop(key, None)
        if known is None or not known.looked_at.is_as_before():
            looked_at = _LookedAt()
            watched = replace(
                catalog,
                functions=dict(catalog.functions),
                file_type=catalog.file_type and looked_at.noted(catalog.file_type),
                python_function=looked_at.refused(catalog.python_function),
                python_parser=looked_at.refused(catalog.python_parser),
            )
            made = compile_script(source, watched, looked_at.noted(include))
            known = _Known(finish(made), looked_at, watched)
        if not known.looked_at.may_change:
            self._known[key] = known
            if len(self._known) > MOST_TEXTS:
                del self._known[next(iter(self._known))]
        return known.compiled
