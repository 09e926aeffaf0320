"""The command line: data on stdout, talk on stderr."""

from incmrql.cli.main import main

__all__ = ["main"]
