"""``pytest-netperf judge`` as a command: series, journals, their exit codes, and wrong use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_netperf.judge.profile import PROFILES
from pytest_netperf.series_cli import SERIES_KEYS

pytest_plugins = ["pytester"]

GOOD = "seconds,bits\n" + "1.0,2353000000\n" * 63
BAD = "seconds,bits\n" + "1.0,1900000000\n" * 63
LIMIT = (">= 2.3 Gbps",)


def series_of(done):
    return json.loads(done.stdout)


@pytest.fixture
def files(project):
    project.write({"good.csv": GOOD, "bad.csv": BAD, "short.csv": GOOD[: GOOD.index("\n", 40)] + "\n"})
    return project


def test_json_of_two_series(files):
    done = files.command("judge", "--series", "good.csv", "bad.csv", "--limit", ">= 2.3 Gbps", "--json")
    good, bad = series_of(done)
    assert done.returncode == 1
    assert list(good) == list(bad) == list(SERIES_KEYS)
    assert (good["file"], good["verdict"], good["seconds_used"]) == ("good.csv", "PASS", 13)
    assert (good["value_bps"], good["n_eff"], good["stopped_early"], good["time_saved_s"]) == (2.353e9, 10, True, 50)
    assert good["margin"] == pytest.approx(2.353 / 2.3 - 1)
    assert 1e5 < good["uncertainty_bps"] < 1e6
    assert (good["doubts"], good["limit"], good["rule"]) == ([], ">= 2.3 Gbit/s", "simple")
    assert (bad["file"], bad["verdict"], bad["margin"]) == ("bad.csv", "FAIL", pytest.approx(1.9 / 2.3 - 1))


def test_the_same_bytes_twice_and_the_order_of_the_files(files):
    arguments = ("judge", "--limit", ">= 2.3 Gbps", "--json", "--series", "bad.csv", "good.csv", "short.csv")
    first, second = files.command(*arguments), files.command(*arguments)
    assert first.stdout == second.stdout
    assert [each["verdict"] for each in series_of(first)] == ["FAIL", "PASS", "INCONCLUSIVE"]


def test_exit_code_0_only_when_all_pass(files):
    judge = ("judge", "--limit", ">= 2.3 Gbps", "--series")
    assert files.command(*judge, "good.csv").returncode == 0
    assert files.command(*judge, "good.csv", "short.csv").returncode == 1
    assert files.command("judge", "--limit", "<= 2.3 Gbps", "--series", "bad.csv").returncode == 0


def test_the_text_says_value_uncertainty_rule_and_risk(files):
    done = files.command(
        "judge", "--series", "good.csv", "--limit", ">= 99 % of ceiling", "--link-speed", "2.5G", "--mtu", "1500",
        "--rule", "guarded", "--role", "vendor",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for text in (
        "PASS  good.csv",
        "2.353 Gbit/s meets the required 2.33 Gbit/s, 99 % of ceiling",
        "between runs not known",
        "n_eff 10.0, margin +0.98 %",
        "13 s used, 50 s saved",
        "1 of 1 series PASS; limit >= 99 % of ceiling (2.33 Gbit/s), profile screening",
        "rule guarded (vendor): PASS needs the value better than the limit by U (k = 2)",
        "wrongly accepted in at most 2.5 %",
    ):
        assert text in done.stdout


def test_above_the_ceiling_is_invalid_when_the_link_is_known(files):
    files.write({"fast.csv": GOOD.replace("2353", "2400")})
    judge = ("judge", "--json", "--limit", ">= 2.3 Gbps", "--series", "fast.csv")
    assert series_of(files.command(*judge))[0]["verdict"] == "PASS"
    done = files.command(*judge, "--link-speed", "2.5G")
    assert (series_of(done)[0]["verdict"], done.returncode) == ("INVALID", 1)
    assert series_of(files.command(*judge, "--link-speed", "2.5G", "--mtu", "9000"))[0]["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("profile", "used", "verdict"),
    [("screening", 13, "PASS"), ("type-test", 63, "PASS"), ("fixed", 63, "PASS"), ("smoke", 3, "PASS"),
     ("soak", 63, "INCONCLUSIVE")],
)  # fmt: skip
def test_profiles(files, profile, used, verdict):
    done = files.command(
        "judge", "--series", "good.csv", "--limit", ">= 2.3 Gbps", "--json", "--profile", profile
    )  # fmt: skip
    (found,) = series_of(done)
    assert (found["seconds_used"], found["verdict"]) == (used, verdict)


def test_the_runs_of_a_type_test_give_the_spread_between_them(files):
    files.write({f"run{index}.csv": GOOD.replace("2353", f"23{40 + 5 * index}") for index in range(3)})
    judge = ("judge", "--limit", ">= 2.3 Gbps", "--json", "--profile", "type-test", "--series")
    (alone,) = series_of(files.command(*judge, "run0.csv"))
    three = series_of(files.command(*judge, "run0.csv", "run1.csv", "run2.csv"))
    assert "One run: profile type-test asks for 5" in alone["doubts"][0]
    assert all(each["uncertainty_bps"] > 10 * alone["uncertainty_bps"] for each in three)
    assert all(each["doubts"] == [] for each in three)


def test_omit_and_between_run(files):
    judge = ("judge", "--limit", ">= 2.3 Gbps", "--json", "--series", "good.csv")
    assert series_of(files.command(*judge, "--omit", "0"))[0]["seconds_used"] == 10
    (found,) = series_of(files.command(*judge, "--between-run", "0.5 %"))
    assert found["uncertainty_bps"] == pytest.approx(2 * 0.005 * 2.353e9, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "judge needs either a JOURNAL with --limits FILE, or --series FILE... with --limit; neither was given"),
        (["j.jsonl", "--series", "good.csv", "--limit", *LIMIT], "both were given"),
        (["--series", "good.csv"], "add --limit, such as '>= 2.3 Gbps'"),
        (["--series", "good.csv", "--limit", ">= 2.3"], "a rate needs its unit"),
        (["--series", "good.csv", "--limit", "2.3 Gbps"], "it does not say which way"),
        (["--series", "good.csv", "--limit", ">= 99 % of ceiling"], "the ceiling is not known here; add --link-speed"),
        (["--series", "good.csv", "--limit", ">= 9 % of baseline X"], "a series has no baseline"),
        (["--series", "good.csv", "--limit", ">= 2.4 Gbps", "--link-speed", "2.5G"], "can never be reached"),
        (["--series", "good.csv", "--limit", *LIMIT, "--mtu", "9000"], "--mtu alone says nothing"),
        (["--series", "good.csv", "--limit", *LIMIT, "--link-speed", "2.5"], "needs its unit"),
        (["--series", "good.csv", "--limit", *LIMIT, "--link-speed", "2.5G", "--mtu", "12"], "MTU is 12"),
        (["--series", "good.csv", "--limit", *LIMIT, "--link-speed", "2.5G", "--mtu", "big"], "'big'"),
        (["--series", "good.csv", "--limit", *LIMIT, "--profile", "screning"], "did you mean 'screening'?"),
        (["--series", "good.csv", "--limit", *LIMIT, "--rule", "guarded"], "needs a role"),
        (["--series", "good.csv", "--limit", *LIMIT, "--role", "buyer"], "no meaning under the simple rule"),
        (["--series", "good.csv", "--limit", *LIMIT, "--omit", "-1"], "'-1'"),
        (["--series", "good.csv", "--limit", *LIMIT, "--between-run", "0.01"], "needs its unit"),
        (["--series", "good.csv", "--limit", *LIMIT, "--limits", "l.toml"], "--limits belongs to a JOURNAL"),
        (["--series", "none.csv", "--limit", *LIMIT], "none.csv: the file cannot be read (No such file or directory)"),
        (["--series", ".", "--limit", *LIMIT], ".: the file cannot be read (Is a directory)"),
        (["--series", "latin.csv", "--limit", *LIMIT], "latin.csv, line 2: not UTF-8 text"),
        (["--series", "nan.csv", "--limit", *LIMIT], "nan.csv, line 3: bits is nan; expected a finite number."),
        (["j.jsonl"], "add --limits FILE"),
        (["j.jsonl", "--limits", "l.toml", "--profile", "soak"], "--profile belongs to --series"),
        (["j.jsonl", "--limits", "none.toml"], "none.toml: the file cannot be read"),
        (["none.jsonl", "--limits", "l.toml"], "none.jsonl: there is no such journal"),
        (["good.csv", "--limits", "l.toml"], "not a journal of pytest-netperf"),
        (["j.jsonl", "--limits", "good.csv"], "this is not TOML"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use(files, arguments, says):
    files.write(
        {
            "nan.csv": "seconds,bits\n1,1\n1,nan\n",
            "l.toml": '[[limit]]\nsource = "a test"\npower = "<= 15 W"\n',
        }
    )
    (files.path / "latin.csv").write_bytes(b"seconds,bits\n1,1\xe9\n")
    done = files.command_in_process("judge", *arguments)
    assert done.returncode == 2, done.stdout
    assert says in done.stdout
    assert "Traceback" not in done.stdout
    assert done.stdout.startswith("pytest-netperf: ")


def test_every_bad_file_is_named_at_once(files):
    files.write({"empty.csv": "", "half.csv": "seconds,bits\n1\n"})
    done = files.command(
        "judge", "--series", "empty.csv", "good.csv", "half.csv", "--limit", ">= 2.3 Gbps", "--json"
    )  # fmt: skip
    assert done.returncode == 2
    assert "empty.csv: the file is empty" in done.stdout
    assert "half.csv, line 2: found '1'" in done.stdout
    assert "verdict" not in done.stdout, "no half answers"


# ---- journals --------------------------------------------------------------------------------------------------------

TESTS = """
@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("watts", [13, 14])
def test_power(netperf_record, watts):
    netperf_record("power", watts, "W")
