"""The command line: data on stdout, everything else on stderr.

`main` has the command group and the exit codes; each command has a module of its own (`run`,
`explain`, `check`, `verify`, `state`, `answer`, `health`, `demo`, `examples`, `bench`).  `options`
makes their options from the fields of the API's option classes; `streams`, `live` and `signals`
follow a running stream; `terminal` and `tables` print.

Start with `main`.
"""

from incmrql.cli.main import main

__all__ = ["main"]
