"""What other tools of the trade see: pytest-html, JUnit, the terminal, and reporters of the user's own."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import junitparser
import pytest

pytest_plugins = ["pytester"]

TESTS = """
LIMIT = pytest.mark.netperf_limit(power="<= 15 W")

@LIMIT
def test_pass(netperf_record):
    netperf_record("power", 13, "W")

@LIMIT
def test_fail(netperf_record):
    netperf_record("power", 16, "W")

def test_no_limit(netperf_record):
    netperf_record("power", 13, "W")

@LIMIT
def test_invalid(netperf_record):
    netperf_record("power", float("nan"), "W")

@pytest.mark.skip(reason="no meter")
@LIMIT
def test_skipped(netperf_record): pass

@LIMIT
def test_exception(netperf_record):
    raise RuntimeError("<b>no meter</b>")

@pytest.fixture
def broken():
    raise OSError("no meter")

@LIMIT
def test_setup(broken, netperf_record): pass

def test_plain(): pass
"""


class Tables(HTMLParser):
    """The text of each cell, and the links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.links += [value or "" for name, value in attrs if name == "href"]
        if tag == "img":
            self.images += [value or "" for name, value in attrs if name == "src"]
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_pytest_html_has_our_columns_and_links_to_the_sheet(project, workers):
    project.write(test_all=TESTS)
    run = project.run(*workers, "--html=reports/index.html", "--self-contained-html")
    page = (project.path / "reports" / "index.html").read_text()
    (blob,) = re.findall(r'data-jsonblob="([^"]*)"', page)
    data = json.loads(html.unescape(blob))
    rows = {name: Tables("".join(entry["resultsTableRow"])) for name, (entry, *_) in data["tests"].items()}
    cells = {name.split("::")[1].split("[")[0]: table.cells[:6] for name, table in rows.items()}
    assert {name: found[2:5] for name, found in cells.items()} == {
        "test_pass": ["power 13 W", "<= 15 W", "PASS"],
        "test_fail": ["power 16 W", "<= 15 W", "FAIL"],
        "test_no_limit": ["power 13 W", "", "INCONCLUSIVE"],
        "test_invalid": ["", "<= 15 W", "INVALID"],
        "test_skipped": ["", "<= 15 W", "SKIPPED"],
        "test_exception": ["", "<= 15 W", "ERROR"],
        "test_setup": ["", "<= 15 W", "ERROR"],
        "test_plain": ["", "", ""],
    }
    drawings = {name.split("::")[1].split("[")[0]: len(table.images) for name, table in rows.items()}
    assert {name for name, number in drawings.items() if number} == {"test_pass", "test_fail", "test_no_limit"}
    assert all(source.startswith("data:image/svg+xml;base64,") for table in rows.values() for source in table.images)
    for heading in ("Measured", "Limit", "Verdict", "Sheet"):
        assert f"<th>{heading}</th>" in page
    links = {link for name, table in rows.items() if "plain" not in name for link in table.links}
    (link,) = {link for link in links if link.endswith("sheet.html")}
    assert (project.path / "reports" / unquote(link)).resolve() == next(run.output.glob("SIM-0001/*/sheet.html"))
    assert all("sheet.html" not in link for name, table in rows.items() if "plain" in name for link in table.links)
    assert run.code == 1


def test_pytest_html_in_a_project_without_us(project, workers):
    project.write(test_plain="def test_plain(): pass\n")
    run = project.run(*workers, "--html=index.html")
    assert run.code == 0, run.text
    assert (project.path / "index.html").exists()


def properties_of(case) -> list[tuple[str, str]]:
    return [(each.name, each.value) for group in case.iterchildren(junitparser.Properties) for each in group]


