"""What geo.mrql takes from Python: two functions with annotations, and a parser."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

EARTH_KM = 6371.0


def distance_km(north1: float, east1: float, north2: float, east2: float) -> float:
    """The great-circle distance of two places given in degrees."""
    a, b = math.radians(north1), math.radians(north2)
    turn = math.radians(east2 - east1)
    half = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(turn / 2) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(half))


def hemisphere(north: float) -> str:
    """North or south of the equator."""
    return "north" if north >= 0 else "south"


class Places:
    """Blocks of a line `name: …` and a line `at: north east`."""

    type = "< name: string, north: double, east: double >"

    def parse(self, text: str) -> Iterator[tuple[str, float, float]]:
        """A row for each block."""
        for name, north, east in re.findall(r"name: (.+)\nat: (\S+) (\S+)", text):
            yield name, float(north), float(east)
