"""Probes as users write them: the example of the documentation, and one that fails."""

from __future__ import annotations

import re
from pathlib import Path

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "probes.md"


def example(kind):
    return re.search(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]


FAILING = """
from pytest_netperf.probes import Probe
def pytest_netperf_probes(device):
    def meter():
        raise OSError("the meter is off")
    return [
        Probe(quantity="power", unit="W", read=meter),
        Probe(quantity="dut_cpu", unit="%", read=lambda: 30, during=True, every_s=0.5),
    ]
"""
LIMITS = """
[[limit]]
source = "data sheet"
dut_cpu = "<= 50 %"
"""


def test_the_example_and_one_that_fails(project):
    """A limits file may name what is probed, too: it is expected of every test with traffic."""
    test = example("python test").replace("import pytest\n", "").replace("duration=10", "duration=1")
    mark = 'throughput=">= 50 % of ceiling", power="<= 15 W"'
    project.write(
        {"own/conftest.py": FAILING, "conftest.py": example("python conftest"), "limits.toml": LIMITS},
        test_doc='@pytest.mark.netperf_link(speed="100M")\n' + test.strip(),
    )
    (project.path / "own" / "test_fail.py").write_text(
        "import pytest\n"
        f'@pytest.mark.netperf_link(speed="100M")\n@pytest.mark.netperf_limit({mark})\n'
        "def test_power(iperf3):\n    iperf3.tcp()\n"
    )
    run = project.run("--netperf-limits", "limits.toml")
    rows = {name.replace("[SIM-0001/sim-100M]", ""): row for name, row in run.rows.items()}
    hot = rows["test_stays_cool::temperature"]
    assert hot["verdict"] == "PASS"
    before, after = hot["evidence"]["facts"]["temperature_samples"]
    assert hot["value"] == after == before + 1
    assert hot["evidence"]["facts"]["temperature_from"] == "thermocouple on the lid"
    assert hot["evidence"]["facts"]["raw_output_in"].endswith("::throughput")
    power = rows["test_power::power"]
    assert power["verdict"] == "ERROR"
    assert power["reason"] == "The probe 'power' of power failed: OSError: the meter is off."
    cpu = rows["test_power::dut_cpu"]
    assert (cpu["verdict"], cpu["value"], cpu["limit_source"]) == ("PASS", 0.3, "data sheet")
    assert rows["test_power::throughput"]["verdict"] in ("PASS", "INCONCLUSIVE")
    assert "test_stays_cool::dut_cpu" not in rows, "no probe there reads it"


def test_hooks_that_are_wrong(project):
    for number, (answer, says) in enumerate(
        (
            ("[3]", "pytest_netperf_probes returned [3]; it must be a list of Probe, or None"),
            ("1 / 0", "pytest_netperf_probes raised ZeroDivisionError"),
            (
                'probes.Probe(quantity="throughput", unit="bit/s", read=print)',
                "throughput is measured by the traffic itself",
            ),
            ('probes.Probe(quantity="temprature", unit="degC", read=print)', "did you mean 'temperature'"),
        )
    ):
        inside = answer if answer.startswith(("[", "1")) else f"[{answer}]"
        project.write(
            {
                f"w{number}/conftest.py": "from pytest_netperf import probes\n"
                f"def pytest_netperf_probes():\n    return {inside}\n",
                f"w{number}/test_w{number}.py": "def test_rate(iperf3):\n    iperf3.tcp()\n",
                f"w{number}/says.txt": says,
            }
        )
    run = project.run()
    assert run.code == 1
    for folder in sorted(project.path.glob("w*")):
        assert (folder / "says.txt").read_text() in run.text
