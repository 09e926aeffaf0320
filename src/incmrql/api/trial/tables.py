"""The user's own files as tables of a trial: formats, types, and what is wrong with a path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from incmrql.errors import DataError, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "csv", "json"]

_FORMATS: Final[dict[str, Format]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tbl": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
_KNOWN: Final = "Parquet, csv and JSON, known by the ends of their names: .parquet, .csv, .json"
_DELIMITERS: Final = "\t;|,"
_MOST_FILES: Final = 10_000
"""Files of a folder whose names are looked at."""
_MOST_INFERRED: Final = 256 * 2**20
"""Bytes of text that Spark reads to find types; of more it reads a share."""
_CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table that the user gives: its name, its file or folder, and its columns if given."""

    name: str
    path: Path
    schema: str | None = None

    @staticmethod
    def of_text(text: str) -> TableFile:
        """Parse `NAME=PATH` or `NAME=PATH:SCHEMA`; a `DataError` says what is wrong."""
        name, equals, rest = text.partition("=")
        name = name.strip()
        if not (equals and rest and re.fullmatch(r"[^\W\d]\w*", name)):
            hint = "Write orders=PATH, or orders=PATH:SCHEMA with a schema such as id INT, at DATE."
            raise DataError("R315", f"{text!r} does not name a table and its file", hint=hint)
        for colon in (len(rest), *(match.start() for match in re.finditer(":", rest))):
            path = Path(rest[:colon]).expanduser()
            if rest[:colon] and path.exists():
                return TableFile(name, path, rest[colon + 1 :].strip() or None)
        raise _missing(name, Path(rest.partition(":")[0]).expanduser())

    def frame(self, spark: SparkSession) -> DataFrame:
        """The table as a DataFrame over its files."""
        from pyspark.errors import PySparkException

        format_, files = self._format()
        try:
            frame = self._read(spark, format_, files)
            columns = frame.columns
        except PySparkException as problem:
            words = re.sub(r"\s*SQLSTATE.*", "", str(problem).strip(), flags=re.DOTALL)
            message = f"table {self.name}: Spark cannot read {self.path} as {format_}: "
            raise DataError("R315", message + words.splitlines()[0][:300]) from problem
        if not columns:
            raise _empty(self.name, self.path)
        if columns == [_CORRUPT]:
            message = f"table {self.name}: {self.path} is not JSON"
            hint = "Each line is an object; or the file is one object or one array of objects."
            raise DataError("R315", message, hint=hint)
        return frame

    def rows(self) -> int | None:
        """The number of rows, if Parquet files say so without being read."""
        import pyarrow.parquet as pq

        format_, files = self._format()
        if format_ != "parquet":
            return None
        return sum(int(pq.read_metadata(file).num_rows) for file in files)

    def _format(self) -> tuple[Format, Sequence[Path]]:
        """The format of the files, and the files."""
        files = [self.path] if self.path.is_file() else list(_files_in(self.path))
        if not files:
            raise _empty(self.name, self.path)
        by_format = {_format_of(file): file for file in reversed(files)}
        if None in by_format:
            message = f"table {self.name}: {by_format[None]} has no format that is known"
            raise DataError("R315", message, hint=f"Formats are {_KNOWN}.")
        if len(by_format) > 1:
            some = " and ".join(str(file.name) for file in list(by_format.values())[:2])
            message = f"table {self.name}: {self.path} has files of different formats: {some}"
            raise DataError("R315", message, hint="Give a folder with the files of one table.")
        (format_,) = by_format
        assert format_ is not None
        if format_ == "parquet":
            for file in files:
                _check_parquet(self.name, file)
        return format_, files

    def _read(self, spark: SparkSession, format_: Format, files: Sequence[Path]) -> DataFrame:
        read = spark.read if self.schema is None else spark.read.schema(self.schema)
        place = str(self.path.absolute())
        if format_ == "parquet":
            return read.parquet(place)
        size = sum(file.stat().st_size for file in files)
        ratio = min(1.0, _MOST_INFERRED / max(1, size))
        first = _first_line(files[0])
        if format_ == "json":
            if not first:
                raise _empty(self.name, self.path)
            is_whole = first.startswith("[") or first == "{"
            return read.option("samplingRatio", ratio).option("multiLine", is_whole).json(place)
        if not first and self.schema is None:
            raise _empty(self.name, self.path)
        delimiter = max(_DELIMITERS, key=first.count)
        if self.schema is None:
            _check_header(self.name, files[0], first, delimiter)
            read = read.option("inferSchema", True).option("samplingRatio", ratio)
            has_header = True
        else:
            names = [name.lower() for name in spark.createDataFrame([], self.schema).columns]
            has_header = _fields(first.lower(), delimiter)[: len(names)] == names
        read = read.option("header", has_header).option("sep", delimiter).option("escape", '"')
        return read.csv(place)


def _files_in(folder: Path) -> Iterator[Path]:
    """The files of a folder and of folders in it, without hidden ones, in order."""
    every = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part[0] in "._" and "=" not in part for part in path.relative_to(folder).parts)
    )
    return islice((path for path in every if path.stat().st_size), _MOST_FILES)


def _format_of(file: Path) -> Format | None:
    name = file.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    for ending, format_ in _FORMATS.items():
        if name.endswith(ending):
            return format_
    return "parquet" if _is_parquet(file) else None


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as content:
        return content.read(4) == b"PAR1"


def _check_parquet(name: str, file: Path) -> None:
    """Refuse a file that is named like one of Parquet and is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as problem:
        message = f"table {name}: {file} is not a file of Parquet, or it is damaged"
        raise DataError("R315", message) from problem


def _first_line(file: Path) -> str:
    """The first line that is not blank, of the text in a file."""
    import pyarrow as pa

    with pa.input_stream(str(file)) as content:
        text = content.read(1 << 16).decode("utf-8", "replace").removeprefix("\ufeff")
    return next((line.strip(" \r") for line in text.split("\n") if line.strip()), "")


def _fields(line: str, delimiter: str) -> list[str]:
    return [field.strip().strip('"').strip() for field in line.split(delimiter)]


def _check_header(name: str, file: Path, first: str, delimiter: str) -> None:
    """Refuse a csv file whose first line is not a header: its columns would have wrong names."""
    fields = _fields(first, delimiter)
    numbers = [field for field in fields if re.fullmatch(r"[-+]?\d+([.:/-]\d+)*", field)]
    if numbers or not all(fields):
        what = f"{numbers[0]} is no name" if numbers else "a name is empty"
        message = f"table {name}: the first line of {file} is not a header: {what}"
        hint = f"Say what its columns are: --table '{name}={file}:id INT, city STRING'."
        raise DataError("R315", message, hint=hint)


def _missing(name: str, path: Path) -> DataError:
    folder = path.parent
    beside = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    shown = [name for name in beside if not name.startswith(".")][:6]
    listed = f"{folder} has {', '.join(shown)}{', ...' if len(beside) > len(shown) else ''}."
    hint = nearest(path.name, beside) or (listed if shown else "")
    return DataError("R101", f"table {name}: there is no file or folder {path}", hint=hint)


def _empty(name: str, path: Path) -> DataError:
    hint = "A trial needs rows to insert and to delete."
    return DataError("R315", f"table {name} is empty: {path} has no rows", hint=hint)


__all__ = ["TableFile"]
