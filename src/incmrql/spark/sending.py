"""A program of changes on its way to Spark's workers."""

from __future__ import annotations

import gc
import hashlib
from dataclasses import dataclass
from typing import Final

from incmrql.kernel.batches import Kit
from incmrql.spark.packing import Packed, packed
from incmrql.spark.probe import Probe


@dataclass(frozen=True, slots=True)
class SentKit:
    """A program on its way to workers, which unpack it once."""

    digest: str
    content: Packed
    probe: Probe | None = None
    """What workers of a cluster prove that they see; None on this machine."""


_KITS: dict[str, Kit] = {}
"""The programs that this worker has unpacked, the newest last."""
_MOST_KITS: Final = 4


def sent_kit(kit: Kit) -> SentKit:
    """A program that can be sent."""
    parts = [each.call for each in kit.program.script.python.values()]
    content = packed(kit, [*parts, *kit.program.script.parsers.values()])
    return SentKit(hashlib.blake2b(content.content, digest_size=16).hexdigest(), content)


def kit_of(sent: SentKit) -> Kit:
    """The program that was sent."""
    if sent.digest not in _KITS:
        found = sent.content.unpacked()
        assert isinstance(found, Kit)
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
