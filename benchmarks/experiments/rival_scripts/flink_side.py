"""Queries on PyFlink, as told on standard input; Java prints the changes on standard output.

Runs in an environment of its own: see `rivals_process.py` for what is said.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

SETTINGS: Final = {
    "parallelism.default": "2",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "20 ms",
    "table.exec.mini-batch.size": "20000",
    "table.exec.sink.upsert-materialize": "NONE",
}
TYPES: Final = {"i": "bigint", "d": "double"}
LOOK: Final = "20 ms"
"""From one look at a folder to the next."""


def main() -> None:
    """Run query after query; the job of the one before is cancelled."""
    os.environ.setdefault("JVM_ARGS", "-Xmx5g")
    from pyflink.table import EnvironmentSettings, TableEnvironment

    job = None
    for line in sys.stdin:
        told = json.loads(line)
        if job is not None:
            job.cancel().result()
            job = None
        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for name, value in SETTINGS.items():
            environment.get_config().set(name, value)
        try:
            job = start_job(environment, told)
        except Exception as error:
            say({"refused": short(error)})
        else:
            say({"ready": told["query"]})


def start_job(environment: Any, told: dict[str, Any]) -> Any:
    """Start the job of a query over watched folders."""
    form = "debezium-json" if told["form"] == "debezium" else "csv"
    for name, columns in told["tables"].items():
        environment.execute_sql(
            f"create table t_{name} ({columns}) with ('connector' = 'filesystem',"
            f" 'path' = 'file://{told['folder']}/{name}', 'format' = '{form}',"
            f" 'source.monitor-interval' = '{LOOK}')"
        )
    answer = ", ".join(f"c{place} {TYPES[kind]}" for place, kind in enumerate(told["kinds"]))
    environment.execute_sql(
        f"create table answer ({answer}) with ('connector' = 'print',"
        f" 'print-identifier' = '{told['query']}')"
    )
    return environment.execute_sql(f"insert into answer {told['sql']}").get_job_client()


def short(error: Exception) -> str:
    """The innermost cause that Java tells, in a line."""
    lines = str(error).split("\n")
    causes = [line for line in lines if "Exception: " in line]
    told = (causes or lines)[-1].removeprefix("Caused by: ").strip()
    return told.replace(told.split(": ")[0], told.split(": ")[0].rpartition(".")[2], 1)[:200]


def say(message: dict[str, str]) -> None:
    """A line for who has started this."""
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
