"""Every stage of a script is gone through once, whoever asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incmrql import api
from incmrql.compiler.checks import advice
from incmrql.compiler.compiled import Compiled
from incmrql.compiler.stages import explain, explain_plans
from incmrql.plan import planner
from incmrql.runtime.checkpoint.program import describe, recompile

SCRIPT = """
S = stream(line, "in", ",", type(< A: int, B: int >));
incr select (x.A, sum(x.B / x.A)) from x in S group by x.A;
incr max(select x.B from x in S);
"""


@pytest.fixture
def stage_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[object]:
    """The number of translations of each expression, and of items planned."""
    from incmrql.compiler import compiled
    from incmrql.plan import assembly

    counts: Counter[object] = Counter()

    def count(module: Any, name: str, key: Callable[[Any], object]) -> None:
        original = getattr(module, name)

        def count_call(first: Any, *given: Any, **named: Any) -> Any:
            counts[key(first)] += 1
            return original(first, *given, **named)

        monkeypatch.setattr(module, name, count_call)

    for module in (compiled, assembly):
        count(module, "translate", lambda expr: ("translated", expr))
    count(planner.Planner, "plan", lambda _: "planned")
    return counts


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return api.compiled(SCRIPT)


def most_translated(stage_counts: Counter[object]) -> int:
    return max(count for key, count in stage_counts.items() if key != "planned")


def test_a_run_plans_each_item_once(script: Compiled, stage_counts: Counter[object]) -> None:
    assert len(script.streaming) == 2
    script.plans_of(script.streaming, watch=True)
    program = script.program(script.streaming, stored={}, watch=True)
    assert len(program.outputs) == 2
    assert program.watches
    assert (most_translated(stage_counts), stage_counts["planned"]) == (1, 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda script: explain(script, "incremental", trace=True),
        explain_plans,
        advice,
        lambda script: advice(script, strict="groups"),
    ],
)
def test_explain_and_check_plan_each_item_once(
    use: Callable[[Compiled], object], script: Compiled, stage_counts: Counter[object]
) -> None:
    use(script)
    assert (most_translated(stage_counts), stage_counts["planned"]) == (1, 2)
    use(script)
    assert (most_translated(stage_counts), stage_counts["planned"]) == (1, 2)


def test_stages_are_shared(script: Compiled, stage_counts: Counter[object]) -> None:
    for stage in ("algebra", "normal", "incremental", "normal", "incremental"):
        explain(script, stage)
    advice(script)
    explain_plans(script)
    assert (most_translated(stage_counts), stage_counts["planned"]) == (1, 2)


@pytest.mark.usefixtures("script")
def test_an_item_without_terms_is_no_part_of_the_program() -> None:
    forms = api.compiled(
        rf"{SCRIPT} incr fold(\(n: long, s: < A: int, B: int >): long."
        " n + count(select t from t in S where t = s), 0, S);"
    )
    assert [item.is_streaming for item in forms.items] == [True, True, True]
    assert [item.without_terms is None for item in forms.items] == [True, True, False]
    assert forms.streaming == forms.items[:2]


@pytest.mark.usefixtures("script")
def test_a_checkpoint_makes_the_same_program_again(tmp_path: Path) -> None:
    text = (
        rf"{SCRIPT} incr fold(\(n: long, s: < A: int, B: int >): long."
        " n + count(select t from t in S where t = s), 0, S);"
    )
    forms = api.compiled(text)
    program = forms.program(forms.streaming, watch=True)
    described = {**describe(program, {"text": text}), "watch": True}
    assert recompile(tmp_path, described).identity == program.identity


VIEWS = """
S = stream(line, "in", ",", type(< A: int, B: int >));
v = select < A: k, N: count(x) > from x in S group by k: x.A;
incr v;
incr select (n, count(k)) from < A: k, N: n > in v group by n;
select x from x in v where x.N > 1;
lineage select x.N from x in v;
"""


def test_streaming_items_share_their_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that is answered once has the named query to itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    script = api.compiled(VIEWS)
    program = script.program(script.streaming)
    assert sum(type(node).__name__ == "Groups" for node in program.nodes) == 2
    texts = explain(script, "incremental").split("\n\n")
    assert ["view v: planned once" in text for text in texts] == [True, True, True, False]
    plans = [[node["view"] for node in plan["nodes"]] for plan in explain_plans(script)]
    assert [views.count("v") for views in plans] == [1, 1, 1, 0]
