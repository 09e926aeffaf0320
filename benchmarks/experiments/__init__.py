"""The experiments of `incmrql bench`, each in a module of its own that is loaded when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from benchmarks.experiments.base import Experiment

MODULES: Final[Mapping[str, tuple[str, str]]] = {
    "paper-groupby": ("benchmarks.experiments.paper_queries", "GROUPBY"),
    "paper-join": ("benchmarks.experiments.paper_queries", "JOIN"),
    "paper-kmeans": ("benchmarks.experiments.paper_loops", "KMEANS"),
    "paper-pagerank": ("benchmarks.experiments.paper_loops", "PAGERANK"),
    "scale": ("benchmarks.experiments.scale", "EXPERIMENT"),
    "deletions": ("benchmarks.experiments.deletions", "EXPERIMENT"),
    "rivals": ("benchmarks.experiments.rivals", "EXPERIMENT"),
    "bank": ("benchmarks.experiments.bank", "EXPERIMENT"),
    "larger": ("benchmarks.experiments.larger", "EXPERIMENT"),
    "profile": ("benchmarks.experiments.profile", "EXPERIMENT"),
    "costs": ("benchmarks.experiments.costs", "EXPERIMENT"),
}
"""Where each experiment is, in the order in which they are run."""


def experiment(name: str) -> Experiment:
    """The experiment of a name; a `ModuleNotFoundError` if it is not built."""
    module, attribute = MODULES[name]
    attribute_value = getattr(import_module(module), attribute)
    assert isinstance(attribute_value, Experiment)
    return attribute_value
