"""Scripts with streams that are refused before anything starts."""

from __future__ import annotations

import pytest

from tests.cli.commands import incmrql

pytestmark = pytest.mark.usefixtures("no_engine")
COUNT = 'incr count(stream(text, "none"));'


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is chosen, and must not be started."""

    def refuse(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setenv("INCMRQL_ENGINE", "spark")
    monkeypatch.setattr("incmrql.spark.session.start", refuse)


@pytest.mark.parametrize(
    ("query", "options", "code", "said"),
    [
        (f'{COUNT} max(stream(text, "none"));', (), 1, "error[A103]: other items"),
        (COUNT, (), 1, 'error[R101]: there is no file or folder "none"'),
        (
            COUNT.removeprefix("incr "),
            ("--verify", "1"),
            2,
            "--verify is only for queries with incr",
        ),
        (COUNT, ("--skip-batch", "1"), 2, "--skip-batch needs --checkpoint"),
        (COUNT, ("--keep-input", "some"), 2, "is not all, none or a number of batches"),
        (COUNT, ("--trigger", "soon"), 2, "is not a time such as"),
        (
            'incr repeat x = stream(line, "none", type((int, int))) '
            "step (select y from y in x order by y limit 2) limit 3;",
            ("--strict",),
            1,
            "error[W103]",
        ),
    ],
)
def test_refused(query: str, options: tuple[str, ...], code: int, said: str) -> None:
    done = incmrql("run", "-e", query, *options)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


@pytest.mark.parametrize("command", ["state", "verify"])
def test_a_folder_that_is_no_checkpoint(command: str, tmp_path: object) -> None:
    done = incmrql(command, str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert "is not a checkpoint: it has no manifests" in done.err
