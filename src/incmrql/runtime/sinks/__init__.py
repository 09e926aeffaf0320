"""Sinks: where the answers of a program are published.

`folders` publishes one folder for each batch, by rename.  `binding` ties a sink to a checkpoint, so
that no two programs write to one output.

Start with `folders`.
"""
