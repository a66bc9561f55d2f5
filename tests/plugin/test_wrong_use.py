"""Wrong use: each mistake ends the run before it begins, with a message of its own, with and without workers."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

BENCH = """
[[device]]
serial = "GOOD-0001"
model = "box"
  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true
  [[device.link]]
  name = "wan"
  speed = "1G"
  simulated = true
  mtu = 9000
"""


def link(arguments: str, more: str = "") -> str:
    return f"@pytest.mark.netperf_link({arguments})\n{more}def test_it(iperf3):\n    iperf3.tcp()\n"


def limit(arguments: str, fixture: str = "iperf3") -> str:
    return f"@pytest.mark.netperf_limit({arguments})\ndef test_it({fixture}): pass\n"


PARAM = """
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.{mark})])
def test_it(iperf3, x): pass
"""

# What is written in the test file -> what the message must say.
MISTAKES = {
    "number without unit": (limit("throughput='>= 9.8'"), ["throughput limit '>= 9.8'", "needs its unit", "9.8 Gbps"]),
    "unknown unit": (limit("throughput='>= 9.8 Gpbs'"), ["unknown unit 'Gpbs'"]),
    "unit of something else": (limit("throughput='>= 9.8 W'"), ["'W' is a unit of power, expected a rate"]),
    "near miss of a quantity": (limit("troughput='>= 9.8 Gbps'"), ["unknown quantity", "did you mean 'throughput'"]),
    "no quantity at all": (limit("speed='1G'"), ["nothing is limited here"]),
    "contradictory bounds": (limit("throughput='between 3 and 2 Gbps'"), ["contradictory bounds"]),
    "contradictory marks": (
        "@pytest.mark.netperf_limit(power='<= 15 W')\n" + limit("power='<= 14 W'", "netperf_record"),
        ["stands equally close to the test", "keep one of them"],
    ),
    "no operator": (limit("throughput='9.8 Gbps'"), ["it does not say which way"]),
    "not a text": (limit("throughput=9.8e9"), ["a limit is text, not float"]),
    "never fails": (limit("throughput='>= 0 Mbps'"), ["could never fail"]),
    "above the ceiling": (
        "@pytest.mark.netperf_link(speed='100M')\n" + limit("throughput='>= 98 Mbps'"),
        ["SIM-0001/sim-100M: throughput limit 98 Mbit/s can never be reached", "a 100M link at MTU 1500", "Lower the"],
    ),
    "above the ceiling at one MTU of the sweep": (
        "@pytest.mark.netperf_link(speed='100M', mtu=[9000, 576])\n" + limit("throughput='>= 97 Mbps'"),
        ["SIM-0001/sim-100M/mtu576", "can never be reached"],
    ),
    "more than all of the ceiling": (limit("throughput='>= 101 % of ceiling'"), ["100 % is what physics allows"]),
    "unknown condition": (limit("throughput='>= 1 Mbps', derection='forward'"), ["(did you mean 'direction'"]),
    "positional limit": (limit("'>= 9.8 Gbps'"), ["netperf_limit('>= 9.8 Gbps'): takes named arguments only"]),
    "positional link": (link("'10G'"), ["netperf_link('10G'): takes named arguments only", "speed='2.5G'"]),
    "unknown argument of a link": (link("speeed='1G'"), ["no argument 'speeed' (did you mean 'speed'"]),
    "speed without unit": (link("speed=10"), ["10 has no unit; write '10G'"]),
    "mtu as text": (link("mtu='9000'"), ["write mtu=9000"]),
    "empty sweep": (link("mtu=[]"), ["the list is empty, so the test would not run at all"]),
    "call argument on the mark": (link("streams=4"), ["streams belongs to the traffic call in the test"]),
    "several mistakes at once": (
        link("speed=10, mtu='x', foo=1"),
        ["10 has no unit", "mtu must be an integer", "no argument 'foo'"],
    ),
    "mark on a test that measures nothing": (
        "@pytest.mark.netperf_limit(power='<= 15 W')\ndef test_it(): pass\n",
        ["netperf_limit on a test that measures nothing", "name the one it needs among its arguments"],
    ),
    "link mark on a test that only records": (
        "@pytest.mark.netperf_link(mtu=9000)\ndef test_it(netperf_record): pass\n",
        ["netperf_link on a test that has no link", "remove the mark"],
    ),
    "link mark in a parameter set": (
        PARAM.format(mark="netperf_link(speed='100M')"),
        ["netperf_link in pytest.param(marks=...)", "has no effect", "on the function, its class or its module"],
    ),
    "wrong limit in a parameter set": (
        PARAM.format(mark="netperf_limit(throughput='>= 9.8')"),
        ["test_it[SIM-0001/sim-1G-2]", "needs its unit"],
    ),
    "impossible limit in a parameter set": (
        PARAM.format(mark="netperf_limit(throughput='>= 2 Gbps')"),
        ["can never be reached"],
    ),
    "wrong mark on the module": (
        "pytestmark = pytest.mark.netperf_link(mtu=1)\ndef test_it(iperf3): pass\n",
        ["netperf_link(mtu=1): mtu must be an integer"],
    ),
    "wrong mark on the class": (
        "@pytest.mark.netperf_limit(power='15')\nclass TestIt:\n    def test_it(self, netperf_record): pass\n",
        ["power limit '15'"],
    ),
}  # fmt: skip


def test_mistakes_in_marks_are_errors_of_the_collection(project, workers):
    """All in one run: a pytest takes its time to start, and each message has its own text to be found by."""
    names = {name: f"test_mistake_{number}" for number, name in enumerate(MISTAKES)}
    project.write({}, **{names[name]: text for name, (text, _) in MISTAKES.items()})
    run = project.run(*workers)
    run.is_clean()
    assert run.code == (1 if workers else 2)  # xdist has a code of its own for it
    assert not run.output.exists()
    run.has(f"{len(MISTAKES)} errors")
    for name, (_, says) in MISTAKES.items():
        run.has(f"ERROR collecting {names[name]}.py")
        about = run.text.split(f"ERROR collecting {names[name]}.py", 1)[1].split("ERROR collecting", 1)[0]
        flat = " ".join(about.split())
        for text in says:
            assert " ".join(text.split()) in flat, about


def test_a_limit_that_looks_turned_round_is_a_warning_and_runs(project, workers):
    project.write({"pytest.ini": "[pytest]\n"}, test_it=limit("retransmits='>= 5'", "netperf_record"))
    run = project.run(*workers)
    run.has("of retransmits less is better: did you mean '<='?")
    assert run.code == 1  # it never measured it
    assert list(run.verdicts.values()) == ["INCONCLUSIVE"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("speed='10G'", ["GOOD-0001/lan: its speed is 100M, not 10G", "GOOD-0001/wan: its speed is 1G, not 10G"]),
        ("name='dmz'", ["GOOD-0001/lan: its name is 'lan', not 'dmz'"]),
        ("speed=['100M', '40G']", ["no link of the bench", "with speed 40G"]),
        ("simulated=False", ["it is simulated"]),
        ("device='BAD*'", ["its device is 'GOOD-0001', not 'BAD*'"]),
        ("mtu=9000, mss=8961", ["impossible on GOOD-0001/lan/mtu9000/mss8961", "at most 8960"]),
        ("fault={'rate': '1 Gbps'}", ["impossible on GOOD-0001/lan/fault-rate1G", "nothing would be faulty"]),
        ("fault={'rte': '1 Mbps'}", ["unknown key", "'rate'"]),
    ],
)  # fmt: skip
def test_no_link_fits(project, arguments, says):
    project.write({"bench.toml": BENCH}, test_it=link(arguments))
    run = project.run("--netperf-bench=bench.toml")
    run.has("Tried:" if "its" in says[0] else "netperf_link(", *says)
    run.is_clean()
    assert run.code == 2


BENCHES = {
    "broken TOML": ("[[device]]\nserial = 7x\n", ["bench.toml: line 2, column", "broken TOML", "serial = 7x"]),
    "duplicate serials": (
        BENCH + BENCH,
        ['device[1].serial: "GOOD-0001" is used 2 times (device[0], device[1]); make it unique'],
    ),
    "unknown key": (BENCH.replace("model =", "modle ="), ["device[0].modle: unknown key", "did you mean 'model'"]),
    "empty": ("", ["the bench is empty; describe at least one device"]),
    "no device": ("device = []\n", ["the list is empty; a bench needs at least one device"]),
    "speed without unit": (BENCH.replace('"100M"', "100"), ["device[0].link[0].speed:", "has no unit"]),
    "not UTF-8": ("\udcff", ["line 1: byte 0xff is not UTF-8"]),
    "all at once": (
        BENCH.replace('"100M"', "100").replace("model", "modle").replace('name = "wan"', ""),
        ["device[0].modle", "device[0].link[0].speed", "device[0].link[1].name"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", BENCHES)
def test_a_wrong_bench_file_ends_every_run_with_file_and_place(project, workers, mistake):
    text, says = BENCHES[mistake]
    (project.path / "bench.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    project.write(test_it=link("speed='100M'"))
    run = project.run(*workers, "--netperf-bench=bench.toml")
    run.has("ERROR: ", "bench.toml: ", *says)
    run.is_clean()
    assert run.code == 4
    assert not run.output.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--netperf-bench=none.toml"], ["none.toml: there is no such bench file"]),
        (["--netperf-bench=."], ["is a directory; give a bench file"]),
        (["--netperf-limits=none.toml"], ["limits file", "none.toml", "cannot be read"]),
        (["--netperf-limits=wrong.toml"], ["wrong.toml: limit 1: source must be the sentence", "needs its unit"]),
        (["--netperf-limits=broken.toml"], ["broken.toml: this is not TOML", "line 1"]),
        (["--netperf-device=SIM-1"], ["--netperf-device SIM-1: there is no such device", "did you mean 'SIM-0001'?"]),
        (["--netperf-duration=0.5"], ["--netperf-duration 0.5: must be a whole number of seconds"]),
        (["--netperf-engine=iperf2"], ["there is no engine 'iperf2'"]),
        (["--netperf-output=test_it.py"], ["test_it.py is not a folder; results cannot be written into it"]),
        (["--netperf-operator="], ["is empty (an environment variable that is not set?)"]),
        (["--netperf-slots=0", "--netperf-omit=x"], ["--netperf-slots 0: must be", "--netperf-omit x:"]),
    ],
    ids=lambda value: value[0].lstrip("-") if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_wrong_options(project, workers, arguments, says):
    project.write(
        {"wrong.toml": '[[limit]]\nthroughput = ">= 3"\n', "broken.toml": "limit = x\n"},
        test_it=link("speed='100M'"),
    )
    run = project.run(*workers, *arguments)
    run.has("ERROR: ", *says)
    run.is_clean()
    assert run.code == 4


def test_marks_that_come_too_late_are_errors_of_their_tests_and_rows(project, workers):
    """A conftest may add marks after the collection: limits of it count; what cannot count says so in its row."""
    project.write(
        {
            "conftest.py": """
