"""The types of data that come from Python: what a row of them is in the language."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from incmrql.diagnostics import DataError
from incmrql.formats.arrow_types import NoSuchType, struct_type
from incmrql.types import model
from incmrql.types.lattice import join

_SCALARS: tuple[tuple[type, model.Type], ...] = (
    (bool, model.BOOL),
    (int, model.LONG),
    (float, model.DOUBLE),
    (str, model.STRING),
    (datetime.datetime, model.TIMESTAMP),
    (datetime.date, model.DATE),
)


def row_type(data: Any, name: str) -> model.Type:
    """The type of a row of a table of pandas or Arrow, or of rows in a list."""
    if isinstance(data, list):
        return _common(data, name)
    return table_type(_arrow_schema(data), name)


def _arrow_schema(data: Any) -> Any:
    if isinstance(data, pa.Table):
        return data.schema
    if hasattr(data, "dtypes") and hasattr(data, "to_numpy"):
        return pa.Schema.from_pandas(data, preserve_index=False)
    message = f"data of type {type(data).__name__} cannot be registered"
    hint = "Give a DataFrame of Spark or pandas, an Arrow table, or a list of rows."
    raise DataError("R208", message, hint=hint)


def table_type(schema: Any, name: str) -> model.Type:
    """The type of a row of a table with an Arrow schema."""
    try:
        return struct_type(list(schema))
    except NoSuchType as problem:
        message = f'column "{problem.path}" of "{name}" has type {problem.arrow}'
        hint = "Cast the column to another type, or leave it out."
        raise DataError("R208", message, hint=hint) from None


def _common(rows: Iterable[Any], name: str) -> model.Type:
    """The least type that all values have."""
    common: model.Type = model.NOTHING
    for number, row in enumerate(rows):
        own = _value_type(row, name)
        joined = join(common, own)
        if joined is None:
            message = f'row {number} of "{name}" has type {own}, the rows before it {common}'
            hint = "Give rows of one type, or say it: register(name, rows, type=...)."
            raise DataError("R208", message, hint=hint)
        for some, other in ((common, own), (own, common)):
            if (lost := _lost_field(some, joined)) and other != model.NOTHING:
                message = f'some rows of "{name}" have the field "{lost}", and row {number} '
                message += "has not" if some == common else "is the first with it"
                hint = "Write None where a field is missing, or say the type of the rows: type=..."
                raise DataError("R208", message, hint=hint)
        common = joined
    return common


def _lost_field(type_: model.Type, joined: model.Type) -> str | None:
    """A field of records that the join with another type has dropped."""
    match type_, joined:
        case model.Record(), model.Record():
            fields = dict(joined.fields)
            for field, own in type_.fields:
                lost = field if field not in fields else _lost_field(own, fields[field])
                if lost is not None:
                    return lost
        case model.Tuple(items), model.Tuple(others):
            pairs = zip(items, others, strict=False)
            return next((lost for pair in pairs if (lost := _lost_field(*pair))), None)
        case model.Collection(element=own), model.Collection(element=other):
            return _lost_field(own, other)
        case _:
            pass
    return None


def _value_type(value: Any, name: str) -> model.Type:
    if value is None:
        return model.NOTHING
    for python, type_ in _SCALARS:
        if isinstance(value, python):
            return type_
    match value:
        case Decimal():
            return model.DECIMAL
        case tuple():
            return model.Tuple(tuple(_value_type(item, name) for item in value))
        case Mapping():
            fields = [(str(key), _value_type(item, name)) for key, item in value.items()]
            return model.Record(tuple(fields))
        case list():
            return model.list_of(_common(value, name))
        case set() | frozenset():
            return model.bag(_common(value, name))
        case _:
            message = f'a value of "{name}" is a {type(value).__name__}'
            hint = "Give it another form, or say the type: register(name, rows, type=...)."
            raise DataError("R208", message, hint=hint)
