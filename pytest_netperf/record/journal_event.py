"""What stands in the lines of a journal beside rows, plans and the run itself."""

from __future__ import annotations

import msgspec

from pytest_netperf.record.schema import DeviceVerdict, Row

__all__ = ["Finished", "RowEvent", "Running", "WrittenFile", "WrittenSheet"]


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a sheet."""

    name: str
    """Its path, below the output folder where it is there."""
    sha256: str
    bytes: int


class WrittenSheet(msgspec.Struct, frozen=True, kw_only=True):
    """A sheet that a run wrote at its end."""

    serial: str
    verdict: DeviceVerdict
    digest: str
    files: tuple[WrittenFile, ...] = ()


class Running(msgspec.Struct, frozen=True):
    """A test (node id) that started."""

    test: str
    at: str | None = None


class RowEvent(msgspec.Struct, frozen=True):
    """A row that arrived, with the outcome of the pytest phase it came with."""

    row: Row
    outcome: str = ""


class Finished(msgspec.Struct, frozen=True):
    """The end that the run came to by itself."""

    at: str
    exit_status: int
