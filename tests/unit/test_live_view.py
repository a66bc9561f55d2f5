"""What a running measurement shows of itself: its line, its bars, how often, and the way to the controller."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.judge.decision import get_rule
from pytest_netperf.judge.limits import resolve
from pytest_netperf.judge.limits_file import parse_limits_file
from pytest_netperf.judge.profile import get_profile
from pytest_netperf.judge.series import SeriesJudge
from pytest_netperf.judge.statistics import Sample
from pytest_netperf.live.progress import Progress, sparkline, text_line
from pytest_netperf.live.relay import Receiver, Sender, progress_of
from pytest_netperf.live.view import LINE_EVERY_S, LinesView, TableView
from pytest_netperf.live_view import LiveView


def progress(**more):
    given = {"test": "t.py::test_a[x]", "label": "test_a[x]", "elapsed_s": 12.2, "planned_s": 63.0}
    return Progress(**{**given, **more})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "12 of 63 s  test_a[x]"),
        (
            {"rates_bps": (2.354e9,), "limit": ">= 2.3 Gbit/s"},
            "12 of 63 s  test_a[x]  2.354 Gbit/s  limit >= 2.3 Gbit/s",
        ),
        ({"rates_bps": (1e9, 9e8)}, "12 of 63 s  test_a[x]  1 Gbit/s and 900 Mbit/s"),
        ({"run": 2, "runs": 5, "sure": 0.634}, "12 of 63 s  test_a[x]  run 2 of 5  63 % of the evidence"),
        ({"waited_s": 7.3, "limit": "<= 1 ms"}, "waiting for its turn, 7 s  test_a[x]  limit <= 1 ms"),
    ],
)
def test_a_line(more, text):
    assert text_line(progress(**more)) == text


def test_bars_go_from_zero_to_the_highest():
    assert sparkline([0.0, 1.0, 2.0], 9) == "▁▅█"
    assert sparkline([5.0, 0.0, 4.0], 2) == "▁█"
    assert sparkline([0.0, 0.0], 9) == "▁▁"
    assert sparkline([], 9) == ""


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.integers(1, 30))
def test_bars_for_anything(values, width):
    assert len(sparkline(values, width)) == min(len(values), width)


class Screen:
    """A terminal that remembers."""

    def __init__(self) -> None:
        self.file = io.StringIO()

    @contextlib.contextmanager
    def __call__(self):
        yield self.file

    def leave(self, file):
        file.write("<leave>")

    def come_back(self, file):
        file.write("<come back>")


def test_a_line_comes_every_ten_seconds_for_each_test():
    screen, now = Screen(), [0.0]
    view = LinesView(screen, lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        view.show(progress(elapsed_s=float(second)))
        if second < 15:
            view.show(progress(test="other", label="other", elapsed_s=float(second)))
    lines = screen.file.getvalue().splitlines()
    assert LINE_EVERY_S == 10
    assert lines == ["  10 of 63 s  test_a[x]", "  10 of 63 s  other", "  20 of 63 s  test_a[x]"]


def test_a_short_test_leaves_no_line_and_a_second_one_starts_anew():
    screen, now = Screen(), [0.0]
    view = LinesView(screen, lambda: now[0])
    for start in (0.0, 9.0, 18.0):
        now[0] = start
        view.show(progress())
        view.done("t.py::test_a[x]")
    assert screen.file.getvalue() == ""


def test_a_table_is_gone_when_its_test_is_over():
    screen = Screen()
    view = TableView(screen)
    view.show(progress(elapsed_s=1.0, rates_bps=(1e9,)))
    assert screen.file.getvalue() == "", "short ones are not worth it"
    view.show(progress(elapsed_s=21.0, rates_bps=(2e9,), limit=">= 1 Gbit/s"))
    drawn = screen.file.getvalue()
    assert "━━━━╌╌╌╌╌╌╌╌" in drawn
    assert "▅█" in drawn
    assert "21 of 63 s" in drawn
    assert drawn.startswith("<leave>")
    view.done("t.py::test_a[x]")
    assert view._live is None
    assert screen.file.getvalue().endswith("<come back>")
    view.close()


def test_a_table_shows_who_waits():
    screen = Screen()
    view = TableView(screen)
    view.show(progress(elapsed_s=0.0, waited_s=1.1))
    assert screen.file.getvalue() == ""
    view.show(progress(elapsed_s=0.0, waited_s=2.1))
    assert "╌╌╌╌  waiting for its turn, 2 s" in screen.file.getvalue()
    view.close()


@pytest.mark.parametrize("columns", [60, 80, 100, 130, 200])
def test_a_terminal_that_is_narrow_loses_names_before_figures(monkeypatch, columns):
    """What people look for is there at every width: how far, how fast, and from 100 on how sure."""
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Screen()
    view = TableView(screen)
    name = "test_line_rate[R86S-U4-0007/sfp/mtu9000-bidirectional]"
    view.show(progress(label=name, elapsed_s=21.0, rates_bps=(2e9,), limit=">= 98 % of ceiling", sure=0.5))
    lines = [line for line in screen.file.getvalue().splitlines() if "of 63 s" in line or "test_line_rate" in line]
    assert len(lines) == (2 if columns < 120 else 1)
    assert "21 of 63 s" in lines[-1]
    assert "2 Gbit/s" in lines[-1]
    assert ("50 % of the evidence" in lines[-1]) is (columns >= 100)
    assert "test_line_rate[R86S-U4" in lines[0]
    view.close()


def test_looks_travel_from_worker_to_controller():
    arrived, both = [], threading.Semaphore(0)

    def show(look):
        arrived.append(look)
        both.release()

    receiver = Receiver(show, progress_of)
    sender = Sender(receiver.address)
    looks = [progress(rates_bps=(1e9,), sure=0.5), progress(elapsed_s=13.0)]
    for look in looks:
        sender(look)
        assert both.acquire(timeout=5)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as foreign:
        foreign.sendto(b"{garbage", f"\0{receiver.address}")
    sender(looks[0])
    assert both.acquire(timeout=5)
    assert arrived == [*looks, looks[0]]
    receiver.close()
    sender(looks[0])  # nobody listens any more: silence
    sender.close()


def test_a_controller_that_does_not_listen_holds_up_nothing():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(f"\0netperf-test-{id(deaf)}")
        sender = Sender(f"netperf-test-{id(deaf)}")
        for _ in range(10_000):
            sender(progress())
        sender.close()


def test_evidence_grows_to_all_of_it():
    (limit,) = parse_limits_file('[[limit]]\nsource = "x"\nthroughput = ">= 90 Mbps"\n', "limits.toml")
    judge = SeriesJudge(resolve(limit), get_profile("screening"), get_rule("simple"))
    shares = [judge.evidence_share]
    for second in range(30):
        judge.add(Sample(1.0, 94e6 + (second % 3) * 1e5))
        shares.append(judge.evidence_share)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_nothing_is_drawn_over_the_summary():
    """Workers tell of what they measure until they are gone."""
    session, screen = SimpleNamespace(live=None), Screen()
    plugin = LiveView(session, lambda: TableView(screen))
    session.live(progress(elapsed_s=3.0))
    assert "3 of 63 s" in screen.file.getvalue()
    plugin.pytest_keyboard_interrupt()
    ended = screen.file.getvalue()
    assert ended.endswith("<come back>")
    session.live(progress(elapsed_s=4.0))
    plugin.pytest_sessionfinish()
    plugin.pytest_unconfigure()
    assert screen.file.getvalue() == ended
