"""How a test measures: profiles, runs that stop early, repeated runs, and the mark and options that choose them."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]
LIMIT = "@pytest.mark.netperf_limit(throughput='>= 80 Mbps')\n"
LINK = "@pytest.mark.netperf_link(speed='100M')\n"


PLAIN = ("-o", "netperf_duration=", "-o", "netperf_omit=")
"""Without the short times of the tests' ini file, which would shorten a profile of the command line too."""


def run_of(project, test, *arguments):
    project.write(test_it=test)
    return project.run(*arguments)


def only_row(run):
    (row,) = run.sheet["rows"]
    return row


# ---- screening -------------------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_screening_stops_as_soon_as_a_good_link_is_proven(project, direction):
    mark = "@pytest.mark.netperf_method(profile='screening')\n"
    test = f"def test_a(iperf3):\n    iperf3.tcp(omit=0, direction={direction!r})"
    run = run_of(project, LINK + LIMIT + mark + test)
    row = only_row(run)
    facts = row["evidence"]["facts"]
    assert (run.code, row["verdict"]) == (0, "PASS"), run.text
    assert "Decided after" in row["reason"]
    assert "s saved" in row["reason"]
    assert facts["profile"] == "screening"
    assert facts["asked_duration_s"] == 60
    assert 10 <= facts["stopped_after_s"] < 60
    assert facts["time_saved_s"] == pytest.approx(60 - facts["traffic_s"], abs=0.1)
    assert row["value"] == pytest.approx(94.1e6, rel=0.02)
    assert row["uncertainty"] > 0
    assert "notes" not in facts


@pytest.mark.alone
def test_screening_stops_as_soon_as_a_bad_link_is_proven(project):
    link = "@pytest.mark.netperf_link(speed='100M', fault={'rate': '60 Mbps', 'direction': 'b-to-a'})\n"
    run = run_of(
        project,
        link + LIMIT + "def test_a(iperf3):\n    iperf3.tcp(direction='bidirectional')",
        "--netperf-profile=screening",
        *PLAIN,
    )
    row = only_row(run)
    assert (run.code, row["verdict"]) == (1, "FAIL"), run.text
    assert 10 <= row["evidence"]["facts"]["stopped_after_s"] < 60
    assert row["value"] == pytest.approx(56.5e6, rel=0.03)


@pytest.mark.alone
def test_a_run_that_another_limit_judges_is_not_cut_short(project):
    limits = "@pytest.mark.netperf_limit(throughput='>= 80 Mbps', retransmits='<= 500')\n"
    run = run_of(
        project,
        LINK + limits + "def test_a(iperf3):\n    iperf3.tcp(duration=12, omit=0)",
        "--netperf-profile=screening",
        *PLAIN,
    )
    for row in run.sheet["rows"]:
        facts = row["evidence"]["facts"]
        assert row["verdict"] == "PASS", row
        assert "stopped_after_s" not in facts
        assert facts["not_stopped_because"] == "the limit on retransmits needs the whole run"


def test_a_profile_that_could_never_decide_is_refused_with_the_way_out(project):
    run = run_of(
        project,
        LINK
        + LIMIT
        + "@pytest.mark.netperf_method(profile='screening')\ndef test_a(iperf3):\n    iperf3.tcp(duration=5)",
    )
    assert run.code == 1
    run.has("profile screening needs 10 intervals of at least 1 s; measure at least 10 s")
    assert only_row(run)["verdict"] == "ERROR"


def test_the_library_cannot_stop_a_run_and_says_so(project):
    run = run_of(
        project,
        LINK + LIMIT + "def test_a(iperf3): iperf3.tcp()",
        "--netperf-engine=libiperf",
        "--netperf-profile=screening",
        *PLAIN,
    )
    run.has("--netperf-engine libiperf cannot do; use the iperf3 program, or another profile")
    assert only_row(run)["verdict"] == "ERROR"


