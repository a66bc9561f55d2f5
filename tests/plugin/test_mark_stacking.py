"""Marks stack: the closest to the test wins, per argument and per quantity; and the ids are those of the documents."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

BENCH = """
[station]
name = "bench-1"
location = "room 7"

[[device]]
serial = "R86S-U4-0007"
model = "R86S-U4"
batch = "2026-48"
  [[device.link]]
  name = "sfp1"
  speed = "1G"
  mtu = 9000
  media = "dac"
  simulated = true
  [[device.link]]
  name = "p1"
  speed = "100M"
  simulated = true

[[device]]
serial = "APU-0001"
  [[device.link]]
  name = "p1"
  speed = "100M"
  simulated = true
"""


def collected(run) -> list[str]:
    return [line.split("::", 1)[1] for line in run.text.splitlines() if "::" in line and "test_" in line]


def test_ids_of_devices_links_and_sweeps(project, workers):
    project.write(
        {"bench.toml": BENCH},
        test_ids="""
def test_every(iperf3): pass

@pytest.mark.netperf_link(name="sfp1", mtu=9000)
def test_jumbo(iperf3): pass

@pytest.mark.netperf_link(device="R86S*", mtu=[1500, 9000])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sweep(iperf3, direction): pass

@pytest.mark.netperf_link(name="p1", device="APU*", ip_version=[4, 6], zerocopy=True, congestion="bbr")
def test_settings(netperf_link): pass

@pytest.mark.netperf_link(name="p1", device="APU*", fault=[None, {"rate": "20 Mbps", "direction": "a-to-b"}])
def test_faults(netperf_link): pass

def test_device(netperf_record): pass

@pytest.mark.netperf_link(model="R86S-U4")
class TestRouter:
    def test_only_of_the_router(self, netperf_record): pass
    @pytest.mark.netperf_link(speed="100M")
    def test_its_port(self, iperf3): pass
""",
    )
    run = project.run("--netperf-bench=bench.toml", "--collect-only", "-q", *workers)
    assert run.code == 0, run.text
    assert sorted(collected(run)) == sorted(
        [
            "test_every[R86S-U4-0007/sfp1]",
            "test_every[R86S-U4-0007/p1]",
            "test_every[APU-0001/p1]",
            "test_jumbo[R86S-U4-0007/sfp1/mtu9000]",
            *(
                f"test_sweep[R86S-U4-0007/{link}/mtu{mtu}-{direction}]"
                for link in ("sfp1", "p1")
                for mtu in (1500, 9000)
                for direction in ("forward", "reverse")
            ),
            "test_settings[APU-0001/p1/bbr/zerocopy/ipv4]",
            "test_settings[APU-0001/p1/bbr/zerocopy/ipv6]",
            "test_faults[APU-0001/p1/no-fault]",
            "test_faults[APU-0001/p1/fault-rate20M-a-to-b]",
            "test_device[R86S-U4-0007]",
            "test_device[APU-0001]",
            "TestRouter::test_only_of_the_router[R86S-U4-0007]",
            "TestRouter::test_its_port[R86S-U4-0007/p1]",
        ]
    )


STACK = """
pytestmark = [
    pytest.mark.netperf_limit(power="<= 10 W", temperature="<= 40 degC"),
    pytest.mark.netperf_limit(power="<= 99 W", model="not this one"),
]

def test_module(netperf_record):
    netperf_record("power", 10.5, "W")
    netperf_record("temperature", 30, "degC")

@pytest.mark.netperf_limit(power="<= 20 W")
def test_function(netperf_record):
    netperf_record("power", 10.5, "W")
    netperf_record("temperature", 30, "degC")

@pytest.mark.netperf_limit(power="<= 20 W")
class TestClass:
    def test_class(self, netperf_record):
        netperf_record("power", 10.5, "W")
        netperf_record("temperature", 30, "degC")

    @pytest.mark.netperf_limit(power="<= 5 W")
    def test_function_in_class(self, netperf_record):
        netperf_record("power", 10.5, "W")
        netperf_record("temperature", 30, "degC")

    @pytest.mark.netperf_limit(power="<= 30 W")
    class TestInner:
        def test_inner(self, netperf_record):
            netperf_record("power", 25, "W")
            netperf_record("temperature", 30, "degC")

class TestDerived(TestClass):
    pass

