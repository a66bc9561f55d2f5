"""Long measurements on the terminal while they run: lines in a log, a table at a terminal, nothing with -q."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

OFTEN = "from pytest_netperf.live import view\nview.LINE_EVERY_S = 0.9\n"
TEST = """
@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 80 Mbps")
def test_it(iperf3):
    iperf3.tcp(duration=3)
"""


@pytest.fixture
def running(project):
    project.write({"conftest.py": OFTEN}, test_long=TEST)
    return project


def test_a_log_has_lines(running, workers):
    run = running.run(*workers)
    assert run.code == 0, run.text
    lines = [line for line in run.text.splitlines() if line.startswith("  ") and " of 3 s  test_it[" in line]
    assert lines, run.text
    assert all(line.endswith("Mbit/s  limit >= 80 Mbit/s") for line in lines)


@pytest.mark.parametrize("arguments", [("-q",), ("--netperf-live=off",)])
def test_quiet_is_quiet(running, arguments):
    run = running.run(*arguments)
    assert run.code == 0, run.text
    assert " of 3 s" not in run.text


def test_a_terminal_has_a_table_that_goes_away(running):
    pytest.importorskip("rich")
    run = running.on_terminal("test_long.py")
    text = run.text
    assert run.code == 0, text
    assert "━" in text
    assert "2 of 3 s" in text
    after = text[text.rindex("━") :]
    assert "\x1b[2K" in after, "it is wiped out"
    back = "\x1b[1A\x1b[13C"  # where pytest was: behind "test_long.py "
    assert "[100%]" in after.partition(back)[2], "the letter of the test is on the line of its file"
    assert "\x1b[?25h" in after, "the cursor is back"


def test_another_word_is_refused(running):
    run = running.run("--netperf-live=always")
    assert run.code == 4
    run.has("--netperf-live always: must be auto, lines or off")
