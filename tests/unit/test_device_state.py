"""The states of a device in a bench file and in a mark: what is understood, what is refused, what is not applicable."""

from __future__ import annotations

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.device_state import PLAIN, DeviceState
from pytest_netperf.bench.model import Bench
from pytest_netperf.bench.plan import LinkPlan, LinkRequest, plan_links, states_of
from pytest_netperf.errors import BenchError, MarkError

LINK = """
  [[device.link]]
  name = "lan-wan"
  topology = "routed"
  speed = "2.5G"
  simulated = true
"""


def bench(*states: str, model: str = "BOX", links: str = LINK) -> Bench:
    tables = "".join(f"\n  [[device.state]]\n  {state}\n" for state in states)
    return parse_bench(f'[[device]]\nserial = "BOX-1"\nmodel = "{model}"\n{links}{tables}', "bench.toml")


def plans(of: Bench, **sweeps: tuple[object, ...]) -> list[LinkPlan]:
    return list(plan_links(of, LinkRequest(sweeps=tuple(sweeps.items()), text="netperf_link(...)")))


EVERYTHING = """name = "all"
nat = true
firewall = { rules = 100 }
inspection = { rules = 10, side = "both" }
rate_limit = "1.2 Gbps"
dpi = {}
monitoring = { per_second = 50 }
cpu_limit = "25 %"
suricata = { side = "b", config = "/etc/s.yaml" }
not_applicable = { mtu_above = 1500, reason = "it copies packets into buffers of 2 kB" }"""


def test_every_key():
    (state,) = bench(EVERYTHING).devices[0].states
    assert state == DeviceState(
        name="all", nat=True, firewall_rules=100, inspection_rules=10, inspection_side="both", rate_limit_bps=1.2e9,
        dpi_side="both", monitoring_per_second=50, cpu_limit=0.25,
        suricata_side="b", suricata_config="/etc/s.yaml", largest_mtu=1500,
        reason="it copies packets into buffers of 2 kB",
    )  # fmt: skip
    assert state.is_simulated
    assert state.programs == ("nft", "iptables-restore", "ip6tables-restore", "ndpiReader", "suricata", "suricatasc")


def test_a_state_of_a_real_device_needs_only_its_name():
    (state,) = bench('name = "ips"').devices[0].states
    assert state == DeviceState(name="ips")
    assert not state.is_simulated


def test_what_only_limits_the_rate_says_what_is_left():
    slow = 'name = "s"\nrate_limit = "100 Mbps"'
    more = [slow.replace('"s"', f'"{key[0]}"') + f"\n{key}" for key in ("nat = true", 'dpi = { side = "a" }')]
    assert [state.only_rate_bps for state in bench(slow, *more).devices[0].states] == [1e8, None, None]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("nat = true", "state[0].name: is missing"),
        ('name = "two words"', "is a part of test ids; write it without spaces"),
        ('name = "a/b"', "is a part of test ids"),
        ('name = "n"\nnat = "yes"', 'state[0].nat: "yes" is not true or false'),
        ('name = "n"\nfirewall = 10', "state[0].firewall: 10 is not a table"),
        ('name = "n"\nfirewall = {}', "state[0].firewall.rules: is missing; write how many, such as rules = 10"),
        ('name = "n"\nfirewall = { rules = 0 }', "0 is not an integer number of rules from 1 to 10000"),
        ('name = "n"\ninspection = { rules = 5, side = "c" }', '"c" is not one of a, b, both'),
        ('name = "n"\ninspection = { rule = 5 }', "unknown key (did you mean 'rules'?)"),
        ('name = "n"\nrate_limit = 5', "state[0].rate_limit: 5 has no unit"),
        ('name = "n"\nnot_applicable = { mtu_above = 1500 }', "not_applicable.reason: is missing"),
        ('name = "n"\nnot_applicable = { reason = "no" }', "mtu_above: is missing; write the largest MTU"),
        ('name = "n"\ndpi = { side = "c" }', 'state[0].dpi.side: "c" is not one of a, b, both'),
        ('name = "n"\nmonitoring = {}', "per_second: is missing; write how often it reads, such as per_second = 50"),
        ('name = "n"\nmonitoring = { per_second = 5000 }', "5000 is not an integer number of readings from 1 to 1000"),
        ('name = "n"\nnat = true\ncpu_limit = "50 %"', "cpu_limit: is one of the programs that a device runs"),
        ('name = "n"\ndpi = {}\ncpu_limit = "150 %"', "cpu_limit: 150.000% is not from 1% to 100 % of one CPU"),
        ('name = "n"\ndpi = {}\ncpu_limit = 0.5', "cpu_limit: 0.5 has no unit"),
        ('name = "n"\nnatt = true', "unknown key (did you mean 'nat'?)"),
        ('name = "plain"\nnat = true', '"plain" is the state in which nothing is switched on; give'),
    ],
)  # fmt: skip
def test_mistakes(state, says):
    with pytest.raises(BenchError) as caught:
        bench(state)
    assert says in str(caught.value)
    assert str(caught.value).startswith("bench.toml: device[0].state[0]")


