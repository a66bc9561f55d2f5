"""``pytest-netperf bench check`` and ``bench init --probe`` on real ports: veth pairs stand in for cards and cables."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aftermath import wait_until
from stand_in import StandIn, sh, unequal

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.links.kernel import has_capabilities
from pytest_netperf.links.port_journal import PortClaim

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not has_capabilities(), reason="physical ports need root"),
]
ROOT = Path(__file__).resolve().parents[2]
LINK = """
[[device.link]]
name = "{name}"
speed = "10G"
{more}
a = {{ port = "altname-{a}", allow_virtual = true }}
b = {{ port = "altname-{b}", allow_virtual = true }}
"""


@dataclass
class Box:
    """Cables of this test, and the command."""

    path: Path
    cables: list[StandIn] = field(default_factory=list)

    def cable(self) -> StandIn:
        made = StandIn()
        self.cables.append(made)
        made.make()
        return made

    def view(self) -> dict[str, Any]:
        return {name: seen for cable in self.cables for name, seen in cable.view().items()}

    def start(self, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, sys.executable, "-m", "pytest_netperf.cli", "bench", *arguments],
            cwd=self.path,
            env={**os.environ, "NETPERF_STATE": str(self.path / "state"), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def bench(self, *arguments: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
        run = self.start(*arguments, before=before)
        said, _ = run.communicate(timeout=60)
        assert "Traceback" not in said
        return run.returncode, said

    def write(self, *links: str, head: str = "") -> None:
        (self.path / "bench.toml").write_text(f'[[device]]\nserial = "BOX-1"\n{head}' + "".join(links))

    def journals(self) -> list[Path]:
        return list(self.path.glob("state/ports/*.journal"))


def link(cable: StandIn, name: str = "p1", more: str = "") -> str:
    return LINK.format(name=name, a=cable.a, b=cable.b, more=more)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path / "state"))
    made = Box(tmp_path)
    yield made
    for cable in made.cables:
        cable.remove()


# ---- check -----------------------------------------------------------------------------------------------------------


def test_a_good_bench(box: Box):
    cable = box.cable()
    box.write(link(cable), '[[device.link]]\nname = "sim"\nspeed = "1G"\nsimulated = true\n')
    before = box.view()
    code, said = box.bench("check")
    assert code == 0, said
    assert f"good   BOX-1/p1: 10G, a = altname-{cable.a} ({cable.a}, veth), b = altname-{cable.b}" in said
    assert "good   BOX-1/sim: 1G, simulated" in said
    assert said.endswith("bench.toml: 2 links, nothing wrong\n")
    assert unequal(before, box.view()) == []
    assert not (box.path / "state").exists(), "nothing is changed, not even the state folder"


def test_everything_that_is_wrong_at_once(box: Box):
    good, addressed = box.cable(), box.cable()
    addressed.set_everything()
    bridge = f"npb{good.tag}"
    sh("ip", "link", "add", bridge, "type", "bridge")
    try:
        third = box.cable()
        sh("ip", "link", "set", third.a, "master", bridge)
        box.write(
            link(good, "p1", "mtu = 65535\ncolour = 3"),
            link(good, "p2").replace(f"altname-{good.b}", "pci-ffff:ff:1f.7"),
            link(addressed, "p3"),
            link(third, "p4"),
            '[[device.link]]\nname = "p5"\nspeed = 10\nsimulated = true\n',
        )
        before = box.view()
        code, said = box.bench("check")
    finally:
        sh("ip", "link", "delete", bridge)
    assert code == 1
    for expected in (
        "WRONG  bench.toml: device[0].link[0].colour: unknown key",
        "WRONG  bench.toml: device[0].link[4].speed: 10 has no unit",
        f"- a: {good.a} is end a of BOX-1/p1 already",
        "- b: port 'pci-ffff:ff:1f.7': there is no such port",
        f"- a: {addressed.a} is refused: it has addresses ({addressed.address4}",
        f"- a: {third.a} is refused: {bridge} stands on it",
    ):
        assert expected in said
    assert "bench.toml: 5 links, " in said
    assert unequal(before, {**box.view(), third.a: before[third.a]}) == []


def test_json_says_the_same(box: Box):
    box.write(link(box.cable(), more="mtu = 65535"), head='model = "R86S-G3"\n')
    code, said = box.bench("check", "--json", "bench.toml")
    found = json.loads(said)
    assert code == 0
    assert found["good"] is True
    assert found["file"] == "bench.toml"
    assert [each["name"] for each in found["links"]] == ["BOX-1/p1"]
    assert "did you mean 'R86S-G2'" in "".join(found["links"][0]["notes"])


def test_a_port_that_another_run_holds(box: Box):
    cable = box.cable()
    box.write(link(cable))
    with contextlib.closing(PortClaim(f"mac-{cable.mac['a']}", {"pid": os.getpid(), "command": "another run"})):
        code, said = box.bench("check")
    assert code == 1
    assert f"- a: port mac-{cable.mac['a']} is held by process {os.getpid()} (another run) since " in said
    assert box.bench("check")[0] == 0, "and it is free again"


def test_only_one_end_has_a_carrier_when_only_one_is_up(box: Box):
    cable = box.cable()
    sh("ip", "link", "set", cable.a, "up")
    box.write(link(cable))
    assert box.bench("check")[0] == 0


def test_without_root(box: Box):
    """Everything else is said too."""
    box.write(link(box.cable()), link(box.cable(), "p2").replace("altname-npt", "altname-none"))
    box.path.chmod(0o755)
    code, said = box.bench("check", before=("setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"))
    assert code == 1
    assert "WRONG  physical ports need root: run this, and pytest, with sudo" in said
    assert "good   BOX-1/p1" in said
    assert "WRONG  BOX-1/p2" in said
    assert said.count("there is no such port") == 2


def test_eight_ports_in_two_seconds_of_work(box: Box):
    """CPU time of the command and its children: the wall time of one run on a shared machine proves little."""
    box.write(*(link(box.cable(), f"p{number}") for number in range(4)))
    run = box.start("check")
    before = os.times()
    said, _ = run.communicate(timeout=60)
    after = os.times()
    assert run.returncode == 0, said
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert 0 < spent < 2.0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("check", "none.toml"), 1, "WRONG  none.toml: there is no such bench file"),
        (("check", "."), 1, "is a directory"),
        (("check", "broken.toml"), 1, "broken TOML"),
        (("check", "--profiles", "nowhere"), 2, "nowhere: there is no such folder"),
        (("check", "--profiles", "."), 2, "broken.toml: broken TOML"),
        (("init", "--output", "broken.toml"), 2, "broken.toml: there is something already; it is not overwritten"),
        (("init", "--output", "no/where.toml"), 2, "no/where.toml: No such file or directory"),
        (("init", "--probe"), 2, "expected at least one argument"),
        (("init", "--probe", "altname-none1", "none2"), 2, "port 'none2': there is no such port"),
        ((), 2, "the following arguments are required: COMMAND"),
        (("chek",), 2, "invalid choice: 'chek'"),
    ],
)
def test_wrong_use(box: Box, arguments: tuple[str, ...], code: int, says: str):
    (box.path / "broken.toml").write_text("a =")
    got, said = box.bench(*arguments)
    assert got == code, said
    assert says in said


# ---- init ------------------------------------------------------------------------------------------------------------


def test_without_a_probe_nothing_is_touched(box: Box):
    cable = box.cable()
    before = box.view()
    code, said = box.bench("init")
    assert code == 0
    assert parse_bench(said).devices[0].links == ()
    assert cable.a not in said, "a veth is no port of a machine"
    assert unequal(before, box.view()) == []
    assert not (box.path / "state").exists()


def test_the_ports_of_the_machine_are_listed_with_the_reason_why_not(box: Box):
    default = str(json.loads(sh("ip", "-json", "route", "show", "default"))[0]["dev"])
    _, said = box.bench("init")
    lines = said.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("# port = ") and f": {default}, " in line]
    assert lines[at + 1].startswith("#     refused: it carries the default route of this machine")


def test_cabled_ports_are_found_and_all_are_as_before(box: Box):
    """Two cables, one of them between ports with everything set, and a port whose other end is not probed."""
    plain, rich, lonely = box.cable(), box.cable(), box.cable()
    rich.set_everything()
    before = box.view()
    ports = (rich.b, plain.a, lonely.a, plain.b, rich.a)
    code, said = box.bench("init", "--allow-virtual", "--allow-addressed", "--output", "new.toml", "--probe", *ports)
    assert code == 0, said
    assert unequal(before, box.view()) == []
    assert box.journals() == []
    text = (box.path / "new.toml").read_text()
    found = {frozenset((link.a.port, link.b.port)) for link in parse_bench(text).devices[0].links}
    assert found == {frozenset(f"altname-{port}" for port in (cable.a, cable.b)) for cable in (plain, rich)}
    assert f"# no carrier: {lonely.a}" in text
    assert f'{{ port = "altname-{rich.a}", allow_addressed = true, allow_virtual = true }}' in text
    code, said = box.bench("check", "new.toml")
    assert code == 0, said


def test_ports_behind_a_switch_are_no_pair(box: Box):
    """A bridge that forwards even what bridges should not."""
    cables = [box.cable() for _ in range(3)]
    bridge = f"npb{cables[0].tag}"
    sh("ip", "link", "add", bridge, "type", "bridge", "group_fwd_mask", "0x4000", "stp_state", "0")
    try:
        for cable in cables:
            sh("ip", "link", "set", cable.b, "master", bridge, "up")
        sh("ip", "link", "set", bridge, "up")
        ports = [cable.a for cable in cables]
        before = box.view()
        code, said = box.bench("init", "--allow-virtual", "--probe", *ports)
        assert code == 0
        shared = said.partition("# more than a cable between: ")[2].partition(" (a switch?)")[0]
        assert sorted(shared.split(", ")) == sorted(ports)
        assert parse_bench(said).devices[0].links == ()
        sh("ip", "link", "set", bridge, "type", "bridge", "group_fwd_mask", "0")
        code, said = box.bench("init", "--allow-virtual", "--probe", *ports[:2])
        assert "but none of the other probed ports at its end" in said, "an ordinary bridge keeps these frames"
        assert unequal(before, box.view()) == []
    finally:
        sh("ip", "link", "delete", bridge)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_probe_that_is_stopped_brings_the_ports_home(box: Box, number: signal.Signals):
    first, second = box.cable(), box.cable()
    before = box.view()
    run = box.start("init", "--allow-virtual", "--probe", first.a, second.a)  # no pair: it would look for 12 s
    wait_until(lambda: len(box.journals()) == 2, "both ports are away")
    began = time.monotonic()
    run.send_signal(number)
    said, _ = run.communicate(timeout=30)
    assert (run.returncode, said) == (128 + number, "")
    assert time.monotonic() - began < 10
    assert box.journals() == []
    assert unequal(before, box.view()) == []


def test_a_probe_that_is_killed_is_put_right_by_the_next_one(box: Box):
    """Its namespaces are held here: without hardware a port would go with its namespace."""
    cable, other = box.cable(), box.cable()
    cable.set_everything()
    before = box.view()
    run = box.start("init", "--allow-virtual", "--allow-addressed", "--probe", cable.a, other.a)
    away = [Path(f"/sys/class/net/{name}") for name in (cable.a, other.a)]
    wait_until(lambda: not any(path.exists() for path in away), "both ports are away")
    here = Path("/proc/self/ns/net").stat().st_ino
    places = [path for path in Path(f"/proc/{run.pid}/task").glob("*/ns/net") if path.stat().st_ino != here]
    with contextlib.ExitStack() as stack:
        for path in places:
            stack.callback(os.close, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        run.kill()
        run.communicate()
        assert len(box.journals()) == len(places) == 2
        box.write(link(cable))
        code, said = box.bench("check")
        assert code == 1
        assert f"a: port 'altname-{cable.a}' is where a killed run left it; run pytest-netperf clean" in said
        code, said = box.bench("init", "--allow-virtual", "--allow-addressed", "--probe", cable.a, cable.b)
    assert code == 0, said
    assert said.count("brought home, as it was") == 2
    assert f"# cabled together: {cable.a} and {cable.b}" in said
    assert box.journals() == []
    assert unequal(before, box.view()) == []


def test_a_port_that_another_run_has(box: Box):
    """Lent to a namespace, so it is not here: both commands say who has it."""
    first, second = box.cable(), box.cable()
    box.write(link(first))
    run = box.start("init", "--allow-virtual", "--probe", first.a, second.a)
    wait_until(lambda: not Path(f"/sys/class/net/{first.a}").exists(), "the port is away")
    os.kill(run.pid, signal.SIGSTOP)
    try:
        for arguments, code in (
            (("check",), 1),
            (("init", "--allow-virtual", "--probe", f"altname-{first.a}", first.b), 2),
        ):
            got, said = box.bench(*arguments)
            assert got == code
            assert f"port mac-{first.mac['a']} is held by process {run.pid} (pytest-netperf bench init)" in said
    finally:
        os.kill(run.pid, signal.SIGCONT)
    run.terminate()
    run.communicate(timeout=30)
    assert run.returncode == 128 + signal.SIGTERM


def test_refused_ports_are_not_touched(box: Box):
    cable = box.cable()
    cable.set_everything()
    before = box.view()
    code, said = box.bench("init", "--allow-virtual", "--probe", cable.a, cable.b)
    assert code == 2
    assert f"it has addresses ({cable.address4}" in said
    code, said = box.bench("init", "--allow-addressed", "--probe", cable.a, cable.b)
    assert code == 2
    assert said.count("it is a veth without hardware behind it") == 2
    code, said = box.bench("init", "--allow-virtual", "--allow-addressed", "--probe", cable.a, f"mac-{cable.mac['a']}")
    assert code == 2
    assert f"port {cable.a} is named more than once" in said
    code, said = box.bench("init", "--allow-virtual", "--allow-addressed", "--probe", cable.a)
    assert code == 2
    assert "one port alone cannot be cabled to another" in said
    assert unequal(before, box.view()) == []
    assert box.journals() == []
