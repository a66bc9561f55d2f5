"""What a run leaves that is killed by SIGKILL at a random moment: 50 runs, every other one with two xdist workers.

Run as ``python benchmarks/kills.py [--smoke] [--kills 50] [--seed N] [--keep DIR]``. Each run measures real traffic and
other values, and one of its rows fails. One in five is killed between its start and its end, the others between their
first line in the journal and their end. Then: no process of it is left; every row that pytest had shown as done is in
the journal with that outcome; no device is accepted; sheets (those of the run, or made from its journal) are REJECTED
where a row is FAIL; `verify` finds nothing broken; the store beside the output is whole and `store sync` completes it.
It fails at the first run of which one of these is not so.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pytest_netperf import cli
from pytest_netperf.record.journal_reader import read_journal

GONE_S = 5.0
TAG = "NETPERF_KILLS_TAG"
SUITE = """
import pytest

@pytest.mark.netperf_link(speed="100M")
@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
@pytest.mark.parametrize("n", range(2))
def test_rate(iperf3, n):
    iperf3.tcp()

@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("watts", [*range(10, 15), 16])
def test_power(netperf_record, watts):
    netperf_record("power", watts, "W")
"""
INI = """
[pytest]
netperf_duration = 1
netperf_omit = 0
netperf_slots = 4
netperf_reference = off
netperf_history = off
"""
DONE = re.compile(
    r"(?:^|\] )(test_kill\.py::\S+) (PASSED|FAILED)|\] (PASSED|FAILED) (test_kill\.py::\S+)", re.MULTILINE
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--smoke", action="store_true", help="5 runs, to see that it works")
    parser.add_argument("--seed", type=int, default=0, help="default: another one each time")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave everything")
    asked = parser.parse_args()
    seed = asked.seed or secrets.randbelow(10**6) + 1
    dice, kills = random.Random(seed), 5 if asked.smoke else asked.kills
    print(f"{kills} runs, seed {seed}")
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="netperf-kills-") as scratch:
        folder = asked.keep or Path(scratch)
        lengths = {workers: Killed(folder / f"whole-{len(workers)}", workers).whole() for workers in ((), ("-n2",))}
        for workers, (begins, ends) in lengths.items():
            print(f"whole run {' '.join(workers)}: journal after {begins:.1f} s, end after {ends:.1f} s")
        for number in range(kills):
            workers = ("-n2",) if number % 2 else ()
            begins, ends = lengths[workers]
            since = "journal" if number % 5 else "start"
            moment = dice.uniform(0, ends - begins if since == "journal" else ends)
            run = Killed(folder / f"{number:03d}", workers)
            try:
                found.update(run.at(moment, since))
            except Exception:
                print(f"run {number}, killed {moment:.3f} s after its {since}, seed {seed}", file=sys.stderr)
                raise
            if asked.keep is None:
                shutil.rmtree(run.folder)
    print(", ".join(f"{name}: {number}" for name, number in sorted(found.items())))
    print(f"{kills} kills: no process left, no shown row lost, no verdict without evidence")


class Killed:
    """One run, in a folder of its own."""

    def __init__(self, folder: Path, workers: tuple[str, ...]) -> None:
        self.folder, self.workers = folder, workers
        self.output = folder / "netperf-results"
        self.tag = secrets.token_hex(8)
        folder.mkdir(parents=True)
        (folder / "test_kill.py").write_text(SUITE)
        (folder / "pytest.ini").write_text(INI)

    def start(self) -> subprocess.Popen[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *self.workers],
            cwd=self.folder,
            env={**outside, TAG: self.tag, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def whole(self) -> tuple[float, float]:
        """How long it takes until there is a journal, and in all."""
        began = time.monotonic()
        process = self.start()
        self.wait_for_journal(process)
        begun = time.monotonic()
        text, _ = process.communicate(timeout=300)
        assert process.returncode == 1, text  # one row fails
        assert len(DONE.findall(text)) == 8, text
        return begun - began, time.monotonic() - began

    def wait_for_journal(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None and not list(self.output.glob("journals/*.jsonl")):
            time.sleep(0.005)

    def at(self, moment: float, since: str) -> list[str]:
        """Kill it then. Returns what was found, in words to be counted."""
        process = self.start()
        if since == "journal":
            self.wait_for_journal(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.send_signal(signal.SIGKILL)
        text, _ = process.communicate(timeout=60)
        self.nothing_is_left()
        shown = {a or d: b or c for a, b, c, d in DONE.findall(text)}
        journals = list(self.output.glob("journals/*.jsonl"))
        if not journals or not journals[0].read_bytes():
            assert not shown, f"no journal, and this was shown as done: {shown}"
            assert not list(self.output.glob("*/*/sheet.json"))
            return ["killed before its first row was begun"]
        (journal,) = journals
        contents = read_journal(journal)
        arrived = {row.test: row.verdict.value for row in contents.rows}
        for test, outcome in shown.items():
            assert arrived.get(test) == {"PASSED": "PASS", "FAILED": "FAIL"}[outcome], f"{test} is {arrived.get(test)}"
        if not contents.planned:
            assert not shown, f"no plan, and this was shown as done: {shown}"
            said = self.command("sheet", str(journal), code=1)
            assert "no planned row and no measured one" in said, said
            return ["killed before its plan was written"]
        own_end = contents.state == "complete"
        with_sheet = list(self.output.glob("*/*/sheet.json"))
        for path in with_sheet:
            assert own_end, (
                f"{path} says {json.loads(path.read_text())['verdict']}, and the run did not come to its end"
            )
        if not with_sheet:
            self.command("sheet", str(journal), code=1)
        (path,) = self.output.glob("*/*/sheet.json")
        sheet = json.loads(path.read_text())
        failed = any(row["verdict"] == "FAIL" for row in sheet["rows"])
        assert sheet["verdict"] == ("REJECTED" if failed else "NOT PROVEN"), sheet["sentence"]
        assert len(sheet["rows"]) == 8, "a planned row is not on the sheet"
        unsealed = own_end and not contents.closed
        said = self.command("verify", str(path), code=1 if unsealed else 0)
        assert "BROKEN" not in said, said
        assert unsealed == ("the closing line of the journal" in said), said
        self.store(journal)
        if process.returncode != -signal.SIGKILL:
            words = "ended before it was killed"
        elif with_sheet:
            words = "killed after its sheet was written"
        else:
            words = "killed at its end, before its sheet was written" if own_end else "killed while it measured"
        return [words, *["rows that were shown as done"] * len(shown)]

    def nothing_is_left(self) -> None:
        end = time.monotonic() + GONE_S
        while left := [pid for pid in Path("/proc").glob("[1-9]*") if self.is_ours(pid)]:
            assert time.monotonic() < end, f"still there after {GONE_S:g} s: {left}"
            time.sleep(0.05)

    def is_ours(self, process: Path) -> bool:
        try:
            return f"{TAG}={self.tag}".encode() in (process / "environ").read_bytes()
        except OSError:
            return False

    def store(self, journal: Path) -> None:
        file = self.output / "results.db"
        if file.exists():
            with contextlib.closing(sqlite3.connect(file)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        self.command("store", "sync", str(self.output), code=0 if self.intact(journal) else 1)
        told = json.loads(self.command("store", "history", "SIM-0001", "--store", f"sqlite:///{file}", "--json"))
        assert [line["verdict"] for line in told] != ["ACCEPTED"], told

    def intact(self, journal: Path) -> bool:
        return not read_journal(journal).notes

    def command(self, *arguments: str, code: int = 0) -> str:
        with io.StringIO() as said, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            got = cli.main(arguments)
            text = said.getvalue()
        assert got == code, f"{' '.join(arguments)}: {got}\n{text}"
        return text


if __name__ == "__main__":
    main()
