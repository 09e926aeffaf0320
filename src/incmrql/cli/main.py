"""The `incmrql` command and its exit codes.

0 success · 1 the query, the data or the checkpoint are wrong · 2 wrong usage · 3 `verify` or `try`
found a difference · 70 a bug in incmrql · 130 interrupted.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence

import click

from incmrql import __version__
from incmrql.cli.answer import answer
from incmrql.cli.bench import bench
from incmrql.cli.check import check
from incmrql.cli.demo import demo
from incmrql.cli.examples import examples
from incmrql.cli.explain import explain
from incmrql.cli.health import health
from incmrql.cli.run import run
from incmrql.cli.state import state
from incmrql.cli.terminal import tell
from incmrql.cli.trial import try_
from incmrql.cli.verify import verify
from incmrql.errors import CheckpointError, DataError, DifferenceFound, QueryError
from incmrql.java import GONE_HINT, is_gone

WRONG_INPUT, DIFFERENT, OUR_BUG, INTERRUPTED = 1, 3, 70, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="incmrql")
def commands() -> None:
    """Incremental queries on Spark: answers that stay up to date while their data change."""


for command in (
    run,
    check,
    explain,
    try_,
    answer,
    health,
    state,
    verify,
    demo,
    examples,
    bench,
):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(status(arguments))


def status(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        result = commands.main(arguments, prog_name="incmrql", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        tell(message.getvalue().removesuffix("\n"))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        tell("stopped")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of our output is gone, as in `incmrql run … | head`; click turns the error
        # into a SystemExit. Python must not flush into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (QueryError, DataError, CheckpointError) as error:
        tell(str(error))
        return WRONG_INPUT
    except DifferenceFound as error:
        tell(f"difference: {error}")
        return DIFFERENT
    except Exception as error:
        return _report(error)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a log record is not py4j's traceback of a Ctrl-C, which we report ourselves."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _report(error: Exception) -> int:
    """Report a failure of Spark or the system; any other error is a bug in incmrql."""
    if is_gone(error):
        tell("error: Spark ended while it was working: its Java process is gone")
        tell(f" = hint: {GONE_HINT}")
        return WRONG_INPUT
    if isinstance(error, OSError):
        why = (error.strerror or str(error)).lower()
        what = f"{error.filename} cannot be used" if error.filename else "output cannot be written"
        tell(f"error: {what}: {why}")
        return WRONG_INPUT
    tell(f"internal error: {type(error).__name__}: {error}")
    tell("This is a bug in incmrql. Please report it with the script that shows it.")
    if os.environ.get("INCMRQL_DEBUG"):
        traceback.print_exception(error)
    else:
        tell("Set INCMRQL_DEBUG=1 to see where it happened.")
    return OUR_BUG
