"""The paper's construction as text, read and found right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hypothesis import given

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import QueryError
from incmrql.paper.show import LEGEND, show_paper
from tests import golden
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.generators.queries import queries
from tests.plan.stepping import ALL, typed_script


def paper(text: str, args: Mapping[str, str]) -> str:
    script = typed_script(f"{text};", args.get("streams", ALL))
    return show_paper(translate(script.items[-1].expr, script))


def test_constructions(update_golden: bool) -> None:
    path = Path(__file__).with_name("paper.golden")
    golden.check(path, {"paper": paper}, update=update_golden)


@fewer
@given(text=shape_queries() | queries())
def test_every_query_has_a_text_in_any_form(text: str) -> None:
    try:
        script = typed_script(f"{text};")
        query = translate(script.items[-1].expr, script)
    except QueryError as error:
        reject_if_refused(error)
    for form in (query, normal_form(query)[0]):
        shown = show_paper(form)
        assert shown.startswith((LEGEND, "outside of the paper", "reads no stream"))


def test_what_is_summed_up_before_it_is_joined_is_outside_in_our_normal_form() -> None:
    text = "select (x.A, avg(y.D)) from x in R, y in S where x.B = y.A group by x.A"
    script = typed_script(f"{text};")
    query = translate(script.items[-1].expr, script)
    assert show_paper(query).startswith(LEGEND)
    assert show_paper(normal_form(query)[0]).startswith("outside of the paper's construction: {")
