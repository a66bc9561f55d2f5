"""A store beside real runs: four benches on one PostgreSQL, one of them killed and one cut off; and SQLite."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import alembic.command  # noqa: F401 - pytester takes back what is imported while it runs, and this cannot come twice
import pytest
import sqlalchemy.dialects.postgresql
import sqlalchemy.dialects.sqlite  # noqa: F401 - as above
from postgres_server import PostgresServer, binaries, running_server
from project_ini import INI

from pytest_netperf import cli
from pytest_netperf.record.journal_reader import journal_lines

pytest_plugins = ["pytester"]

SUITE = """
import os, pathlib, time

@pytest.mark.netperf_limit(power="<= 15 W")
@pytest.mark.parametrize("number", range(6))
def test_power(netperf_record, number):
    while number == 3 and not pathlib.Path(os.environ["GO"]).exists():
        time.sleep(0.02)
    netperf_record("power", 10 + number / 2, "W")
"""
BENCH = """
[station]
name = "bench-{number}"

[[device]]
serial = "SN-{number}"
model = "BOX"
batch = "2026-48"

  [[device.link]]
  name = "p1"
  speed = "1G"
  simulated = true
"""


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    folder = binaries()
    if folder is None:
        pytest.skip("no PostgreSQL; `./run test` installs it")
    with running_server(folder) as server:
        yield server


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "this took too long"
        time.sleep(0.05)


def started(project, number: int, url: str, go: Path) -> tuple[subprocess.Popen[str], Path]:
    project.write({f"bench-{number}.toml": BENCH.format(number=number)})
    output = project.path / f"results-{number}"
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--netperf-bench=bench-{number}.toml",
        f"--netperf-output={output}", f"--netperf-store={url}",
    ]  # fmt: skip
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    environment = {**outside, "GO": str(go), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        command, cwd=project.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return process, output


def journal_of(output: Path) -> Path:
    (journal,) = (output / "journals").glob("*.jsonl")
    return journal


def rows_in(output: Path) -> int:
    return sum(path.read_text().count('"kind":"row"') for path in output.glob("journals/*.jsonl"))


def answer(capsys, *arguments: str, code: int = 0) -> str:
    assert cli.main(["store", *arguments]) == code
    return capsys.readouterr().out


def test_four_benches_one_killed_one_cut_off_and_all_of_it_is_there_after_sync(project, postgres, capsys, request):
    database = postgres.new_database()
    url, go = postgres.url(database), project.path / "go"
    postgres.execute(database, "CREATE ROLE cut LOGIN SUPERUSER")
    project.write(test_bench=SUITE)
    benches: list[tuple[subprocess.Popen[str], Path]] = []
    request.addfinalizer(lambda: [process.kill() for process, _ in benches])
    for number in range(4):
        benches.append(started(project, number, postgres.url(database, "cut") if number == 3 else url, go))
    stored = "SELECT count(*) FROM netperf_row WHERE serial = '{}'"
    until(lambda: all(rows_in(output) == 3 or process.poll() is not None for process, output in benches))
    assert [process.stdout.read() for process, _ in benches if process.poll() is not None] == []
    until(lambda: all(postgres.execute(database, stored.format(f"SN-{n}"))[0][0] == 3 for n in range(4)))
    killed = benches[1][0]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    postgres.execute(database, "ALTER ROLE cut NOLOGIN")
    postgres.execute(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'cut'")
    began = time.monotonic()
    go.touch()
    said = [process.communicate(timeout=60)[0] if process is not killed else "" for process, _ in benches]
    assert time.monotonic() - began < 40, "a lost connection delays a run"
    assert [process.returncode for process, _ in benches] == [0, -signal.SIGKILL, 0, 0], said
    assert [("are not in the store" in text) for text in said] == [False, False, False, True]
    assert "pytest-netperf store sync results-3 --store URL" in said[3]
    assert '"cut" is not permitted to log in' in said[3]
    assert all("Traceback" not in text for text in said)
    # What the store says before anybody filled in anything: nothing too much.
    verdicts = {n: json.loads(answer(capsys, "history", f"SN-{n}", "--store", url, "--json"))[0] for n in range(4)}
    assert [verdicts[n]["verdict"] for n in range(4)] == ["ACCEPTED", "NOT PROVEN", "ACCEPTED", "NOT PROVEN"]
    assert [verdicts[n]["complete"] for n in range(4)] == [True, False, True, False]
    postgres.execute(database, "ALTER ROLE cut LOGIN")
    answer(capsys, "sync", str(project.path), "--store", url)
    assert "0 lines added, all is there" in answer(capsys, "sync", str(project.path), "--store", url)
    lines = postgres.execute(database, "SELECT run_id, n, kind, sha256 FROM netperf_event")
    journals = [journal_of(output) for _, output in benches]
    wanted = {(path.stem, line.n, line.kind, line.sha256) for path in journals for line in journal_lines(path)}
    assert set(lines) == wanted
    assert len(lines) == len(wanted)
    verdicts = {n: json.loads(answer(capsys, "history", f"SN-{n}", "--store", url, "--json"))[0] for n in range(4)}
    assert [verdicts[n]["verdict"] for n in range(4)] == ["ACCEPTED", "NOT PROVEN", "ACCEPTED", "ACCEPTED"]
    for number, (_, output) in enumerate(benches):
        for path in output.glob("*/*/sheet.json"):
            sheet = json.loads(path.read_text())
            assert {key: sheet[key] for key in ("run_id", "verdict", "complete", "counts", "sentence")} == {
                key: verdicts[number][key] for key in ("run_id", "verdict", "complete", "counts", "sentence")
            }
    last = json.loads(answer(capsys, "last", "BOX", "-n", "3", "--store", url, "--json"))
    assert len(last) == 3
    points = json.loads(answer(capsys, "trend", "test_power", "--serial", "SN-1", "--store", url, "--json"))
    assert [point["value"] for point in points] == [10.0, 10.5, 11.0]


def test_a_run_is_the_same_with_a_store_that_is_not_there(project):
    """Nobody listens: the run takes no longer than a moment, says so once, and its exit code is its own."""
    project.write(test_all=SUITE.replace("range(6)", "range(2)"))
    url = "postgresql+psycopg://user:secret@127.0.0.1:9/none"
    run = project.run(f"--netperf-store={url}")
    assert run.code == 0, run.text
    run.has("lines of run", "are not in the store postgresql+psycopg://user:***@127.0.0.1:9/none", "Connection refused")
    assert run.text.count("WARNING:") == 1
    assert "secret" not in run.text + run.journal.read_text() + json.dumps(run.sheet)
    assert run.sheet["verdict"] == "ACCEPTED"


def test_sqlite_from_the_ini_file_and_wrong_urls(project, capsys):
    project.write(
        {"pytest.ini": f"{INI}netperf_store = sqlite:///results.db\n"}, test_all=SUITE.replace("range(6)", "range(2)")
    )
    run = project.run()
    assert run.code == 0, run.text
    assert "WARNING" not in run.text
    database = f"sqlite:///{project.path / 'results.db'}"
    assert "0 lines added, all is there" in answer(capsys, "sync", str(run.output), "--store", database)
    (line,) = json.loads(answer(capsys, "history", "SIM-0001", "--store", database, "--json"))
    assert line["verdict"] == run.sheet["verdict"] == "ACCEPTED"
    wrong = project.run("--netperf-store=mysql://user:secret@host/name")
    assert wrong.code == 4
    wrong.has("--netperf-store mysql://user:***@host/name", "a store is SQLite or PostgreSQL, not mysql")
    wrong.is_clean()
