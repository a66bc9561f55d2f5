"""Limits on other statistics than the mean, and the rule of a limits file, on real links: rows, sheet, journal."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

# Limits are off the values by so much that no busy machine turns a verdict; 100M leaves it time to spare.
BENCH = """
[[device]]
serial = "GOOD-1"

  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true

[[device]]
serial = "STALLS-1"

  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true
  fault = { stall = true, after = "2 s", for = "2 s" }

[[device]]
serial = "SLOW-1"

  [[device.link]]
  name = "lan"
  speed = "100M"
  simulated = true
  fault = { rate = "50 Mbps" }
"""

STEADY = """
@pytest.mark.netperf_limit(
    throughput=[
        ">= 20 Mbps", "p20 of intervals >= 40 % of ceiling", "min interval >= 30 Mbps", ">= 20 Mbps in every run",
    ]
)
def test_steady(iperf3):
    iperf3.tcp(duration=6)
"""


def rows_of(run, serial):
    """Test and key -> row of one device."""
    return {
        f"{row['id'].split('::')[1].split('[')[0]} {row['id'].rsplit('::', 1)[1]}": row
        for row in run.sheets[serial]["rows"]
    }


def test_each_statistic_has_its_row_and_a_stall_fails_the_slowest_interval_alone(project):
    project.write({"bench.toml": BENCH}, test_steady=STEADY)
    run = project.run(
        "--netperf-bench=bench.toml", "--netperf-device=GOOD-1", "--netperf-device=STALLS-1", "--netperf-omit=0"
    )
    good, stalls = rows_of(run, "GOOD-1"), rows_of(run, "STALLS-1")
    keys = ["throughput", "throughput.p20", "throughput.min", "throughput.every-run"]
    assert list(good) == [f"test_steady {key}" for key in keys]
    assert {row["verdict"] for row in good.values()} == {"PASS"}, run.text
    assert [row["statistic"] for row in good.values()] == [None, "p20 of intervals", "min interval", "in every run"]
    assert {row["quantity"] for row in good.values()} == {"throughput"}
    verdicts = {name.split(" ")[1]: row["verdict"] for name, row in stalls.items()}
    assert verdicts["throughput"] == verdicts["throughput.every-run"] == "PASS", run.text
    slowest = stalls["test_steady throughput.min"]
    assert slowest["verdict"] in ("FAIL", "INCONCLUSIVE"), "which of them is for the load of this machine to say"
    assert "is below the required 30 Mbit/s" in slowest["reason"]
    rates = [point["throughput_bps"] for point in slowest["evidence"]["series"] if not point.get("omitted")]
    assert slowest["value"] == min(rates) < 30e6
    assert slowest["reason"].startswith("min interval (6 of them): ")
    assert slowest["limit"] == "min interval >= 30 Mbit/s"
    assert slowest["evidence"]["facts"]["statistic_intervals"] == 6
    assert slowest["uncertainty"] is None
    relative = good["test_steady throughput.p20"]
    assert relative["limit"].startswith("p20 of intervals >= 40 % of ceiling (")
    assert relative["limit_low"] == pytest.approx(0.4 * relative["ceiling"])
    # The raw output is on one of the rows; the others say where.
    holders = [row["id"] for row in good.values() if row["evidence"].get("documents")]
    assert len(holders) == 1
    assert all(
        row["evidence"]["facts"]["raw_output_in"] == holders[0] for row in good.values() if row["id"] != holders[0]
    )
    run.has("min throughput", "p20 throughput", "throughput in every run", "min interval >= 30 Mbit/s")
    page = (run.output / "STALLS-1").glob("*/sheet.html")
    text = next(page).read_text()
    assert "min throughput" in text
    assert "is accepted in 50\u00a0% of the cases" in text


REPEATED = """
@pytest.mark.netperf_limit(throughput=">= 40 Mbps in 2 of 3 runs")
def test_met(iperf3):
    iperf3.tcp(repeat=3)

@pytest.mark.netperf_limit(throughput=[">= 40 Mbps in 4 of 5 runs", "min interval >= 40 Mbps"])
def test_too_few(iperf3):
    iperf3.tcp(repeat=2)

