"""What the tests of the inference share: a catalog, and the type of a script's last item."""

from __future__ import annotations

from incmrql.errors import DataError, SourceText
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    Decimal,
    Record,
    Tuple,
    Type,
    bag,
)
from incmrql.types.scope import Catalog
from tests.types.checker import problems

_ITEM = Record((("v", INT), ("w", DOUBLE)))
_BASIC = Record(
    (
        ("b", BOOL),
        ("s", SHORT),
        ("l", LONG),
        ("f", FLOAT),
        ("d", Decimal(10, 2)),
        ("day", DATE),
        ("at", TIMESTAMP),
    )
)


def _file_type(path: str, _sign: str = "") -> Type:
    if "missing" in path:
        raise DataError("R001", f'there is no file "{path}"', hint="Look at the folder.")
    return Record((("A", INT), ("B", STRING)))


def _function(module: str, name: str) -> typed.PythonFunction:
    if name != "half":
        raise DataError("T606", f'the module "{module}" has no function "{name}"')
    return typed.PythonFunction("half", (DOUBLE,), DOUBLE, lambda x: x / 2)


def _parser(path: str) -> tuple[object, Type]:
    if not path.endswith("Pairs"):
        raise DataError("T606", f'"{path}" is not a parser')
    return object(), Tuple((STRING, LONG))


CATALOG = Catalog(
    arguments=("first.csv", "second"),
    registered={
        "R": (Record((("A", INT), ("B", INT), ("C", DOUBLE), ("S", STRING))), False),
        "N": (Record((("K", INT), ("items", bag(_ITEM)))), False),
        "P": (Tuple((INT, STRING)), False),
        "V": (_BASIC, False),
        "Events": (Record((("A", INT),)), True),
    },
    functions={"shout": typed.PythonFunction("shout", (STRING,), STRING, str.upper)},
    file_type=_file_type,
    python_function=_function,
    python_parser=_parser,
)


def infer(text: str, catalog: Catalog = CATALOG) -> typed.Script:
    """The typed script, which the checker has nothing to say about."""
    script = infer_script(parse_script(SourceText(text, "test.q")), catalog)
    assert problems(script) == []
    return script


def type_of(text: str) -> str:
    """The type of a script's last item, as it is printed."""
    return str(infer(text).items[-1].expr.type)
