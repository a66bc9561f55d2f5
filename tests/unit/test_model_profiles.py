"""Profiles of models: those that are shipped are true, and a wrong one says everything that is wrong with it."""

from __future__ import annotations

import math

import pytest

from pytest_netperf.bench.model_profile import ModelProfile, fitting_profiles, load_profiles, parse_profile
from pytest_netperf.errors import BenchError
from pytest_netperf.judge.limit_text import parse_limit
from pytest_netperf.options import Options
from pytest_netperf.physics import goodput_ceiling_bps
from pytest_netperf.quantities import get_quantity
from pytest_netperf.session import NetperfSession

SHIPPED = load_profiles()
BASELINES = [
    pytest.param(profile, baseline, id=f"{profile.model}/{baseline.name}/{baseline.quantity}")
    for profile in SHIPPED.values()
    for baseline in profile.baselines
]
IP_AND_TCP = 40
GOOD = """
model = "BOX"
source = "its data sheet"
[[port]]
name = "LAN"
count = 2
speed = "1G"
drivers = ["igb"]
[[baseline]]
name = "one"
test = "routing"
quantity = "throughput"
value = 9e8
source = "page 3"
"""


def test_the_three_reviewed_models_are_there():
    assert set(SHIPPED) == {"APU1", "R86S-G2", "R86S-U4"}
    kinds = {
        model: [(kind.count, kind.speed_bps, kind.drivers) for kind in profile.ports]
        for model, profile in SHIPPED.items()
    }
    r86s = [(3, 2.5e9, ("igc",)), (2, 10e9, ("mlx4_en",))]
    assert kinds == {"APU1": [(3, 1e9, ("r8169", "r8168"))], "R86S-G2": r86s, "R86S-U4": r86s}
    assert [kind.max_mtu for kind in SHIPPED["R86S-G2"].ports] == [9216, 9900]


def test_values_as_they_were_published():
    """Some of each review, from the printed page."""

    def published(model, name, quantity="throughput", **conditions):
        (value,) = (
            each.value
            for each in SHIPPED[model].baselines
            if (each.name, each.quantity) == (name, quantity)
            and all(each.conditions.get(key) == value for key, value in conditions.items())
        )
        return value

    assert published("R86S-U4", "plain", speed=10e9, mtu=1500) == 8.32e9, "the printed run, not the prose"
    assert published("R86S-U4", "plain", "retransmits", speed=10e9, mtu=1500) == 2424
    assert published("R86S-U4", "suricata-both", speed=2.5e9) == 0.507e9
    assert published("R86S-G2", "pair", speed=10e9, mss=9176, zerocopy=None) == 9.21 * 2**30
    assert published("R86S-G2", "pair", speed=2.5e9, mss=88, zerocopy=True) == 0.99 * 2**30
    assert published("APU1", "routing", mss=600, streams=10) == 782e6
    assert published("APU1", "firewall", "dut_cpu", mss=600, streams=10) == 0.85


@pytest.mark.parametrize(("profile", "baseline"), BASELINES)
def test_every_published_value_can_be_true(profile, baseline):
    """Against physics: nothing above the ceiling, and what the line limits just below it. To how it was rounded."""
    get_quantity(baseline.quantity)
    assert math.isfinite(baseline.value)
    assert baseline.value >= 0
    assert baseline.model == profile.model
    assert baseline.os
    assert baseline.method
    speed_bps, mss = baseline.conditions.get("speed"), baseline.conditions.get("mss")
    if baseline.quantity != "throughput" or speed_bps is None:
        assert not baseline.line_limited
        return
    mtu = baseline.conditions.get("mtu") or mss + IP_AND_TCP
    ceiling = goodput_ceiling_bps(speed_bps, mtu, mss_bytes=mss)
    assert baseline.value <= 1.003 * ceiling
    if baseline.line_limited:
        assert baseline.value >= 0.994 * ceiling
    assert speed_bps in [kind.speed_bps for kind in profile.ports]


