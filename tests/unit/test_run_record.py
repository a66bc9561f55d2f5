"""The record of a run: written first, closed last, and nothing of it is lost, whatever happens to the disk or clock."""

import json
import os
import resource
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from record_samples import DEVICE, RUN, make_row, plan_of

from pytest_netperf.errors import RecordError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record import journal as journal_module
from pytest_netperf.record.closing import close_run
from pytest_netperf.record.earlier import earlier_runs
from pytest_netperf.record.evidence_store import keep_file
from pytest_netperf.record.journal_reader import journal_lines, read_journal
from pytest_netperf.record.run_record import RunRecord
from pytest_netperf.record.sheet_file import folder_name, parse_sheet, read_sheet, sheet_bytes
from pytest_netperf.record.stretch import Stretch
from pytest_netperf.record.verify import verify_sheet
from pytest_netperf.report.sheet import write_sheet

OLD = Path(__file__).parent / "samples" / "record" / "1.0"
ROWS = [make_row(f"p{number}") for number in range(1, 5)]


def begin(output, run_id=RUN.run_id, started_at="2026-11-30T19:12:03+00:00", rows=ROWS, files=()):
    record = RunRecord(output, run_id)
    info = msgspec.structs.replace(RUN, run_id=run_id, started_at=started_at, files=files)
    record.begin(lambda previous: msgspec.structs.replace(info, previous=previous), plan_of(rows))
    return record


def end(record, rows=ROWS, exit_status=0):
    for row in rows:
        record.running(row.test)
        record.row(row, "passed")
    (sheet,) = record.end(exit_status)
    paths = write_sheet(sheet, record.output)
    record.seal([(sheet, list(paths.files.values()))])
    return sheet, paths.json


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "pytest-netperf" / "rescued"


def good(path):
    return not {finding.result for finding in verify_sheet(path)} & {"broken", "missing"}


# Written first, closed last


def test_only_the_closing_step_writes_a_verdict(tmp_path):
    record = begin(tmp_path)
    for row in ROWS:
        record.row(row, "passed")
    assert list(tmp_path.glob("*/*/sheet.json")) == []
    assert b"ACCEPTED" not in record.path.read_bytes()
    sheet, _ = end(begin(tmp_path / "other"))
    assert (sheet.state, sheet.verdict) == ("complete", DeviceVerdict.ACCEPTED)


@pytest.mark.parametrize(
    ("exit_status", "rows", "state"),
    [
        (0, ROWS, "complete"),
        (1, ROWS, "complete"),
        (2, ROWS, "stopped"),
        (3, ROWS, "stopped"),
        (1, ROWS[:2], "stopped"),
    ],
)
def test_how_a_run_ended_is_visible(tmp_path, exit_status, rows, state):
    sheet, path = end(begin(tmp_path), rows, exit_status)
    assert sheet.state == state
    assert sheet.complete is (state == "complete")
    assert (sheet.verdict is DeviceVerdict.ACCEPTED) is (state == "complete")
    assert read_sheet(path).state == state


RUNNING = """
import sys, time
from pathlib import Path
from record_samples import RUN, make_row, plan_of
from pytest_netperf.record.journal import Journal
journal = Journal.create(Path(sys.argv[1]), "r1")
journal.run(RUN)
journal.plan(plan_of([make_row()]))
print("written", flush=True)
sys.stdin.read()
"""


