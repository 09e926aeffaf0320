"""Python objects and compiled programs as bytes that Spark's workers can load.

Workers may not find the modules of a user.  So functions and classes from these modules are
pickled by value, and the directories of the modules go along, for what they import themselves.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle

from incmrql.engine.batch import CompiledProgram
from incmrql.spark.probe import Probe


@dataclass(frozen=True, slots=True)
class Packed:
    """An object as bytes that a worker can load, and the directories of its modules."""

    content: bytes
    folders: tuple[str, ...] = ()

    def unpacked(self) -> Any:
        """Load the object."""
        sys.path.extend(folder for folder in self.folders if folder not in sys.path)
        return cloudpickle.loads(self.content)


NOTHING = Packed(b"")
"""Stands where there is nothing to pack."""


def packed(value: Any, parts: Iterable[Any]) -> Packed:
    """Pickle an object; `parts` are the user's functions and classes that it refers to."""
    modules = {name: module for part in parts if (module := _users_module(part)) is not None
               for name in (module.__name__,)}  # fmt: skip
    folders = {os.path.dirname(os.path.abspath(m.__file__ or "")) for m in modules.values()}
    with ExitStack() as after:
        for module in modules.values():
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            after.callback(cloudpickle.unregister_pickle_by_value, module)
        content = bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    return Packed(content, tuple(sorted(folders)))


def _users_module(part: Any) -> ModuleType | None:
    """The module of a function or class; None if it is installed, so that workers have it too."""
    kind = part if hasattr(part, "__module__") and hasattr(part, "__name__") else type(part)
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if file is None or file.startswith((sys.prefix, sys.base_prefix)):
        return None
    return module


# --- Programs ---


@dataclass(frozen=True, slots=True)
class SentProgram:
    """A compiled program as bytes; a worker loads it once, by its digest."""

    digest: str
    content: Packed
    probe: Probe | None = None
    """What workers of a cluster must prove that they see; None on this machine."""


_LOADED: dict[str, CompiledProgram] = {}
"""The programs that this worker has loaded, the newest last."""
_MOST_LOADED: Final = 4


def sent_program(compiled: CompiledProgram) -> SentProgram:
    """Pack a program for workers."""
    script = compiled.program.script
    functions = [function.call for function in script.python.values()]
    content = packed(compiled, [*functions, *script.parsers.values()])
    return SentProgram(hashlib.blake2b(content.content, digest_size=16).hexdigest(), content)


def read_compiled(sent: SentProgram) -> CompiledProgram:
    """Load a program in a worker, if this worker has not loaded it yet."""
    if sent.digest not in _LOADED:
        compiled = sent.content.unpacked()
        assert isinstance(compiled, CompiledProgram)
        _LOADED[sent.digest] = compiled
        while len(_LOADED) > _MOST_LOADED:
            del _LOADED[next(iter(_LOADED))]
        # After every task PySpark runs a full garbage collection over all loaded modules and
        # programs, which takes longer than a small batch.  Freezing exempts what is loaded now.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
    return _LOADED[sent.digest]