def test_a_name_is_unique():
    with pytest.raises(BenchError, match=r'device\[0\].state\[1\].name: "n" is used 2 times'):
        bench('name = "n"', 'name = "n"')


@pytest.mark.parametrize("link", ['topology = "pair"\nsimulated = true', 'topology = "routed"'])
def test_an_mtu_in_the_middle_is_one_of_a_simulated_device(link):
    with pytest.raises(BenchError, match="device_mtu: is of a simulated device in the middle"):
        bench(links=f'[[device.link]]\nname = "p"\nspeed = "1G"\ndevice_mtu = 1400\n{link}\n')


# Plans


def test_a_state_is_a_dimension():
    found = plans(bench(EVERYTHING), device_state=("plain", "all"), mtu=(1500, 9000))
    assert [plan.id for plan in found] == [
        "BOX-1/lan-wan/plain/mtu1500",
        "BOX-1/lan-wan/plain/mtu9000",
        "BOX-1/lan-wan/all/mtu1500",
        "BOX-1/lan-wan/all/mtu9000",
    ]
    assert [plan.state for plan in found[:3:2]] == [PLAIN, bench(EVERYTHING).devices[0].states[0]]
    assert len(set(found)) == 4
    assert [bool(plan.not_applicable) for plan in found] == [False, False, False, True]
    assert found[3].not_applicable == (
        "state 'all' does not exist at MTU 9000 (at most 1500): it copies packets into buffers of 2 kB"
    )


def test_nobody_asks_for_a_state():
    (plan,) = plans(bench(EVERYTHING), mtu=(9000,))
    assert (plan.state, plan.not_applicable) == (None, None)


def test_a_state_that_the_device_does_not_have():
    with pytest.raises(MarkError) as caught:
        plans(bench('name = "nat"\nnat = true'), device_state=("natt",))
    assert "device BOX-1 has no state 'natt' (did you mean 'nat'?); it has nat, plain; describe it in" in str(
        caught.value
    )


def test_what_a_pair_cannot_do():
    pair = LINK.replace("routed", "pair")
    with pytest.raises(
        MarkError, match=r"state 'nat' is one of a device that forwards, and the topology .* is 'pair'; add"
    ):
        plans(bench('name = "nat"\nnat = true', links=pair), device_state=("nat",))
    switch = LINK.replace("routed", "switched")
    with pytest.raises(MarkError, match="state 'nat' is one of a device that forwards, and the topology"):
        plans(bench('name = "nat"\nnat = true', links=switch), device_state=("nat",))
    (plan,) = plans(bench('name = "slow"\nrate_limit = "1 Gbps"', links=switch), device_state=("slow",))
    assert plan.state is not None
    (plan,) = plans(bench('name = "ips"', links=pair), device_state=("ips",))  # a hook does it
    assert plan.state == DeviceState(name="ips")


def test_the_profile_of_a_model_knows_its_states():
    device = bench('name = "ips"\nrate_limit = "1 Gbps"', model="R86S-U4").devices[0]
    states = {state.name: state for state in states_of(device)}
    assert set(states) == {"plain", "watched", "dpi", "ips", "ips-both", "dpi-ips"}
    assert states["ips"].rate_limit_bps == 1e9  # the bench file's own wins
    assert states["ips-both"].inspection_side == "both"
    assert "MTU 9000" in (states["dpi"].not_applicable(9000) or "")
    assert [state.name for state in states_of(bench().devices[0])] == ["plain"]
