"""Mutants drawn by seed over all code that computes, distributes or commits an answer.

The draw orders all edits by a hash of the seed, the module and the edit, so that a change of one
module leaves the draws from others as they were.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.edits import Edit, edits

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "incmrql"
SHARES = {"engine": 90, "runtime": 45, "spark": 25}
"""How many mutants of each part there are."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit of a module; `name` says which, whatever its line is today."""

    module: str
    edit: Edit
    number: int
    """Which of the equal edits of the module it is."""

    @property
    def name(self) -> str:
        """What stays the same while other lines come and go."""
        old, new = (" ".join(text.split()) for text in (self.edit.old, self.edit.new))
        return f"{self.module} #{self.number}: {old} -> {new}"

    def __str__(self) -> str:
        return f"{self.module} {self.edit}"


def all_mutants(part: str) -> list[Mutant]:
    """The mutants of a package."""
    mutants = []
    for path in sorted((PACKAGE / part).rglob("*.py")):
        counts: Counter[tuple[str, str]] = Counter()
        for edit in edits(path.read_text(encoding="utf-8")):
            counts[edit.old, edit.new] += 1
            name = str(path.relative_to(PACKAGE))
            mutants.append(Mutant(name, edit, counts[edit.old, edit.new]))
    return mutants


def draw_mutants(seed: int, shares: dict[str, int] | None = None) -> list[Mutant]:
    """The mutants of a seed: a fixed number from each part."""
    mutants = []
    for part, share in (shares or SHARES).items():
        ordered = sorted(all_mutants(part), key=lambda mutant: _rank(seed, mutant))
        mutants += ordered[:share]
    return mutants


def _rank(seed: int, mutant: Mutant) -> bytes:
    return hashlib.blake2b(f"{seed} {mutant.name}".encode(), digest_size=8).digest()
