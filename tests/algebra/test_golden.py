"""Normal forms that were read and found right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.show import show_query
from incmrql.algebra.translate.queries import translate
from incmrql.errors import QueryError, SourceText
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from tests import golden
from tests.generators.tables import CATALOG


def normal(text: str, _args: Mapping[str, str]) -> str:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    return show_query(normal_form(translate(script.items[0].expr, script))[0])


def refusal(text: str, args: Mapping[str, str]) -> str:
    with pytest.raises(QueryError) as caught:
        normal(text, args)
    return str(caught.value)


def test_normal_forms(update_golden: bool) -> None:
    path = Path(__file__).with_name("normal.golden")
    golden.check(path, {"normal": normal, "refused": refusal}, update=update_golden)
