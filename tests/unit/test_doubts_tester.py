"""Doubts about the tester: each rule by what provokes it, and by what it must stay silent on."""

from __future__ import annotations

import pytest
from doubt_samples import CEILING_BPS, REPLACE, UDP, fair, look, run, tcp_flow, udp_flow

from pytest_netperf.judge.doubts import Findings
from pytest_netperf.observe.observation import BusyProcess, Host
from pytest_netperf.traffic.result import Result, Workload

SLOW = run(tcp_flow(rate_bps=CEILING_BPS / 2))
QUIET = Host(seconds=11.0)


def seen(result: Result | None = None, host: Host | None = QUIET, **known) -> Findings:
    """The doubts about a run over a physical link."""
    result = result or SLOW
    return look(result, REPLACE(fair(result), host=host, **known), simulated=False)


def kinds(findings: Findings, name: str) -> list[str]:
    return [doubt.kind for doubt in findings.named if doubt.name == name]


def text(findings: Findings, name: str) -> str:
    (doubt,) = [doubt for doubt in findings.named if doubt.name == name]
    return doubt.seen


def test_a_quiet_machine_raises_nothing():
    assert seen(run(tcp_flow(rate_bps=CEILING_BPS / 2))).named == ()
    assert seen(host=None).named == ()


# ---- CPU -------------------------------------------------------------------------------------------------------------


def test_a_busy_cpu_names_softirq_the_busiest_process_and_the_governor():
    host = Host(
        seconds=11.0,
        governors=("powersave",),
        others=(BusyProcess(name="backup", cpu_s=1.5), BusyProcess(name="x", cpu_s=1)),
    )
    said = text(seen(host=host, cpu_busy=(0.3, 0.97), cpu_softirq=(0.0, 0.62)), "Tester CPU bound")
    assert said == (
        "CPU 1 of this machine was 97 % busy, 62 % of it with packets in the kernel (softirq); "
        "busiest other process: backup (1.5 s of CPU in 11 s); frequency governor: powersave."
    )


@pytest.mark.parametrize(
    ("facts", "workload", "bound"),
    [
        ({"client_cpu": 0.95}, {}, "client"),
        ({"server_cpu": 0.99}, {}, "server"),
        ({"client_cpu": 0.94}, {}, None),
        ({"client_cpu": None}, {}, None),
        ({"client_cpu": 1.0, "client_version": None}, {}, None),
        ({"client_cpu": 1.0, "client_version": "3.9"}, {}, None),  # its figure is wrong (esnet/iperf#1076)
        ({"client_cpu": 1.0}, {"streams": 4}, "client"),  # 3.12: one thread for all
        ({"client_cpu": 1.9, "client_version": "3.18"}, {"streams": 4}, None),  # a thread for each
        ({"client_cpu": 1.9, "client_version": "3.18"}, {"direction": "bidirectional"}, None),
        ({"client_cpu": 1.0, "client_version": "3.18"}, {}, "client"),
        ({"client_cpu": 1.0, "client_version": "3.17"}, {"bitrate_bps": 2e9}, None),  # it spins (esnet/iperf#1741)
        ({"client_cpu": 1.0, "client_version": "3.18"}, {"bitrate_bps": 2e9}, "client"),
    ],
)
def test_an_iperf3_that_used_all_of_its_one_thread(facts, workload, bound):
    result = run(tcp_flow(rate_bps=1e9), **facts, workload=Workload(**workload))
    found = [doubt.seen for doubt in seen(result).named if doubt.name == "Tester CPU bound"]
    assert len(found) == (bound is not None)
    if bound:
        assert found[0].startswith(f"The iperf3 {bound} used ")


# ---- other processes -------------------------------------------------------------------------------------------------

HOG = Host(seconds=10.0, others=(BusyProcess(name="backup", cpu_s=4.0), BusyProcess(name="indexer", cpu_s=1.0)))