@pytest.mark.netperf_limit(throughput=">= 80 Mbps in 1 of 2 runs")
def test_missed(iperf3):
    iperf3.tcp(repeat=2)
"""


def test_k_of_n_runs(project):
    project.write({"bench.toml": BENCH}, test_repeated=REPEATED)
    run = project.run("--netperf-bench=bench.toml", "--netperf-device=SLOW-1")
    rows = rows_of(run, "SLOW-1")
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "test_met throughput.2-of-3-runs": "PASS",
        "test_too_few throughput.4-of-5-runs": "INCONCLUSIVE",
        "test_too_few throughput.min": "PASS",
        "test_missed throughput.1-of-2-runs": "FAIL",
    }, run.text
    met = rows["test_met throughput.2-of-3-runs"]
    runs = sorted((each["throughput_bps"] for each in met["evidence"]["runs"]), reverse=True)
    assert met["value"] == runs[1], "the second best of three decides"
    assert met["reason"].startswith("3 of 3 runs meet it")
    assert met["risk"].endswith("is accepted in 50 % of the cases.")
    assert rows["test_too_few throughput.4-of-5-runs"]["next_step"] == "Measure 5 runs in this test (repeat=5)."
    assert ", run " in rows["test_too_few throughput.min"]["reason"]

    source = '[[limit]]\nsource = "the same"\n'
    project.write(
        {
            "again.toml": f'{source}test = "test_met"\nthroughput = ">= 40 Mbps in 2 of 3 runs"\n'
            f'{source}test = "test_too_few"\nthroughput = [">= 40 Mbps in 4 of 5 runs", "min interval >= 40 Mbps"]\n'
            f'{source}test = "test_missed"\nthroughput = ">= 80 Mbps in 1 of 2 runs"\n'
        }
    )
    again = json.loads(project.command("judge", str(run.journal), "--limits", "again.toml", "--json").stdout)
    by_id = {row["id"]: row for row in rows.values()}
    for each in again:
        row = by_id[each["id"]]
        for key in ("verdict", "reason", "value", "limit", "margin", "statistic", "rule"):
            assert each[key] == row[key], (each, row["reason"])


def test_a_journal_answers_for_statistics_that_nobody_asked_for_in_its_run(project):
    project.write(
        {
            "bench.toml": BENCH,
            "more.toml": '[[limit]]\nsource = "later"\n'
            'throughput = [">= 40 Mbps", "min interval >= 40 Mbps", "p5 of intervals >= 40 Mbps"]\n',
        },
        test_plain='@pytest.mark.netperf_limit(throughput=">= 40 Mbps")\n'
        "def test_plain(iperf3):\n    iperf3.tcp(duration=4)\n",
    )
    run = project.run("--netperf-bench=bench.toml", "--netperf-device=SLOW-1", "--netperf-omit=1")
    assert set(run.verdicts.values()) == {"PASS"}, run.text
    done = project.command("judge", str(run.journal), "--limits", "more.toml", "--json")
    mean, slowest, quantile = json.loads(done.stdout)
    assert [each["id"].rsplit("::", 1)[1] for each in (mean, slowest, quantile)] == [
        "throughput", "throughput.min", "throughput.p5",
    ]  # fmt: skip
    assert (mean["old_verdict"], slowest["old_verdict"], quantile["old_verdict"]) == ("PASS", None, None)
    assert (mean["verdict"], slowest["verdict"], quantile["verdict"]) == ("PASS", "PASS", "INCONCLUSIVE")
    assert "p5 of intervals takes at least 20" in quantile["reason"]
    assert done.returncode == 1
    text = project.command("judge", str(run.journal), "--limits", "more.toml").stdout
    assert "* (new) -> INCONCLUSIVE  SLOW-1" in text


def test_a_planned_statistic_is_a_row_whatever_happens(project):
    project.write(
        {"bench.toml": BENCH, "limits.toml": '[[limit]]\nsource = "s"\nthroughput = "p20 of intervals >= 10 Mbps"\n'},
        test_planned="""
