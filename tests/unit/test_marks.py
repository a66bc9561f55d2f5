"""Marks: what netperf_link and netperf_limit mean, which plans come of them, and how wrong ones are refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.builtin import builtin_bench
from pytest_netperf.bench.model import Fault
from pytest_netperf.errors import MarkError
from pytest_netperf.marks import LinkSettings, limits_from_marks, link_settings, plan_links

BENCH = parse_bench(
    """
    [[device]]
    serial = "R86S-0007"
    model = "R86S-U4"
      [[device.link]]
      name = "sfp1"
      a = { port = "pci-0000:04:00.0" }
      b = { port = "pci-0000:04:00.0/1" }
      speed = "10G"
      media = "dac"
      mtu = 9000
      [[device.link]]
      name = "p1"
      simulated = true
      speed = "2.5G"
      [[device.link]]
      name = "p2"
      simulated = true
      speed = "2.5G"
      fault = { rate = "1.9 Gbps" }
    [[device]]
    serial = "APU-0001"
    model = "apu1c"
      [[device.link]]
      name = "lan-wan"
      topology = "routed"
      simulated = true
      speed = "1G"
    """,
    "bench.toml",
)


def link(*args: object, **kwargs: object) -> pytest.Mark:
    # As pytest.mark.netperf_link(...).mark, which under --strict-markers needs the whole plugin.
    return pytest.Mark("netperf_link", args, kwargs, _ispytest=True)


def plans(*marks: pytest.Mark, bench=BENCH, devices=()):
    return plan_links(bench, link_settings(marks), devices)


def ids(*marks: pytest.Mark, bench=BENCH, devices=()) -> list[str]:
    return [plan.id for plan in plans(*marks, bench=bench, devices=devices)]


def refused(*marks: pytest.Mark, bench=BENCH) -> str:
    with pytest.raises(MarkError) as caught:
        plans(*marks, bench=bench)
    return str(caught.value)


# ---- requirements select links ---------------------------------------------------------------------------------------


def test_without_marks_every_link_of_every_device():
    assert ids() == ["R86S-0007/sfp1", "R86S-0007/p1", "R86S-0007/p2", "APU-0001/lan-wan"]
    assert ids(link()) == ids()


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"speed": "2.5G"}, ["R86S-0007/p1", "R86S-0007/p2"]),
        ({"speed": "2500 Mbit/s"}, ["R86S-0007/p1", "R86S-0007/p2"]),
        ({"speed": ["10G", "1G"]}, ["R86S-0007/sfp1", "APU-0001/lan-wan"]),
        ({"name": "p1"}, ["R86S-0007/p1"]),
        ({"name": "p*"}, ["R86S-0007/p1", "R86S-0007/p2"]),
        ({"name": ["p2", "sfp?"]}, ["R86S-0007/sfp1", "R86S-0007/p2"]),
        ({"media": "dac"}, ["R86S-0007/sfp1"]),
        ({"topology": "routed"}, ["APU-0001/lan-wan"]),
        ({"topology": ("routed", "pair")}, ["R86S-0007/sfp1", "R86S-0007/p1", "R86S-0007/p2", "APU-0001/lan-wan"]),
        ({"simulated": False}, ["R86S-0007/sfp1"]),
        ({"simulated": True, "device": "R86S-0007"}, ["R86S-0007/p1", "R86S-0007/p2"]),
        ({"device": "APU*"}, ["APU-0001/lan-wan"]),
        ({"model": "R86S-*", "speed": "10G"}, ["R86S-0007/sfp1"]),
        ({"model": ["apu1c", "not on this bench"]}, ["APU-0001/lan-wan"]),
    ],
)
def test_requirements(kwargs, expected):
    assert ids(link(**kwargs)) == expected


def test_the_command_line_leaves_devices_out():
    assert ids(devices=("APU-0001",)) == ["APU-0001/lan-wan"]


def test_no_plans_when_the_links_that_fit_belong_to_devices_that_were_left_out():
    assert ids(link(speed="10G"), devices=("APU-0001",)) == []


def test_a_plan_says_what_it_is_made_of():
    (plan,) = plans(link(speed="10G"))
    assert plan.device is BENCH.devices[0]
    assert plan.link == BENCH.devices[0].links[0]
    assert plan.settings == LinkSettings(mtu=9000)


def test_plans_are_values():
    made, again = (plans(link(mtu=[1500, 9000], fault={"loss": "1 %"}, simulated=True)) for _ in range(2))
    assert made == again
    assert set(made) == set(pickle.loads(pickle.dumps(made)))
    assert len(set(made)) == len(made) == 6


# ---- settings sweep --------------------------------------------------------------------------------------------------


def test_the_mtu_is_that_of_the_mark_else_of_the_bench_else_1500():
    assert [plan.settings.mtu for plan in plans()] == [9000, 1500, 1500, 1500]
    assert [plan.link.mtu for plan in plans()] == [9000, 1500, 1500, 1500]
    assert (
        {plan.settings.mtu for plan in plans(link(mtu=4000))}
        == {plan.link.mtu for plan in plans(link(mtu=4000))}
        == {4000}
    )


def test_a_list_is_a_sweep_in_the_order_it_is_written():
    assert ids(link(name="p1", mtu=[9000, 1500])) == ["R86S-0007/p1/mtu9000", "R86S-0007/p1/mtu1500"]


def test_lists_are_combined_the_last_setting_varies_fastest_whatever_the_order_of_the_arguments():
    expected = [
        f"R86S-0007/p1/mtu{mtu}/mss{mss}/{copy}"
        for mtu in (1500, 9000)
        for mss in (88, 1240)
        for copy in ("no-zerocopy", "zerocopy")
    ]
    assert ids(link(name="p1", mtu=[1500, 9000], mss=[88, 1240], zerocopy=[False, True])) == expected
    assert ids(link(zerocopy=[False, True], mss=[88, 1240], mtu=[1500, 9000], name="p1")) == expected


@pytest.mark.parametrize(
    ("kwargs", "part", "field", "value"),
    [
        ({"mtu": 9000}, "mtu9000", "mtu", 9000),
        ({"mss": 1240}, "mss1240", "mss_bytes", 1240),
        ({"mss": None}, "mss-default", "mss_bytes", None),
        ({"congestion": "bbr"}, "bbr", "congestion", "bbr"),
        ({"congestion": None}, "congestion-default", "congestion", None),
        ({"window": "4 MiB"}, "window4194304", "window_bytes", 4194304),
        ({"window": None}, "window-default", "window_bytes", None),
        ({"zerocopy": True}, "zerocopy", "zerocopy", True),
        ({"zerocopy": False}, "no-zerocopy", "zerocopy", False),
        ({"ip_version": 6}, "ipv6", "ip_version", 6),
        ({"ip_version": 4}, "ipv4", "ip_version", 4),
    ],
)
def test_settings_of_the_traffic(kwargs, part, field, value):
    (plan,) = plans(link(name="p1", **kwargs))
    assert plan.id == f"R86S-0007/p1/{part}"
    assert getattr(plan.settings, field) == value


@pytest.mark.parametrize(
    ("kwargs", "part", "fault", "shaped"),
    [
        ({"fault": {"rate": "1.9 Gbps"}}, "fault-rate1.9G", Fault(rate_bps=1.9e9), True),
        (
            {"fault": {"loss": "0.5 %", "direction": "b-to-a"}},
            "fault-loss0.5%-b-to-a",
            Fault(loss_ratio=0.005, direction="b-to-a"),
            True,
        ),
        ({"fault": None}, "no-fault", None, True),
        ({"shaped": False}, "unshaped", Fault(rate_bps=1.9e9), False),
        ({"shaped": True}, "shaped", Fault(rate_bps=1.9e9), True),
    ],
)
def test_settings_of_a_simulated_link_replace_those_of_the_bench(kwargs, part, fault, shaped):
    (plan,) = plans(link(name="p2", **kwargs))
    assert plan.id == f"R86S-0007/p2/{part}"
    assert (plan.link.fault, plan.link.shaped) == (fault, shaped)
    assert plan.link.line_rate_bps == (2.5e9 if shaped else None)


def test_a_good_and_a_bad_link_in_one_sweep():
    good, bad = plans(link(name="p1", fault=[None, {"loss": "1 %"}]))
    assert (good.link.fault, bad.link.fault) == (None, Fault(loss_ratio=0.01))


def test_the_scope():
    assert {plan.settings.scope for plan in plans()} == {"session"}
    assert {plan.settings.scope for plan in plans(link(scope="function"))} == {"function"}
    assert ids(link(scope="function")) == ids()


def test_the_closest_mark_wins_for_each_argument():
    function, cls, module = link(mtu=9000), link(mtu=[1500, 4000], speed="2.5G"), link(speed="10G", name="p1", mss=88)
    assert ids(function, cls, module) == ["R86S-0007/p1/mtu9000/mss88"]


def test_plans_are_the_same_in_every_process():
    code = (
        "from pytest_netperf.marks import *; from pytest_netperf.bench.builtin import *; import pytest;"
        "m = pytest.mark.netperf_link(speed=['1G', '2.5G'], congestion=['bbr', 'cubic'], mtu=[1500, 9000],"
        " fault=[None, {'loss': '1 %', 'direction': 'a-to-b'}]).mark;"
        "print([p.id for p in plan_links(builtin_bench(), link_settings([m]))])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert printed.pop().count("SIM-0001/sim-") == 16


# ---- the built-in bench ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({}, ["SIM-0001/sim-1G"]),
        ({"mtu": 9000}, ["SIM-0001/sim-1G/mtu9000"]),
        ({"speed": "2.5G"}, ["SIM-0001/sim-2.5G"]),
        ({"speed": ["100M", "10G"]}, ["SIM-0001/sim-100M", "SIM-0001/sim-10G"]),
        ({"speed": "2.5G", "name": "sim-*", "topology": "pair", "simulated": True}, ["SIM-0001/sim-2.5G"]),
        ({"shaped": False}, ["SIM-0001/sim-1G/unshaped"]),
    ],
)
def test_the_builtin_bench_has_a_link_of_any_speed(kwargs, expected):
    made = plans(link(**kwargs), bench=builtin_bench())
    assert [plan.id for plan in made] == expected
    assert all(plan.link.unsupported_reason() is None for plan in made)


def test_a_link_that_the_builtin_bench_cannot_have():
    found = refused(link(speed="10G", topology="routed"), bench=builtin_bench())
    assert "netperf_link(speed='10G', topology='routed'): no link of the built-in bench fits" in found
    assert "--netperf-bench" in found
    assert "SIM-0001/sim-10G: its topology is 'pair', not 'routed'" in found


# ---- no link fits ----------------------------------------------------------------------------------------------------


def test_when_no_link_fits_every_link_says_why_not():
    lines = refused(link(speed="5G", simulated=True, media="dac", model="R86S*")).splitlines()
    assert lines[0] == (
        "netperf_link(speed='5G', media='dac', simulated=True, model='R86S*'): no link of the bench bench.toml fits. "
        "Tried:"
    )
    assert lines[1:] == [
        "  R86S-0007/sfp1: its speed is 10G, not 5G; it is not simulated",
        "  R86S-0007/p1: its speed is 2.5G, not 5G; its media is not given, not 'dac'",
        "  R86S-0007/p2: its speed is 2.5G, not 5G; its media is not given, not 'dac'",
        "  APU-0001/lan-wan: its speed is 1G, not 5G; its media is not given, not 'dac'; "
        "its model is 'apu1c', not 'R86S*'",
    ]


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"speed": ["2.5G", "5G"]}, "fits with speed 5G. Tried:"),
        ({"name": ["p1", "p3"]}, "fits with name 'p3'. Tried:"),
        ({"device": "R86S-0008"}, "its device is 'R86S-0007', not 'R86S-0008'"),
        ({"simulated": False, "speed": "1G"}, "it is simulated"),
        ({"name": "P1"}, "its name is 'p1', not 'P1'"),
    ],
)
def test_what_is_listed_must_be_found_like_what_stands_alone(kwargs, words):
    assert words in refused(link(**kwargs))


def test_the_device_filter_does_not_hide_that_nothing_fits():
    with pytest.raises(MarkError, match="no link of the bench"):
        plans(link(speed="5G"), devices=("APU-0001",))


def test_a_bench_without_links():
    assert "It has no links at all." in refused(link(), bench=parse_bench("[[device]]\nserial = 'A'"))


def test_a_long_list_of_tried_links_is_cut():
    links = "\n".join(f"[[device.link]]\nname='p{n}'\nsimulated=true\nspeed='1G'" for n in range(100))
    found = refused(link(speed="5G"), bench=parse_bench(f"[[device]]\nserial='A'\n{links}"))
    assert "... and 70 more" in found
    assert len(found.splitlines()) == 32


def test_a_name_may_contain_what_a_pattern_would_mean():
    bench = parse_bench("[[device]]\nserial='A'\n[[device.link]]\nname='p?*'\nsimulated=true\nspeed='1G'")
    assert ids(link(name="p?*"), bench=bench) == ["A/p?*"]


# ---- settings of ports -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "part", "sent", "words"),
    [
        ({"offloads": {"gro": True, "tso": False}}, "tso-off-gro-on", {"offloads": {"tso": False, "gro": True}},
         {"offloads": "tso off, gro on"}),
        ({"ring": {"tx": 64, "rx": 512}}, "ring-rx-512-tx-64", {"ring": {"rx": 512, "tx": 64}},
         {"ring": "rx 512, tx 64"}),
        ({"pause": {"rx": False, "autoneg": False}}, "pause-autoneg-off-rx-off",
         {"pause": {"autoneg": False, "rx": False}}, {"pause": "autoneg off, rx off"}),
        ({"eee": False}, "eee-off", {"eee": False}, {"eee": "off"}),
        ({"negotiation": {"speed": "100M", "duplex": "half", "autoneg": False}}, "100M-half-forced",
         {"negotiation": {"mbps": 100, "duplex": "half", "autoneg": False}},
         {"negotiation": "100M half duplex, forced"}),
        ({"negotiation": {"speed": "10 Gbps"}}, "10G-full-negotiated",
         {"negotiation": {"mbps": 10_000, "duplex": "full", "autoneg": True}},
         {"negotiation": "10G full duplex, negotiated"}),
        ({"irq_cpus": "0-1,4"}, "irq-cpus-0-1-4", {"irq_cpus": "0-1,4"}, {"irq_cpus": "0-1,4"}),
        ({"governor": "performance"}, "governor-performance", {"governor": "performance"},
         {"governor": "performance"}),
        ({"offloads": None}, "offloads-default", {}, {}),
    ],
)  # fmt: skip
def test_settings_of_ports(kwargs, part, sent, words):
    (plan,) = plans(link(name="sfp1", **kwargs))
    assert plan.id == f"R86S-0007/sfp1/{part}"
    assert plan.settings.of_ports == sent
    assert plan.settings.port_conditions == words
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert {plan}


def test_a_sweep_over_settings_of_ports():
    """What is asked for is what the link can carry then."""
    asked = [{"speed": "100M", "autoneg": False}, {"speed": "1G"}, None]
    found = plans(link(name="sfp1", negotiation=asked, ring=[{"rx": 64}, {"rx": 512}]))
    assert [plan.link.speed_bps for plan in found] == [100e6, 1e9, 10e9] * 2
    assert len({plan.id for plan in found}) == 6
    (simulated,) = plans(link(name="p1", offloads={"tso": False}))
    assert simulated.settings.of_ports == {"offloads": {"tso": False}}


# ---- settings that cannot be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        (
            {"name": "p1", "mss": 1461},
            "impossible on R86S-0007/p1/mss1461: an MSS of 1461 does not fit into an MTU of 1500",
        ),
        ({"name": "p1", "mss": 1441, "ip_version": 6}, "at most 1440 over IPv6"),
        ({"name": "p1", "mtu": [9000, 1500], "mss": 8960}, "R86S-0007/p1/mtu1500/mss8960"),
        ({"name": "p1", "ip_version": 6, "mtu": 1279}, "IPv6 needs an MTU of at least 1280, not 1279"),
        ({"fault": {"loss": "1 %"}}, "R86S-0007/sfp1/fault-loss1%: a fault, or shaped=False, works on simulated links"),
        ({"shaped": False}, "add simulated=True"),
        ({"name": "p1", "fault": {"rate": "2.5 Gbps"}}, "2.5G is not below the speed of the link (2.5G)"),
        ({"simulated": True, "fault": {"rate": "1.9 Gbps"}}, "APU-0001/lan-wan/fault-rate1.9G"),
        ({"name": "p1", "ring": {"rx": 64}}, "ring is a setting of physical ports, and this link is simulated"),
        ({"name": "p1", "fault": {"loss": "1 %"}, "offloads": {"tso": True, "gro": True, "gso": True}},
         "its fault decides on single frames, which needs tso and gro off"),
        ({"name": "p1", "eee": True, "governor": "ondemand"}, "eee and governor are settings of physical ports"),
        ({"name": "sfp1", "negotiation": {"speed": "25G"}},
         "negotiation asks for 25G full duplex, negotiated, and the link is one of 10G"),
    ],
)  # fmt: skip
def test_impossible_conditions(kwargs, words):
    assert words in refused(link(**kwargs))


@pytest.mark.parametrize(
    "kwargs",
    [
        {"mss": 1460},
        {"mss": 1440, "ip_version": 6},
        {"ip_version": 6, "mtu": 1280},
        {"mtu": 68},
        {"mtu": 65535},
        {"shaped": False, "fault": {"rate": "9 Gbps"}},
        {"fault": {"rate": "1 Gbps"}, "offloads": {"tso": True}},
        {"fault": {"loss": "1 %"}, "offloads": {"tso": False, "gso": True}},
    ],
)
def test_conditions_that_are_just_possible(kwargs):
    assert len(plans(link(name="p1", **kwargs))) == 1


# ---- wrong arguments of netperf_link ---------------------------------------------------------------------------------

MTU_RULE = "mtu must be an integer number of bytes from 68 to 65535, or a list of them"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mtu": "          9000"}, "write mtu=9000"),
        ({"mtu": "9000"}, f"netperf_link(mtu='9000'): {MTU_RULE}; write mtu=9000"),
        ({"mtu": 9000.0}, f"netperf_link(mtu=9000.0): {MTU_RULE}; write mtu=9000"),
        ({"mtu": True}, f"netperf_link(mtu=True): {MTU_RULE}"),
        ({"mtu": 20}, f"netperf_link(mtu=20): {MTU_RULE}"),
        ({"mtu": 65536}, f"netperf_link(mtu=65536): {MTU_RULE}"),
        ({"mtu": -1500}, f"netperf_link(mtu=-1500): {MTU_RULE}"),
        ({"mtu": None}, f"netperf_link(mtu=None): {MTU_RULE}"),
        ({"mtu": "jumbo"}, f"netperf_link(mtu='jumbo'): {MTU_RULE}"),
        ({"mtu": {1500, }}, f"netperf_link(mtu={{1500}}): {MTU_RULE}"),
        ({"mtu": [1500, "9000"]}, f"netperf_link(mtu=[1500, '9000']): {MTU_RULE} ('9000' is not); write mtu=9000"),
        ({"mtu": [1500, [9000]]}, f"netperf_link(mtu=[1500, [9000]]): {MTU_RULE} ([9000] is not)"),
        ({"mtu": [1500, 1500]}, "(mtu=[1500, 1500]): 1500 is in the list twice; each value may stand there once"),
        ({"window": ["1 MiB", "1024 KiB"]}, "'1024 KiB' is in the list twice"),
        ({"speed": ["1G", "1000M"]}, "'1000M' is in the list twice"),
        ({"mtu": []}, "netperf_link(mtu=[]): the list is empty, so the test would not run at all"),
        ({"speed": ()}, "netperf_link(speed=()): the list is empty"),
        ({"speed": 2.5}, "2.5 has no unit; write '2.5G' for 2.5 Gbit/s"),
        ({"speed": True}, "netperf_link(speed=True): speed must be a text with a unit"),
        ({"speed": "2.5"}, "netperf_link(speed='2.5'): speed must be a text with a unit"),
        ({"speed": "fast"}, "fast"),
        ({"speed": "0G"}, "above zero"),
        ({"speed": None}, "netperf_link(speed=None): speed must be"),
        ({"mss": 87}, "mss must be an integer number of bytes from 88 to 9216"),
        ({"mss": 9217}, "from 88 to 9216"),
        ({"mss": "1240"}, "write mss=1240"),
        ({"window": 65536}, "65536 has no unit; write '65536B' for 65536 bytes"),
        ({"window": "1 GiB"}, "iperf3 takes at most 512 MiB"),
        ({"window": "0 B"}, "window must be a size with a unit"),
        ({"window": "4 Gbps"}, "window must be a size with a unit"),
        ({"congestion": "BBR v2"}, "congestion must be the name of a TCP congestion control"),
        ({"congestion": "x" * 16}, "congestion must be"),
        ({"congestion": 1}, "congestion must be"),
        ({"zerocopy": "yes"}, "netperf_link(zerocopy='yes'): zerocopy must be True or False, or a list of them"),
        ({"zerocopy": 1}, "zerocopy must be True or False"),
        ({"ip_version": "6"}, "ip_version must be 4 or 6, or a list of them; write ip_version=6"),
        ({"ip_version": 5}, "ip_version must be 4 or 6"),
        ({"ip_version": True}, "ip_version must be 4 or 6"),
        ({"shaped": 0}, "shaped must be True or False"),
        ({"fault": "bad"}, "fault must be a dict such as {'rate': '1.9 Gbps'}"),
        ({"fault": {}}, "names no fault"),
        ({"fault": {"rate": 1.9}}, "fault.rate: 1.9 has no unit"),
        ({"fault": {"los": "1 %"}}, "did you mean 'loss'"),
        ({"fault": {1: "1 %"}}, "fault must be a dict"),
        ({"fault": {"rate": None}}, "names no fault"),
        ({"fault": {"loss": "1 %", "direction": "up"}}, "is not one of both, a-to-b, b-to-a"),
        ({"simulated": "yes"}, "netperf_link(simulated='yes'): simulated must be True or False"),
        ({"simulated": [True, False]}, "simulated must be True or False, not a list"),
        ({"scope": "module"}, "netperf_link(scope='module'): scope must be 'session' or 'function'"),
        ({"scope": ["session"]}, "not a list"),
        ({"topology": "pairs"}, "(did you mean 'pair'?)"),
        ({"topology": 1}, "topology must be one of 'pair', 'routed', 'switched', 'remote'"),
        ({"topology": {"a": 1}}, "topology must be one of"),
        ({"name": 1}, "netperf_link(name=1): name must be the name of a link, or a pattern such as 'sfp*', or a list"),
        ({"name": ""}, "the text is empty"),
        ({"device": 7}, "write '7'"),
        ({"model": b"x"}, "model must be the model of a device"),
        ({"mtuu": 9000}, "there is no argument 'mtuu' (did you mean 'mtu'?); known: speed, name,"),
        ({"colour": "red"}, "netperf_link(colour='red'): there is no argument 'colour'; known: "),
        ({"streams": 4}, "streams belongs to the traffic call in the test: iperf3.tcp(streams=...)"),
        ({"direction": "reverse"}, "iperf3.tcp(direction=...)"),
        ({"throughput": ">= 1 Gbps"}, "not a condition; require it with netperf_limit(throughput=...)"),
        ({"offloads": "tso off"}, "offloads must be a dict such as {'tso': False, 'gro': True} of tso, gso, gro, lro"),
        ({"offloads": {}}, "offloads must be a dict"),
        ({"offloads": {"tsoo": False}}, "'tsoo' is not one of tso, gso,"),
        ({"offloads": {"tsoo": False}}, "(did you mean 'tso'?)"),
        ({"offloads": {"tso": "off"}}, "tso must be True or False, not 'off'"),
        ({"ring": 512}, "ring must be a dict such as {'rx': 4096, 'tx': 4096} of numbers of entries"),
        ({"ring": {"rx": 0}}, "rx must be a whole number of entries from 1 to 65536, not 0"),
        ({"ring": {"rx": True}}, "rx must be a whole number of entries"),
        ({"ring": {"rx": 512, "rxx": 1}}, "'rxx' is not one of rx, tx"),
        ({"pause": True}, "pause must be a dict such as {'autoneg': False, 'rx': False, 'tx': False}"),
        ({"pause": {"rx": 1}}, "rx must be True or False, not 1"),
        ({"eee": "off"}, "eee must be True or False (None: as the ports are), or a list of them"),
        ({"negotiation": {}}, "negotiation must be a dict such as {'speed': '100M'"),
        ({"negotiation": {"duplex": "half"}}, "it has no speed"),
        ({"negotiation": {"speed": 100}}, "speed: "),
        ({"negotiation": {"speed": "1.5 kbps"}}, "speed must be a whole number of Mbit/s"),
        ({"negotiation": {"speed": "1G", "duplex": "both"}}, "duplex must be 'full' or 'half', not 'both'"),
        ({"negotiation": {"speed": "1G", "autoneg": "no"}}, "autoneg must be True or False, not 'no'"),
        ({"irq_cpus": 0}, "irq_cpus must be a list of CPUs as the kernel writes it, such as '0' or '0-1,4'"),
        ({"irq_cpus": 0}, "write '0'"),
        ({"irq_cpus": "3-1"}, "from the lower number to the higher one"),
        ({"irq_cpus": "all"}, "irq_cpus must be a list of CPUs"),
        ({"governor": "Fast!"}, "governor must be the name of a frequency governor such as 'performance'"),
        ({"eee": [False, False]}, "is in the list twice"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_a_link(kwargs, message):
    found = refused(link(**kwargs))
    assert message in found
    assert found.startswith("netperf_link(")
    assert len(found.splitlines()) == 1


def test_positional_arguments_are_refused():
    found = refused(link("2.5G", 9000))
    assert found.startswith("netperf_link('2.5G', 9000): takes named arguments only")
    assert "netperf_link(speed='2.5G', mtu=9000)" in found


def test_all_mistakes_of_all_marks_are_listed_also_those_that_a_closer_mark_overrides():
    found = refused(link(mtu=9000, strems=1), link(mtu="1500"), link("x"))
    assert len(found.splitlines()) == 3


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=12),
        st.binary(max_size=4),
        st.sampled_from(["2.5G", "4 MiB", "pair", "bbr", "session", "function", "p1", "         1500", 1500, 88, 6]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.sets(st.integers(), max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(["rate", "loss", "direction"]), st.integers()), inner, max_size=3),
    ),
    max_leaves=5,
)
ARGUMENTS = ("speed", "name", "media", "topology", "simulated", "device", "model", "scope", "mtu", "mss", "congestion",
             "window", "zerocopy", "ip_version", "shaped", "fault", "streams", "odd")  # fmt: skip


@given(st.dictionaries(st.sampled_from(ARGUMENTS), anything, max_size=3))
@settings(deadline=None, max_examples=300)
def test_any_argument_makes_plans_or_a_mark_error(kwargs):
    try:
        made = plans(link(**kwargs))
    except MarkError:
        return
    assert made
    assert len({plan.id for plan in made}) == len(made)
    assert all(68 <= plan.settings.mtu <= 65535 for plan in made)


def test_a_long_value_is_cut_in_the_message():
    assert len(refused(link(mtu="9" * 10_000))) < 300


# ---- netperf_limit ---------------------------------------------------------------------------------------------------


def limit(*args: object, **kwargs: object) -> pytest.Mark:
    return pytest.Mark("netperf_limit", args, kwargs, _ispytest=True)


def limits(*marks: pytest.Mark, level: int = 0):
    return limits_from_marks([(mark, level) for mark in marks])


def refused_limit(*marks: pytest.Mark) -> str:
    with pytest.raises(MarkError) as caught:
        limits(*marks)
    return str(caught.value)


def test_without_marks_no_limits():
    assert limits_from_marks([]) == ((), ())


def test_quantities_and_conditions_of_one_mark():
    (throughput, retransmits), warnings = limits(
        limit(throughput=">= 2.3 Gbps", retransmits="<= 50", speed="2.5G", mtu=[1500, 9000], direction="forward"),
        level=2,
    )
    assert warnings == ()
    assert (throughput.quantity, throughput.low, throughput.high, throughput.level) == ("throughput", 2.3e9, None, 2)
    assert (retransmits.quantity, retransmits.low, retransmits.high) == ("retransmits", None, 50)
    assert throughput.conditions == retransmits.conditions
    assert dict(throughput.conditions) == {"speed": 2.5e9, "mtu": (1500, 9000), "direction": "forward"}
    assert throughput.source is None


def test_the_source_goes_with_every_limit_of_the_mark():
    made, _ = limits(limit(throughput=">= 98 % of ceiling", retransmits="<= 50", source="data sheet, page 4"))
    assert [each.source for each in made] == ["data sheet, page 4"] * 2
    assert made[0].relative_to == "ceiling"


def test_limits_come_in_the_order_of_the_marks_with_their_levels():
    made, _ = limits_from_marks(
        [
            (limit(throughput=">= 2 Gbps"), 0),
            (limit(throughput=">= 1 Gbps"), 1),
            (limit(power="<= 15 W"), 3),
        ]
    )
    assert [(each.quantity, each.low or each.high, each.level) for each in made] == [
        ("throughput", 2e9, 0),
        ("throughput", 1e9, 1),
        ("power", 15, 3),
    ]
    assert pickle.loads(pickle.dumps(made)) == made


def test_an_mtu_is_a_condition_or_a_quantity_by_how_it_is_written():
    ((only,), _) = limits(limit(throughput=">= 1 Gbps", mtu=9000))
    assert (only.quantity, dict(only.conditions)) == ("throughput", {"mtu": 9000})
    ((only,), _) = limits(limit(mtu=">= 9000 B"))
    assert (only.quantity, only.low, only.conditions) == ("mtu", 9000, ())


def test_a_limit_that_looks_turned_round_is_a_warning_that_names_the_mark():
    made, warnings = limits(limit(retransmits=">= 50"))
    assert made[0].low == 50
    (warning,) = warnings
    assert warning.startswith("netperf_limit(retransmits='>= 50'): ")
    assert "less is better" in warning


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"throughput": 9.8}, "netperf_limit(throughput=9.8): throughput limit 9.8: a limit is text, not float"),
        ({"throughput": True}, "a limit is text, not bool"),
        ({"throughput": None}, "a limit is text, not NoneType"),
        ({"throughput": []}, "throughput limit []: a limit is text, not list"),
        ({"throughput": [[">= 1 Gbps"]]}, "a limit is text, not list"),
        ({"throughput": [">= 1 Gbps", "<= 2 Gbps"]}, "throughput is limited twice here"),
        ({"throughput": ">= 1 Gbps", "rule": "guarded"}, "netperf_method(rule=..., role=...)"),
        ({"throughput": ">= 9.8"}, "unit"),
        ({"throughput": ">= 9.8 parsec"}, "parsec"),
        ({"throughput": "9.8 Gbps"}, "it does not say which way"),
        ({"throughput": "between 3 and 2 Gbps"}, "contradictory"),
        ({"throughput": ">= 101 % of ceiling"}, "can never be reached"),
        ({"throughput": ">= 1 Gbps", "goodput": ">= 2 Gbps"}, "limited twice"),
        ({"througput": ">= 1 Gbps"}, "did you mean 'throughput'"),
        ({"throughput": ">= 1 Gbps", "sped": "1G"}, "'speed'"),
        ({"throughput": ">= 1 Gbps", "speed": 1}, "1"),
        ({"throughput": ">= 1 Gbps", "mtu": []}, "the list is empty"),
        ({"throughput": ">= 1 Gbps", "direction": "up"}, "'forward' or 'reverse' or 'bidirectional'"),
        ({"speed": "1G"}, "netperf_limit(speed='1G'): nothing is limited here"),
        ({}, "netperf_limit(): nothing is limited here"),
        ({"source": "data sheet"}, "nothing is limited here"),
        ({"throughput": ">= 1 Gbps", "source": 4}, "source must be a sentence that says where the numbers come from"),
        ({"throughput": ">= 1 Gbps", "source": " "}, "source must be a sentence"),
    ],
)
def test_wrong_arguments_of_a_limit(kwargs, words):
    found = refused_limit(limit(**kwargs))
    assert words in found
    assert all(line.startswith("netperf_limit(") for line in found.splitlines())


def test_positional_limits_are_refused():
    found = refused_limit(limit(">= 2.3 Gbps"))
    assert found.startswith("netperf_limit('>= 2.3 Gbps'): takes named arguments only")
    assert "netperf_limit(throughput='>= 2.3 Gbps'" in found


def test_all_mistakes_of_all_limit_marks_are_listed():
    found = refused_limit(limit(throughput=9.8, retransmits="50"), limit("x"), limit(throughput=">= 1 Gbps"))
    assert len(found.splitlines()) == 3


def test_two_marks_at_the_same_place_that_contradict_one_another():
    found = refused_limit(limit(throughput=">= 1 Gbps"), limit(goodput=">= 2 Gbps"))
    assert found.startswith("netperf_limit(goodput='>= 2 Gbps'): netperf_limit(throughput='>= 1 Gbps') stands equally")


@pytest.mark.parametrize(
    "second",
    [
        limit(throughput=">= 1 Gbps"),  # the same
        limit(throughput=">= 1000 Mbit/s"),  # the same in other words
        limit(throughput=">= 2 Gbps", speed="2.5G"),  # another condition
        limit(retransmits="<= 5"),  # another quantity
    ],
)
def test_two_marks_at_the_same_place_that_do_not(second):
    made, warnings = limits(limit(throughput=">= 1 Gbps"), second)
    assert (len(made), warnings) == (2, ())


def test_nothing_heavy_is_imported_with_the_marks():
    code = "import sys, pytest_netperf.marks; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout.split()
    assert not {"msgspec", "tomllib", "ipaddress", "hashlib", "jinja2", "pyroute2"} & set(loaded)
