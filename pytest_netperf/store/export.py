"""Rows of a store as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.store.read import ROW_COLUMNS
from pytest_netperf.store.tables import ROW

__all__ = ["export_rows"]

_AT_ONCE = 10_000


def export_rows(rows: Iterable[dict[str, Any]], path: Path) -> int:
    """Write the rows to a new file, by the ending of its name: .csv or .parquet. Returns how many.

    Raises ConfigError for another ending, a file that exists, or where pyarrow is missing.
    """
    write = {".csv": _csv, ".parquet": _parquet}.get(path.suffix)
    if write is None:
        raise ConfigError(f"{path}: the ending says how rows are written; name a file that ends with .csv or .parquet")
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path}: there is something already; it is not overwritten, give a new name")
    if write is _parquet:
        try:
            import pyarrow.parquet  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise ConfigError(
                f"{path}: Parquet needs pyarrow ({error}): pip install 'pytest-netperf[parquet]'"
            ) from None
    try:
        return write(rows, path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror or error}") from None


def _csv(rows: Iterable[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(ROW_COLUMNS)
        for row in rows:
            writer.writerow([_cell(row[name]) for name in ROW_COLUMNS])
            count += 1
    return count


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    # A spreadsheet takes a text that begins like this for a formula.
    return f"'{value}" if value[:1] in tuple("=+-@\t\r") else value


def _parquet(rows: Iterable[dict[str, Any]], path: Path) -> int:
    import pyarrow
    import pyarrow.parquet

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    schema = pyarrow.schema([(column.name, types[column.type.python_type]) for column in ROW.columns])
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for some in _in_groups(rows):
            writer.write_table(pyarrow.Table.from_pylist(some, schema=schema))
            count += len(some)
    return count


def _in_groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) == _AT_ONCE:
            yield group
            group = []
    if group:
        yield group