@pytest.mark.netperf_limit(power="<= 7 W")
class TestStricter(TestClass):
    pass

@pytest.mark.netperf_limit(power="<= 20 W")
@pytest.mark.parametrize(
    "value",
    [6, 12, pytest.param(12.5, marks=pytest.mark.netperf_limit(power="<= 12 W")), pytest.param(25, marks=[])],
)
def test_parameter(netperf_record, value):
    netperf_record("power", value, "W")
    netperf_record("temperature", 30, "degC")

@pytest.mark.netperf_limit(power="<= 20 W")
@pytest.mark.netperf_limit(power="<= 8 W", model="simulated")
@pytest.mark.netperf_limit(power="<= 2 W", device="OTHER-*")
def test_more_conditions_win_on_the_same_level(netperf_record):
    netperf_record("power", 10.5, "W")
    netperf_record("temperature", 30, "degC")
"""


def test_the_closest_limit_wins_per_quantity(project, workers):
    project.write(test_stack=STACK)
    run = project.run(*workers)
    run.is_clean()
    limits = {
        name.replace("[SIM-0001]", "").replace("SIM-0001-", "").removesuffix("::power"): (row["limit"], row["verdict"])
        for name, row in run.rows.items()
        if row["quantity"] == "power"
    }
    assert limits == {
        "test_module": ("<= 10 W", "FAIL"),
        "test_function": ("<= 20 W", "PASS"),
        "TestClass::test_class": ("<= 20 W", "PASS"),
        "TestClass::test_function_in_class": ("<= 5 W", "FAIL"),
        "TestClass::TestInner::test_inner": ("<= 30 W", "PASS"),
        "TestDerived::test_class": ("<= 20 W", "PASS"),
        "TestDerived::test_function_in_class": ("<= 5 W", "FAIL"),
        "TestDerived::TestInner::test_inner": ("<= 30 W", "PASS"),
        "TestStricter::test_class": ("<= 7 W", "FAIL"),
        "TestStricter::test_function_in_class": ("<= 5 W", "FAIL"),
        "TestStricter::TestInner::test_inner": ("<= 30 W", "PASS"),
        "test_parameter[6]": ("<= 20 W", "PASS"),
        "test_parameter[12]": ("<= 20 W", "PASS"),
        "test_parameter[12.5]": ("<= 12 W", "FAIL"),
        "test_parameter[25]": ("<= 20 W", "FAIL"),
        "test_more_conditions_win_on_the_same_level": ("<= 8 W", "FAIL"),
    }
    temperatures = [row for row in run.rows.values() if row["quantity"] == "temperature"]
    assert {(row["limit"], row["verdict"]) for row in temperatures} == {("<= 40 °C", "PASS")}
    assert len(temperatures) == len(limits)


def test_link_marks_stack_per_argument(project):
    project.write(
        {"bench.toml": BENCH},
        test_links="""
pytestmark = pytest.mark.netperf_link(device="R86S*", mtu=1500, name="p1")

@pytest.mark.netperf_link(mtu=4000)
class TestBase:
    def test_base(self, netperf_link):
        assert netperf_link.mtu == 4000

    @pytest.mark.netperf_link(mtu=2000, name="sfp1")
    def test_own(self, netperf_link):
        assert (netperf_link.mtu, netperf_link.plan.link.name) == (2000, "sfp1")

@pytest.mark.netperf_link(mtu=3000)
class TestDerived(TestBase):
    def test_base(self, netperf_link):
        assert netperf_link.mtu == 3000

def test_module(netperf_link):
    assert (netperf_link.mtu, netperf_link.speed) == (1500, 1e8)
""",
    )
    run = project.run("--netperf-bench=bench.toml", "--collect-only", "-q")
    assert sorted(collected(run)) == [
        "TestBase::test_base[R86S-U4-0007/p1/mtu4000]",
        "TestBase::test_own[R86S-U4-0007/sfp1/mtu2000]",
        "TestDerived::test_base[R86S-U4-0007/p1/mtu3000]",
        "TestDerived::test_own[R86S-U4-0007/sfp1/mtu2000]",
        "test_module[R86S-U4-0007/p1/mtu1500]",
    ]
    run = project.run("--netperf-bench=bench.toml")
    run.has("5 passed")
    assert run.code == 0
    assert run.code == 0, run.text


def test_conditions_choose_the_limit_of_each_link_and_direction(project, workers):
    """One mark per condition, over devices x links x MTU x direction, judged by what the run really was."""
    project.write(
        {"bench.toml": BENCH},
        test_conditions="""
@pytest.mark.netperf_link(device="R86S*", mtu=[1500, 9000])
@pytest.mark.netperf_limit(throughput=">= 50 Mbps", speed="100M")
@pytest.mark.netperf_limit(throughput=">= 200 Mbps", speed="1G")
@pytest.mark.netperf_limit(throughput=">= 100 Mbps", speed="1G", mtu=9000)
@pytest.mark.netperf_limit(throughput=">= 10 Mbps", speed="100M", direction="reverse")
@pytest.mark.netperf_limit(throughput=">= 90 Mbps", direction="forward", streams=7, protocol="udp")
def test_rate(iperf3):
    iperf3.tcp(direction="reverse")
""",
    )
    run = project.run("--netperf-bench=bench.toml", *workers)
    assert run.code == 0, run.text
    found = {
        (row["link"], row["conditions"]["mtu"], row["conditions"]["direction"]): row["limit"]
        for row in run.sheet["rows"]
    }
    assert found == {
        ("p1", 1500, "reverse"): ">= 10 Mbit/s",
        ("p1", 9000, "reverse"): ">= 10 Mbit/s",
        ("sfp1", 1500, "reverse"): ">= 200 Mbit/s",
        ("sfp1", 9000, "reverse"): ">= 100 Mbit/s",
    }
    sheet = run.sheet
    known = {key: value for key, value in sheet["device"].items() if value}
    assert known == {"serial": "R86S-U4-0007", "model": "R86S-U4", "batch": "2026-48"}
    assert (sheet["station"]["name"], sheet["station"]["location"]) == ("bench-1", "room 7")
    assert sheet["procedure"]["bench_file"].endswith("bench.toml")


def test_relative_limits_are_resolved_against_this_link(project):
    project.write(
        {"best.toml": BEST},
        test_relative="""
