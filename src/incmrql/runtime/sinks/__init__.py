"""Sinks: where the answers of a program are published.

`folders` publishes one directory for each batch, by rename; `batches` stages and publishes all
outputs of a batch.  `binding` ties a sink to a checkpoint, so that no two programs write to one
output.

Start with `folders`.
"""
