"""What is on disk of a device that was told something: read back as it was written, refused where it is not that."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.bench.state_commands import StateCommands
from pytest_netperf.errors import LinkError
from pytest_netperf.remote.device_driver import rescue
from pytest_netperf.remote.device_journal import DeviceClaim, DeviceJournal

TARGET = SshTarget(host="198.18.0.1", user="root", port=2222, key="~/.ssh/bench")
PARTS = {
    "nat": StateCommands(enter=("a", "b"), check="c", expect="d.", undo=("e",), seconds=7.0),
    "firewall": StateCommands(enter=("f",), check="g", expect="h", undo=("i", "j")),
}


def test_it_is_read_as_it_was_written(tmp_path: Path):
    DeviceJournal(tmp_path, "BOX 1/2").begin(TARGET, "nat", PARTS)
    assert list(DeviceJournal.left_in(tmp_path)) == ["BOX 1/2"]
    found = DeviceJournal(tmp_path, "BOX 1/2")
    assert found.read()
    assert (found.target, found.state, found.parts) == (TARGET, "nat", PARTS)
    found.end()
    assert list(tmp_path.iterdir()) == []
    assert not found.read()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1, "target": {"host": 5, "odd": 6}, "state": "x", "parts": {}}',
        '{"version": 1, "target": {"host": "h"}, "state": "x", "parts": {"nat": {"enter": 5}}}',
    ],
)
def test_what_is_no_account_of_a_device(tmp_path: Path, text: str):
    (tmp_path / "BOX-1.json").write_text(text)
    with pytest.raises(
        LinkError, match=r"BOX-1.json is no account of a device's state that this version can read; look"
    ):
        DeviceJournal(tmp_path, "BOX-1").read()
    ((serial, problem),) = rescue(tmp_path)
    assert serial == "BOX-1"
    assert "is no account of a device's state" in str(problem)


def test_a_folder_that_cannot_be(tmp_path: Path):
    (tmp_path / "devices").write_text("a file")
    with pytest.raises(
        LinkError, match=r"the states of device BOX-1 cannot be remembered at .*; NETPERF_STATE names an"
    ):
        DeviceClaim(tmp_path / "devices", "BOX-1")


def test_one_process_at_a_time(tmp_path: Path):
    claim = DeviceClaim(tmp_path, "BOX-1")
    DeviceJournal(tmp_path, "BOX-1").begin(TARGET, "nat", PARTS)
    with pytest.raises(LinkError, match="another run measures it; wait for its end, or stop it"):
        DeviceClaim(tmp_path, "BOX-1")
    assert rescue(tmp_path) == [], "it is in hands that will put it back"
    claim.close()
    claim.close()
    assert rescue(tmp_path, dry_run=True) == [("BOX-1", None)]
