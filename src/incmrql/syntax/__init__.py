"""Text to tree, and tree to text."""

from incmrql.syntax.parser import parse_items, parse_query, parse_script, parse_type_text

__all__ = ["parse_items", "parse_query", "parse_script", "parse_type_text"]
