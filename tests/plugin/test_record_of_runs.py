"""What a real run writes down: who took a failed device, which suite measured, and that its clock can be trusted."""

from __future__ import annotations

from pytest_netperf.record.verify import verify_sheet

pytest_plugins = ["pytester"]

POWER = """
@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("watts", [13, 16])
def test_power(netperf_record, watts):
    netperf_record("power", watts, "W")
"""
WAIVER = """
[[waiver]]
serial = "SIM-0001"
row = "test_all.py::test_power[*16*]::power"
who = "head of quality"
why = "The power supply is larger."
until = 2999-12-31
"""


def test_a_waived_run(project):
    """The device is taken, the test stays failed, and the record says why and by which suite."""
    project.write({"w.toml": WAIVER}, test_all=POWER)
    run = project.run("--netperf-waivers=w.toml", "--netperf-customer=ACME", "--netperf-suite-version=2.1")
    assert run.code == 1
    run.has("SIM-0001   ACCEPTED WITH WAIVER   1 of 2 rows passed", "1 failed, 1 passed")
    run.has("Waived by head of quality until 2999-12-31: The power supply is larger.")
    sheet = run.sheet
    assert (sheet["verdict"], sheet["state"], sheet["customer"]) == ("ACCEPTED WITH WAIVER", "complete", "ACME")
    assert [(row["verdict"], row["waived"]) for row in sheet["rows"]] == [("FAIL", True), ("PASS", False)]
    assert (sheet["procedure"]["suite"], sheet["procedure"]["version"]) == (project.path.name, "2.1")
    assert [file["what"] for file in sheet["files"]] == ["waivers file"]
    (path,) = run.output.glob("*/*/sheet.json")
    assert {finding.result for finding in verify_sheet(path)} == {"proven"}
    project.write({"w.toml": WAIVER.replace("until = 2999-12-31", "")})
    refused = project.run("--netperf-waivers=w.toml")
    assert refused.code == 4
    refused.is_clean()
    refused.has("w.toml: waiver 1: until is missing; write the last day on which it holds")
    assert not refused.output.exists()


def test_a_clock_that_is_set_back_fails_the_run(project):
    project.write(
        {
            "conftest.py": """
import datetime
from pytest_netperf.record import journal

moments = iter([0, 0, 0, 0, -3600])

def now():
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=next(moments, -3600))
    return moment.isoformat(timespec="milliseconds")

journal._now = now
"""
        },
        test_all=POWER.replace("16", "14"),
    )
    run = project.run()
    assert run.code == 1
    run.is_clean()
    run.has("ERROR: The clock of the tester was set back by", "SIM-0001   NOT PROVEN   2 of 2 rows passed", "2 passed")
    assert run.sheet["verdict"] == "NOT PROVEN"
    assert run.sheet["remarks"][0].startswith("The clock of the tester was set back")
