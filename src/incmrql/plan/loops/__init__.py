"""Loops: what their steps do with changes, and how changes are driven through them."""
