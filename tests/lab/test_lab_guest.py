"""The lab itself: its cards, their drivers, their cables, and what becomes of a guest that dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lab_guest import PAIRS, Guest, GuestError
from lab_kernel import guest_kernel
from lab_suite import Pair, wait_until

PairOf = Callable[[str], Pair]


@pytest.mark.parametrize("model", PAIRS)
def test_both_ends_of_a_pair_have_their_driver_and_a_carrier(pair: PairOf, model: str):
    ends = pair(model)
    for name in ends.names:
        said = ends.guest.run(["ethtool", "-i", name]).check()
        assert f"driver: {ends.cards.driver}\n" in said
    ends.up()
    ends.down()


def test_pulling_the_cable_takes_the_carrier_of_both_ends(lab: Guest, pair: PairOf, survived: Callable[..., None]):
    ends = pair("e1000e")
    ends.up()
    before = [int(ends.read(name, "carrier_changes")) for name in ends.names]
    lab.cable(ends.cards, plugged=False)
    wait_until(lambda: [ends.read(name, "carrier") for name in ends.names] == ["0", "0"], "no carrier")
    lab.cable(ends.cards, plugged=True)
    wait_until(lambda: [ends.read(name, "carrier") for name in ends.names] == ["1", "1"], "a carrier again")
    after = [int(ends.read(name, "carrier_changes")) for name in ends.names]
    assert [now - was for was, now in zip(before, after, strict=True)] == [2, 2]
    ends.down()
    survived("cable pulled and plugged: two changes of the carrier at each end")


def test_commands_run_side_by_side_and_end_on_a_signal(lab: Guest):
    slow = lab.begin(["sleep", "1000"])
    assert slow.pid > 1
    assert lab.run(["sh", "-c", "echo out; echo err >&2; exit 3"]).returncode == 3
    slow.send_signal(15)
    assert slow.wait(60).returncode == -15
    assert lab.run(["no-such-program"]).returncode == 127


def test_a_command_that_does_not_end_is_killed_and_said(lab: Guest):
    with pytest.raises(GuestError, match=r"`sh -c echo begun; sleep 1000` had not ended after 3 s.*\nbegun"):
        lab.run(["sh", "-c", "echo begun; sleep 1000"], timeout_s=3)


def test_files_go_in_and_come_out(lab: Guest):
    folder = lab.push({"in.txt": "one\n"}, "files")
    lab.run(["sh", "-c", "cat in.txt in.txt >out.txt"], folder=folder).check()
    assert lab.pull(f"{folder}/out.txt").read_text() == "one\none\n"


def test_what_the_guest_writes_never_reaches_this_machine(lab: Guest, tmp_path):
    lab.run(["sh", "-c", f"mkdir -p {tmp_path} && echo x >{tmp_path}/written && cat {tmp_path}/written"]).check()
    assert list(tmp_path.iterdir()) == []


def test_a_guest_that_dies_is_said_at_once(monkeypatch: pytest.MonkeyPatch):
    """One of its own, that panics while it boots: the message has the kernel's last words."""
    import lab_initramfs

    monkeypatch.setattr(lab_initramfs, "_INIT", "#!/bin/busybox sh\necho going; exit 1\n#{modules}{root_tag}")
    guest = Guest(guest_kernel(), [], memory_mib=512)
    with pytest.raises(GuestError, match=r"(?s)the guest is dead \(QEMU: 0\).*Attempted to kill init"):
        guest.start()
    assert not guest.folder.exists()