def test_a_run_that_goes_on_is_told_from_one_that_was_killed(tmp_path, capsys):
    from pytest_netperf import cli

    with subprocess.Popen(
        [sys.executable, "-c", RUNNING, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout.readline() == b"written\n"
        journal = tmp_path / "journals" / "r1.jsonl"
        assert read_journal(journal).state == "running"
        with pytest.raises(RecordError, match="this run goes on, so there is no final verdict yet"):
            close_run(read_journal(journal), tmp_path)
        assert cli.main(["sheet", str(journal)]) == 2
        assert "this run goes on" in capsys.readouterr().err
        assert not list(tmp_path.glob("*/*/sheet.json"))
        writer.kill()
        writer.wait()
    assert read_journal(journal).state == "killed"
    (sheet,) = close_run(read_journal(journal), tmp_path)
    assert (sheet.state, sheet.verdict) == ("killed", DeviceVerdict.NOT_PROVEN)


# Places that cannot be written


def test_what_a_full_disk_does_not_take_goes_elsewhere(tmp_path, state):
    output = tmp_path / "out"
    record = begin(output)
    record.row(ROWS[0], "passed")
    first = record.path
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (first.stat().st_size + 10, before[1]))
    try:
        with pytest.raises(RecordError):
            record._journal.row(ROWS[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    # From here on this journal takes nothing any more.
    record._journal.close()
    signal.signal(signal.SIGXFSZ, old)
    sheet, path = end(record, ROWS[1:])
    assert record.broken.endswith(f"; the run went on with all of its record in {state}")
    assert record.path.parent == state / "journals"
    assert len(read_journal(record.path).rows) == len(ROWS)
    assert (sheet.verdict, sheet.complete) == (DeviceVerdict.ACCEPTED, True)
    assert path.is_relative_to(state)
    assert good(path)
    assert len(read_journal(first).rows) == 1  # the first one is as far as it came


def test_what_goes_elsewhere_is_every_event_as_it_was(tmp_path, state):
    """Also those of a test that still runs: its row comes later, and is no second attempt."""
    (tmp_path / "bench.toml").write_text("x")
    kept = keep_file(tmp_path / "out", "bench file", tmp_path / "bench.toml")
    record = begin(tmp_path / "out", files=(kept,))
    record.row(ROWS[0], "passed")
    record.running(ROWS[1].test)
    record.stretch(Stretch(test=ROWS[1].test, traffic=0, worst={"temperature": 40.0}))
    first = journal_lines(record.path)
    record._journal.close()  # it takes nothing any more
    sheet, path = end(record, ROWS[1:])
    moved = journal_lines(record.path)
    assert [(line.n, line.kind, line.body) for line in moved[: len(first)]] == [
        (line.n, line.kind, line.body) for line in first
    ]
    assert [line.kind for line in first] == ["run", "plan", "row", "running", "stretch"]
    assert (sheet.verdict, [row.attempts for row in sheet.rows]) == (DeviceVerdict.ACCEPTED, [()] * len(ROWS))
    assert (state / kept.copy).read_text() == "x"
    assert good(path)


def test_an_output_that_cannot_be_made(tmp_path, state):
    (tmp_path / "file").write_text("x")
    record = begin(tmp_path / "file" / "out")
    _, path = end(record)
    assert "file/out/journals" in record.broken
    assert good(path)


def test_the_same_run_twice_overwrites_nothing(tmp_path, state):
    _, path = end(begin(tmp_path / "out"))
    before = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()}
    record = begin(tmp_path / "out")
    _, second = end(record)
    assert "this journal exists and is never overwritten" in record.broken
    assert second.is_relative_to(state)
    assert {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()} == before
    assert good(path)


def test_nowhere_at_all(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    record = begin(tmp_path / "file" / "out")
    for row in ROWS:
        record.row(row, "passed")
    (sheet,) = record.end(0)
    assert record.path is None
    assert record.broken
    assert len(sheet.rows) == len(ROWS)  # to be shown, at least
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN


def test_a_copy_of_a_file_is_never_overwritten(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text("a")
    first = keep_file(tmp_path / "out", "limits file", file)
    assert (tmp_path / "out" / first.copy).read_text() == "a"
    file.write_text("b")
    second = keep_file(tmp_path / "out", "limits file", file)
    assert first.copy != second.copy
    assert (tmp_path / "out" / first.copy).read_text() == "a"
    (tmp_path / "out" / second.copy).write_text("spoilt")
    assert keep_file(tmp_path / "out", "limits file", file).copy is None
    assert keep_file(tmp_path / "file.toml" / "x", "limits file", file).sha256 == second.sha256
    assert keep_file(tmp_path, "limits file", tmp_path / "none") is None


# Clocks


def clock(monkeypatch, *moments):
    times = iter(moments)
    last = [moments[-1]]

    def now():
        last[0] = next(times, last[0])
        return last[0].isoformat(timespec="milliseconds")

    monkeypatch.setattr(journal_module, "_now", now)


def test_a_clock_that_was_set_back_in_the_run(tmp_path, monkeypatch):
    now = datetime.now(UTC)
    later = [now + timedelta(seconds=number) for number in range(6)]
    clock(monkeypatch, *later, now - timedelta(hours=1))
    record = begin(tmp_path)
    sheet, _ = end(record)
    assert len(sheet.rows) == len(ROWS)
    assert sheet.verdict is DeviceVerdict.NOT_PROVEN
    (problem,) = record.problems
    assert "The clock of the tester was set back by 3604 s between events" in problem
    assert sheet.remarks == (problem,)
    assert sheet.sentence.startswith("All 4 required rows passed, but the record is not whole: The clock of the tester")


def test_a_clock_that_is_slewed_is_none_that_was_set_back(tmp_path, monkeypatch):
    now = datetime.now(UTC)
    clock(monkeypatch, now, now - timedelta(seconds=0.9), now)
    record = begin(tmp_path)
    assert end(record)[0].verdict is DeviceVerdict.ACCEPTED
    assert record.problems == []


def test_a_clock_that_was_set_back_since_the_last_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        clock(patch, datetime.now(UTC) + timedelta(hours=2))
        end(begin(tmp_path, "20261130T190000-0001"))
    record = begin(tmp_path, "20261130T170000-0002")
    assert len(record.problems) == 1
    assert record.problems[0].startswith(
        "the clock of this machine was set back: run 20261130T190000-0001 of this output"
    )


# Earlier runs


def test_a_retest_is_linked_and_the_first_verdict_stays(tmp_path):
    bad = [*ROWS[:3], make_row("p4", Verdict.FAIL, 1.9e9)]
    first, first_path = end(begin(tmp_path, "r1", "2026-11-28T10:00:00+00:00"), bad, 1)
    assert (first.earlier, first.first_pass) == ((), DeviceVerdict.REJECTED)
    bytes_of_first = first_path.read_bytes()
    stopped, _ = end(begin(tmp_path, "r2", "2026-11-29T10:00:00+00:00"), ROWS[:1], 2)
    assert [run.run_id for run in stopped.earlier] == ["r1"]
    last, path = end(begin(tmp_path, "r3", "2026-11-30T10:00:00+00:00"))
    assert [(run.run_id, run.verdict, run.complete) for run in last.earlier] == [
        ("r1", DeviceVerdict.REJECTED, True),
        ("r2", DeviceVerdict.NOT_PROVEN, False),
    ]
    assert (last.verdict, last.first_pass) == (DeviceVerdict.ACCEPTED, DeviceVerdict.REJECTED)
    assert last.earlier[0].digest == first.digest
    assert first_path.read_bytes() == bytes_of_first
    assert good(path)
    # Made again, the first sheet still knows of nothing that came later, and is no run of its own.
    (again,) = close_run(read_journal(tmp_path / "journals" / "r1.jsonl"), tmp_path)
    write_sheet(again, tmp_path)
    assert again == first
    assert [run.sheet for run in earlier_runs(tmp_path, DEVICE.serial)[0]] == [
        f"{DEVICE.serial}/{run}/sheet.json" for run in ("r1", "r2", "r3")
    ]


def test_a_killed_run_without_a_sheet_is_an_earlier_run_too(tmp_path):
    killed = begin(tmp_path, "r1", "2026-11-28T10:00:00+00:00")
    killed.row(make_row("p1", Verdict.FAIL, 1.9e9), "passed")
    killed._journal.close()  # as a kill does
    begin(tmp_path / "elsewhere", "r0", "2026-11-27T10:00:00+00:00")._journal.close()
    end(begin(tmp_path, "r2", "2026-11-29T10:00:00+00:00", rows=[make_row("p1", serial="OTHER")]), [])
    sheet, path = end(begin(tmp_path, "r3"))
    (run,) = sheet.earlier
    assert (run.run_id, run.verdict, run.complete) == ("r1", DeviceVerdict.REJECTED, False)
    assert (run.sheet, sheet.first_pass) == ("journals/r1.jsonl", DeviceVerdict.ACCEPTED)
    assert good(path)
    with (tmp_path / run.sheet).open("ab") as journal:
        journal.write(b" ")
    assert [each.text for each in verify_sheet(path) if each.result == "broken"] == [
        "the journal of the earlier run r1, which was killed, was changed"
    ]
    # Once it has a sheet, that stands for it.
    (late,) = close_run(read_journal(tmp_path / "journals/r1.jsonl"), tmp_path)
    write_sheet(late, tmp_path)
    assert [each.sheet for each in end(begin(tmp_path, "r4", "2026-12-01T00:00:00+00:00"))[0].earlier] == [
        f"{DEVICE.serial}/r1/sheet.json", f"{DEVICE.serial}/r3/sheet.json"
    ]  # fmt: skip


def test_the_first_pass_is_that_of_the_first_whole_run(tmp_path):
    end(begin(tmp_path, "r1", "2026-11-28T10:00:00+00:00"), ROWS[:1], 2)
    whole, _ = end(begin(tmp_path, "r2", "2026-11-29T10:00:00+00:00"))
    assert whole.first_pass is DeviceVerdict.ACCEPTED
    none, _ = end(begin(tmp_path / "other", "r1"), ROWS[:1], 2)
    assert none.first_pass is None


def test_an_earlier_sheet_that_cannot_be_read_is_said(tmp_path):
    folder = tmp_path / folder_name(DEVICE.serial) / "r0"
    folder.mkdir(parents=True)
    (folder / "sheet.json").write_text("{")
    sheet, _ = end(begin(tmp_path))
    assert sheet.verdict is DeviceVerdict.ACCEPTED
    assert sheet.earlier == ()
    assert sheet.remarks[0].startswith(f"The sheet {DEVICE.serial}/r0/sheet.json of the same serial cannot be read")


def test_sheets_of_version_1_are_earlier_runs_too(tmp_path):
    serial = json.loads((OLD / "sheet.json").read_text())["device"]["serial"]
    folder = tmp_path / serial / "old"
    folder.mkdir(parents=True)
    (folder / "sheet.json").write_bytes((OLD / "sheet.json").read_bytes())
    ((run,), odd) = earlier_runs(tmp_path, serial)
    assert (run.verdict, run.complete, run.digest, odd) == (DeviceVerdict.REJECTED, True, None, [])


@pytest.mark.parametrize("serial", ["journals", "evidence", "a/b", ".x", "ok"])
def test_a_serial_is_never_a_folder_of_ours(serial):
    assert (folder_name(serial) == serial) is (serial == "ok")


# Records of version 1


def test_a_sheet_of_version_1_is_read():
    old = json.loads((OLD / "sheet.json").read_text())
    sheet = read_sheet(OLD / "sheet.json")
    assert (sheet.schema_version, sheet.state, sheet.digest, sheet.journal) == ("2.0", "complete", None, None)
    assert sheet.device.serial == old["device"]["serial"]
    assert sheet.station.kernel == old["station"]["kernel"]
    assert sheet.procedure.command == old["conditions"]["command"]
    assert sheet.procedure.bench_sha256 == old["conditions"]["bench_sha256"]
    assert sheet.procedure.decision_rule == old["conditions"]["decision_rule"]
    assert not set(sheet.conditions) & {"command", "bench_file", "decision_rule"}
    assert [row.verdict.value for row in sheet.rows] == [row["verdict"] for row in old["rows"]]
    attempts = old["rows"][0]["evidence"]["facts"]["attempts"]
    assert [(each.attempt, each.verdict.value, each.value) for each in sheet.rows[0].attempts] == [
        (each["attempt"], each["verdict"], each["value"]) for each in attempts
    ]
    assert "attempts" not in sheet.rows[0].evidence.facts
    assert parse_sheet(sheet_bytes(sheet)) == sheet  # written again, it is one of today


def test_a_journal_of_version_1_gives_the_same_verdicts(tmp_path):
    contents = read_journal(OLD / "journal.jsonl")
    assert (contents.notes, contents.complete, contents.state, contents.seal) == ((), True, "complete", None)
    (sheet,) = close_run(contents, tmp_path)
    old = read_sheet(OLD / "sheet.json")
    assert sheet.verdict is old.verdict
    assert [(row.id, row.verdict, row.value, row.reason) for row in sheet.rows] == [
        (row.id, row.verdict, row.value, row.reason) for row in old.rows
    ]
    assert sheet.station == old.station
    assert sheet.procedure == old.procedure
    assert [len(row.attempts) for row in sheet.rows] == [len(row.attempts) for row in old.rows]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a sheet.json of pytest-netperf: "),
        (b"[]", 'expected an object with a "schema_version"'),
        (b'{"schema_version": "x"}', 'expected an object with a "schema_version"'),
        (
            b'{"schema_version": "3.0"}',
            "written in schema version 3.0, but this pytest-netperf reads version 2 and older",
        ),
        (b'{"schema_version": "2.0"}', "does not fit the schema of a sheet: Object missing required field"),
        (b'{"schema_version": "1.0", "rows": 3, "conditions": []}', "does not fit the schema of a sheet"),
        (b'{"schema_version": "1.0", "rows": [3, {"evidence": 3}]}', "does not fit the schema of a sheet"),
    ],
)
def test_what_is_no_sheet_is_refused_by_name(data, message):
    with pytest.raises(RecordError) as error:
        parse_sheet(data, "here.json")
    assert str(error.value).startswith("here.json: ")
    assert message in str(error.value)


def test_a_sheet_that_is_not_there(tmp_path):
    with pytest.raises(RecordError, match=r"there is no such sheet; they are OUTPUT/<serial>/<run id>/sheet\.json"):
        read_sheet(tmp_path / "none.json")
    with pytest.raises(RecordError, match="cannot read this sheet: Is a directory"):
        read_sheet(tmp_path)


def test_numbers_beyond_the_doubles_have_a_digest():
    from pytest_netperf.record.sheet_file import digest_of

    assert digest_of({"n": 2**53 + 1}) == digest_of({"n": 2.0**53})
    assert digest_of({"n": 1, "digest": "x"}) == digest_of({"n": 1.0})
    assert digest_of({"n": [True, None, -(2**64)]}) != digest_of({"n": [1, None, -(2**64)]})
