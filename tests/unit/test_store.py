"""The store on SQLite: URLs, migrations, what is written twice, what is never claimed, and its commands."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import sqlite3
import sys
import time
from pathlib import Path

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf import cli
from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.option_values import Text, as_store
from pytest_netperf.record.canonical import encode
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.journal_event import WrittenSheet
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.journal_reader import journal_lines
from pytest_netperf.record.run_record import RunRecord
from pytest_netperf.record.schema import Evidence, SeriesPoint, Waiver
from pytest_netperf.store.database import Database, hide_password, parse_url
from pytest_netperf.store.replay import sheets_of
from pytest_netperf.store.sqlite_file import VERSION, SqliteFile
from pytest_netperf.store.write import add_events, run_of
from pytest_netperf.store.writer import StoreWriter


def record(
    folder, run_id="r1", serial="SN-1", values=(2.35e9, 2.34e9), *, batch="2026-48", verdict=DeviceVerdict.ACCEPTED,
    finished=True, sheet=True, day=1,
) -> Path:  # fmt: skip
    """The journal of a run with one device."""
    rows = [
        make_row(f"p{number}", Verdict.PASS if value >= 2.3e9 else Verdict.FAIL, value, serial=serial)
        for number, value in enumerate(values)
    ]
    started = f"2026-11-{day:02d}T10:00:00+00:00"
    with Journal.create(folder, run_id) as journal:
        journal.run(msgspec.structs.replace(RUN, run_id=run_id, batch=batch, started_at=started))
        journal.plan(plan_of(rows))
        for row in rows:
            journal.running(row.test)
            journal.row(row, "passed")
        if finished:
            journal.finished(0)
            if sheet:
                journal.sheet(WrittenSheet(serial=serial, verdict=verdict, digest="0" * 64))
            journal.closed()
    return journal.path


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def database(url):
    opened = Database.open(parse_url(url), create=True)
    yield opened
    opened.close()


def store(capsys, *arguments, code=0) -> str:
    assert cli.main(["store", *map(str, arguments)]) == code
    printed = capsys.readouterr()
    return printed.out + printed.err


def verdicts_of(capsys, url, serial) -> list[tuple[str, bool]]:
    lines = json.loads(store(capsys, "history", serial, "--store", url, "--json"))
    return [(line["verdict"], line["complete"]) for line in lines]


# ---- URLs and the database -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("results.db", "'results.db' is not the URL of a database"),
        ("", "is not the URL"),
        ("sqlite://", "is gone with its process"),
        ("sqlite:///:memory:", "is gone with its process"),
        ("mysql://u:secret@h/d", r"mysql://u:\*\*\*@h/d: a store is SQLite or PostgreSQL, not mysql"),
        ("postgresql+psycopg2://h/d", "not postgresql\\+psycopg2"),
        ("postgresql+psycopg://h", "names no database"),
        ("postgresql://u:secret@h:port/d", "is not the URL"),
    ],
)
def test_wrong_urls(text, says):
    with pytest.raises(ConfigError, match=says) as error:
        parse_url(text)
    assert "secret" not in str(error.value)


def test_good_urls(tmp_path):
    assert parse_url("sqlite:///a.db", tmp_path).database == str(tmp_path / "a.db")
    assert parse_url("sqlite:////var/a.db", tmp_path).database == "/var/a.db"
    assert parse_url("postgresql://h/d").drivername == "postgresql+psycopg"


def test_off_is_no_store(tmp_path):
    for word in ("off", "none"):
        assert as_store(Text(word, f"--netperf-store {word}", tmp_path)) is None
    assert as_store(Text(" sqlite:///a.db ", "", tmp_path)).database == str(tmp_path / "a.db")


def test_passwords_are_hidden_and_nothing_else():
    assert hide_password("pytest --netperf-store=postgresql://u:p%40:w@h/d -k a:b@c") == (
        "pytest --netperf-store=postgresql://u:***@h/d -k a:b@c"
    )
    for text in ("http://h:80/a", "sqlite:///a.db", "a@b", "postgresql://u@h/d"):
        assert hide_password(text) == text


def test_without_the_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(ConfigError, match=r"pip install 'pytest-netperf\[store\]'"):
        parse_url("sqlite:///a.db")


def test_migrations_end_at_the_tables_of_today(database):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from pytest_netperf.store.tables import METADATA

    with database.begin() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "netperf_version"})
        assert compare_metadata(context, METADATA) == []


def test_the_file_beside_the_output_has_the_tables_of_the_migrations(tmp_path, database):
    """Of one and the same version: each may open what the other made."""

    def tables(path: Path) -> set[str]:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT version_num FROM netperf_version").fetchall() == [(VERSION,)]
            return {
                re.sub(r"\s+", " ", text).replace("( ", "(").replace(" )", ")")
                for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
            }

    SqliteFile.open(tmp_path / "beside.db").close()
    assert tables(tmp_path / "beside.db") == tables(tmp_path / "store.db")
    SqliteFile.open(tmp_path / "store.db").close()
    Database.open(parse_url(f"sqlite:///{tmp_path}/beside.db"), create=False).close()


def test_a_store_that_is_not_there_or_newer_is_refused(tmp_path, url, database, capsys):
    record(tmp_path)
    nowhere = f"sqlite:///{tmp_path}/none.db"
    assert "there is no such store" in store(capsys, "history", "SN-1", "--store", nowhere, code=2)
    assert not (tmp_path / "none.db").exists()
    assert "there is no folder" in store(capsys, "sync", tmp_path, "--store", f"sqlite:///{tmp_path}/a/b.db", code=2)
    (tmp_path / "text.db").write_text("no database at all, " * 50)
    text = store(capsys, "sync", tmp_path, "--store", f"sqlite:///{tmp_path}/text.db", code=2)
    assert "file is not a database" in text
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE netperf_version SET version_num = '9999'")
    assert "of a newer pytest-netperf (version 9999)" in store(capsys, "sync", tmp_path, "--store", url, code=2)
    with pytest.raises(RecordError, match="of version 9999, not 0001; 'pytest-netperf store sync' brings an older"):
        SqliteFile.open(tmp_path / "store.db")
    with pytest.raises(RecordError, match="file is not a database"):
        SqliteFile.open(tmp_path / "text.db")
    assert "there is no such folder" in store(capsys, "sync", tmp_path / "no", code=2)


# ---- writing ---------------------------------------------------------------------------------------------------------


def test_sync_fills_in_once_and_says_what_the_journal_says(tmp_path, url, capsys):
    path = record(tmp_path)
    record(tmp_path, "r2", "SN-1", (1.9e9,), verdict=DeviceVerdict.REJECTED, day=2)
    assert "2 journals, 16 lines added, all is there" in store(capsys, "sync", tmp_path, "--store", url)
    assert "0 lines added, all is there" in store(capsys, "sync", tmp_path, "--store", url)
    assert "1 journal, 0 lines added" in store(capsys, "sync", path, "--store", url)
    assert verdicts_of(capsys, url, "SN-1") == [("ACCEPTED", True), ("REJECTED", True)]


def test_the_lines_in_between_are_filled_in(tmp_path, url, database, capsys):
    lines = journal_lines(record(tmp_path))
    run = run_of(lines[0])
    with database.begin() as connection:
        add_events(connection, run, [lines[0], lines[1], lines[3], lines[5], lines[7]])
    assert verdicts_of(capsys, url, "SN-1") == [("NOT PROVEN", False)]
    assert "4 of 9 lines added" in store(capsys, "sync", tmp_path, "--store", url)
    assert verdicts_of(capsys, url, "SN-1") == [("ACCEPTED", True)]


def test_damaged_and_foreign_journals_are_named(tmp_path, url, capsys):
    path = record(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"2350000000", b"2390000000", 1))
    (tmp_path / "journals/empty.jsonl").write_text("")
    (tmp_path / "journals/text.jsonl").write_text("hello\n")
    headless = record(tmp_path / "other", "r3")
    headless.write_bytes(b"".join(headless.read_bytes().splitlines(keepends=True)[1:]))
    text = store(capsys, "sync", tmp_path, "--store", url, code=1)
    assert "was altered after it was written and is left out" in text
    assert "empty.jsonl: this journal is empty" in text
    assert "text.jsonl: not a journal" in text
    assert "r3.jsonl: its first line is lost" in text
    assert verdicts_of(capsys, url, "SN-1") == [("NOT PROVEN", False)]
    assert "there is no such folder" in store(capsys, "sync", tmp_path / "none", "--store", url, code=2)
    (tmp_path / "bare").mkdir()
    assert "there is no journal" in store(capsys, "sync", tmp_path / "bare", "--store", url, code=2)


def test_two_runs_of_one_id_are_kept_apart_and_a_longer_journal_of_one_run_replaces(tmp_path, url, capsys):
    record(tmp_path / "a", "same")
    record(tmp_path / "b", "same", "SN-2", day=2)
    store(capsys, "sync", tmp_path / "a", "--store", url)
    assert "the store has another run of this id" in store(capsys, "sync", tmp_path / "b", "--store", url, code=1)
    assert verdicts_of(capsys, url, "SN-1") == [("ACCEPTED", True)]
    # The run went on in another folder, as when a disk is full: its lines were written at other times.
    record(tmp_path / "c", "moved", "SN-3", finished=False)
    time.sleep(0.002)
    record(tmp_path / "d", "moved", "SN-3")
    store(capsys, "sync", tmp_path / "c", "--store", url)
    assert verdicts_of(capsys, url, "SN-3") == [("NOT PROVEN", False)]
    store(capsys, "sync", tmp_path / "d", "--store", url)
    assert verdicts_of(capsys, url, "SN-3") == [("ACCEPTED", True)]
    assert "the store has more of run moved" in store(capsys, "sync", tmp_path / "c", "--store", url, code=1)
    assert verdicts_of(capsys, url, "SN-3") == [("ACCEPTED", True)]


def test_heavy_evidence_stays_out_and_odd_text_goes_in(tmp_path, database):
    series = (SeriesPoint(start_s=0, seconds=1, throughput_bps=1.0),)
    heavy = Evidence(series=series, documents={"client": "x" * 9999}, facts={"odd": "a\0b"}, doubts=("d",))
    row = make_row("p0", evidence=heavy, reason="nul \0 and \ud800 and 'quote'")
    with Journal.create(tmp_path, "r1") as journal:
        journal.run(msgspec.structs.replace(RUN, run_id="r1"))
        journal.row(row)
    lines = journal_lines(journal.path)
    with database.begin() as connection:
        add_events(connection, run_of(lines[0]), lines)
        (body,) = connection.exec_driver_sql("SELECT body FROM netperf_event WHERE kind = 'row'").scalars()
        (reason,) = connection.exec_driver_sql("SELECT reason FROM netperf_row").scalars()
    assert len(body) < 3000
    assert json.loads(body)["row"]["evidence"]["doubts"] == ["d"]
    assert reason == "nul \ufffd and ? and 'quote'"


def test_a_run_that_goes_on_elsewhere_is_stored_to_its_end(tmp_path, url, capsys, monkeypatch):
    """The disk of its output takes nothing any more after the first row: the store hears of the others too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rows = [make_row(f"p{number}", serial="SN-1") for number in range(3)]
    writer = StoreWriter(parse_url(url), "r1")
    run = RunRecord(tmp_path / "output", "r1", writer.put)
    run.begin(lambda _: msgspec.structs.replace(RUN, run_id="r1"), plan_of(rows))
    run.row(rows[0], "passed")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, run._journal._fd)
    os.close(full)
    for row in rows[1:]:
        run.row(row, "passed")
    run.end(0)
    run.seal([])
    assert writer.close(30) is None
    assert run.output != tmp_path / "output"
    points = json.loads(store(capsys, "trend", "throughput", "--store", url, "--json"))
    assert [point["label"] for point in points] == [row.id for row in rows]
    store(capsys, "sync", run.output, "--store", url)
    assert "0 lines added" in store(capsys, "sync", run.output, "--store", url)
    shutil.rmtree(run.output)


