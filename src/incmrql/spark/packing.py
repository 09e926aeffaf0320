"""The user's Python objects on their way to Spark's workers.

A module of the user's is packed with what is used of it, as workers may not find it; the folders
of such modules go along, for what they import themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pyspark import cloudpickle


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
