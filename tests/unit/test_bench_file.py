"""Bench files: what they say, and how everything that is wrong with them is reported."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_netperf.bench.bench_file import load_bench, parse_bench
from pytest_netperf.bench.builtin import builtin_bench, host_name
from pytest_netperf.bench.model import Bench, Fault, LinkSpec, Port
from pytest_netperf.errors import BenchError

DESIGN_EXAMPLE = """
[station]
name = "bench-1"
location = "hall 3"

[[device]]
serial = "R86S-U4-0007"
model  = "R86S-U4"
batch  = "2026-48"

  [[device.link]]
  name = "sfp"
  topology = "pair"
  a = { port = "pci-0000:04:00.0" }
  b = { port = "pci-0000:04:00.0/1" }
  speed = "10G"
  media = "dac"

  [[device.link]]
  name = "lan-wan"
  topology = "routed"
  a = { port = "mac-00:00:5e:00:53:01", address = "198.18.1.2/24", gateway = "198.18.1.1" }
  b = { port = "mac-00:00:5e:00:53:02", address = "198.18.2.2/24", gateway = "198.18.2.1", namespace = "wan" }
  speed = "2.5G"

  [[device.link]]
  name = "sim"
  topology = "pair"
  simulated = true
  speed = "2.5G"
  mtu = 9000
