"""Python objects and compiled programs as bytes that Spark's workers can load.

Workers may not find the modules of a user.  So functions and classes from these modules are
pickled by value.  The directories of the modules are sent along, since they may import others.
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
class PickledObject:
    """An object as bytes that a worker can load, with the directories of its modules."""

    content: bytes
    folders: tuple[str, ...] = ()

    def load(self) -> Any:
        """Load the object."""
        sys.path.extend(folder for folder in self.folders if folder not in sys.path)
        return cloudpickle.loads(self.content)


NOTHING = PickledObject(b"")
"""Used where there is nothing to pack."""


def pack(value: Any, parts: Iterable[Any]) -> PickledObject:
    """Pickle an object; `parts` are the user's functions and classes that it refers to."""
    modules = {name: module for part in parts if (module := _user_module(part)) is not None
               for name in (module.__name__,)}  # fmt: skip
    folders = {os.path.dirname(os.path.abspath(m.__file__ or "")) for m in modules.values()}
    with ExitStack() as cleanup:
        for module in modules.values():
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            cleanup.callback(cloudpickle.unregister_pickle_by_value, module)
        content = bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    return PickledObject(content, tuple(sorted(folders)))


def _user_module(part: Any) -> ModuleType | None:
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
    content: PickledObject
    probe: Probe | None = None
    """What workers of a cluster must prove to see; None if workers are local."""


_LOADED: dict[str, CompiledProgram] = {}
"""The programs that this worker has loaded, the newest last."""
_MOST_LOADED: Final = 4


def pack_program(compiled: CompiledProgram) -> SentProgram:
    """Pack a program for workers."""
    script = compiled.program.script
    functions = [function.call for function in script.python.values()]
    content = pack(compiled, [*functions, *script.parsers.values()])
    return SentProgram(hashlib.blake2b(content.content, digest_size=16).hexdigest(), content)


def load_program(sent: SentProgram) -> CompiledProgram:
    """The compiled program, in a worker; unpickled only if this worker has not done it yet."""
    if sent.digest not in _LOADED:
        compiled = sent.content.load()
        assert isinstance(compiled, CompiledProgram)
        _LOADED[sent.digest] = compiled
        while len(_LOADED) > _MOST_LOADED:
            del _LOADED[next(iter(_LOADED))]
        freeze_loaded()
    return _LOADED[sent.digest]


def freeze_loaded() -> None:
    """Exempt what a worker has loaded so far from garbage collection.

    After every task PySpark runs a full collection over all loaded modules and programs, which
    takes longer than a small batch.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