def test_smoke_is_short_and_a_journal_of_it_is_judged_the_same(project):
    run = run_of(project, LINK + LIMIT + "def test_a(iperf3): iperf3.tcp()", "-o", "netperf_profile=smoke", *PLAIN)
    row = only_row(run)
    assert (row["verdict"], row["evidence"]["facts"]["asked_duration_s"]) == ("PASS", 3), run.text
    project.write({"limits.toml": "[[limit]]\nsource='x'\nthroughput='>= 80 Mbps'\n"})
    again = json.loads(project.command("judge", str(run.journal), "--limits", "limits.toml", "--json").stdout)
    assert [each["verdict"] for each in again] == ["PASS"]


# ---- repeated runs ---------------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("between", ["connection", "link", "cold"])
def test_repeated_runs_are_one_row_with_all_of_them_kept(project, between):
    test = f"""
def test_a(iperf3, netperf_link):
    link, changes = netperf_link.ensure_up(), netperf_link.counters()[0].carrier_changes
    iperf3.tcp(repeat=3, duration=3, between_runs={between!r})
    is_cold, is_bounced = {between == "cold"}, {between == "link"}
    assert (netperf_link.link is not link) == is_cold
    if not is_cold:
        assert netperf_link.counters()[0].carrier_changes - changes == (4 if is_bounced else 0)
"""
    run = run_of(project, LINK + LIMIT + test)
    row = only_row(run)
    runs = row["evidence"]["runs"]
    values = [each["throughput_bps"] for each in runs]
    assert (row["verdict"], len(runs)) == ("PASS", 3), run.text
    assert row["value"] == pytest.approx(sum(values) / 3)
    assert row["reason"].startswith("Mean of 3 runs: ")
    assert row["evidence"]["facts"]["uncertainty_between"] > 0
    assert all(each["evidence"]["documents"]["client"] and each["evidence"]["series"] for each in runs)
    assert [each["evidence"]["facts"]["port_a_carrier_changes"] for each in runs] == [0, 0, 0]


def test_repeated_runs_of_a_bad_link_fail_by_their_mean(project):
    link = "@pytest.mark.netperf_link(speed='100M', fault={'rate': '60 Mbps'})\n"
    run = run_of(project, link + LIMIT + "def test_a(iperf3):\n    iperf3.tcp(repeat=2, duration=2)")
    row = only_row(run)
    assert row["verdict"] == "FAIL"
    assert row["reason"].startswith("Mean of 2 runs: ")


def test_a_run_that_broke_leaves_a_row_of_what_was_made_and_one_of_the_error(project):
    conftest = """
import pytest
from pytest_netperf.errors import LinkError
from pytest_netperf.session import LinkHandle

@pytest.fixture(autouse=True)
def second_time(monkeypatch):
    count = []
    def restart(self, between_runs):
        count.append(1)
        if len(count) == 2:
            raise LinkError("the link did not come up again")
    monkeypatch.setattr(LinkHandle, "restart", restart)
"""
    project.write({"conftest.py": conftest})
    run = run_of(project, LINK + LIMIT + "def test_a(iperf3):\n    iperf3.tcp(repeat=4, duration=1)")
    by_verdict = {row["verdict"]: row for row in run.sheet["rows"]}
    assert set(by_verdict) <= {"ERROR", "INCONCLUSIVE"}, run.text
    assert "the link did not come up again" in by_verdict["ERROR"]["reason"]
    kept = [row for row in run.sheet["rows"] if row["evidence"].get("runs")]
    assert len(kept[0]["evidence"]["runs"]) == 2


# ---- choosing --------------------------------------------------------------------------------------------------------


def test_the_closest_place_wins_for_each_argument(project):
    module = "pytestmark = pytest.mark.netperf_method(profile='fixed', repeat=2)\n"
    test = "@pytest.mark.netperf_method(profile='smoke')\ndef test_a(iperf3):\n    iperf3.tcp(duration=3)"
    run = run_of(project, module + LINK + LIMIT + test, "--netperf-profile=soak")
    facts = only_row(run)["evidence"]["facts"]
    assert (facts["profile"], facts["runs_asked"], facts["profile_duration_s"]) == ("smoke", 2, 3), run.text