@pytest.mark.netperf_limit(throughput="min interval >= 10 Mbps")
def test_skipped(iperf3):
    pytest.skip("not today")

@pytest.mark.netperf_limit(throughput="max interval >= 10 Mbps")
def test_measures_nothing(iperf3):
    pass

@pytest.mark.netperf_limit(throughput="p50 of intervals >= 10 Mbps")
def test_left_out(iperf3):
    iperf3.tcp()
""",
    )
    run = project.run(
        "--netperf-bench=bench.toml", "--netperf-device=GOOD-1", "--netperf-limits=limits.toml", "-k", "not left_out"
    )
    rows = rows_of(run, "GOOD-1")
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "test_skipped throughput.min": "SKIPPED",
        "test_skipped throughput.p20": "SKIPPED",
        "test_measures_nothing throughput.max": "INCONCLUSIVE",
        "test_measures_nothing throughput.p20": "INCONCLUSIVE",
        "test_left_out throughput.p50": "NOT RUN",
        "test_left_out throughput.p20": "NOT RUN",
    }, run.text
    assert rows["test_left_out throughput.p50"]["statistic"] == "p50 of intervals"
    assert rows["test_left_out throughput.p50"]["limit"] == "p50 of intervals >= 10 Mbit/s"


def test_a_statistic_of_the_limits_file_that_no_test_measures_is_a_row_of_its_own(project):
    project.write(
        {"bench.toml": BENCH, "limits.toml": '[[limit]]\nsource = "s"\nthroughput = "p5 of intervals >= 10 Mbps"\n'},
        test_power='@pytest.mark.netperf_limit(power="<= 15 W")\n'
        'def test_power(netperf_record):\n    netperf_record("power", 13, "W")\n',
    )
    run = project.run("--netperf-bench=bench.toml", "--netperf-device=GOOD-1", "--netperf-limits=limits.toml")
    rows = {row["id"]: row for row in run.sheets["GOOD-1"]["rows"]}
    missing = rows["limits file::GOOD-1::throughput.p5"]
    assert (missing["verdict"], missing["statistic"]) == ("INCONCLUSIVE", "p5 of intervals")
    assert missing["reason"] == "The limits file requires p5 throughput, and no test of this run measures it."
    assert run.sheets["GOOD-1"]["verdict"] == "NOT PROVEN"


@pytest.mark.needs_xdist
def test_a_process_that_dies_leaves_the_rows_of_each_statistic(project):
    project.write(
        {"bench.toml": BENCH},
        test_dies="import os\n"
        '@pytest.mark.netperf_limit(throughput=[">= 10 Mbps", "min interval >= 10 Mbps"])\n'
        "def test_dies(iperf3):\n    os._exit(1)\n",
    )
    run = project.run("--netperf-bench=bench.toml", "--netperf-device=GOOD-1", "-n1")
    rows = rows_of(run, "GOOD-1")
    assert {name: (row["verdict"], row["statistic"]) for name, row in rows.items()} == {
        "test_dies throughput": ("CRASHED", None),
        "test_dies throughput.min": ("CRASHED", "min interval"),
    }, run.text


WRONG = {
    'throughput="p5 >= 10 Mbps"': "write 'p5 of intervals'",
    'throughput=">= 10 Mbps in 6 of 5 runs"': "of 5 runs at most 5 can meet it",
    'throughput=[">= 10 Mbps", ">= 11 Mbps"]': "throughput is limited twice here",
    'retransmits="p5 of intervals <= 5"': "intervals are kept of the throughput alone",
    'throughput="min interval >= 200 Mbps"': "throughput (min interval) limit 200 Mbit/s can never be reached",
    'throughput=">= 10 Mbps", rule="guarded"': "netperf_method(rule=..., role=...)",
}


def test_wrong_limits_are_refused_at_collection(project):
    for number, limit in enumerate(WRONG):
        test = f"@pytest.mark.netperf_limit({limit})\ndef test_wrong(iperf3):\n    iperf3.tcp()\n"
        project.write({"bench.toml": BENCH}, **{f"test_wrong_{number}": test})
    run = project.run("--netperf-bench=bench.toml", "--netperf-device=GOOD-1")
    assert run.code == 2
    run.has(f"{len(WRONG)} errors", *WRONG.values())
    run.is_clean()


# ---- the rule of a limits file ---------------------------------------------------------------------------------------

CONTRACT = """
rule = "guarded"
role = "vendor"