"""


def device(*lines: str, head: str = 'serial = "X-1"') -> str:
    return "\n".join(("[[device]]", head, *lines))


def link(*lines: str, simulated: bool = True) -> str:
    """A device with one link of these lines."""
    return device("[[device.link]]", 'name = "p1"', *(["simulated = true"] if simulated else []), *lines)


def sim(*lines: str) -> str:
    return link('speed = "2.5G"', *lines)


def mistakes(text: str) -> list[str]:
    with pytest.raises(BenchError) as caught:
        parse_bench(text, "b.toml")
    lines = str(caught.value).splitlines()
    assert all(line.startswith("b.toml: ") for line in lines), lines
    return [line.removeprefix("b.toml: ") for line in lines]


def only_mistake(text: str) -> str:
    found = mistakes(text)
    assert len(found) == 1, found
    return found[0]


def the_link(text: str) -> LinkSpec:
    return parse_bench(text).devices[0].links[0]


# ---- what a good file says -------------------------------------------------------------------------------------------


def test_the_example_of_the_design_is_read_whole():
    bench = parse_bench(DESIGN_EXAMPLE, "bench.toml")
    assert (bench.station.name, bench.station.location) == ("bench-1", "hall 3")
    assert (bench.path, bench.elastic) == ("bench.toml", False)
    (found,) = bench.devices
    assert (found.serial, found.model, found.batch) == ("R86S-U4-0007", "R86S-U4", "2026-48")
    sfp, lan_wan, sim_link = found.links
    assert sfp == LinkSpec(
        name="sfp",
        speed_bps=10e9,
        media="dac",
        a=Port(port="pci-0000:04:00.0"),
        b=Port(port="pci-0000:04:00.0/1"),
    )
    assert lan_wan.topology == "routed"
    assert lan_wan.a == Port(port="mac-00:00:5e:00:53:01", address="198.18.1.2/24", gateway="198.18.1.1")
    assert lan_wan.b is not None
    assert lan_wan.b.namespace == "wan"
    assert sim_link == LinkSpec(name="sim", speed_bps=2.5e9, mtu=9000, simulated=True)


def test_a_bench_can_be_a_test_parameter():
    bench = parse_bench(DESIGN_EXAMPLE)
    assert pickle.loads(pickle.dumps(bench)) == bench
    assert hash(pickle.loads(pickle.dumps(bench))) == hash(bench)
    with pytest.raises(AttributeError):
        bench.devices[0].serial = "other"


def test_a_file_is_read_with_its_hash(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(DESIGN_EXAMPLE)
    bench = load_bench(path)
    assert bench.sha256 == hashlib.sha256(DESIGN_EXAMPLE.encode()).hexdigest()
    assert bench.path == str(path)
    assert bench.devices == parse_bench(DESIGN_EXAMPLE).devices


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_bytes(b"\xef\xbb\xbf" + DESIGN_EXAMPLE.encode())
    assert load_bench(path).devices == parse_bench(DESIGN_EXAMPLE).devices


@pytest.mark.parametrize("text", [device(), "[station]\n" + device()])
def test_a_station_without_a_name_is_called_after_its_host(text):
    assert parse_bench(text).station.name == host_name() != ""


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ('{ rate = "1.9 Gbps" }', Fault(rate_bps=1.9e9)),
        ('{ loss = "0.5 %" }', Fault(loss_ratio=0.005)),
        ('{ loss = "10 ppm", direction = "a-to-b" }', Fault(loss_ratio=1e-5, direction="a-to-b")),
        (
            '{ rate = "900 Mbit/s", loss = "1 %", direction = "b-to-a" }',
            Fault(rate_bps=9e8, loss_ratio=0.01, direction="b-to-a"),
        ),
        ('{ rate = "500 Mbps", after = "4 s", for = 2.5 }', Fault(rate_bps=5e8, after_s=4.0, for_s=2.5)),
        ('{ loss = "0.5 %", burst = 50, after = "500 ms" }', Fault(loss_ratio=0.005, burst_frames=50, after_s=0.5)),
        ('{ loss = "0.5 %", loss_by = "netem" }', Fault(loss_ratio=0.005, loss_by="netem")),
        ('{ duplicate = "1 %", reorder = "0.5 %" }', Fault(duplicate_ratio=0.01, reorder_ratio=0.005)),
        ('{ mtu_hole = 1400, direction = "a-to-b" }', Fault(mtu_hole_bytes=1400, direction="a-to-b")),
        ('{ stall = true, flap = false, for = "1 min" }', Fault(stall=True, for_s=60.0)),
        ('{ flap = true, after = "2 s", for = "300 ms" }', Fault(flap=True, after_s=2.0, for_s=0.3)),
    ],
)
def test_faults(fault, expected):
    assert the_link(sim(f"fault = {fault}")).fault == expected


def test_only_a_fault_with_a_time_comes_and_goes_with_each_measurement():
    assert not Fault(stall=True).scheduled
    assert Fault(stall=True, after_s=1.0).scheduled
    assert Fault(stall=True, for_s=1.0).scheduled


@pytest.mark.parametrize(
    ("fault", "label"),
    [
        (Fault(rate_bps=1.9e9, direction="a-to-b"), "fault-rate1.9G-a-to-b"),
        (Fault(loss_ratio=0.005, burst_frames=50, after_s=4.0, for_s=0.5), "fault-loss0.5%-burst50-after4s-for0.5s"),
        (Fault(duplicate_ratio=0.01, reorder_ratio=0.02), "fault-duplicate1%-reorder2%"),
        (Fault(mtu_hole_bytes=1400), "fault-hole1400"),
        (Fault(loss_ratio=0.01, loss_by="classifier"), "fault-loss1%-by-classifier"),
        (Fault(stall=True, flap=True), "fault-stall-flap"),
    ],
)
def test_the_label_of_a_fault_says_all_of_it(fault, label):
    assert fault.label == label


def test_what_a_link_still_delivers_is_known_of_a_rate_alone():
    assert Fault(rate_bps=1e9, direction="a-to-b").only_rate_bps == 1e9
    assert Fault(rate_bps=1e9, after_s=1.0).only_rate_bps is None
    assert Fault(rate_bps=1e9, loss_ratio=0.01).only_rate_bps is None
    assert Fault(loss_ratio=0.01).only_rate_bps is None


def test_what_a_program_must_hold_up_needs_a_speed():
    found = only_mistake(link("shaped = false", 'fault = { reorder = "1 %" }'))
    assert "fault.reorder: needs a link with a speed" in found


def test_jumbo_frames_are_fewer():
    assert the_link(sim("mtu = 9000", 'fault = { duplicate = "10 %", mtu_hole = 1500 }')).fault is not None


def test_an_unshaped_link_needs_no_speed_and_promises_none():
    unshaped = the_link(link("shaped = false"))
    assert (unshaped.shaped, unshaped.speed_bps, unshaped.line_rate_bps) == (False, None, None)


def test_the_speed_of_an_unshaped_link_is_a_label_and_no_ceiling():
    unshaped = the_link(link("shaped = false", 'speed = "10G"'))
    assert (unshaped.speed_bps, unshaped.line_rate_bps) == (10e9, None)
    assert the_link(sim()).line_rate_bps == 2.5e9


def test_a_simulated_link_may_keep_the_ports_of_the_real_one():
    kept = the_link(sim('a = { port = "pci-0000:04:00.0" }', 'b = { port = "altname-enp4s0f1" }'))
    assert kept.a == Port(port="pci-0000:04:00.0")


@pytest.mark.parametrize(("a", "b"), [("198.18.1.2/31", "198.18.1.3/31"), ("2001:db8::1/64", "2001:db8::2/64")])
def test_addresses_of_both_families(a, b):
    found = the_link(
        sim(
            f'a = {{ port = "mac-00:00:5e:00:53:01", address = "{a}" }}',
            f'b = {{ port = "mac-00:00:5e:00:53:02", address = "{b}" }}',
        )
    )
    assert found.a is not None
    assert found.a.address == a


def test_a_topology_of_a_later_version_is_read_and_says_that_it_cannot_run():
    reason = the_link(sim('topology = "remote"')).unsupported_reason()
    assert reason is not None
    assert "'remote'" in reason
    assert "'p1'" in reason


@pytest.mark.parametrize("topology", ["routed", "switched"])
def test_a_device_in_the_middle_can_be_simulated(topology):
    found = the_link(sim(f'topology = "{topology}"', "device_mtu = 1400"))
    assert found.unsupported_reason() is None
    assert (found.topology, found.device_mtu) == (topology, 1400)


def test_pairs_can_run_in_this_version():
    assert the_link(sim()).unsupported_reason() is None
    physical, routed = parse_bench(DESIGN_EXAMPLE).devices[0].links[:2]
    assert physical.unsupported_reason() is None
    assert "gives a namespace for its end b" in (routed.unsupported_reason() or "")


def test_the_ports_of_a_link():
    physical = the_link(link(*BOTH_PORTS, simulated=False))
    assert [port.port for port in physical.physical_ports.values()] == ["pci-0000:04:00.0", "pci-0000:04:00.0/1"]
    assert not physical.without_hardware
    simulated = the_link(sim('a = { port = "pci-0000:04:00.0" }'))
    assert simulated.physical_ports == {}
    assert simulated.without_hardware


def test_what_an_end_allows():
    ends = [
        'a = { port = "altname-npt0", allow_addressed = true }',
        'b = { port = "altname-npt1", allow_virtual = true }',
    ]
    found = the_link(link(*ends, BOTH_PORTS[2], simulated=False))
    assert found.a == Port(port="altname-npt0", allow_addressed=True)
    assert found.b == Port(port="altname-npt1", allow_virtual=True)
    assert found.without_hardware, "one end without hardware is enough for SIMULATED"
    assert not found.simulated


@pytest.mark.parametrize("key", ["allow_addressed", "allow_virtual"])
def test_what_an_end_allows_is_true_or_false(key):
    assert f"{key}: 1 is not true or false" in port(f'{{ port = "pci-0000:04:00.0", {key} = 1 }}')


def test_a_namespace_cannot_be_given_to_a_physical_pair():
    ends = ['a = { port = "pci-0000:04:00.0", namespace = "lab" }', BOTH_PORTS[1], BOTH_PORTS[2]]
    reason = the_link(link(*ends, simulated=False)).unsupported_reason()
    assert "gives a namespace for its end a" in (reason or "")


def addressed(a: str | None, b: str | None, *more: str) -> str:
    ends = ((end, name, given) for end, name, given in (("a", "pci-0000:04:00.0", a), ("b", "pci-0000:04:00.1", b)))
    lines = [
        f'{end} = {{ port = "{name}"' + (f', address = "{given}"' if given else "") + " }" for end, name, given in ends
    ]
    return link(*lines, 'speed = "1G"', *more, simulated=False)


@pytest.mark.parametrize(
    ("a", "b"),
    [("198.18.1.2/24", "198.18.1.3/24"), ("198.18.0.0/31", "198.18.0.1/31"), ("2001:db8::1/64", "2001:db8::2/64")],
)
def test_addresses_of_a_pair(a, b):
    found = the_link(addressed(a, b))
    assert found.unsupported_reason() is None
    assert (found.a and found.a.address, found.b and found.b.address) == (a, b)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("198.18.1.2/24", None, "b.address: is missing, and the other end has 198.18.1.2/24; write one of the same"),
        (None, "2001:db8::1/64", "a.address: is missing, and the other end has 2001:db8::1/64"),
        ("198.18.1.2/24", "198.18.1.2/24", 'b.address: "198.18.1.2/24" is the address of end a too'),
        ("198.18.1.2/24", "198.18.2.3/24", "is not in the network of end a (198.18.1.2/24); the two ends of one cable"),
        ("198.18.1.2/24", "198.18.1.3/25", "write an address of 198.18.1.0/24"),
        ("198.18.1.2/24", "2001:db8::1/64", 'b.address: "2001:db8::1/64" is not in the network of end a'),
        ("fe80::1/64", "fe80::2/64", "a.address: fe80::1/64 is a link-local address"),
    ],
)
def test_addresses_that_are_no_neighbours(a, b, words):
    assert words in "\n".join(mistakes(addressed(a, b)))


def test_a_pair_has_no_gateway():
    a = 'a = { port = "pci-0000:04:00.0", address = "198.18.1.2/24", gateway = "198.18.1.1" }'
    b = 'b = { port = "pci-0000:04:00.1", address = "198.18.1.3/24" }'
    said = only_mistake(link(a, b, 'speed = "1G"', simulated=False))
    assert "a.gateway: a pair is one cable without a router; remove it" in said


def test_the_same_port_and_link_names_may_serve_several_devices():
    text = device('[[device.link]]\nname = "p"\nsimulated = true\nspeed = "1G"')
    assert len(parse_bench(text + "\n" + text.replace("X-1", "X-2")).devices) == 2


# ---- wrong files -----------------------------------------------------------------------------------------------------


def test_every_mistake_is_listed_at_once_with_its_place():
    text = """
        [station]
        nmae = "bench-1"
        [[device]]
        serial = "A"
        [[device]]
        serial = "A"
        modle = "x"
        [[device.link]]
        name = "p1"
        simulated = true
        speed = 2.5
        mtu = 20
        [[device.link]]
        name = "p1"
        speed = "2.5G"
        topology = "ruted"
        fault = { rate = "1.9 Gbps", lose = "1 %" }
    """
    found = mistakes(text)
    for place, words in {
        "station.nmae": "did you mean 'name'?",
        "device[1].serial": "used 2 times (device[0], device[1])",
        "device[1].modle": "did you mean 'model'?",
        "device[1].link[0].speed": "2.5 has no unit",
        "device[1].link[0].mtu": "20 is not an integer number of bytes from 68 to 65535",
        "device[1].link[1].name": '"p1" is used 2 times',
        "device[1].link[1].topology": "did you mean 'routed'?",
        "device[1].link[1].fault": "only a simulated link",
        "device[1].link[1].fault.lose": "known here: rate, loss, loss_by, burst, duplicate, reorder, mtu_hole, stall",
        "device[1].link[1].a": "is missing",
        "device[1].link[1].b": "is missing",
    }.items():
        assert any(line.startswith(f"{place}: ") and words in line for line in found), (place, words, found)
    assert len(found) == 11


@pytest.mark.parametrize("text", ["", "[station]\nname = 'x'", "# only a comment", "device = []"])
def test_an_empty_bench_is_a_mistake(text):
    assert "at least one device" in only_mistake(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[device]]", 'device[0].serial: is missing; write serial = "..."'),
        (device(head="serial = 7"), 'device[0].serial: 7 is not text; write serial = "7"'),
        (device(head="serial = true"), "device[0].serial: true is not text"),
        (device(head='serial = ""'), "device[0].serial: is empty"),
        (device(head='serial = "  "'), "device[0].serial: is empty"),
        (device(head='serial = ".."'), "starts with a dot"),
        (device(head='serial = ".hidden"'), "starts with a dot"),
        (device(head='serial = "a/../../etc"'), "contains a slash"),
        (device(head=r'serial = "a\\b"'), "contains a slash"),
        (device(head=r'serial = "a\u0000b"'), "control or invisible"),
        (device(head=r'serial = "a\nb"'), "control or invisible"),
        (device(head=r'serial = "a\u202eb"'), "control or invisible"),
        (device(head='serial = " a"'), "starts or ends with a space"),
        (device(head='serial = "a::b"'), "'::'"),
        (device(head='serial = "a[0]"'), "'['"),
        (device(head=f'serial = "{"x" * 101}"'), "is 101 characters long"),
        (device(head=f'serial = "{"☃" * 100}"'), "255 bytes"),
        (device("batch = 48"), 'device[0].batch: 48 is not text; write batch = "48"'),
        (device("link = 3"), "device[0].link: 3 is not a list of tables; write [[device.link]], with two brackets"),
        (device("link = [3]"), "device[0].link[0]: 3 is not a table; write [[device.link]]"),
        (device("[device.link]\nname = 'x'"), "write [[device.link]], with two brackets"),
        ("[device]\nserial = 'x'", "device: a table is not a list of tables; write [[device]], with two brackets"),
        ("station = 'x'\n" + device(), 'station: "x" is not a table'),
        ("stations = 1\n" + device(), "stations: unknown key (did you mean 'station'?); known here: station, device"),
        (device("[[device.link]]\nsimulated = true\nspeed = '1G'"), "device[0].link[0].name: is missing"),
        (sim('media = ["dac"]'), "device[0].link[0].media: a list is not text"),
    ],
)
def test_wrong_devices_and_names(text, words):
    assert words in only_mistake(text)


@pytest.mark.parametrize("name", ["x" * 100, "R86S U4 #7", "Gerät-7", "a.b", "-x"])
def test_names_that_can_be_a_folder(name):
    assert parse_bench(device(head=f'serial = "{name}"')).devices[0].serial == name


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("speed = 2.5", '2.5 has no unit; write text with a unit, such as "2.5G"'),
        ("speed = 1000", "1000 has no unit"),
        ("speed = nan", "nan has no unit"),
        ("speed = true", "true is not text with a unit"),
        ('speed = "2.5"', "unit"),
        ('speed = "2.5 parsec"', "parsec"),
        ('speed = "0G"', "above zero"),
        ('speed = "-1G"', "-1G"),
        ('speed = ""', "empty"),
        ("speed = { value = 1 }", "a table is not text with a unit"),
    ],
)
def test_wrong_speeds(line, words):
    found = only_mistake(link(line))
    assert found.startswith("device[0].link[0].speed: ")
    assert words in found


def test_a_shaped_link_without_a_speed():
    assert "device[0].link[0].speed: is missing" in only_mistake(link())


@pytest.mark.parametrize("mtu", ["67", "65536", "-1", "1500.0", '"1500"', "true", f"0x{'f' * 5000}"])
def test_wrong_mtus(mtu):
    found = only_mistake(sim(f"mtu = {mtu}"))
    assert "is not an integer number of bytes from 68 to 65535" in found
    assert len(found) < 200


@pytest.mark.parametrize("mtu", [68, 65535])
def test_the_smallest_and_the_largest_mtu(mtu):
    assert the_link(sim(f"mtu = {mtu}")).mtu == mtu


@pytest.mark.parametrize("value", ['"yes"', "1", '"true"'])
def test_flags_are_booleans_and_a_wrong_one_is_one_mistake(value):
    assert "simulated: " in only_mistake(device(f"[[device.link]]\nname='p'\nspeed='1G'\nsimulated = {value}"))
    assert "is not true or false (without quotes)" in only_mistake(sim(f"shaped = {value}"))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("{}", "fault: names no fault"),
        ('{ direction = "both" }', "fault: names no fault"),
        ('"bad"', 'fault: "bad" is not a table'),
        ("{ rate = 1.9 }", "fault.rate: 1.9 has no unit"),
        ('{ rate = "0 Gbps" }', "fault.rate: "),
        ('{ rate = "2.5 Gbps" }', "fault.rate: 2.5G is not below the speed of the link (2.5G)"),
        ('{ rate = "3 Gbps" }', "fault.rate: 3G is not below the speed of the link (2.5G)"),
        ("{ loss = 0.005 }", "fault.loss: 0.005 has no unit"),
        ('{ loss = "0 %" }', "fault.loss: 0 % is not from 0.0001 % to 50 %"),
        ('{ loss = "0.00009 %" }', "fault.loss: 9e-05 % is not from 0.0001 % to 50 %"),
        ('{ loss = "50.1 %" }', "fault.loss: 50.1 % is not from 0.0001 % to 50 %"),
        ('{ loss = "100 %" }', "fault.loss: 100 % is not from 0.0001 % to 50 %"),
        ('{ loss = "150 %" }', "fault.loss: 150 % is not from 0.0001 % to 50 %"),
        ('{ loss = "-1 %" }', "fault.loss: "),
        ('{ loss = "1 %", direction = "up" }', 'fault.direction: "up" is not one of both, a-to-b, b-to-a'),
        ('{ loss = "1 %", direction = "a-to-B" }', "did you mean 'a-to-b'"),
        ('{ loss = "1 %", delay = "1 ms" }', "fault.delay: unknown key"),
        ('{ duplicate = "60 %" }', "fault.duplicate: 60 % is not from 0.0001 % to 50 %"),
        ("{ duplicate = 0.01 }", "fault.duplicate: 0.01 has no unit"),
        (
            '{ duplicate = "50 %" }',
            "fault.duplicate: 50 % of the frames of a 2.5G link at MTU 1500 are 101593 each second",
        ),
        ('{ duplicate = "50 %" }', "up to 5000: at most 2.5 % here"),
        ('{ reorder = "3 %" }', "fault.reorder: 3 % of the frames of a 2.5G link"),
        ('{ reorder = "1" }', "fault.reorder: "),
        ('{ reordr = "1 %", loss = "1 %" }', "fault.reordr: unknown key (did you mean 'reorder'?)"),
        ('{ mtu_hole = "1400" }', 'fault.mtu_hole: "1400" is not an integer number of bytes from 68 to 65534'),
        ("{ mtu_hole = 60 }", "fault.mtu_hole: 60 is not an integer number of bytes from 68 to 65534"),
        ("{ mtu_hole = 1500 }", "fault.mtu_hole: 1500 bytes are not below the MTU of the link (1500)"),
        ("{ mtu_hole = 9000 }", "so nothing would vanish"),
        ('{ mtu-hole = 1400, loss = "1 %" }', "fault.mtu-hole: unknown key (did you mean 'mtu_hole'?)"),
        ('{ stall = "yes" }', 'fault.stall: "yes" is not true or false'),
        ("{ stall = false }", "fault: names no fault"),
        ("{ flap = true }", "fault.flap: the carrier goes down and comes back; say how long it is down, such as for ="),
        ('{ flap = true, for = "1 s", direction = "a-to-b" }', "fault.direction: both ends lose the carrier"),
        ('{ flap = true, for = "1 s", loss = "1 %" }', "fault.flap: stands beside loss"),
        ('{ stall = true, rate = "1 Gbps", mtu_hole = 1400 }', "fault.stall: stands beside rate, mtu_hole"),
        ("{ burst = 50, stall = true }", "fault.burst: says how many frames in a row each loss takes; give the share"),
        ('{ loss_by = "netem", stall = true }', "fault.loss_by: says what loses frames; give the share too"),
        ('{ loss = "1 %", burst = 9, loss_by = "netem" }', "fault.loss_by: stands beside burst: bursts are lost by a"),
        ('{ loss = "1 %", loss_by = "netm" }', 'fault.loss_by: "netm" is not one of netem, classifier'),
        ('{ loss = "1 %", loss_by = true }', "fault.loss_by: true is not"),
        ('{ loss = "1 %", burst = 1 }', "fault.burst: 1 is not an integer number of frames from 2 to 10000"),
        ('{ loss = "1 %", burst = "50" }', 'fault.burst: "50" is not an integer number of frames'),
        ('{ after = "4 s" }', "fault: names no fault"),
        ('{ loss = "1 %", after = "4 parsec" }', "fault.after: "),
        ('{ loss = "1 %", after = 0 }', "fault.after: 0 is not a finite number above zero"),
        ('{ loss = "1 %", after = -1 }', "fault.after: "),
        ('{ loss = "1 %", for = "0 s" }', 'fault.for: "0 s" is not a finite number above zero'),
        ('{ loss = "1 %", for = true }', "fault.for: true is not text with a unit"),
        ('{ loss = "1 %", for = "2 d" }', "fault.for: 172800 s are longer than a day"),
        ('{ loss = "1 %", from = "2 s" }', "fault.from: unknown key"),
    ],
)
def test_wrong_faults(fault, words):
    found = only_mistake(sim(f"fault = {fault}"))
    assert found.startswith("device[0].link[0].")
    assert words in found


BOTH_PORTS = ('a = { port = "pci-0000:04:00.0" }', 'b = { port = "pci-0000:04:00.0/1" }', 'speed = "2.5G"')


def test_only_simulated_links_can_be_faulty_or_unshaped():
    assert "fault: only a simulated link" in only_mistake(
        link(*BOTH_PORTS, 'fault = { loss = "1 %" }', simulated=False)
    )
    assert "shaped: only a simulated link" in only_mistake(link(*BOTH_PORTS, "shaped = false", simulated=False))


def test_a_physical_link_needs_both_ports():
    assert "device[0].link[0].b: is missing" in only_mistake(link(*BOTH_PORTS[::2], simulated=False))
    assert len(mistakes(link(BOTH_PORTS[2], simulated=False))) == 2


def port(text: str) -> str:
    return only_mistake(link(f"a = {text}", *BOTH_PORTS[1:], simulated=False))


@pytest.mark.parametrize(
    "name",
    ["pci-04:00.0", "mac-00:00:5e:00:53", "altname-", "pci-0000:04:00.9", "mac-", "..", "a/b", "sixteen-letters-"],
)
def test_names_that_no_port_has(name):
    assert "survives a reboot" in port(f'{{ port = "{name}" }}')


@pytest.mark.parametrize("name", ["eth0", "enp3s0", "enp4s0d1", "lan.7"])
def test_the_name_of_the_kernel_is_taken(name):
    found = the_link(link(f'a = {{ port = "{name}" }}', *BOTH_PORTS[1:], simulated=False))
    assert found.a is not None
    assert found.a.port == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "a.port: is missing"),
        ('"pci-0000:04:00.0"', "a: "),
        ('{ port = "pci-0000:04:00.0", adress = "198.18.1.2/24" }', "a.adress: unknown key (did you mean 'address'"),
        ('{ port = "pci-0000:04:00.0", address = "198.18.1.2" }', "has no prefix length"),
        ('{ port = "pci-0000:04:00.0", address = "198.18.1.256/24" }', "is not an IP address"),
        ('{ port = "pci-0000:04:00.0", address = "198.18.1.2/33" }', "is not an IP address"),
        ('{ port = "pci-0000:04:00.0", address = "198.18.1.0/24" }', "is the network address of 198.18.1.0/24"),
        ('{ port = "pci-0000:04:00.0", address = "198.18.1.255/24" }', "is the broadcast address"),
        ('{ port = "pci-0000:04:00.0", address = "127.0.0.1/8" }', "cannot be the address of a port"),
        ('{ port = "pci-0000:04:00.0", address = "224.0.0.1/8" }', "cannot be the address of a port"),
        ('{ port = "pci-0000:04:00.0", gateway = "198.18.1.1" }', "a.gateway: needs an address"),
        (
            '{ port = "pci-0000:04:00.0", address = "198.18.1.2/24", gateway = "198.18.2.1" }',
            "outside its network",
        ),
        (
            '{ port = "pci-0000:04:00.0", address = "198.18.1.2/24", gateway = "198.18.1.2" }',
            "is the address of the port itself",
        ),
        (
            '{ port = "pci-0000:04:00.0", address = "198.18.1.2/24", gateway = "198.18.1.1/24" }',
            "is not an IP address; write one such as 198.18.1.1, without prefix",
        ),
        (
            '{ port = "pci-0000:04:00.0", address = "198.18.1.2/24", gateway = "2001:db8::1" }',
            "outside its network",
        ),
        ('{ port = "PCI-0000:04:00.0" }', "survives a reboot"),
    ],
)
def test_wrong_ports(text, words):
    assert words in port(text)


def test_a_gateway_may_be_link_local():
    ends = [
        f'{end} = {{ port = "mac-00:00:5e:00:53:0{n}", address = "198.18.{n}.2/24", gateway = "198.18.{n}.1", '
        f'address6 = "2001:db8:{n}::2/64", gateway6 = "fe80::{n}" }}'
        for n, end in enumerate("ab")
    ]
    found = the_link(link(*ends, 'speed = "1G"', 'topology = "routed"', simulated=False))
    assert found.a is not None
    assert found.a.gateway6 == "fe80::0"


def test_a_link_does_not_join_a_port_to_itself():
    same = ('a = { port = "mac-00:00:5e:00:53:AB" }', 'b = { port = "mac-00:00:5e:00:53:ab" }', 'speed = "1G"')
    assert "is the port of end a too" in only_mistake(link(*same, simulated=False))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[[device]]\nserial = R86S\n", 2, "serial = R86S"),
        ("[[device]\nserial = 'x'", 1, "[[device]"),
        ("[[device]]\r\nserial = 'x'\r\nserial = 'y'\r\n", 3, ""),
    ],
)
def test_broken_toml_names_line_and_column(text, line, words):
    found = only_mistake(text)
    assert found.startswith(f"line {line}, column ")
    assert "broken TOML" in found
    assert words in found


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "9" * 5000, "[[device]]\nserial = 'x"])
def test_toml_that_breaks_its_reader_is_broken_toml(text):
    assert "broken TOML" in only_mistake(text)


# ---- files that cannot be read ---------------------------------------------------------------------------------------


def refused(path: Path | str) -> str:
    with pytest.raises(BenchError) as caught:
        load_bench(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


def test_files_that_cannot_be_read(tmp_path):
    assert "there is no such bench file" in refused(tmp_path / "none.toml")
    assert "there is no such bench file" in refused(tmp_path / "no" / "folder.toml")
    assert "is a directory" in refused(tmp_path)
    assert "is not a regular file" in refused("/dev/zero")
    assert "cannot be read" in refused(tmp_path / ("x" * 300))
    (tmp_path / "file").touch()
    assert "cannot be read: Not a directory" in refused(tmp_path / "file" / "bench.toml")
    assert "cannot be read" in refused("a\0b")


def test_a_file_that_nobody_may_read(tmp_path, monkeypatch):
    path = tmp_path / "bench.toml"
    path.write_text(DESIGN_EXAMPLE)

    def deny(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", deny)  # root may read everything, so that a mode would not do
    assert refused(path) == "the bench file cannot be read: Permission denied"


def test_a_file_that_is_not_utf_8(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_bytes(b'[station]\nname = "Pr\xfcfstand"\n')
    assert refused(path) == "line 2: byte 0xfc is not UTF-8; save the bench file as UTF-8"


# ---- whatever the input ----------------------------------------------------------------------------------------------

toml_values = st.recursive(
    st.sampled_from(["1", "2.5", "true", "nan", '""', '"x"', '"2.5G"', '"1 %"', "[]", "{}", "1979-05-27", "07:32:00"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(
            st.sampled_from(["rate", "loss", "port", "address", "gateway", "name", "serial", "link"]), inner, max_size=3
        ).map(lambda items: "{" + ", ".join(f"{key} = {value}" for key, value in items.items()) + "}"),
    ),
    max_leaves=6,
)
keys = st.sampled_from(["name", "topology", "simulated", "shaped", "speed", "mtu", "media", "fault", "a", "b", "odd"])


@given(
    st.dictionaries(keys, toml_values, max_size=6), st.dictionaries(st.sampled_from(["station", "device"]), toml_values)
)
@settings(deadline=None, max_examples=200)
def test_any_toml_is_a_bench_or_a_listed_mistake(link_keys, root_keys):
    lines = [f"{key} = {value}" for key, value in link_keys.items()]
    texts = ["\n".join(f"{key} = {value}" for key, value in root_keys.items()), device("[[device.link]]", *lines)]
    refusals: list[str] = []
    for text in texts:
        try:
            bench = parse_bench(text, "b.toml")
        except BenchError as error:
            refusals.append(str(error))
            continue
        assert isinstance(bench, Bench)
        assert bench.devices
        for found in bench.devices[0].links:
            assert found.speed_bps is not None or (found.simulated and not found.shaped)
            assert found.simulated or (found.a and found.b)
    assert all(line.startswith("b.toml: ") for refusal in refusals for line in refusal.splitlines())


@given(st.text(max_size=60))
@settings(deadline=None, max_examples=200)
def test_any_text_is_a_bench_or_a_mistake(text):
    with pytest.raises(BenchError):
        parse_bench(text)


# ---- the built-in bench ----------------------------------------------------------------------------------------------


def test_the_builtin_bench():
    bench = builtin_bench()
    assert (bench.elastic, bench.path, bench.sha256) == (True, None, None)
    assert bench.station.name == host_name()
    (only,) = bench.devices
    assert (only.serial, only.model) == ("SIM-0001", "simulated")
    assert only.links == (LinkSpec(name="sim-1G", speed_bps=1e9, simulated=True),)
    assert only.links[0].unsupported_reason() is None


# ---- the tester's own cable ------------------------------------------------------------------------------------------

CABLE = '[[station.reference]]\nname = "loop"\nspeed = "2.5G"\n'
DEVICE = '[[device]]\nserial = "A"\n'


def test_a_cable_of_the_tester_itself():
    (link,) = parse_bench(f"{CABLE}simulated = true\n{DEVICE}").station.reference
    assert (link.name, link.speed_bps, link.simulated, link.unsupported_reason()) == ("loop", 2.5e9, True, None)


def test_a_physical_cable():
    ports = 'a = { port = "pci-0000:04:00.0" }\nb = { port = "pci-0000:04:00.1" }\n'
    (link,) = parse_bench(f"{CABLE}{ports}{DEVICE}").station.reference
    assert (link.simulated, link.unsupported_reason()) == (False, None)


@pytest.mark.parametrize(
    ("line", "where", "problem"),
    [
        ('topology = "routed"', "topology", '"routed" is not a cable only'),
        ('fault = { loss = "1 %" }', "fault", "a reference shows what the tester can do, so it has no fault"),
        ("shaped = false", "shaped", "an unshaped pair is measured in any case"),
        ("mtu = 9000", "mtu", "a reference is measured at the MTUs that the tests need"),
        ("cables = 1", "cables", "unknown key"),
    ],
)
def test_a_reference_is_a_cable_only(line, where, problem):
    with pytest.raises(BenchError) as refused:
        parse_bench(f"{CABLE}simulated = true\n{line}\n{DEVICE}", "b.toml")
    assert str(refused.value).startswith(f"b.toml: station.reference[0].{where}: {problem}")


def test_two_references_need_two_names():
    with pytest.raises(BenchError, match=r'station\.reference\[1\]\.name: "loop" is used 2 times'):
        parse_bench(f"{CABLE}simulated = true\n" * 2 + DEVICE)
