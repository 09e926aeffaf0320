"""Tree to typed tree."""

from incmrql.types.infer_script import infer_script, resolve_type_tree
from incmrql.types.scope import Catalog

__all__ = ["Catalog", "infer_script", "resolve_type_tree"]
