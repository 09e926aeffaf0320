from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.examples import Example, Outcome, examples, page, run

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = ("language.md", "errors.md")

Ran = dict[str, list[tuple[Example, Outcome]]]


@pytest.fixture(scope="package")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What every example of every page does now, in a copy of docs/ that it may write to."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS / "data", folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return {
            name: [(example, run(example)) for example in examples(page(DOCS / name))]
            for name in PAGES
        }