[[limit]]
source = "contract"
test = "test_rate"
throughput = ">= 10 Mbps"
retransmits = "<= 100000"

[[limit]]
source = "contract"
test = "test_own_rule"
throughput = ">= 10 Mbps"

[[limit]]
source = "data sheet"
test = "test_simple"
throughput = ">= 10 Mbps"
rule = "simple"

[[limit]]
source = "contract"
power = "<= 15 W"

[[limit]]
source = "contract"
frame_loss_ratio = "<= 10 %"
test = "test_loss"
"""
UNDER_CONTRACT = """
def test_rate(iperf3):
    iperf3.tcp(duration=5)

@pytest.mark.netperf_method(rule="guarded", role="buyer")
def test_own_rule(iperf3):
    iperf3.tcp(duration=1)

def test_simple(iperf3):
    iperf3.tcp(duration=1)

def test_loss(iperf3):
    iperf3.udp(bitrate="10 Mbps", duration=1)

def test_power(netperf_record):
    netperf_record("power", 14.7, "W", uncertainty=0.2)
    netperf_record("power", 14900, "mW", uncertainty=200)
    netperf_record("power", 14.7, "W")
"""


def test_a_contract_is_not_weakened_by_an_option(project):
    project.write({"bench.toml": BENCH, "limits.toml": CONTRACT}, test_contract=UNDER_CONTRACT)
    run = project.run(
        "--netperf-bench=bench.toml", "--netperf-device=GOOD-1", "--netperf-limits=limits.toml", "--netperf-rule=simple"
    )
    rows = rows_of(run, "GOOD-1")
    assert {name: (row["verdict"], row["rule"]) for name, row in rows.items()} == {
        "test_rate throughput": ("PASS", "guarded (vendor)"),
        "test_rate retransmits": ("PASS", "guarded (vendor)"),
        "test_own_rule throughput": ("INCONCLUSIVE", "guarded (buyer)"),  # of one second, U is not known
        "test_simple throughput": ("PASS", "simple"),
        "test_loss frame_loss_ratio": ("PASS", "guarded (vendor)"),
        "test_power power": ("PASS", "guarded (vendor)"),
        "test_power power#2": ("INCONCLUSIVE", "guarded (vendor)"),
        "test_power power#3": ("INCONCLUSIVE", "guarded (vendor)"),
    }, run.text
    assert rows["test_rate retransmits"]["uncertainty"] == 0
    assert rows["test_power power"]["uncertainty"] == 0.2
    assert rows["test_power power#2"]["uncertainty"] == pytest.approx(0.2)
    assert rows["test_power power#3"]["uncertainty"] is None
    assert "within the guard band of 200 mW" in rows["test_power power#2"]["reason"]
    loss = rows["test_loss frame_loss_ratio"]
    assert 0 < loss["uncertainty"] < 0.1
    if loss["value"] == 0:
        frames = loss["evidence"]["facts"]["packets"]
        bound = loss["evidence"]["facts"]["zero_loss_bound_ratio"]
        assert bound == pytest.approx(3 / frames, rel=0.01)
        run.has("<= 0.", "(95 %)")
    for row in rows.values():
        assert "accepted" in row["risk"] or "rejected" in row["risk"]
    run.has("rule guarded (vendor)", "rule simple", "rule guarded (buyer)")
    page = next((run.output / "GOOD-1").glob("*/sheet.html")).read_text()
    for text in ("<small>rule guarded (vendor)</small>", "<small>rule simple</small>", "<b>Rule guarded (buyer):</b>"):
        assert text in page

    done = project.command("judge", str(run.journal), "--limits", "limits.toml", "--rule", "simple", "--json")
    for each in json.loads(done.stdout):
        (row,) = [row for row in rows.values() if row["id"] == each["id"]]
        if "test_own_rule" in each["id"]:  # the marks of that time do not count
            assert each["rule"] == "guarded (vendor)"
        else:
            assert (each["verdict"], each["reason"], each["rule"]) == (row["verdict"], row["reason"], row["rule"])


def test_rows_that_share_the_rule_of_the_run_do_not_repeat_it(project):
    project.write(
        test_power='@pytest.mark.netperf_limit(power="<= 15 W")\ndef test_power(netperf_record):\n'
        '    netperf_record("power", 14.0, "W", uncertainty=0.2)\n'
    )
    run = project.run("--netperf-rule=guarded", "--netperf-role=vendor")
    assert set(run.verdicts.values()) == {"PASS"}, run.text
    assert "rule guarded" not in run.text
    page = next(run.output.glob("*/*/sheet.html")).read_text()
    assert "<small>rule" not in page
    assert "<b>Rule guarded (vendor):</b> A device at the limit is wrongly accepted" in page
    assert "U 200 mW (k = 2), stated by the test" in page or "\u00b1 0.20" in page


def test_an_uncertainty_that_is_none_is_refused_and_the_row_says_so(project):
    wrong = ["-0.1", "float('nan')", "float('inf')", "True", "'0.2'"]
    project.write(
        test_power="pytestmark = pytest.mark.netperf_limit(power='<= 15 W')\n"
        + "".join(
            f"def test_{number}(netperf_record):\n    netperf_record('power', 14.0, 'W', uncertainty={text})\n"
            for number, text in enumerate(wrong)
        )
    )
    run = project.run()
    assert list(run.verdicts.values()) == ["ERROR"] * len(wrong), run.text
    for text in ("-0.1", "nan", "inf", "True", "'0.2'"):
        run.has(f"uncertainty={text}): the uncertainty must be a finite number of at least 0 in 'W', the expanded one")
    run.is_clean()


# ---- series ----------------------------------------------------------------------------------------------------------

DIP = "seconds,bits\n" + "1.0,2353000000\n" * 62 + "1.0,1000000000\n"


@pytest.mark.parametrize(
    ("limit", "verdict", "value"),
    [
        ("p5 of intervals >= 2.3 Gbps", "PASS", 2.353e9),
        ("min interval >= 2.3 Gbps", "FAIL", 1e9),
        ("min interval >= 40 % of ceiling", "PASS", 1e9),
        ("p1 of intervals >= 2.3 Gbps", "INCONCLUSIVE", None),
    ],
)
def test_a_series_by_its_statistic(project, limit, verdict, value):
    project.write({"dip.csv": DIP})
    arguments = ("judge", "--series", "dip.csv", "--limit", limit, "--profile", "fixed", "--link-speed", "2.5G")
    (found,) = json.loads(project.command(*arguments, "--json").stdout)
    assert (found["verdict"], found["value_bps"], found["uncertainty_bps"]) == (verdict, value, None)
    assert (found["seconds_used"], found["stopped_early"]) == (63, False)
    text = project.command(*arguments).stdout
    assert "is exactly at the limit is accepted or rejected by chance" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--limit", "min interval >= 2 Gbps"), "only the mean is judged sequentially"),
        (("--limit", "p5 of intervals >= 2 Gbps", "--profile", "screening"), "add --profile fixed"),
        (("--limit", ">= 2 Gbps in 4 of 5 runs", "--profile", "fixed"), "a series is one run"),
        (("--limit", "p5 >= 2 Gbps", "--profile", "fixed"), "write 'p5 of intervals'"),
        (("--limit", "min interval >= 3 Gbps", "--profile", "fixed", "--link-speed", "2.5G"), "can never be reached"),
    ],
)
def test_a_series_that_cannot_be_judged_so_is_wrong_use(project, arguments, says):
    project.write({"dip.csv": DIP})
    done = project.command("judge", "--series", "dip.csv", *arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout
