"""Whether a program can continue on a checkpoint, and what to say if it cannot.

Programs are compared by digests, one for each node.  Options that decide how state is kept are
compared as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from incmrql.engine.compile.physical import PhysicalOutput
from incmrql.errors import CheckpointError, DataError
from incmrql.runtime.checkpoint.manifests import Checkpoint

if TYPE_CHECKING:
    from incmrql.plan.program import Program
    from incmrql.runtime.options import StreamOptions


OnChange: TypeAlias = Literal["reuse", "rebuild", "refuse"]


def needs_rebuild(
    checkpoint: Checkpoint, known: Mapping[str, Any], now: Mapping[str, Any], policy: OnChange
) -> bool:
    """Whether the state has to be rebuilt; raises unless the policy agrees to the change.

    `known` is the description in the checkpoint, `now` that of the new program.  `reuse` keeps the
    state if the nodes are the same and only what the answers make of them differs.
    """
    has_same_schemas = table_schemas(known) == table_schemas(now)
    if known["identity"] == now["identity"] and has_same_schemas:
        return False
    before = [node["identity"] for node in known["nodes"]]
    after = [node["identity"] for node in now["nodes"]]
    if policy == "refuse":
        raise CheckpointError(describe_mismatch(checkpoint, known, now))
    if policy == "reuse" and not (before == after and has_same_schemas):
        mismatch = describe_mismatch(checkpoint, known, now)
        raise CheckpointError(f"{mismatch}\nIts state cannot be used as it is: the nodes differ.")
    if policy == "rebuild":
        if known["streams"] != now["streams"]:
            mismatch = describe_mismatch(checkpoint, known, now)
            message = f"{mismatch}\nIt cannot be rebuilt here: it reads different sources."
            raise CheckpointError(message)
        return True
    return False


def table_schemas(described: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the schemas of state tables: versions of incmrql may choose other columns."""
    return {name: table["form"] for name, table in described.get("tables", {}).items()}


_REMEDY: Final = (
    "--on-change rebuild recomputes the state from the input, if that is still available; "
    "or use a new checkpoint."
)


def describe_mismatch(
    checkpoint: Checkpoint, known: Mapping[str, Any], now: Mapping[str, Any]
) -> str:
    """Explain how the new program differs from the one that wrote the checkpoint."""
    if known["identity"] == now["identity"]:
        return (
            f"checkpoint {checkpoint.folder} belongs to the same query, but incmrql "
            f"{now['engine']} stores its state in different columns than {known['engine']} did.\n"
            f"{_REMEDY}"
        )
    watched = bool(known.get("watch"))
    if known["texts"] == now["texts"] and watched != now["watch"]:
        was, is_now = ("report", "null") if watched else ("null", "report")
        return (
            f"checkpoint {checkpoint.folder} was created with --on-arithmetic {was}; "
            f"with {is_now} the same query keeps different state.\n{_REMEDY}"
        )
    lines = [f"checkpoint {checkpoint.folder} was written by a different query:"]
    several = len(known["texts"]) > 1
    for number, text in enumerate(known["texts"], 1):
        lines += [f"  item {number}:"] if several else []
        lines += [f"{'    ' if several else '  '}{line}" for line in text.splitlines()]
    if known["engine"] != now["engine"]:
        lines.append(f"It was written by incmrql {known['engine']}; this is {now['engine']}.")
    identities = {node["identity"] for node in known["nodes"]}
    new = [(n, node) for n, node in enumerate(now["nodes"]) if node["identity"] not in identities]
    if new:
        lines.append(f"{len(new)} of {len(now['nodes'])} nodes would be rebuilt:")
        lines += [f"  node {n}: {node['kind']} {node['about']}".rstrip() for n, node in new]
    elif known["texts"] != now["texts"] and sorted(known["texts"]) == sorted(now["texts"]):
        lines.append("The items are the same, in a different order.")
    else:
        lines.append("The nodes are the same, but the answers are computed from different ones.")
    return "\n".join([*lines, _REMEDY])


def state_options(options: StreamOptions, program: Program) -> dict[str, bool]:
    """The options that decide how state is kept; a rebuild may change only `watch`."""
    return {
        "watch": bool(program.watches),
        "window": options.window,
        "keep_answer": options.keep_answer,
        "diffuse": options.iterate == "diffuse",
    }


_FIXED: Final = {
    "window": ("for the answer over everything so far", "for an answer to each batch alone"),
    "keep_answer": ("with keep_answer=False", "with keep_answer=True"),
    "diffuse": ("without --iterate diffuse", "with --iterate diffuse"),
}
"""Options that never change in a checkpoint, with the words for a run without and with each."""


def check_state_options(
    checkpoint: Checkpoint, known: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Refuse to continue a checkpoint whose state was kept with other options."""
    before = {"window": False, "keep_answer": True, "diffuse": False, **known}
    for name, texts in _FIXED.items():
        was, is_now = bool(before[name]), bool(now[name])
        if was != is_now:
            message = f"checkpoint {checkpoint.folder} was created {texts[was]}"
            raise CheckpointError(
                f"{message}, and this run is {texts[is_now]}: use a new checkpoint"
            )


def check_answer_kept(answer: PhysicalOutput) -> None:
    """Refuse to read an answer that is not stored."""
    if not answer.is_kept:
        hint = "Start with keep_answer=True and a new checkpoint, or add up the changes."
        raise DataError("R312", "the whole answer is not kept", hint=hint)