# ---- what is never claimed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "ACCEPTED"),
        ({"finished": False}, "NOT PROVEN"),
        ({"sheet": False}, "NOT PROVEN"),
        ({"verdict": DeviceVerdict.NOT_PROVEN}, "NOT PROVEN"),
        ({"verdict": DeviceVerdict.REJECTED}, "REJECTED"),
        ({"verdict": DeviceVerdict.ACCEPTED_WITH_WAIVER}, "ACCEPTED WITH WAIVER"),
        ({"values": (1.9e9,), "verdict": DeviceVerdict.ACCEPTED}, "REJECTED"),
    ],
)
def test_a_store_says_no_more_than_the_run(tmp_path, changes, verdict):
    (sheet,) = sheets_of(journal_lines(record(tmp_path, **changes)))
    assert sheet.verdict.value == verdict


def test_a_waiver_of_the_run_holds_in_the_store_too(tmp_path, url, capsys):
    bad = make_row("p0", Verdict.FAIL, 1.9e9, serial="SN-1")
    waiver = Waiver(who="QA", why="test", until="2099-01-01", serial="SN-1", row=bad.id, where="waivers.toml: waiver 1")
    with Journal.create(tmp_path, "r1") as journal:
        journal.run(msgspec.structs.replace(RUN, run_id="r1", batch="B", waivers=(waiver,)))
        journal.plan(plan_of([bad]))
        journal.row(bad)
        journal.finished(1)
        verdict = DeviceVerdict.ACCEPTED_WITH_WAIVER
        journal.sheet(WrittenSheet(serial="SN-1", verdict=verdict, digest="0" * 64))
        journal.closed()
    store(capsys, "sync", tmp_path, "--store", url)
    assert verdicts_of(capsys, url, "SN-1") == [("ACCEPTED WITH WAIVER", True)]
    assert cli.main(["batch", "--store", url, "--output", str(tmp_path)]) == 0
    page = json.loads((tmp_path / "batch-B/batch.json").read_text())
    assert (page["accepted_units"], page["final"]["k"], page["problems"]) == (0, 0, [])
    assert page["units"][0]["last"] == "ACCEPTED WITH WAIVER"


