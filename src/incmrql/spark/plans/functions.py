"""Functions of Python in plans: known by their name, source and return type, not by their bytes.

The bytes that carry a function differ from run to run, and unpacking them runs code.  They are
unpacked here, in the session that made them, and leave the plan: a checkpoint has a fingerprint.
"""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from types import CodeType
from typing import Any, Final

from incmrql.catalyst import PlanNode, PlanValue
from incmrql.catalyst.nodes import nodes_of

_CARRIER: Final = "SimplePythonFunction"


def with_fingerprints(plan: PlanNode) -> PlanNode:
    """A plan with the fingerprints of its Python functions in the place of their bytes."""
    if not any(node.name == _CARRIER for node in nodes_of(plan)):
        return plan
    replaced = _replace(plan)
    assert isinstance(replaced, PlanNode)
    return replaced


def _replace(value: PlanValue) -> PlanValue:
    match value:
        case PlanNode(name, fields) if name == _CARRIER:
            command = fields.get("command")
            source = _fingerprint(command) if isinstance(command, bytes) and command else ""
            return PlanNode(_CARRIER, {"source": source, "pythonVer": fields.get("pythonVer")})
        case PlanNode(name, fields, place):
            return PlanNode(name, {key: _replace(part) for key, part in fields.items()}, place)
        case tuple():
            return tuple(map(_replace, value))
        case _:
            return value


def _fingerprint(command: bytes) -> str:
    """A digest of the source of a function; of its bytes if it cannot be unpacked."""
    from pyspark import cloudpickle

    try:
        function = cloudpickle.loads(command)
        text = _source_of(function[0] if isinstance(function, tuple) else function)
    except Exception:
        return "bytes " + hashlib.sha256(command).hexdigest()
    return "source " + hashlib.sha256(text.encode()).hexdigest()


def _source_of(function: Any) -> str:
    """The source of a function with the values that it captures; its code where there is none."""
    inner = inspect.unwrap(function)
    try:
        text = textwrap.dedent(inspect.getsource(inner))
    except (OSError, TypeError):
        text = _code_text(inner.__code__)
    captured = [cell.cell_contents for cell in getattr(inner, "__closure__", None) or ()]
    parts = [_source_of(value) if inspect.isfunction(value) else repr(value) for value in captured]
    return "\n".join([f"{inner.__module__}.{inner.__qualname__}", text, *parts])


def _code_text(code: CodeType) -> str:
    constants = [
        _code_text(value) if isinstance(value, CodeType) else repr(value)
        for value in code.co_consts
    ]
    return repr((code.co_code, constants, code.co_names, code.co_varnames))
