"""A bench file against a machine that is told, not read: speeds, MTU, bus, profiles. (Real ports: tests/netns.)"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pytest_netperf import bench_check
from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.model_profile import load_profiles
from pytest_netperf.bench_check import check_bench
from pytest_netperf.bench_init import draft_bench
from pytest_netperf.links import device_states
from pytest_netperf.links.cable_probe import Cabling, sort_out
from pytest_netperf.links.ethtool import Ethtool
from pytest_netperf.links.port_reading import PortReading, most_speed_bps
from pytest_netperf.links.ports import HostPort

PROFILES = load_profiles()
HOP = {
    "upper": "0000:00:1c.0", "lower": "0000:01:00.0", "speed_gtps": 5.0, "width": 1, "upper_max_speed_gtps": 8.0,
    "upper_max_width": 4, "lower_max_speed_gtps": 5.0, "lower_max_width": 1,
}  # fmt: skip


def reading(number: int, driver: str = "igc", most: float | None = 2.5e9, **changed: Any) -> PortReading:
    port = HostPort(
        name=f"enp{number}s0", index=number, mac=f"00:00:5e:00:53:0{number}", permanent_mac=f"00:00:5e:00:53:0{number}",
        pci=f"0000:0{number}:00.0", driver=driver,
    )  # fmt: skip
    known: dict[str, Any] = {
        "firmware": "1068:8754", "up": True, "carrier": True, "speed_bps": most, "most_bps": most, "least_mtu": 68,
        "most_mtu": 9216, "pcie": [HOP], "usb_bps": None,
    }  # fmt: skip
    return PortReading(port=port, **{**known, **changed})


@dataclass
class Told:
    """A machine with these ports."""

    readings: list[PortReading]
    refused: dict[str, list[str]] = field(default_factory=dict)
    root: bool = True

    @property
    def ports(self) -> list[HostPort]:
        return [each.port for each in self.readings]

    def read(self, port: HostPort) -> PortReading:
        return next(each for each in self.readings if each.port == port)

    def refusals(self, port: HostPort, **_: bool) -> list[str]:
        return self.refused.get(port.name, [])

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None: ...


def link(name: str = "p1", a: int = 1, b: int = 2, speed: str = "2.5G", more: str = "") -> str:
    return (
        f'[[device.link]]\nname = "{name}"\nspeed = "{speed}"\n{more}\n'
        f'a = {{ port = "pci-0000:0{a}:00.0" }}\nb = {{ port = "mac-00:00:5e:00:53:0{b}" }}\n'
    )


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Check a device with these links on a told machine; gives (problems of the file, problems, notes)."""
    monkeypatch.setenv("NETPERF_STATE", str(tmp_path / "state"))

    def check(machine: Told, links: str, head: str = 'serial = "BOX-1"') -> tuple[list[str], list[str], list[str]]:
        file = tmp_path / "bench.toml"
        file.write_text(f"[[device]]\n{head}\n{links}")
        monkeypatch.setattr(bench_check, "Machine", lambda: machine)
        found = bench_check.check_bench(file)
        problems = [problem for each in found.links for problem in each.problems]
        assert found.good == (not problems and not found.problems)
        return found.problems, problems, [note for each in found.links for note in each.notes]

    return check


def test_all_is_well(checked):
    assert checked(Told([reading(1), reading(2)]), link()) == ([], [], [])


@pytest.mark.parametrize(
    ("changed", "text", "says"),
    [
        ({"most": 1e9}, link(), "enp1s0 supports 1G at most, below the 2.5G of the link"),
        ({"speed_bps": 1e9}, link(), "enp1s0 has negotiated 1G, below the 2.5G of the link; look at the cable"),
        ({}, link(more="mtu = 9500"), "enp1s0 allows an MTU of 9216 at most, and the link has 9500"),
        ({"most_mtu": 1400}, link(), "enp1s0 allows an MTU of 1400 at most, and the link has 1500"),
        ({"least_mtu": 1600}, link(), "enp1s0 allows an MTU of 1600 at least, and the link has 1500"),
        (
            {"pcie": [{**HOP, "speed_gtps": 2.5}]},
            link(),
            "enp1s0 is behind a PCI Express link that carries 2 Gbit/s for 2.5 Gbit/s (0000:00:1c.0 - 0000:01:00.0: "
            "2.5 GT/s x1",
        ),
        ({"usb_bps": 480e6, "pcie": []}, link(), "enp1s0 is on a USB that carries"),
        ({"carrier": False, "speed_bps": None}, link(), "no carrier at enp1s0, though both ports are up"),
    ],
)
def test_a_port_that_does_not_do(checked, changed, text, says):
    machine = Told([reading(1, **changed), reading(2, most_mtu=9600)])
    file, problems, _ = checked(machine, text)
    assert file == []
    assert len(problems) == 1
    assert says in problems[0]