WRONG_MARKS = [
    ("'screening'", "takes named arguments only; write what it is, as in netperf_method(profile='screening')"),
    ("profile='screeening'", "unknown profile 'screeening'"),
    ("profile=3", "expected one of 'screening'"),
    ("profil='soak'", "there is no argument 'profil' (did you mean 'profile'"),
    ("repeat=0", "repeat=0: expected a number of runs from 1 to 1000"),
    ("repeat=2.5", "repeat=2.5: expected a number of runs"),
    ("repeat=True", "repeat=True: expected a number of runs"),
    ("between_runs='reboot'", "between_runs='reboot': expected 'connection' (a new connection)"),
    ("rtt=1", "rtt=1: expected True or False"),
    ("run_to_run=0.5", "run_to_run=0.5: expected a share such as '0.5 %'"),
    ("run_to_run='120 %'", "expected a share from 0 % to below 100 %"),
    ("rule='guarded'", "the guarded rule needs a role"),
    ("role='vendor'", "role 'vendor' has no meaning under the simple rule"),
    ("rule='strict'", "unknown decision rule 'strict'"),
    ("rule=['simple']", "rule=['simple']"),
]


def test_wrong_marks_are_refused_at_collection(project):
    """All in one run: a pytest takes its time to start."""
    project.write(
        {},
        **{
            f"test_{number}": f"@pytest.mark.netperf_method({mark})\ndef test_a(iperf3): iperf3.tcp()"
            for number, (mark, _) in enumerate(WRONG_MARKS)
        },
    )
    run = project.run()
    assert run.code == 2
    run.is_clean()
    run.has(f"{len(WRONG_MARKS)} errors")
    for number, (_, message) in enumerate(WRONG_MARKS):
        about = run.text.split(f"ERROR collecting test_{number}.py", 1)[1].split("ERROR collecting", 1)[0]
        assert "netperf_method: " in about
        assert message in " ".join(about.split())


def test_all_mistakes_of_a_mark_are_said_at_once(project):
    run = run_of(project, "@pytest.mark.netperf_method(profile='x', repeat=0)\ndef test_a(iperf3): iperf3.tcp()")
    run.has("unknown profile 'x'", "repeat=0")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("repeat=0", "iperf3.tcp(repeat=0): expected a number of runs"),
        ("between_runs='x'", "iperf3.tcp(between_runs='x')"),
    ],
)
def test_a_wrong_call_is_refused_by_name(project, call, message):
    run = run_of(project, LINK + LIMIT + f"def test_a(iperf3): iperf3.tcp({call})")
    assert run.code == 1
    run.has(message)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--netperf-profile=fast", "--netperf-profile fast: unknown profile 'fast'"),
        ("--netperf-run-to-run=2", "--netperf-run-to-run 2: "),
        ("--netperf-run-to-run=100%", "must be a share from 0 % to below 100 %"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(project, option, message):
    run = run_of(project, "def test_a(iperf3): iperf3.tcp()", option)
    assert run.code == 4
    run.has(message)


def test_a_mark_on_a_test_that_measures_nothing_is_refused(project):
    run = run_of(project, "@pytest.mark.netperf_method(repeat=2)\ndef test_a(): pass")
    run.has("netperf_method on a test that measures nothing")


def test_the_rule_of_a_mark_wins_over_the_one_of_the_run(project):
    test = "@pytest.mark.netperf_method(rule='guarded', role='vendor')\ndef test_a(iperf3): iperf3.tcp(duration=2)"
    run = run_of(project, LINK + LIMIT + test)
    row = only_row(run)
    assert row["verdict"] == "INCONCLUSIVE"
    assert "rule guarded (vendor)" in row["reason"]


def test_a_declared_spread_is_part_of_the_uncertainty(project):
    run = run_of(project, LINK + LIMIT + "def test_a(iperf3): iperf3.tcp(duration=3)", "--netperf-run-to-run=1%")
    row = only_row(run)
    assert row["evidence"]["facts"]["uncertainty_between"] == pytest.approx(0.01 * row["value"], rel=0.01)
    assert row["uncertainty"] >= 2 * 0.01 * row["value"] * 0.99
