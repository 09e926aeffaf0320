"""A changed query on an old checkpoint: what is compared, and what is done about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from incmrql.engine.compile.physical import Answer
from incmrql.errors import CheckpointError, DataError
from incmrql.runtime.checkpoint.manifests import Checkpoint

if TYPE_CHECKING:
    from incmrql.plan.program import Program
    from incmrql.runtime.options import StreamOptions


OnChange: TypeAlias = Literal["reuse", "rebuild", "refuse"]


def settle_change(
    checkpoint: Checkpoint, known: Mapping[str, Any], now: Mapping[str, Any], policy: OnChange
) -> bool:
    """Whether the state has to be built again; a change that nobody agreed to is refused.

    `reuse` takes the state over if every node of the new program is one of the old, in the same
    place; the answers may then differ in what is made of them.
    """
    same_forms = forms(known) == forms(now)
    if known["identity"] == now["identity"] and same_forms:
        return False
    before = [node["identity"] for node in known["nodes"]]
    after = [node["identity"] for node in now["nodes"]]
    if policy == "refuse":
        raise CheckpointError(_told(checkpoint, known, now))
    if policy == "reuse" and not (before == after and same_forms):
        told = _told(checkpoint, known, now)
        raise CheckpointError(f"{told}\nIts state cannot be used as it is: nodes differ.")
    if policy == "rebuild":
        if known["streams"] != now["streams"]:
            told = _told(checkpoint, known, now)
            raise CheckpointError(f"{told}\nIt cannot be rebuilt here: its sources are others.")
        return True
    return False


def forms(described: Mapping[str, Any]) -> dict[str, str]:
    """The forms of the tables of a program, which another version may choose differently."""
    return {name: table["form"] for name, table in described.get("tables", {}).items()}


def _told(checkpoint: Checkpoint, known: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is another one than in the checkpoint, node by node."""
    if known["identity"] == now["identity"]:
        return (
            f"checkpoint {checkpoint.folder} is of the same query, but version {now['engine']} of "
            f"incmrql keeps its state in other columns than {known['engine']} did.\n"
            "With --on-change rebuild the state is built again from the input, if that is still "
            "there; or give another checkpoint."
        )
    watched = bool(known.get("watch"))
    if known["texts"] == now["texts"] and watched != now["watch"]:
        was, is_now = ("report", "null") if watched else ("null", "report")
        return (
            f"checkpoint {checkpoint.folder} is of the same query with --on-arithmetic {was}; "
            f"with {is_now} it keeps another state.\n"
            "With --on-change rebuild the state is built again from the input, if that is still "
            "there; or give another checkpoint."
        )
    kept = {node["identity"] for node in known["nodes"]}
    lines = [f"checkpoint {checkpoint.folder} belongs to another query:"]
    several = len(known["texts"]) > 1
    for number, text in enumerate(known["texts"], 1):
        lines += [f"  item {number}:"] if several else []
        lines += [f"{'    ' if several else '  '}{line}" for line in text.splitlines()]
    if known["engine"] != now["engine"]:
        lines.append(f"It was written by version {known['engine']}; this is {now['engine']}.")
    new = [(n, node) for n, node in enumerate(now["nodes"]) if node["identity"] not in kept]
    if new:
        lines.append(f"{len(new)} of {len(now['nodes'])} nodes would be built again:")
        lines += [f"  node {n}: {node['kind']} {node['about']}".rstrip() for n, node in new]
    elif known["texts"] != now["texts"] and sorted(known["texts"]) == sorted(now["texts"]):
        lines.append("The items are the same, in another order.")
    else:
        lines.append("All nodes of this query are there, but not the same ones make its answers.")
    lines.append(
        "With --on-change rebuild this is done from the input, if that is still there; "
        "or give another checkpoint."
    )
    return "\n".join(lines)


def ways(options: StreamOptions, program: Program) -> dict[str, bool]:
    """How a run keeps its state; all but `watch`, which a rebuild may change, stay as they are."""
    return {
        "watch": bool(program.watches),
        "window": options.window,
        "keep_answer": options.keep_answer,
        "diffuse": options.iterate == "diffuse",
    }


_WAYS: Final = {
    "window": ("answers over everything so far", "answers for each batch alone"),
    "keep_answer": ("does not keep its answer", "keeps its answer"),
    "diffuse": ("keeps loops exactly", "lets loops diffuse"),
}


def refuse_other_way(
    checkpoint: Checkpoint, known: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """A state that is kept in one way is of no use in another."""
    before = {"window": False, "keep_answer": True, "diffuse": False, **known}
    differing = [name for name in _WAYS if bool(before[name]) != bool(now[name])]
    if not differing:
        return
    how = _WAYS[differing[0]]
    was, is_now = (how[bool(each[differing[0]])] for each in (before, now))
    message = f"checkpoint {checkpoint.folder} is of a run that {was}"
    raise CheckpointError(f"{message}, and this one {is_now}: give another checkpoint")


def check_kept(answer: Answer) -> None:
    """Refuse to give an answer that was not kept."""
    if not answer.is_kept:
        hint = "Start with keep_answer=True and another checkpoint, or add up the changes."
        raise DataError("R312", "the whole answer is not kept", hint=hint)