def test_nothing_is_held_against_what_is_not_known(checked):
    unknown = {"most": None, "least_mtu": None, "most_mtu": None, "pcie": [{**HOP, "width": None}], "carrier": False}
    file, problems, notes = checked(Told([reading(1, up=False, **unknown), reading(2)]), link(more="mtu = 9000"))
    assert (file, problems) == ([], [])
    assert notes == ["what a (enp1s0) will negotiate is known only when both ports are up"]


def test_everything_at_once(checked):
    """Mistakes of the file beside those of the machine."""
    machine = Told([reading(1), reading(2)], refused={"enp1s0": ["it has addresses"]}, root=False)
    text = link() + link("p2", a=7, b=2, more="colour = 1") + link("p1")
    file, problems, _ = checked(machine, text)
    assert any("device[0].link[1].colour: unknown key" in each for each in file)
    assert any('"p1" is used 2 times' in each for each in file)
    assert any("physical ports need root" in each for each in file)
    assert len(file) == 3
    said = "\n".join(problems)
    assert "a: enp1s0 is refused: it has addresses" in said
    assert "a: port 'pci-0000:07:00.0': there is no such port" in said
    assert "b: enp2s0 is end b of BOX-1/p1 already" in said


def test_one_port_by_two_names(checked):
    _, problems, _ = checked(Told([reading(1), reading(2)]), link(a=1, b=1))
    assert problems == ["b: enp1s0 is end a of BOX-1/p1 already; a port is in one cable, so write it once"]


def test_two_ports_of_one_name(checked):
    twin = replace(reading(2), port=replace(reading(2).port, index=9, name="enp9s0"))
    _, problems, _ = checked(Told([reading(1), reading(2), twin]), link())
    assert len(problems) == 1
    assert "2 ports are called that" in problems[0]
    assert "enp9s0" in problems[0]


R86S = 'serial = "BOX-1"\nmodel = "R86S-G2"'


@pytest.mark.parametrize(
    ("ports", "text", "says"),
    [
        ([reading(1), reading(2)], link(), None),
        ([reading(1), reading(2, driver="r8169")], link(), None),  # the far end is the tester's
        (
            [reading(1, driver="r8169"), reading(2, driver="r8169")],
            link(),
            "the 2.5G ports of a R86S-G2 have the driver igc, and here are enp1s0, r8169, enp2s0, r8169",
        ),
        ([reading(1), reading(2)], link(speed="1G"), "a R86S-G2 has no port of 1G, but of 2.5G, 10G"),
        (
            [reading(number, driver="mlx4_en", most=10e9, most_mtu=10000, pcie=[]) for number in (1, 2)],
            link(speed="10G", more="mtu = 9950"),
            "the port of a R86S-G2 allows an MTU of 9900 at most, and the link has 9950",
        ),
        (
            [reading(number) for number in range(1, 5)],
            link() + link("p2", 3, 4),
            "a R86S-G2 has 3 2.5G ports, and the links of this device use more",
        ),
    ],
)
def test_against_the_profile_of_its_model(checked, ports, text, says):
    file, problems, _ = checked(Told(ports), text, R86S)
    assert file == []
    if says is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert says in problems[0]


def test_a_model_that_is_nearly_one(checked):
    _, problems, notes = checked(Told([reading(1), reading(2)]), link(), R86S.replace("G2", "G3"))
    assert problems == []
    assert len(notes) == 1
    assert "did you mean 'R86S-G2'" in notes[0]


def test_a_topology_of_later(checked):
    _, problems, _ = checked(Told([reading(1), reading(2)]), link(more='topology = "remote"\nsimulated = true'))
    assert len(problems) == 1
    assert "this version can simulate only 'pair', 'routed', 'switched'" in problems[0]