import pytest

LATE = {
    "test_stricter": pytest.mark.netperf_limit(power="<= 12 W"),
    "test_wrong": pytest.mark.netperf_limit(power="<= 12"),
    "test_link": pytest.mark.netperf_link(device="SIM-*"),
}

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(LATE[item.originalname])
"""
        },
        test_late="""
@pytest.mark.netperf_limit(power="<= 15 W")
def test_stricter(netperf_record):
    netperf_record("power", 13, "W")

@pytest.mark.netperf_limit(power="<= 15 W")
def test_wrong(netperf_record):
    netperf_record("power", 13, "W")

@pytest.mark.netperf_limit(power="<= 15 W")
def test_link(netperf_record):
    netperf_record("power", 13, "W")
""",
    )
    run = project.run(*workers)
    run.is_clean()
    rows = {row["test"].split("::")[1].split("[")[0]: row for row in run.rows.values()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "test_stricter": "FAIL",
        "test_wrong": "ERROR",
        "test_link": "ERROR",
    }
    assert "above the allowed 12 W" in rows["test_stricter"]["reason"]
    assert "power limit '<= 12'" in rows["test_wrong"]["reason"]
    assert "add_marker() has no effect" in rows["test_link"]["reason"]
    assert run.code == 1


def test_no_device_is_accepted_by_a_run_with_a_test_that_nobody_could_plan(project):
    project.write(
        test_late="""
