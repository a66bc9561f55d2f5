"""The store beside the output: one file, written by Python's own sqlite3, so that every run can have it at once.

It has the tables that `pytest_netperf.store.database` makes by Alembic, which also upgrades it. SQLAlchemy, whose
import takes longer than all of this, is needed only to ask it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from pytest_netperf.errors import RecordError
from pytest_netperf.record.state_folder import locked

__all__ = ["VERSION", "SqliteFile", "lock_of"]

VERSION = "0001"
"""The newest of the migrations; `tables.sql` are the tables of this version."""
_BUSY_S = 10.0


def lock_of(path: Path) -> Path:
    """What is locked while the tables of a store are made or changed: its folder, so that nothing is left beside it."""
    return path.absolute().parent


class SqliteFile:
    """A store in a file, open."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.shown = shown(path)
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> SqliteFile:
        """Open the file, or make it. Raises RecordError when that fails, and for a store of another version."""
        with _errors(path):
            connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            try:
                connection.execute("PRAGMA foreign_keys=ON")
                if _version(connection) is None:
                    with locked(lock_of(path)):
                        _make(connection)
                found = _version(connection)
                if found != VERSION:
                    raise RecordError(
                        f"{shown(path)}: this store is of version {found}, not {VERSION}; 'pytest-netperf store sync' "
                        "brings an older one up to date, a newer one needs a newer pytest-netperf"
                    )
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    @contextlib.contextmanager
    def begin(self) -> Iterator[sqlite3.Connection]:
        """A transaction; RecordError when the database fails."""
        with _errors(Path(self.shown.removeprefix("sqlite:///"))):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # a full disk ends it by itself
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def shown(path: Path) -> str:
    """The URL of a store in a file."""
    return f"sqlite:///{path}"


def _version(connection: sqlite3.Connection) -> str | None:
    asked = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'netperf_version'"
    if connection.execute(asked).fetchone() is None:
        return None
    found = connection.execute("SELECT version_num FROM netperf_version").fetchone()
    return str(found[0]) if found is not None else None


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables, unless somebody else did in the meantime."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _version(connection) is None:
            text = (files("pytest_netperf.store") / "tables.sql").read_text("utf-8")
            for statement in text.strip().split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO netperf_version VALUES (?)", (VERSION,))
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise RecordError(f"{shown(path)}: {error}") from None
