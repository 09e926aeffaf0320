"""Streams: watched folders, the loop over batches, commit and recovery, sinks."""

from incmrql.runtime.driver import Driver
from incmrql.runtime.loop import run_stream
from incmrql.runtime.options import StreamOptions
from incmrql.runtime.report import BatchReport

__all__ = ["BatchReport", "Driver", "StreamOptions", "run_stream"]