def test_late(request):
    request.getfixturevalue("iperf3").tcp()

@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record):
    netperf_record("power", 13, "W")
"""
    )
    run = project.run()
    assert (run.code, run.sheet["verdict"]) == (1, "NOT PROVEN"), run.text
    verdicts = {row["id"].split("::")[-1]: row["verdict"] for row in run.sheet["rows"]}
    assert verdicts == {"measurement[SIM-0001]": "ERROR", "power": "PASS"}


def test_fixtures_that_pytest_does_not_see_say_what_to_write(project, workers):
    project.write(
        test_hidden="""
import unittest

@pytest.mark.parametrize("name", ["iperf3", "netperf_link", "netperf_record", "netperf_device"])
def test_hidden(request, name):
    request.getfixturevalue(name)

def test_typo(iperf3):
    iperf3.tpc()

def test_wrong_call(iperf3):
    iperf3.tcp(sterams=4)

def test_positional(iperf3):
    iperf3.tcp(4)
"""
    )
    run = project.run(*workers)
    run.is_clean()
    run.has(
        "netperf_link has no link here", "netperf_device has no device here", "name it among the arguments of the test",
        "'Iperf3' object has no attribute 'tpc'", "iperf3.tcp(sterams=...): unknown argument; did you mean 'streams'?",
    )  # fmt: skip
    assert run.code == 1
    assert sorted(row["verdict"] for row in run.rows.values()) == ["ERROR"] * 7
