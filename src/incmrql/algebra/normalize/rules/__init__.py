"""Rewrite rules, one module for each kind of node they simplify."""
