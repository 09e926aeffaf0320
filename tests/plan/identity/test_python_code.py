"""Python functions and parsers count by their code."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.errors import SourceText
from incmrql.plan.assembly import program_of
from incmrql.plan.identity.python import python_texts

_NUMBERS = itertools.count()

Loaded = Callable[[str], Any]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Loaded]:
    """Modules of some texts, each under a name of its own."""
    names: list[str] = []

    def load_module(text: str) -> Any:
        name = f"identity_code_{next(_NUMBERS)}"
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_module
    for name in names:
        del sys.modules[name]


PLAIN = """
import math
RATES = {"EUR": 1.5, "USD": 2.0}
UNUSED = 1
calls = 0

def helper(x):
    return x * RATES["EUR"]

def other(x):
    return x

def price(x: float) -> float:
    global calls
    calls += 1
    return helper(x) + 1
"""


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("+ 1", "+ 2", True),
        ('RATES["EUR"]', 'RATES["USD"]', True),
        ("1.5", "1.25", True),
        ("UNUSED = 1", "UNUSED = 2", False),
        ("return x\n", "return -x\n", False),
        ("import math", "import json", False),
        ("calls = 0\n", "calls = 0\n\n\n", False),
    ],
)
def test_code_and_what_it_names_in_its_module_count(
    load: Loaded, old: str, new: str, counts: bool
) -> None:
    assert old in PLAIN
    before = python_texts(load(PLAIN).price)
    after = python_texts(load(PLAIN.replace(old, new)).price)
    assert (before != after) == counts


def test_calling_a_function_does_not_change_what_it_is(load: Loaded) -> None:
    module = load(PLAIN)
    before = python_texts(module.price)
    assert module.price(2.0) == 4.0
    assert module.calls == 1
    assert python_texts(module.price) == before


def _adding(n: Any) -> Callable[[int], int]:
    def add(x: int) -> int:
        return x + int(n)

    return add


def test_what_a_closure_holds_counts() -> None:
    assert python_texts(_adding(1)) == python_texts(_adding(1))
    assert python_texts(_adding(1)) != python_texts(_adding(2))
    assert python_texts(functools.partial(_adding, 1)) != python_texts(
        functools.partial(_adding, 2)
    )


def test_defaults_count(load: Loaded) -> None:
    text = "def make(n):\n    def f(x: int, by=n) -> int:\n        return x + by\n    return f\n"
    make = load(text).make
    assert python_texts(make(1)) == python_texts(make(1))
    assert python_texts(make(1)) != python_texts(make(2))


def test_functions_in_a_closure_count() -> None:
    one, other = (_adding(_Held(value)) for value in (1, 1))
    assert python_texts(one) == python_texts(other)
    inner = [
        functools.partial(_twice, function) for function in (_adding(1), _adding(1), _adding(2))
    ]
    texts = list(map(python_texts, inner))
    assert texts[0] == texts[1] != texts[2]


class _Held(int):
    """A number of a class of one's own."""


def _twice(f: Callable[[int], int], x: int) -> int:
    return f(f(x))


def test_code_without_a_source_goes_by_what_it_is_compiled_to() -> None:
    def function_of(text: str) -> Any:
        space: dict[str, Any] = {}
        exec(text, space)
        return space["f"]

    text = "def f(x):\n    return [g + 1 for g in (lambda: [x])()] if x in {'a', 'b'} else None"
    one, same, other = map(function_of, (text, text, text.replace("+ 1", "+ 2")))
    assert python_texts(one) == python_texts(same)
    assert "0x" not in "".join(python_texts(one))
    assert python_texts(one) != python_texts(other)
    assert python_texts(math.sqrt) != python_texts(math.exp)


def test_a_parser_counts_by_its_class(load: Loaded) -> None:
    text = 'class P:\n    type = "int"\n    def parse(self, text):\n        return [len(text)]\n'
    one, same = (load(text).P() for _ in range(2))
    other = load(text.replace("len(text)", "len(text) + 1")).P()
    assert python_texts(one) == python_texts(same)
    assert python_texts(one) != python_texts(other)


def test_a_query_that_calls_python_changes_with_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
import price from "{module}";
parser numbers = "{module}.Numbers";
incr select price(x) from x in stream(numbers, "data");
"""
    code = """
RATE = {rate}
def price(x: float) -> float:
    return x * RATE
class Numbers:
    type = "double"
    def parse(self, text):
        return [float(line) {more} for line in text.split()]
"""
    monkeypatch.chdir(tmp_path)
    identities = []
    for rate, more in ((1, ""), (1, ""), (2, ""), (1, "+ 1")):
        module = f"prices_{next(_NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(code.format(rate=rate, more=more))
        source = SourceText(text.format(module=module))
        script = compile_script(source, catalog_for(source, ()), read_include).typed
        identities.append(program_of(script.items, script).identities)
    one, same, rated, parsed = identities
    assert one == same
    assert one[0] == rated[0]
    assert one[-1] != rated[-1]
    assert one[0] != parsed[0]
