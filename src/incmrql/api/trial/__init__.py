"""Trials: a user's own query on the user's own data, cut into batches, verified and timed.

* `tables` finds the formats and types of files, and says what is wrong with a path.
* `jobs` runs a Python file that builds a DataFrame.
* `cuts` decides which rows a batch inserts and deletes.
* `queries` copies the inputs batch by batch, and lets plain Spark answer the same query.
* `scripts` does the same for scripts of MRQL.
* `trial` runs the batches, compares and times; `verdict` says in three lines what came out,
  and `kept` what is kept.

Start with `run_trial`.
"""

from incmrql.api.trial.cuts import History
from incmrql.api.trial.kept import kept_lines
from incmrql.api.trial.queries import (
    TableUse,
    TriedData,
    TriedQuery,
    describe_use,
    job_query,
    sql_query,
)
from incmrql.api.trial.scripts import mrql_query
from incmrql.api.trial.tables import TableFile
from incmrql.api.trial.trial import Progress, Trial, TriedBatch, run_trial, trial_folder
from incmrql.api.trial.verdict import duration, verdict

__all__ = [
    "History",
    "Progress",
    "TableFile",
    "TableUse",
    "Trial",
    "TriedBatch",
    "TriedData",
    "TriedQuery",
    "describe_use",
    "duration",
    "job_query",
    "kept_lines",
    "mrql_query",
    "run_trial",
    "sql_query",
    "trial_folder",
    "verdict",
]
