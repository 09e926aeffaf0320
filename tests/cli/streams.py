"""A folder in which a stream of sales is followed by commands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.cli.commands import Outcome, incmrql

TYPE = "type(< city: string, price: double >)"
STREAM = f'stream(line, "sales", ",", {TYPE}, deletes: "returns")'
AVERAGE = f"incr select (s.city, count(s), avg(s.price)) from s in {STREAM} group by s.city;"


@dataclass(frozen=True, slots=True)
class Shop:
    """The folder, which is the current one."""

    folder: Path

    def sells(self, name: str, text: str) -> Path:
        """A file of sales."""
        return self._put("sales", name, text)

    def takes_back(self, name: str, text: str) -> Path:
        """A file of sales that are taken back."""
        return self._put("returns", name, text)

    def _put(self, folder: str, name: str, text: str) -> Path:
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000, 1_000_000))
        return path

    def run(self, query: str = AVERAGE, *options: str) -> Outcome:
        """Ingest everything that is there, with the checkpoint `ck`."""
        return incmrql("run", "-e", query, "--checkpoint", "ck", "--available-now", *options)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "ck"


def shop_at(folder: Path) -> Shop:
    shop = Shop(folder)
    shop.sells("1.csv", "Oslo,10\nRome,4\nOslo,20\n")
    (folder / "returns").mkdir()
    return shop
