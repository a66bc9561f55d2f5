"""The fixture by which a test puts files of its own into the record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_netperf.errors import ConfigError, MarkError
from pytest_netperf.fixtures import PLAN, SESSION

if TYPE_CHECKING:
    from pytest_netperf.bench.model import Device
    from pytest_netperf.session import NetperfSession

__all__ = ["netperf_attach"]

_MOST_BYTES = 100_000_000
_MOST_NAME = 120


@pytest.fixture
def netperf_attach(request: pytest.FixtureRequest, netperf_device: Device) -> Callable[..., None]:  # noqa: ARG001 - asked for so that the test has a device
    """Put a file into the record: ``netperf_attach("port.jpg")``, or ``netperf_attach(b"...", name="log.txt")``.

    ``netperf_attach(content, *, name=None, what="attached file")``: ``content`` is a path, or bytes or text with a
    ``name``. Its SHA-256 stands in the rows of the test, and copies are kept in the output folder and beside the sheet.
    """
    session: NetperfSession = request.config.stash[SESSION]
    run, plan = session.run_of(request.node.nodeid), request.node.stash[PLAN]
    if plan.is_check:
        raise MarkError(
            "netperf_attach: this test measures nothing, so that it has no row for a file; record a quantity in it "
            "(netperf_record), or attach the file in the test that does"
        )

    def attach(
        content: str | bytes | os.PathLike[str], *, name: str | None = None, what: str = "attached file"
    ) -> None:
        from pytest_netperf.record.evidence_store import keep_data

        call = f"netperf_attach({content if isinstance(content, str | os.PathLike) else '...'!r:.80})"
        if run.over:
            raise ConfigError(f"{call} after the test was judged: attach it in the test itself")
        data = content.encode() if isinstance(content, str) and name is not None else content
        if isinstance(data, str | os.PathLike):
            path = Path(data)
            if path.exists() and not path.is_file():  # a device or pipe may have no end
                raise ConfigError(f"{call}: {path} is no file; give one")
            try:
                name, data = name or path.name, path.read_bytes()
            except OSError as error:
                raise ConfigError(
                    f"{call}: {path} cannot be read: {error.strerror}; give a file that is there"
                ) from None
        if name is None:
            raise ConfigError(f"{call}: bytes have no name; write netperf_attach(..., name='log.txt')")
        if Path(name).name != name or not name.isprintable() or len(name.encode()) > _MOST_NAME:
            raise ConfigError(
                f"{call}: {name!r} is not the name of a file: one line, no folder, at most {_MOST_NAME} bytes"
            )
        if name == "sheet.json":
            raise ConfigError(f"{call}: sheet.json is the name of the record itself; give another one: name='...'")
        if len(data) > _MOST_BYTES:
            raise ConfigError(
                f"{call}: {len(data)} bytes are more than the {_MOST_BYTES} that a record takes; keep it elsewhere, "
                "and attach its digest"
            )
        run.attached.append(keep_data(session.options.output, what, name, data))

    return attach