def test_every_missing_line_costs_the_acceptance(tmp_path):
    lines = journal_lines(record(tmp_path))
    (sheet,) = sheets_of(lines)
    assert (sheet.verdict, sheet.complete) == (DeviceVerdict.ACCEPTED, True)
    for n, line in enumerate(lines[:-1]):
        rest = [other for other in lines if other is not line]
        assert all(sheet.verdict is not DeviceVerdict.ACCEPTED for sheet in sheets_of(rest)), n
    assert sheets_of(lines[1:]) == []


# ---- questions -------------------------------------------------------------------------------------------------------


def test_questions_and_their_wrong_use(tmp_path, url, capsys):
    for day in range(1, 5):
        record(tmp_path, f"r{day}", f"SN-{day % 2}", (2.3e9 + day * 1e7,), day=day, batch=f"2026-{46 + day}")
    store(capsys, "sync", tmp_path, "--store", url)
    text = store(capsys, "history", "SN-1", "--store", url)
    assert [line.split("   ")[0] for line in text.splitlines() if line.startswith("SN")] == ["SN-1", "SN-1"]
    assert "2026-11-01 10:00 UTC   batch 2026-47   bench-1   r1" in text
    last = json.loads(store(capsys, "last", "R86S-U4", "-n", "3", "--store", url, "--json"))
    assert [line["run_id"] for line in last] == ["r4", "r3", "r2"]
    points = json.loads(store(capsys, "trend", "LINE_RATE", "--store", url, "--json"))
    assert [point["value"] for point in points] == [2.31e9, 2.32e9, 2.33e9, 2.34e9]
    points = json.loads(store(capsys, "trend", "throughput", "--serial", "SN-0", "-n", "1", "--store", url, "--json"))
    assert [point["run_id"] for point in points] == ["r4"]
    assert "2.32 Gbit/s   PASS" in store(capsys, "trend", "p0", "--model", "R86S-U4", "--store", url)
    assert "has no device 'SN-9' (did you mean 'SN-" in store(capsys, "history", "SN-9", "--store", url, code=2)
    assert "has no model 'R86S' (did you mean" in store(capsys, "last", "R86S", "--store", url, code=2)
    assert "has no row with a value '%'" in store(capsys, "trend", "%", "--store", url, code=2)
    with pytest.raises(SystemExit):
        cli.main(["store", "last", "R86S-U4", "-n", "0", "--store", url])
    assert "must be a whole number from 1 on, not '0'" in capsys.readouterr().err


