"""What a query keeps and what its batches cost, in a few lines; `explain` says all of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Any, Final

from incmrql.api.scripts import Compiled, explain_data

_LONGEST: Final = 80
"""Characters of the text of a query that say which one it is."""


def kept_lines(compiled: Compiled) -> Iterator[str]:
    """What batches read, and then a line for each node that keeps something.

    Nodes that may read more than the change come first.
    """
    items = [item for item in explain_data(compiled) if item["changes"]]
    for item in items:
        if len(items) > 1:
            yield f"of {shorten(item['text'], _LONGEST, placeholder=' ...')}:"
        nodes = item["nodes"]
        more = [node for node in nodes if node["reads"] != "change"]
        if more:
            yield f"{len(more)} of {len(nodes)} nodes may read whole groups or tables"
        else:
            yield f"all {len(nodes)} nodes read the change and what it touches"
        for node in sorted((node for node in nodes if node["keeps"]), key=lambda n: n not in more):
            yield f"{node['does']}: keeps {_kinds(node)}; costs {node['cost']}"


def _kinds(node: Mapping[str, Any]) -> str:
    """What a node keeps, by kinds."""
    kinds = Counter(re.split(r" of | by |:", item["what"])[0] for item in node["keeps"])
    return ", ".join(
        kind if count == 1 or kind.endswith("rows") else f"{kind} ({count})"
        for kind, count in kinds.items()
    )


__all__ = ["kept_lines"]