def test_the_binary_units_of_one_review_are_said():
    notes = {each.unit_note for each in SHIPPED["R86S-G2"].baselines if each.quantity == "throughput"}
    assert len(notes) == 1
    assert "Gibit/s" in notes.pop()


@pytest.mark.parametrize(
    ("ports", "models"),
    [
        ([("igc", 2.5e9)] * 3 + [("mlx4_en", 10e9)] * 2, ["R86S-G2", "R86S-U4"]),
        ([("r8169", 1e9)] * 3, ["APU1"]),
        ([("r8168", 1e9), ("r8169", 1e9), ("r8169", 1e9)], ["APU1"]),
        ([("r8169", 1e9)] * 2, []),
        ([("r8169", 1e9)] * 4, []),
        ([("r8169", 2.5e9)] * 3, []),
        ([("r8169", None)] * 3, []),
        ([("r8169", 1e9)] * 3 + [("e1000e", 1e9)], []),
        ([], []),
    ],
)
def test_which_profiles_fit(ports, models):
    assert [profile.model for profile in fitting_profiles(SHIPPED, ports)] == models


def test_a_good_profile():
    profile = parse_profile(GOOD)
    assert isinstance(profile, ModelProfile)
    assert profile.ports[0].max_mtu is None
    assert profile.baselines[0].value == 9e8


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('model = "BOX"', "", "model: is missing"),
        ('source = "its data sheet"', "", "source: is missing"),
        ('source = "page 3"', "", "baseline[0].source: is missing"),
        ("count = 2", "", "port[0].count: is missing"),
        ("count = 2", "count = 0", "port[0].count: 0 is not an integer number of ports from 1 to 1000"),
        ('speed = "1G"', "speed = 1", "port[0].speed: 1 has no unit"),
        ('speed = "1G"', "", "port[0].speed: is missing"),
        ('drivers = ["igb"]', "", "port[0].drivers: is missing; a list of drivers"),
        ('drivers = ["igb"]', 'drivers = "igb"', 'port[0].drivers: "igb" is not a list of drivers'),
        ('drivers = ["igb"]', "drivers = []", "port[0].drivers: a list is not a list of drivers"),
        ('drivers = ["igb"]', 'drivers = ["igb"]\nmax_mtu = 7', "port[0].max_mtu: 7 is not an integer number of bytes"),
        ('quantity = "throughput"', 'quantity = "troughput"', "did you mean 'throughput'"),
        ("value = 9e8", "", "baseline[0].value: is missing; write a number in bit/s"),
        ("value = 9e8", 'value = "900"', "baseline[0].value: '900': a rate needs its unit"),
        ("value = 9e8", 'value = "9 W"', "baseline[0].value: '9 W'"),
        ("value = 9e8", "value = 9e8\nuncertainty = -1", "baseline[0].uncertainty: -1 is below zero"),
        ("value = 9e8", 'value = 9e8\nprotocol = "tpc"', 'baseline[0].protocol: "tpc" is not one of tcp, udp (did you'),
        ("value = 9e8", "value = 9e8\nip_version = 7", "baseline[0].ip_version: 7 is not"),
        ("value = 9e8", 'value = 9e8\nzerocopy = "no"', 'baseline[0].zerocopy: "no" is not true or false'),
        ('name = "one"', 'name = "BOX/one"', "has a slash, which stands between model and name"),
        (
            GOOD,
            GOOD + '[[baseline]]\nname="one"\ntest="again"\nquantity="goodput"\nvalue=1e8\nsource="x"',
            'baseline[1].name: "one" has a throughput for the same conditions in baseline[0]',
        ),
        ("value = 9e8", "value = true", "baseline[0].value: true is not a finite number"),
        ("value = 9e8", "value = nan", "baseline[0].value: nan is not a finite number"),
        ("value = 9e8", "value = -1", "baseline[0].value: -1 is below zero, which throughput cannot be"),
        ("value = 9e8", "value = 9e8\nvalu = 1", "baseline[0].valu: unknown key (did you mean 'value'?)"),
        ("model", "model model", "broken TOML"),
        (GOOD, 'model = "X"\nsource = "y"', "port: is missing"),
        (GOOD, GOOD + '[[port]]\nname="LAN"\ncount=1\nspeed="1G"\ndrivers=["a"]', '"LAN" is used 2 times'),
    ],
)
def test_a_wrong_profile(old, new, says):
    with pytest.raises(BenchError) as refusal:
        parse_profile(GOOD.replace(old, new, 1), "box.toml")
    assert says in str(refusal.value)
    assert str(refusal.value).startswith("box.toml: ")