def test_export_to_csv_and_parquet(tmp_path, url, capsys, monkeypatch):
    import pyarrow.parquet

    record(tmp_path, "r1", "=SN-1", (2.35e9, 1.9e9), verdict=DeviceVerdict.REJECTED)
    record(tmp_path, "r2", "SN-2", batch="2026-49", day=2)
    store(capsys, "sync", tmp_path, "--store", url)
    assert "rows.csv: 4 rows" in store(capsys, "export", tmp_path / "rows.csv", "--store", url)
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["serial"], float(row["value"]), row["verdict"], row["required"]) for row in rows] == [
        ("'=SN-1", 2.35e9, "PASS", "true"),
        ("'=SN-1", 1.9e9, "FAIL", "true"),
        ("SN-2", 2.35e9, "PASS", "true"),
        ("SN-2", 2.34e9, "PASS", "true"),
    ]
    store(capsys, "export", tmp_path / "rows.parquet", "--batch", "2026-49", "--store", url)
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert table.column("value").to_pylist() == [2.35e9, 2.34e9]
    assert table.schema.field("simulated").type == pyarrow.bool_()
    assert "it is not overwritten" in store(capsys, "export", tmp_path / "rows.csv", "--store", url, code=2)
    assert "ends with .csv or .parquet" in store(capsys, "export", tmp_path / "rows.xlsx", "--store", url, code=2)
    assert "has no such row" in store(capsys, "export", tmp_path / "no.csv", "--serial", "X", "--store", url, code=1)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pytest-netperf[parquet]" in store(capsys, "export", tmp_path / "b.parquet", "--store", url, code=2)