@pytest.mark.parametrize(
    ("cpu_busy", "kind"),
    [
        ((0.9, 0.7), "tester"),  # 0.4 CPUs idle: the traffic had use for more
        ((0.9, 0.1), "note"),  # a whole CPU idle
        ((0.9, 0.7, 0.1, 0.1), "note"),
        ((), "tester"),  # nothing is known of idle CPUs
    ],
)
def test_another_process_counts_where_it_left_less_than_a_cpu(cpu_busy, kind):
    findings = seen(host=HOG, cpu_busy=cpu_busy)
    assert kinds(findings, "Another process busy") == [kind]
    assert text(findings, "Another process busy") == (
        "Other processes of this machine used 50 % of a CPU: backup (4 s of CPU in 10 s), indexer (1 s of CPU in 10 s)."
    )


def test_a_process_that_did_no_harm_is_no_doubt():
    less = REPLACE(HOG, others=HOG.others[:1])
    assert kinds(seen(host=less, cpu_busy=(0.9, 0.7)), "Another process busy") == []
    assert seen(run(), host=HOG, cpu_busy=(0.9, 0.7)).named == ()  # at line rate
    lossy = seen(run(tcp_flow(retransmits=5)), host=HOG, cpu_busy=(0.9, 0.7))
    assert kinds(lossy, "Another process busy") == ["tester"]  # the rate was met, but five segments were lost


# ---- packets that the kernel had no room or time for -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("dropped", "retransmits", "expected"),
    [
        (10, 100, ["tester"]),
        (9, 100, ["note"]),
        (10, None, ["note"]),
        (10, 0, []),  # nothing of this run was among them
        (0, 100, []),
        (None, 100, []),
    ],
)
def test_softnet_drops_count_when_they_explain_the_loss(dropped, retransmits, expected):
    result = run(tcp_flow(rate_bps=CEILING_BPS / 2, retransmits=retransmits))
    findings = seen(result, host=REPLACE(QUIET, softnet_dropped=dropped))
    assert kinds(findings, "Softnet drops") == expected


def test_softnet_drops_of_a_udp_run():
    flow = udp_flow(lost=1000)
    result = run(flow, workload=UDP)
    assert kinds(seen(result, host=REPLACE(QUIET, softnet_dropped=900)), "Softnet drops") == ["tester"]


@pytest.mark.parametrize(("times", "rate", "raised"), [(1200, 0.5, True), (1100, 0.5, False), (1200, 0.999, False)])
def test_time_squeezes_are_ordinary_below_a_hundred_a_second_or_at_line_rate(times, rate, raised):
    findings = seen(run(tcp_flow(rate_bps=CEILING_BPS * rate)), host=REPLACE(QUIET, softnet_squeezed=times))
    assert (kinds(findings, "Softnet time squeeze") == ["note"]) is raised


# ---- heat, clocks, sleep ---------------------------------------------------------------------------------------------


def test_a_throttled_tester():
    findings = seen(host=REPLACE(QUIET, throttle_events=7, temperature_c=97.5))
    assert kinds(findings, "Tester throttled") == ["tester"]
    assert "throttled 7 times; its hottest sensor says 97.5 °C." in text(findings, "Tester throttled")
    assert seen(host=REPLACE(QUIET, throttle_events=0, temperature_c=99.0)).named == ()


@pytest.mark.parametrize(
    ("step", "versions", "expected"),
    [
        (3600.0, ("3.12", "3.12"), ["note"]),
        (-0.05, ("3.12", "3.12"), ["note"]),
        (0.049, ("3.1.3", "3.1.3"), []),
        (-3600.0, ("3.6", "3.12"), ["invalid"]),
        (3600.0, ("3.12", "3.1.3"), ["invalid"]),
        (3600.0, (None, None), ["note"]),
    ],
)
def test_a_clock_that_was_set_spoils_old_versions(step, versions, expected):
    result = run(tcp_flow(), client_version=versions[0], server_version=versions[1])
    findings = seen(result, host=REPLACE(QUIET, clock_step_s=step))
    assert kinds(findings, "Clock step") == expected
    assert bool(findings.invalid) == (expected == ["invalid"])
    if expected:
        assert ("set back by" if step < 0 else "set forward by") in text(findings, "Clock step")


def test_a_machine_that_slept():
    findings = seen(host=REPLACE(QUIET, suspended_s=42.0))
    assert kinds(findings, "Suspended machine") == ["tester"]
    assert "slept for 42 s" in text(findings, "Suspended machine")
    assert seen(host=REPLACE(QUIET, suspended_s=0.04)).named == ()
