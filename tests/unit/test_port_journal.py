"""The journal of a port on disk, and who may write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_netperf.errors import LinkError
from pytest_netperf.links.port_journal import PortClaim, PortHeldError, PortJournal, journals, ports_folder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path))
    return tmp_path / "ports"


def test_it_is_there_from_the_first_change_to_the_last(state: Path):
    with pytest.raises(LinkError, match="cannot write the journal"):
        PortJournal.begin("pci-0000:04:00.0/1", {})  # before the claim made the folder
    claim = PortClaim("pci-0000:04:00.0/1", {"pid": 7, "command": "pytest"})
    journal = PortJournal.begin("pci-0000:04:00.0/1", {"state": {"mtu": 1500}})
    journal.note("move it")
    first, second = (state / "pci-0000:04:00.0+1.journal").read_text().splitlines()
    assert json.loads(first) == {"version": 1, "port_id": "pci-0000:04:00.0/1", "state": {"mtu": 1500}}
    assert json.loads(second)["next"] == "move it"
    (found,) = journals()
    assert (found.port_id, found.before["state"]) == ("pci-0000:04:00.0/1", {"mtu": 1500})
    with pytest.raises(LinkError, match="has a journal already"):
        PortJournal.begin("pci-0000:04:00.0/1", {})
    found.end()
    assert list(journals()) == []
    claim.close()
    claim.close()
    assert [path.name for path in state.iterdir()] == ["pci-0000:04:00.0+1.lock"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "port_id": "x"}', '{"version": 1}', "\xff"])
def test_what_is_no_journal_is_never_taken_for_one(state: Path, text: str):
    state.mkdir()
    (state / "x.journal").write_text(text, "latin-1")
    with pytest.raises(LinkError, match=r"x\.journal is no journal of a port that this version can read"):
        list(journals())


def test_a_journal_that_was_cut_off_after_its_first_line_is_one(state: Path):
    """The power failed while a note was written; the state before is whole, because it came by a rename."""
    PortClaim("mac-x", {}).close()
    journal = PortJournal.begin("mac-x", {"state": {}})
    with journal.path.open("a") as file:
        file.write('{"at": "2026-')
    assert [each.port_id for each in journals()] == ["mac-x"]


def test_one_holder_at_a_time():
    claim = PortClaim("mac-x", {"pid": 7, "command": "pytest -q"})
    with pytest.raises(PortHeldError) as held:
        PortClaim("mac-x", {})
    assert str(held.value).startswith("port mac-x is held by process 7 (pytest -q) since 2")
    assert held.value.holder["pid"] == 7
    PortClaim("mac-y", {}).close()
    claim.close()
    PortClaim("mac-x", {}).close()


def test_the_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NETPERF_STATE")
    assert ports_folder() == Path("/var/lib/pytest-netperf/ports")
    monkeypatch.setenv("NETPERF_STATE", "")
    assert ports_folder() == Path("/var/lib/pytest-netperf/ports")
    monkeypatch.setenv("NETPERF_STATE", "relative")
    with pytest.raises(LinkError, match="not an absolute path"):
        ports_folder()