def test_the_batch_page_from_a_store_is_that_of_the_folder(tmp_path, url, capsys):
    record(tmp_path, "r1", "SN-1", (1.9e9,), verdict=DeviceVerdict.REJECTED)
    record(tmp_path, "r2", "SN-1", day=2)
    record(tmp_path, "r3", "SN-2")
    record(tmp_path, "r4", "SN-3", finished=False)
    record(tmp_path, "r5", "SN-4", batch="2026-49")
    store(capsys, "sync", tmp_path, "--store", url)
    chosen = ("--batch", "2026-48", "--output")
    assert cli.main(["batch", "--store", url, *chosen, str(tmp_path / "of-store")]) == 0
    assert cli.main(["batch", str(tmp_path), *chosen, str(tmp_path / "of-folder")]) == 1  # no run left a sheet here
    pages = [
        json.loads((tmp_path / name / "batch-2026-48/batch.json").read_text()) for name in ("of-store", "of-folder")
    ]
    for key in ("devices", "runs", "incomplete", "first_pass", "retested", "pareto", "rows", "stations"):
        assert pages[0][key] == pages[1][key], key
    assert (pages[0]["accepted_units"], pages[0]["devices"]) == (2, 3)
    capsys.readouterr()
    assert cli.main(["batch", "--store", url, "--batch", "2026-4"]) == 2
    assert "no such batch (did you mean" in capsys.readouterr().err


# ---- the thread ------------------------------------------------------------------------------------------------------


def offered(writer, lines) -> str | None:
    for line in lines:
        writer.put(line)
    return writer.close()