@pytest.mark.parametrize("family", ["xunit2", "xunit1"])
def test_junit_has_verdict_reason_and_counts(project, workers, family):
    project.write(test_all=TESTS)
    run = project.run(*workers, "--junitxml=junit.xml", "-o", f"junit_family={family}")
    assert run.code == 1
    (suite,) = junitparser.JUnitXml.fromfile(str(project.path / "junit.xml"))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (8, 4, 1, 1)
    cases = {case.name.split("[")[0]: case for case in suite}
    properties = {name: dict(properties_of(case)) for name, case in cases.items()}
    assert {name: found.get("netperf_verdict") for name, found in properties.items()} == {
        "test_pass": "PASS",
        "test_fail": "FAIL",
        "test_no_limit": "INCONCLUSIVE",
        "test_invalid": "INVALID",
        "test_skipped": "SKIPPED",
        "test_exception": "ERROR",
        "test_setup": "ERROR",
        "test_plain": None,
    }
    assert properties["test_pass"]["netperf_power"] == "13 W"
    assert "16 W is above the allowed 15 W" in properties["test_fail"]["netperf_power_reason"]
    for name, says in (
        ("test_fail", "FAIL: SIM-0001/- power: 16 W is above the allowed 15 W"),
        ("test_no_limit", "INCONCLUSIVE: SIM-0001/- power: 13 W was measured, but no limit applies"),
        ("test_invalid", "INVALID: SIM-0001/- power: The value nan is not a finite number"),
        ("test_exception", "RuntimeError: <b>no meter</b>"),
    ):
        (result,) = cases[name].result
        assert isinstance(result, junitparser.Failure)
        assert says in result.message, name
    assert isinstance(cases["test_setup"].result[0], junitparser.Error)
    assert isinstance(cases["test_skipped"].result[0], junitparser.Skipped)


def test_junit_has_the_properties_of_each_attempt_once(project):
    project.write(
        test_flaky="""
SEEN = []

@pytest.mark.netperf_limit(power="<= 15 W")
def test_flaky(netperf_record, record_property):
    SEEN.append(1)
    record_property("user", "own")
    netperf_record("power", 16 if len(SEEN) == 1 else 13, "W")
"""
    )
    run = project.run("--reruns=1", "--junitxml=junit.xml", "-o", "junit_family=xunit1")
    assert run.code == 1
    (suite,) = junitparser.JUnitXml.fromfile(str(project.path / "junit.xml"))
    found = [properties_of(case) for case in suite]
    verdicts = [[value for name, value in each if name == "netperf_verdict"] for each in found]
    assert verdicts == [["FAIL"], ["PASS"]]
    assert all(("user", "own") in each for each in found)


def test_the_terminal_has_a_word_letter_count_and_line_for_each(project, workers):
    project.write(test_all=TESTS)
    run = project.run(*workers, "-v", "--color=no")
    for name, word in (("test_no_limit", "INCONCLUSIVE"), ("test_invalid", "INVALID"), ("test_fail", "FAILED")):
        line = next(line for line in run.text.splitlines() if f"::{name}[" in line and word in line)
        assert line
    run.has("2 failed, 2 passed, 1 skipped, 1 error, 1 inconclusive, 1 invalid")
    short = project.run(*workers, "-q", "--color=no")
    letters = re.search(r"^([.FIVsE]{8})\s+\[100%\]$", short.text, re.MULTILINE)
    assert letters, short.text
    assert sorted(letters[1]) == sorted("..FFIVsE")
    report = short.text[short.text.index("network acceptance") :]
    lines = {line.split()[1]: line.split()[0] for line in report.splitlines() if re.match(r"  [A-Z]+ +test_", line)}
    assert lines == {
        "test_fail": "FAIL",
        "test_invalid": "INVALID",
        "test_exception": "ERROR",
        "test_setup": "ERROR",
        "test_no_limit": "INCONCLUSIVE",
        "test_skipped": "SKIPPED",
        "test_pass": "PASS",
    }
    run.has("SIM-0001 REJECTED 1 of 7 rows passed", "1 of 7 required rows failed", "Next: ")


def test_colour_repeats_what_the_words_say(project):
    project.write(test_all=TESTS)
    run = project.run("--color=yes", "-k", "no_limit or invalid")
    assert "\x1b[33m" in run.text  # yellow
    assert "\x1b[35m" in run.text  # purple
    assert "1 inconclusive" in re.sub(r"\x1b\[[0-9;]*m", "", run.text)


@pytest.mark.parametrize("traceback", ["auto", "long", "short", "line", "native", "no"])
def test_tracebacks_of_wrong_use_end_in_the_test(project, traceback):
    project.write(
        test_wrong="""
def helper(record):
    record("power", 13, "V")

def test_wrong(netperf_record):
    helper(netperf_record)
"""
    )
    run = project.run(f"--tb={traceback}")
    assert run.code == 1
    run.has("'V' is a unit of voltage, expected a power")
    if traceback in ("auto", "long", "short"):
        run.is_clean()
        run.has("test_wrong.py:4", 'record("power", 13, "V")')