"""


def limits_file(text):
    return {"l.toml": f'[[limit]]\nsource = "a test"\n{text}\n'}


@pytest.fixture
def journal(project):
    project.write(test_all=TESTS)
    run = project.run()
    assert run.code == 0, run.text
    return run.journal


def test_a_journal_under_other_limits(project, journal):
    before = journal.read_bytes()
    project.write(limits_file('power = "<= 13.5 W"'))
    arguments = ("judge", str(journal), "--limits", "l.toml")
    done = project.command(*arguments)
    assert done.returncode == 1
    assert "PASS -> PASS  SIM-0001" in done.stdout
    assert "* PASS -> FAIL  SIM-0001" in done.stdout
    assert "14 W is above the allowed 13.5 W" in done.stdout
    assert "1 of 2 rows changed" in done.stdout
    first, second = project.command(*arguments, "--json"), project.command(*arguments, "--json")
    assert first.stdout == second.stdout
    assert [(row["old_verdict"], row["verdict"], row["value"]) for row in json.loads(first.stdout)] == [
        ("PASS", "PASS", 13),
        ("PASS", "FAIL", 14),
    ]
    assert journal.read_bytes() == before, "the record stays as it is"


def test_the_same_limits_give_the_same_verdicts(project, journal):
    project.write(limits_file('power = "<= 15 W"'))
    done = project.command("judge", str(journal), "--limits", "l.toml")
    assert done.returncode == 0, done.stdout
    assert "0 of 2 rows changed" in done.stdout


def test_a_limits_file_that_concerns_no_row_proves_nothing(project, journal):
    project.write(limits_file('temperature = "<= 60 degC"'))
    done = project.command("judge", str(journal), "--limits", "l.toml")
    assert done.returncode == 1
    assert done.stdout.count("PASS -> INCONCLUSIVE") == 2
    assert "No limit of l.toml applies to this power." in done.stdout


def test_a_journal_that_was_cut_short_is_never_all_pass(project, journal):
    project.write(limits_file('power = "<= 15 W"'))
    cut = project.path / "cut.jsonl"
    cut.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:4]))
    done = project.command("judge", str(cut), "--limits", "l.toml")
    assert done.returncode == 1
    assert "was expected and never arrived" in done.stdout


# ---- documentation and benchmark -------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def test_the_documented_keys_and_profiles_are_those_of_the_code():
    page = (ROOT / "docs/reference/command-line.md").read_text("utf-8").partition("## judge --json")[2]
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == SERIES_KEYS
    page = (ROOT / "docs/reference/profiles.md").read_text("utf-8")
    rows = [[cell.strip() for cell in row.strip("| ").split("|")] for row in re.findall(r"^\| `.*", page, re.MULTILINE)]
    assert rows == [
        [f"`{each.name}`", f"{each.duration_s:g}", f"{each.omit_s:g}", str(each.min_intervals), str(each.repetitions),
         "yes" if each.sequential else "no", each.purpose]
        for each in PROFILES.values()
    ]  # fmt: skip


def test_the_benchmark_runs():
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "benchmarks/decision.py"), "--smoke"],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Monte Carlo error" in done.stdout
