"""What a real run writes down: who took a failed device, which suite measured, and that its clock can be trusted."""

from __future__ import annotations

import contextlib
import sqlite3

from pytest_netperf import cli
from pytest_netperf.batch.folder import read_folder
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
    run = project.run(
        "--netperf-waivers=w.toml",
        "--netperf-customer=ACME",
        "--netperf-suite-version=2.1",
        "--netperf-authoriser=Q. A.",
    )
    assert run.code == 1
    run.has("SIM-0001   ACCEPTED WITH WAIVER   1 of 2 rows passed", "1 failed, 1 passed")
    run.has("Waived by head of quality until 2999-12-31: The power supply is larger.")
    sheet = run.sheet
    assert (sheet["verdict"], sheet["state"], sheet["customer"]) == ("ACCEPTED WITH WAIVER", "complete", "ACME")
    assert [(row["verdict"], row["waived"]) for row in sheet["rows"]] == [("FAIL", True), ("PASS", False)]
    assert (sheet["procedure"]["suite"], sheet["procedure"]["version"]) == (project.path.name, "2.1")
    assert [file["what"] for file in sheet["files"]] == ["waivers file"]
    assert sheet["authoriser"] == "Q. A."
    with contextlib.closing(sqlite3.connect(run.output / "results.db")) as store:
        (stored,) = store.execute("SELECT serial, verdict, sheet_digest FROM netperf_device")
        verdicts = store.execute("SELECT verdict FROM netperf_row ORDER BY n").fetchall()
    assert (stored, verdicts) == (("SIM-0001", sheet["verdict"], sheet["digest"]), [("PASS",), ("FAIL",)])
    (path,) = run.output.glob("*/*/sheet.json")
    assert {finding.result for finding in verify_sheet(path)} == {"proven"}
    assert "<td>Q. A.</td>" in path.with_name("sheet.html").read_text().replace('<td class="text">', "<td>")
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
    run = project.run("--netperf-store=none")
    assert run.code == 1
    assert not list(run.output.glob("*.db"))
    run.is_clean()
    run.has("ERROR: The clock of the tester was set back by", "SIM-0001   NOT PROVEN   2 of 2 rows passed", "2 passed")
    assert run.sheet["verdict"] == "NOT PROVEN"
    assert run.sheet["remarks"][0].startswith("The clock of the tester was set back")


ATTACHED = """
import pathlib, pytest
from pytest_netperf.errors import ConfigError

@pytest.mark.netperf_limit(power="<= 15 W")
def test_power(netperf_record, netperf_attach, tmp_path):
    (tmp_path / "scope.png").write_bytes(b"picture")
    netperf_attach(tmp_path / "scope.png", what="picture of the meter")
    netperf_attach("all is well", name="log.txt")
    netperf_attach("{}", name="a.json")  # no sheet
    netperf_record("power", 10, "W")
    netperf_record("temperature", 40, "degC")
    for wrong, says in [
        (lambda: netperf_attach("{}", name="sheet.json"), "is the name of the record itself"),
        (lambda: netperf_attach(b"x"), "bytes have no name"),
        (lambda: netperf_attach(b"x", name="a/b"), "is not the name of a file"),
        (lambda: netperf_attach(tmp_path / "none"), "cannot be read: No such file"),
        (lambda: netperf_attach("/dev/zero"), "/dev/zero is no file"),
        (lambda: netperf_attach(bytes(100_000_001), name="big"), "more than the 100000000"),
    ]:
        with pytest.raises(ConfigError, match=says):
            wrong()

def test_no_row(netperf_attach):
    pass
"""


def test_files_that_a_test_attaches_are_kept_named_and_verified(project):
    project.write(test_all=ATTACHED)
    run = project.run("-n2")
    run.has("netperf_attach: this test measures nothing, so that it has no row for a file; record a quantity in it")
    rows = {row["quantity"]: row for row in run.sheet["rows"]}
    assert rows["power"]["verdict"] == "PASS", run.text
    for row in (rows["power"], rows["temperature"]):
        assert [(file["what"], file["name"]) for file in row["evidence"]["files"]] == [
            ("picture of the meter", "scope.png"), ("attached file", "log.txt"), ("attached file", "a.json")
        ]  # fmt: skip
    (path,) = run.output.glob("*/*/sheet.json")
    (beside,) = path.parent.glob("attached-*-log.txt")
    assert beside.read_text() == "all is well"
    assert beside.name in path.with_name("sheet.html").read_text()
    assert cli.main(["verify", str(path)]) == 0
    (kept,) = run.output.glob("evidence/*/scope.png")
    for file in (kept, beside):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + b"!")
        assert cli.main(["verify", str(path)]) == 1, file
        file.write_bytes(whole)
    assert not read_folder_problems(run.output)
    elsewhere = project.path / "elsewhere"
    assert cli.main(["sheet", str(run.journal), "--output", str(elsewhere)]) == 1  # not accepted
    (again,) = elsewhere.glob(f"*/*/{beside.name}")
    assert again.read_bytes() == beside.read_bytes()


def read_folder_problems(output):
    problems, remarks = [], []
    list(read_folder(output, {}, problems, remarks))
    return problems + remarks