HOOKS = """
import json, os, pathlib

SEEN = pathlib.Path("seen.jsonl")

def note(**what):
    with SEEN.open("a") as file:
        file.write(json.dumps({"worker": os.environ.get("PYTEST_XDIST_WORKER"), **what}) + "\\n")

def pytest_netperf_row(config, row):
    note(row=row.id, verdict=row.verdict.value, journal=any(row.id in path.read_text()
         for path in pathlib.Path(config.getoption("--netperf-output")).glob("journals/*")))

def pytest_netperf_sheet(config, device, sheet):
    page = pathlib.Path(f"{device.serial}.txt")
    page.write_text(f"{sheet.verdict.value} {len(sheet.rows)}")
    note(sheet=device.serial)
    return page
"""


def test_hooks_are_called_in_the_controller_as_rows_and_sheets_come(project, workers):
    project.write({"conftest.py": HOOKS}, test_all=TESTS)
    run = project.run(*workers)
    seen = [json.loads(line) for line in (project.path / "seen.jsonl").read_text().splitlines()]
    assert {each["worker"] for each in seen} == {None}
    rows = {each["row"]: each["verdict"] for each in seen if "row" in each}
    assert rows == {row["id"]: row["verdict"] for row in run.sheet["rows"]}
    assert len([each for each in seen if "row" in each]) == len(rows) == 7
    assert all(each["journal"] for each in seen if "row" in each)  # on the disk before anybody hears of it
    assert seen[-1] == {"worker": None, "sheet": "SIM-0001"}
    assert (project.path / "SIM-0001.txt").read_text() == "REJECTED 7"
    run.has("also written: SIM-0001.txt")


@pytest.mark.parametrize("order", ["", "@pytest.hookimpl(tryfirst=True)"])
@pytest.mark.parametrize("hook", ["pytest_netperf_row(row)", "pytest_netperf_sheet(sheet)"])
def test_a_hook_that_raises_fails_the_run_and_costs_nothing(project, workers, hook, order):
    project.write(
        {"conftest.py": f"import pytest\n{order}\ndef {hook}:\n    raise KeyError('the printer is on fire')\n"},
        test_pass=TESTS.split("@LIMIT\ndef test_fail")[0],
    )
    run = project.run(*workers)
    run.is_clean()
    run.has(f"a {hook.split('(')[0]} hook", "KeyError: 'the printer is on fire'", "ACCEPTED", "1 passed")
    assert run.sheet["verdict"] == "ACCEPTED"
    assert len(list(run.output.glob("SIM-0001/*"))) == 1
    assert str(next(run.output.glob("SIM-0001/*/sheet.html")).relative_to(project.path)) in run.text
    assert run.code == 1


SECTIONS = """
def pytest_netperf_sheet_sections(device, sheet):
    if device.serial == "SIM-0001":
        return [{"title": "Burn-in of " + device.serial, "text": [sheet.verdict.value], "table": [["a", "b"]]}]
"""
ONE_TEST = TESTS.split("@LIMIT\ndef test_fail")[0]


def test_sections_of_a_hook_are_in_the_record_and_on_every_sheet_and_in_the_job_summary(project, monkeypatch):
    summary = project.path / "summary.md"
    summary.write_text("of another step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    project.write({"conftest.py": SECTIONS}, test_pass=ONE_TEST)
    run = project.run("--netperf-sheet=html,pdf,csv", "--netperf-language=ja", "--netperf-job-summary")
    assert run.code == 0, run.text
    assert run.sheet["sections"] == [
        {"title": "Burn-in of SIM-0001", "text": ["ACCEPTED"], "header": [], "table": [["a", "b"]]}
    ]
    (folder,) = run.output.glob("SIM-0001/*")
    page = (folder / "sheet.html").read_text()
    assert "<h2>Burn-in of SIM-0001</h2>" in page
    assert '<html lang="ja">' in page
    assert (folder / "sheet.pdf").read_bytes().startswith(b"%PDF-1.7")
    assert summary.read_text().startswith("of another step\n## Network acceptance: 1 ACCEPTED\n")
    assert (folder / "sheet.csv").read_text().count("PASS") == 1


def test_sections_that_are_none_fail_the_run_and_cost_nothing(project):
    hook = "def pytest_netperf_sheet_sections(device): return [{'titel': 'x'}]\n"
    project.write({"conftest.py": hook}, test_pass=ONE_TEST)
    run = project.run()
    run.is_clean()
    run.has("a pytest_netperf_sheet_sections hook, for SIM-0001", "missing required field `title`", "ACCEPTED")
    assert (run.sheet["verdict"], run.sheet["sections"], run.code) == ("ACCEPTED", [], 1)