def test_a_device_that_cannot_be_told_its_state(checked):
    state = '[[device.state]]\nname = "nat"\nnat = true\n[[device.state]]\nname = "ids"\ninspection = { rules = 5 }\n'
    head = 'serial = "BOX-1"\nssh = "root@198.18.0.1"\nos = "linux"'
    _, problems, _ = checked(Told([reading(1), reading(2)]), link() + state, head)
    assert len(problems) == 2
    assert "its commands name the device's own interfaces at the ends of the link; write them beside" in problems[0]
    assert "there are no ready commands for inspection on 'linux', only for nat, firewall" in problems[1]


def test_ports_of_unequal_speed_at_a_device(checked):
    """Each is held against its own speed, and the link is one of the slower one."""
    ends = {"a": "1", "b": "2"}
    text = "".join(
        f'  {end} = {{ port = "mac-00:00:5e:00:53:0{n}", address = "198.18.{n}.2/24", gateway = "198.18.{n}.1"'
        + (', speed = "10G" }\n' if end == "a" else " }\n")
        for end, n in ends.items()
    )
    given = f'  [[device.link]]\n  name = "lan-wan"\n  topology = "routed"\n  speed = "1G"\n{text}'
    _, problems, _ = checked(Told([reading(1), reading(2)]), given)
    assert len(problems) == 2
    assert problems[0].startswith("a: enp1s0 supports 2.5G at most, below the 10G of the link")
    assert problems[1].startswith("a: enp1s0 is behind a PCI Express link that carries 4 Gbit/s for 10 Gbit/s")


def test_without_iperf3(checked, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    file, _, _ = checked(Told([reading(1), reading(2)]), link())
    assert file == ["iperf3 is not installed (sudo apt-get install iperf3)"]


# ---- the draft -------------------------------------------------------------------------------------------------------


def box() -> Told:
    """As an R86S has them, out of order."""
    cages = [
        replace(
            reading(4, driver="mlx4_en", most=10e9),
            port=replace(reading(4).port, name=f"enp4s0{tail}", index=40 + number, dev_port=number, driver="mlx4_en"),
        )
        for number, tail in ((1, "d1"), (0, ""))
    ]
    return Told([*cages, reading(2), reading(1), reading(3)], refused={"enp1s0": ["it carries the default route"]})


def test_a_draft_is_a_bench_file():
    cabling = Cabling(pairs=[("pci-0000:04:00.0/1", "pci-0000:04:00.0")], alone=["pci-0000:02:00.0"])
    text = draft_bench('bench "1"', box(), cabling, PROFILES)
    bench = parse_bench(text)
    (made,) = bench.devices[0].links
    assert bench.station.name == 'bench "1"'
    assert (made.name, made.speed_bps) == ("p1", 10e9)
    assert [made.a.port, made.b.port] == ["pci-0000:04:00.0", "pci-0000:04:00.0/1"]
    assert bench.devices[0].model is None, "two models have these ports"
    assert '# model = "R86S-G2" # ports as of R86S-G2 and of R86S-U4: which one is it?' in text
    assert text.index("enp1s0") < text.index("enp2s0") < text.index("enp4s0d1")
    assert (
        '# port = "pci-0000:01:00.0": enp1s0, igc, firmware 1068:8754, PCI 0000:01:00.0, permanent MAC '
        "00:00:5e:00:53:01, up to 2.5G, now 2.5G, MTU up to 9216\n#     refused: it carries the default route" in text
    )
    assert "# cabled together: enp4s0 and enp4s0d1" in text
    assert "# a carrier, but none of the other probed ports at its end: enp2s0" in text


def test_a_draft_names_the_one_model_that_fits():
    machine = Told([reading(number, driver="r8169", most=1e9) for number in (1, 2, 3)])
    assert parse_bench(draft_bench("x", machine, None, PROFILES)).devices[0].model == "APU1"


def test_a_draft_of_nothing():
    text = draft_bench("x", Told([]), None, PROFILES)
    assert parse_bench(text).devices[0].links == ()
    assert "# Ports of this machine: none" in text


def test_a_draft_does_not_guess_a_speed():
    cabling = Cabling(pairs=[("pci-0000:01:00.0", "pci-0000:02:00.0")])
    text = draft_bench("x", Told([reading(1, most=None), reading(2, most=None)]), cabling, PROFILES)
    assert 'speed = "CHANGE-ME"' in text
    cabling.speeds_bps = {"pci-0000:01:00.0": 2.5e9, "pci-0000:02:00.0": 1e9}
    text = draft_bench("x", Told([reading(1, most=None), reading(2, most=None)]), cabling, PROFILES)
    assert 'speed = "1G"' in text


@pytest.mark.parametrize(
    ("heard", "dark", "found"),
    [
        ({"a": {"b"}, "b": {"a"}}, set(), Cabling(pairs=[("a", "b")])),
        ({"a": {"b"}, "b": {"a"}, "c": set()}, {"c"}, Cabling(pairs=[("a", "b")], dark=["c"])),
        ({"a": set(), "b": set()}, {"a"}, Cabling(alone=["b"], dark=["a"])),
        ({"a": {"b", "c"}, "b": {"a", "c"}, "c": {"a", "b"}}, set(), Cabling(shared=[("a", "b", "c")])),
        ({"a": {"b"}, "b": set()}, set(), Cabling(shared=[("a", "b")])),  # one way only is no cable
        ({"a": {"a"}, "b": set()}, set(), Cabling(shared=[("a",)], alone=["b"])),  # a loop plug
        (
            {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}},
            set(),
            Cabling(shared=[("a", "b", "c", "d")]),
        ),
        ({"d": {"c"}, "c": {"d"}, "a": {"b"}, "b": {"a"}}, set(), Cabling(pairs=[("a", "b"), ("c", "d")])),
    ],
)
def test_what_follows_from_who_heard_whom(heard, dark, found):
    assert sort_out(heard, dark) == found