def test_all_mistakes_of_all_files_at_once(tmp_path):
    (tmp_path / "a.toml").write_text(GOOD.replace("count = 2", "count = 0").replace("9e8", "-9e8"))
    (tmp_path / "b.toml").write_text(GOOD.replace('model = "BOX"', ""))
    (tmp_path / "c.toml").write_bytes(b"\xff")
    with pytest.raises(BenchError) as refusal:
        load_profiles(tmp_path)
    said = str(refusal.value)
    assert [said.count(f"{name}.toml: ") for name in "abc"] == [2, 1, 1]


def test_a_folder_of_the_users(tmp_path):
    (tmp_path / "box.toml").write_text(GOOD)
    (tmp_path / "apu.toml").write_text(GOOD.replace('"BOX"', '"APU1"'))
    (tmp_path / "notes.txt").write_text("no profile")
    found = load_profiles(tmp_path)
    assert set(found) == {*SHIPPED, "BOX"}
    assert found["APU1"].source == "its data sheet", "the user's wins"


def test_folders_of_a_run(tmp_path):
    """The command line wins over the bench file, which wins over the shipped ones; a state of the device over all."""
    state = '[[state]]\nname = "{}"\nfirewall = {{ rules = {} }}\n'
    for folder, rules, value in (("models", 10, "9e8"), ("other", 20, "8e8")):
        (tmp_path / folder).mkdir()
        states = "".join(state.format(*each) for each in (("short", rules), ("long", rules), (folder, 1)))
        text = GOOD.replace("9e8", value).replace("[[port]]", states + "[[port]]", 1)
        (tmp_path / folder / "box.toml").write_text(text)
    bench = tmp_path / "bench.toml"
    bench.write_text(
        '[station]\nprofiles = "models"\n[[device]]\nserial = "X-1"\nmodel = "BOX"\n'
        '[[device.state]]\nname = "long"\nfirewall = { rules = 3 }\n'
        '[[device.link]]\nname = "p"\nsimulated = true\nspeed = "1G"\n'
    )
    with_file = NetperfSession(Options(bench=bench))
    (device,) = with_file.bench.devices
    assert {each.name: each.firewall_rules for each in device.states} == {"long": 3, "short": 10, "models": 1}
    (device,) = NetperfSession(Options(bench=bench, profiles=tmp_path / "other")).bench.devices
    assert {each.name: each.firewall_rules for each in device.states} == {"long": 3, "short": 20, "other": 1}
    with pytest.raises(BenchError, match="there is no such folder"):
        NetperfSession(Options(bench=bench, profiles=tmp_path / "none")).bench  # noqa: B018 - a property that reads
    limit = parse_limit("throughput", ">= 90 % of baseline BOX/one")
    assert with_file.baselines.find(limit, {"model": "BOX"}).value == 9e8


def test_folders_that_are_none(tmp_path):
    with pytest.raises(BenchError, match="there is no such folder"):
        load_profiles(tmp_path / "none")
    with pytest.raises(BenchError, match="there is no profile in this folder"):
        load_profiles(tmp_path)
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD)
    with pytest.raises(BenchError, match=r'b.toml: model: "BOX" is that of .*a.toml too'):
        load_profiles(tmp_path)