def test_the_writer_stores_a_run_and_is_quick_about_a_database_that_is_not_there(tmp_path, url, capsys):
    lines = journal_lines(record(tmp_path))
    assert offered(StoreWriter(parse_url(url), "r1"), lines) is None
    assert verdicts_of(capsys, url, "SN-1") == [("ACCEPTED", True)]
    began = time.monotonic()
    said = offered(StoreWriter(parse_url(f"sqlite:///{tmp_path}/none/a.db"), "r1"), lines)
    assert time.monotonic() - began < 3
    assert said.startswith("9 of 9 lines of run r1 are not in the store sqlite:///")
    assert "there is no folder" in said
    said = offered(StoreWriter(tmp_path / "none" / "a.db", "r1"), lines)
    assert said.endswith(f"in the store sqlite:///{tmp_path}/none/a.db: unable to open database file")


def test_runs_that_write_into_one_file_at_once(tmp_path, capsys):
    """Beside one output folder, none of which has a store yet: each waits for the others, and nothing is missing."""
    for number in range(6):
        record(tmp_path, f"r{number}", f"SN-{number}")
    journals = {path.stem: journal_lines(path) for path in (tmp_path / "journals").glob("*.jsonl")}
    writers = {run_id: StoreWriter(tmp_path / "results.db", run_id) for run_id in journals}
    for lines in zip(*journals.values(), strict=True):
        for writer, line in zip(writers.values(), lines, strict=True):
            writer.put(line)
    assert [writer.close(30) for writer in writers.values()] == [None] * 6
    assert "6 journals, 0 lines added, all is there" in store(capsys, "sync", tmp_path)
    assert verdicts_of(capsys, f"sqlite:///{tmp_path}/results.db", "SN-3") == [("ACCEPTED", True)]


def test_while_a_test_runs_the_file_has_no_thread(tmp_path):
    """Tests may fork, which a process with threads is warned about."""
    lines = journal_lines(record(tmp_path))
    writer = StoreWriter(tmp_path / "results.db", "r1")
    for line in lines[:3]:  # run, plan, running
        writer.put(line)
    assert writer._thread is None
    assert lines[3].kind == "row"
    writer.put(lines[3])
    writer._thread.join(20)
    assert not writer._thread.is_alive()
    with contextlib.closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        assert connection.execute("SELECT count(*) FROM netperf_event").fetchone() == (4,)
    for line in lines[4:]:
        writer.put(line)
    assert writer.close(20) is None
    assert StoreWriter(tmp_path / "results.db", "r2").close() is None


def test_the_writer_gives_up_on_a_slow_database_and_has_bounds(tmp_path, url, monkeypatch):
    from pytest_netperf.store import writer as module

    lines = journal_lines(record(tmp_path))
    Database.open(parse_url(url), create=True).close()
    holder = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")  # nobody else gets in
    slow = StoreWriter(parse_url(url), "r1")
    for line in lines:
        slow.put(line)
    began = time.monotonic()
    assert "9 of 9 lines of run r1 are not in the store" in slow.close(0.2)
    plain = StoreWriter(tmp_path / "store.db", "r1")
    for line in lines:
        plain.put(line)
    assert f"not in the store sqlite:///{tmp_path}/store.db: it takes longer than 0.2 s" in plain.close(0.2)
    assert time.monotonic() - began < 2
    holder.execute("ROLLBACK")
    holder.close()
    slow._thread.join(20)
    plain._thread.join(20)
    monkeypatch.setattr(module, "MOST_EVENTS", 3)
    full = StoreWriter(parse_url(f"sqlite:///{tmp_path}/none/a.db"), "r1")
    said = offered(full, lines)
    assert "9 of 9 lines" in said
    assert len(full._lines) == 3


def test_a_line_that_breaks_the_thread_is_said_too(url):
    writer = StoreWriter(parse_url(url), "r1")
    assert "1 of 1 lines of run r1" in offered(writer, [JournalLine(0, "run", "0" * 64, 2, encode({"no": "run"}))])


def test_errors_of_a_database_are_one_line(database):
    with pytest.raises(RecordError, match="no such table"), database.begin() as connection:
        connection.exec_driver_sql("SELECT * FROM nowhere")
