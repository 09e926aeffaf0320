"""Typed tree to term, and terms to better terms."""