@pytest.mark.parametrize(
    ("numbers", "bps"),
    [
        ((), None),
        ((6, 7, 13), None),  # autonegotiation, twisted pair, pause: no speed
        ((0, 1, 2, 3, 5, 6, 7), 1e9),
        ((5, 47), 2.5e9),  # igc
        ((12, 18), 10e9),  # mlx4 with a DAC cable
        ((31, 36, 69), 400e9),
        ((5, 140), None),  # a mode that this table does not know may be the fastest
    ],
)
def test_the_fastest_link_mode(numbers, bps):
    assert most_speed_bps(sum(1 << number for number in numbers)) == bps


def test_link_modes_are_read_as_the_kernel_lays_them_out(monkeypatch):
    """struct ethtool_link_settings of 48 bytes, then three sets of words: supported, advertised, of the partner."""
    asked = []

    class Driver(Ethtool):
        def ask(self, question, size=0):
            asked.append((question, size))
            words = [0xE1, 1 << 15, 0, *(0xFFFFFFFF,) * 6]
            return struct.pack("=IIBBBBBBBbBBBB28x9I", 0x4C, 1000, 1, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, *words)

    monkeypatch.setattr("pytest_netperf.links.ethtool._words_of_link_modes", lambda _: 3)
    with Driver("lo") as port:
        modes = port.supported_link_modes()
        assert port.link_mode_masks() == (modes, (1 << 96) - 1, (1 << 96) - 1)
    assert modes == 0xE1 | 1 << 47
    assert most_speed_bps(modes) == 2.5e9
    assert [size for _, size in asked] == [48 + 3 * 3 * 4] * 2
    monkeypatch.setattr("pytest_netperf.links.ethtool._words_of_link_modes", lambda _: 0)
    with Driver("lo") as port:
        assert port.supported_link_modes() == 0


ROUTED = """
  [[device.link]]
  name = "lan-wan"
  topology = "routed"
  speed = "2.5G"
  simulated = true

  [[device.state]]
  name = "nat"
  nat = true

  [[device.state]]
  name = "ips"
  inspection = { rules = 10 }
"""


@pytest.mark.parametrize("topology", ["routed", "switched"])
def test_programs_that_the_states_of_a_simulated_device_need(tmp_path, monkeypatch, topology):
    """A switch cannot be in these states, so nothing is missing for it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(device_states, "_SYSTEM_PATH", str(tmp_path))
    file = tmp_path / "bench.toml"
    file.write_text('[[device]]\nserial = "BOX-1"\n' + ROUTED.replace("routed", topology))
    (found,) = check_bench(file).links
    packages = [problem.rpartition(" ")[2] for problem in found.problems]
    assert packages == (["nftables", "iptables", "iptables"] if topology == "routed" else [])