@pytest.mark.netperf_link(speed="100M", mtu=[1500, 9000])
@pytest.mark.netperf_limit(throughput=">= 60 % of ceiling")
def test_ceiling(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 55 % of link speed")
def test_link_speed(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 55 % of baseline best")
def test_baseline(iperf3):
    iperf3.tcp()

@pytest.mark.netperf_link(speed="100M", mtu=9000)
@pytest.mark.netperf_limit(throughput=">= 55 % of baseline best")
def test_no_baseline(iperf3):
    iperf3.tcp()
""",
    )
    run = project.run("--netperf-baseline", "best.toml")
    rows = {name.split("[")[0] + str(row["conditions"]["mtu"]): row for name, row in run.rows.items()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "test_ceiling1500": "PASS",
        "test_ceiling9000": "PASS",
        "test_link_speed1500": "PASS",
        "test_baseline1500": "PASS",
        "test_no_baseline9000": "INCONCLUSIVE",
    }
    assert rows["test_ceiling1500"]["limit"] == ">= 60 % of ceiling (56.49 Mbit/s)"
    assert rows["test_ceiling1500"]["limit_low"] == pytest.approx(0.6 * 94.1482e6, rel=1e-4)
    assert rows["test_ceiling9000"]["limit_low"] == pytest.approx(0.6 * 99.0042e6, rel=1e-4)
    assert rows["test_link_speed1500"]["limit_low"] == pytest.approx(55e6)
    assert rows["test_baseline1500"]["limit"] == ">= 55 % of baseline best (49.5 Mbit/s)"
    assert (rows["test_baseline1500"]["expected"], rows["test_ceiling9000"]["expected"]) == (90e6, None)
    assert rows["test_baseline1500"]["expected_source"].startswith("simulated/best (SIMULATED): somebody measured it")
    assert "baseline best has no throughput for the conditions" in rows["test_no_baseline9000"]["reason"]


BEST = """
model = "simulated"
source = "a golden one"
[[baseline]]
name = "best"
test = "x"
quantity = "throughput"
value = "90 Mbps"
mtu = 1500
topology = "pair"
simulated = true
source = "somebody measured it."
"""


def test_a_baseline_that_is_not_there(project):
    project.write(
        {"best.toml": BEST, "wrong.toml": BEST.replace("value", "valeu")},
        test_a="""
@pytest.mark.netperf_limit(throughput=">= 55 % of baseline bets")
def test_rate(iperf3):
    iperf3.tcp()

@pytest.mark.parametrize(
    "a", [pytest.param(1, marks=pytest.mark.netperf_limit(power="<= 110 % of baseline R86S-U4/idel"))]
)
def test_power(netperf_record, a):
    netperf_record("power", 13, "W")
""",
    )
    run = project.run("--netperf-baseline", "best.toml")
    assert run.code == 2
    assert "there is no baseline 'bets' of model 'simulated' (did you mean 'best'" in run.text
    test = project.path / "test_a.py"
    test.write_text(test.read_text().replace("bets", "best"))
    run = project.run("--netperf-baseline", "best.toml")
    assert run.code == 2
    assert "there is no baseline 'R86S-U4/idel' (did you mean 'R86S-U4/idle'" in run.text
    run = project.run("--netperf-baseline", "wrong.toml")
    assert run.code == 4
    assert "wrong.toml: baseline[0].valeu: unknown key (did you mean 'value'?)" in run.text


LIMITS = """
[[limit]]
source = "data sheet 4.2"
speed = "100M"
throughput = ">= 50 Mbps"
retransmits = "<= 100000"

[[limit]]
source = "data sheet 4.3"
frame_loss_ratio = "<= 50 %"

[[limit]]
source = "data sheet 7"
model = "R86S-U4"
power = "<= 15 W"
"""


def test_a_limits_file_speaks_to_all_tests_and_asks_of_each_what_it_can_measure(project, workers):
    project.write(
        {"bench.toml": BENCH, "limits.toml": LIMITS},
        test_file="""
SLOW = pytest.mark.netperf_link(device="R86S*", name="p1")

@SLOW
def test_tcp(iperf3):
    iperf3.tcp()

@SLOW
@pytest.mark.netperf_limit(throughput=">= 60 Mbps")
def test_own_limit_wins(iperf3):
    iperf3.tcp()

@SLOW
def test_udp(iperf3):
    iperf3.udp(bitrate="80 Mbps")

@pytest.mark.netperf_link(device="R86S*")
class TestMeters:
    def test_power(self, netperf_record):
        netperf_record("power", 13, "W")

    def test_forgets_power(self, netperf_record):
        netperf_record("temperature", 13, "degC")
""",
    )
    run = project.run("--netperf-bench=bench.toml", "--netperf-limits=limits.toml", *workers)
    run.is_clean()
    rows = {
        name.replace("[R86S-U4-0007", "[").replace("[/p1]", "").replace("[]", ""): row for name, row in run.rows.items()
    }
    assert {name: (row["verdict"], row["required"], row["limit"]) for name, row in rows.items()} == {
        "test_tcp::throughput": ("PASS", True, ">= 50 Mbit/s"),
        "test_tcp::retransmits": ("PASS", True, "<= 100000"),
        "test_tcp::frame_loss_ratio": ("SKIPPED", False, "<= 50 %"),
        "test_own_limit_wins::throughput": ("PASS", True, ">= 60 Mbit/s"),
        "test_own_limit_wins::retransmits": ("PASS", True, "<= 100000"),
        "test_own_limit_wins::frame_loss_ratio": ("SKIPPED", False, "<= 50 %"),
        "test_udp::throughput": ("PASS", True, ">= 50 Mbit/s"),
        "test_udp::retransmits": ("SKIPPED", False, "<= 100000"),
        "test_udp::frame_loss_ratio": ("PASS", True, "<= 50 %"),
        "TestMeters::test_power::power": ("PASS", True, "<= 15 W"),
        "TestMeters::test_forgets_power::power": ("INCONCLUSIVE", True, "<= 15 W"),
        "TestMeters::test_forgets_power::temperature": ("INCONCLUSIVE", False, None),
    }
    assert rows["test_tcp::throughput"]["limit_source"] == "data sheet 4.2"
    assert "test = ..." in rows["TestMeters::test_forgets_power::power"]["next_step"]
    assert json.dumps(run.sheet["procedure"]).count("limits.toml") >= 1
    assert len(run.sheet["procedure"]["limits_sha256"]) == 64
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN")
