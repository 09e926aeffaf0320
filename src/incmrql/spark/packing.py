"""Python objects and programs on their way to Spark's workers.

A module of the user's is packed with what is used of it, as workers may not find it; the folders
of such modules go along, for what they import themselves.
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
    """An object as bytes that a worker can load, and the folders of its modules."""

    content: bytes
    folders: tuple[str, ...] = ()

    def unpacked(self) -> Any:
        """The object."""
        sys.path.extend(folder for folder in self.folders if folder not in sys.path)
        return cloudpickle.loads(self.content)


NOTHING = Packed(b"")
"""What stands where there is nothing to pack."""


def packed(value: Any, parts: Iterable[Any]) -> Packed:
    """An object that is made with functions or classes of the user's, its `parts`."""
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
    """The module of a function or class, if it is not one that is installed."""
    kind = part if hasattr(part, "__module__") and hasattr(part, "__name__") else type(part)
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if file is None or file.startswith((sys.prefix, sys.base_prefix)):
        return None
    return module


# --- Programs ---


@dataclass(frozen=True, slots=True)
class SentProgram:
    """A program on its way to workers, which unpack it once."""

    digest: str
    content: Packed
    probe: Probe | None = None
    """What workers of a cluster prove that they see; None on this machine."""


_KITS: dict[str, CompiledProgram] = {}
"""The programs that this worker has unpacked, the newest last."""
_MOST_KITS: Final = 4


def sent_program(compiled: CompiledProgram) -> SentProgram:
    """A program that can be sent."""
    parts = [each.call for each in compiled.program.script.python.values()]
    content = packed(compiled, [*parts, *compiled.program.script.parsers.values()])
    return SentProgram(hashlib.blake2b(content.content, digest_size=16).hexdigest(), content)


def read_compiled(sent: SentProgram) -> CompiledProgram:
    """The program that was sent."""
    if sent.digest not in _KITS:
        found = sent.content.unpacked()
        assert isinstance(found, CompiledProgram)
        _KITS[sent.digest] = found
        while len(_KITS) > _MOST_KITS:
            del _KITS[next(iter(_KITS))]
        _set_aside()
    return _KITS[sent.digest]


def _set_aside() -> None:
    """Keep what is loaded now out of garbage collection, which Spark's workers do after each task.

    Among all modules and programs it takes longer than a small batch.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
