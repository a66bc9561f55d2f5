"""The journal holds what was written, shows what was lost, and refuses what it cannot judge."""

import enum
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import NetperfError, RecordError
from pytest_netperf.judge.verdict import Verdict
from pytest_netperf.record import journal_line
from pytest_netperf.record.journal import Journal
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.schema import Evidence, SeriesPoint

ROWS = [make_row("p1"), make_row("p2", Verdict.FAIL, 1.897e9), make_row("p3")]


def write(folder, rows=ROWS, *, planned=None, finish=0):
    with Journal.create(folder, RUN.run_id) as journal:
        journal.run(RUN)
        journal.plan(plan_of(rows) if planned is None else planned)
        for row in rows:
            journal.running(row.test)
            journal.row(row, "passed")
        if finish is not None:
            journal.finished(finish)
    return journal.path


def test_reads_back_what_was_written(tmp_path):
    path = write(tmp_path)
    contents = read_journal(path)
    assert path == tmp_path / "journals" / f"{RUN.run_id}.jsonl"
    assert contents.run == RUN
    assert contents.planned == tuple(plan_of(ROWS))
    assert contents.rows == tuple(ROWS)
    assert contents.outcomes == ("passed",) * 3
    assert (contents.complete, contents.exit_status, contents.running, contents.notes) == (True, 0, (), ())
    assert (contents.state, contents.sheets, contents.closed) == ("complete", (), False)


def test_each_line_is_on_the_disk_when_the_method_returns(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def fsync(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal.create(tmp_path / "results", "r1") as journal:
        assert str(tmp_path / "results" / "journals") in synced  # the folder that holds the new name
        assert str(tmp_path / "results") in synced  # and its parents, when they are new
        for count, event in enumerate((lambda: journal.run(RUN), lambda: journal.row(ROWS[0])), start=1):
            event()
            assert synced.count(str(journal.path)) == count
            assert len(journal.path.read_bytes().splitlines()) == count


def test_is_never_overwritten(tmp_path):
    path = write(tmp_path)
    before = path.read_bytes()
    with pytest.raises(RecordError, match=r"never overwritten; use another run id"):
        Journal.create(tmp_path, RUN.run_id)
    assert path.read_bytes() == before


@pytest.mark.parametrize("run_id", ["", "a/b", "../x", ".hidden", "a b", "x" * 200, "a\nb"])
def test_refuses_a_run_id_that_is_no_file_name(tmp_path, run_id):
    with pytest.raises(RecordError, match="cannot name a journal: expected"):
        Journal.create(tmp_path, run_id)
    assert list(tmp_path.iterdir()) == []


def test_refuses_an_output_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(RecordError, match=r"out/journals/r1\.jsonl: cannot create this journal"):
        Journal.create(tmp_path / "out", "r1")


def test_refuses_events_after_close(tmp_path):
    journal = Journal.create(tmp_path, "r1")
    journal.close()
    journal.close()
    with pytest.raises(RecordError, match="closed; the row event is not in it"):
        journal.row(ROWS[0])


class Colour(enum.Enum):
    RED = "red"


def test_odd_evidence_never_costs_the_row(tmp_path):
    row = make_row(
        value=float("nan"),
        margin=float("inf"),
        uncertainty=float("nan"),
        expected=float("-inf"),
        evidence=Evidence(
            series=(
                SeriesPoint(start_s=0, seconds=1, throughput_bps=float("nan")),
                SeriesPoint(start_s=1, seconds=1, throughput_bps=2e9),
            ),
            facts={
                "path": Path("x"),
                "colour": Colour.RED,
                "pair": {(1, 2): "x"},
                "bad": "a\ud800b",
                "nan": float("nan"),
            },
            documents={"client": "\udcff{"},
        ),
    )
    (back,) = read_journal(write(tmp_path, [row])).rows
    assert (back.value, back.margin, back.uncertainty, back.expected) == (None, None, None, None)
    assert [point.throughput_bps for point in back.evidence.series] == [2e9]
    assert back.evidence.facts == {"path": "x", "colour": "red", "pair": {"(1, 2)": "x"}, "bad": "a?b", "nan": None}
    assert back.evidence.documents == {"client": "?{"}


# What a killed run leaves


def test_a_run_without_an_end_is_incomplete_and_names_what_was_running(tmp_path):
    with Journal.create(tmp_path, "r1") as journal:
        journal.run(RUN)
        journal.plan(plan_of(ROWS))
        journal.running(ROWS[0].test)
        journal.row(ROWS[0], "passed")
        journal.running(ROWS[1].test)
    contents = read_journal(journal.path)
    assert contents.running == (ROWS[1].test,)
    assert not contents.complete
    assert contents.finished_at is None


def test_a_rerun_that_was_cut_short_is_running_again(tmp_path):
    with Journal.create(tmp_path, "r1") as journal:
        journal.run(RUN)
        journal.plan(plan_of(ROWS[:1]))
        journal.running(ROWS[0].test)
        journal.row(ROWS[0], "failed")
        journal.running(ROWS[0].test)
    assert read_journal(journal.path).running == (ROWS[0].test,)


@pytest.mark.parametrize(("status", "complete"), [(0, True), (1, True), (2, False), (3, False), (5, False)])
def test_only_an_ordinary_end_is_complete(tmp_path, status, complete):
    assert read_journal(write(tmp_path, finish=status)).complete is complete


def test_without_a_plan_nobody_knows_that_all_arrived(tmp_path):
    with Journal.create(tmp_path, "r1") as journal:
        journal.run(RUN)
        journal.row(ROWS[0], "passed")
        journal.finished(0)
    contents = read_journal(journal.path)
    assert not contents.complete
    assert "list of expected rows is not in the journal" in contents.notes[0]


def test_every_cut_keeps_the_lines_before_it(tmp_path):
    path = write(tmp_path)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in sorted({*range(ends[0] + 1, len(data), 97), *ends, *(end - 1 for end in ends)}):
        path.write_bytes(data[:cut])
        if cut < ends[0] - 1:
            continue
        contents = read_journal(path)
        whole = sum(end <= cut + 1 for end in ends)  # a line whose newline alone is missing is whole
        assert len(contents.rows) == max(0, (whole - 2) // 2 if whole < len(ends) else 3)
        assert contents.complete is (whole == len(ends))
        assert any("half written" in note for note in contents.notes) is (cut not in ends and cut + 1 not in ends)


def test_cut_inside_the_first_line_is_no_journal(tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(RecordError, match="not a journal of pytest-netperf"):
        read_journal(path)


# What happens to files afterwards


def test_garbage_between_lines_is_left_out_and_said(tmp_path):
    path = write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"\xff\x00garbage\n", b'{"a": 1}\n', b"[" * 100_000 + b"\n", *lines[3:]]))
    contents = read_journal(path)
    assert contents.rows == tuple(ROWS)
    assert not contents.complete
    assert [note for note in contents.notes if "cannot be read and is left out" in note] == [
        f"Line {number} cannot be read and is left out." for number in (4, 5, 6)
    ]


def test_repeated_lines_count_once(tmp_path):
    path = write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines + lines[2:4]))
    contents = read_journal(path)
    assert contents.rows == tuple(ROWS)
    assert contents.complete
    assert len(contents.notes) == 2


def test_a_lost_line_makes_the_run_incomplete(tmp_path):
    path = write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5] + lines[6:]))  # without the row of the port that failed
    contents = read_journal(path)
    assert [row.link for row in contents.rows] == ["p1", "p3"]
    assert not contents.complete
    assert any("1 of the events" in note for note in contents.notes)


def test_an_altered_number_is_not_believed(tmp_path):
    path = write(tmp_path)
    data = path.read_bytes()
    assert data.count(b'"verdict":"FAIL"') == 1
    path.write_bytes(data.replace(b'"verdict":"FAIL"', b'"verdict":"PASS"'))
    contents = read_journal(path)
    assert [row.link for row in contents.rows] == ["p1", "p3"]
    assert not contents.complete
    assert any("altered" in note for note in contents.notes)


def test_without_the_first_line_the_rows_are_kept(tmp_path):
    path = write(tmp_path)
    path.write_bytes(b"\0" * 50 + b"\n" + b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    contents = read_journal(path)
    assert contents.run.run_id == path.stem
    assert contents.rows == tuple(ROWS)
    assert not contents.complete


def test_the_file_is_what_the_digest_says(tmp_path):
    path = write(tmp_path)
    first = read_journal(path).sha256
    path.write_bytes(path.read_bytes() + b"\n")
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert read_journal(path).sha256 != first


@pytest.mark.parametrize("version", ["3.0", "10.3", "0.9", "x", ""])
def test_a_newer_schema_is_refused_by_name(tmp_path, version):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'{"journal":"2.0"', b'{"journal":"%s"' % version.encode()))
    with pytest.raises(RecordError, match=re.escape(f"journal version {version!r}, but this pytest-netperf reads")):
        read_journal(path)


def test_a_newer_minor_schema_is_read_without_what_is_new(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_line, "JOURNAL_VERSION", "2.9")
        with Journal.create(tmp_path, RUN.run_id) as journal:
            journal.run(RUN)
            journal.plan(plan_of(ROWS))
            journal._append("mood", {"mood": "good"})
            for row in ROWS:
                journal.row(row)
            journal.finished(0)
    contents = read_journal(journal.path)
    assert contents.rows == tuple(ROWS)
    assert contents.complete
    assert "'mood'" in contents.notes[0]


def test_two_runs_in_one_file_are_refused(tmp_path):
    first = write(tmp_path)
    with Journal.create(tmp_path, "other") as other:
        other.run(msgspec.structs.replace(RUN, run_id="other"))
    first.write_bytes(first.read_bytes() + other.path.read_bytes())
    with pytest.raises(RecordError, match=r"more than one run \(20261130T1912-7f3a, other\)"):
        read_journal(first)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty: its run ended before the first event"),
        (b"\0\0\n\n", "is empty"),
        (b"hello\nworld\n", "not a journal of pytest-netperf: none of its"),
        (json.dumps({"tests": []}).encode(), "not a journal of pytest-netperf"),
        (b"\xff\xfe\x00", "not a journal of pytest-netperf"),
    ],
)
def test_files_that_are_no_journal(tmp_path, data, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    with pytest.raises(RecordError, match=re.escape(message)) as caught:
        read_journal(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(RecordError, match="there is no such journal"):
        read_journal(tmp_path / "none.jsonl")
    with pytest.raises(RecordError, match="cannot read this journal"):
        read_journal(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("journal"))
    return path, path.read_bytes()


@settings(deadline=None)
@given(st.data())
def test_damage_is_never_an_exception_of_python_nor_another_row(whole, data):
    path, content = whole[0], bytearray(whole[1])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 400))] = data.draw(st.binary(max_size=8))
        if not content:
            break
    path.write_bytes(content)
    try:
        contents = read_journal(path)
    except NetperfError:
        return
    assert all(row in ROWS for row in contents.rows)
    if len(contents.rows) < len(ROWS):
        assert not contents.complete


# A full disk


FILL = """
import resource, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from record_samples import RUN, make_row
from pytest_netperf.errors import RecordError
from pytest_netperf.record.journal import Journal
if sys.argv[4] == "rlimit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
journal = Journal.create(Path(sys.argv[1]), "full")
journal.run(RUN)
written = 0
try:
    while written < 100000:
        journal.row(make_row("p%d" % written), "passed")
        written += 1
except RecordError as error:
    print(written)
    print(error)
"""


def fill(folder, how):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FILL, folder, str(root), str(Path(__file__).parent), how],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    count, message = done.stdout.split("\n", 1)
    return int(count), message.strip()


def assert_kept(path, count, message, why):
    assert message == f"{path}: cannot write this journal: {why}; this row event is lost, those before it are kept"
    contents = read_journal(path)
    assert count > 3
    assert [row.link for row in contents.rows] == [f"p{i}" for i in range(count)]
    assert path.read_bytes().endswith(b"\n")  # the half line was taken back


def test_a_file_that_may_not_grow_keeps_what_was_written(tmp_path):
    count, message = fill(tmp_path, "rlimit")
    assert_kept(tmp_path / "journals" / "full.jsonl", count, message, "File too large")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs needs root")
def test_a_full_disk_keeps_what_was_written(tmp_path):
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"this machine does not mount a tmpfs: {mount.stderr.strip()}")
    try:
        count, message = fill(tmp_path, "disk")
        assert_kept(tmp_path / "journals" / "full.jsonl", count, message, "No space left on device")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_lost_event_shows_even_when_writing_works_again(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal.create(tmp_path, "r1") as journal:
        journal.run(RUN)
        journal.plan(plan_of(ROWS))
        journal.row(ROWS[0], "passed")
        resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 50, hard))
        try:
            with pytest.raises(RecordError, match="File too large"):
                journal.row(ROWS[1], "failed")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        journal.row(ROWS[2], "passed")
        journal.finished(0)
    contents = read_journal(journal.path)
    assert [row.link for row in contents.rows] == ["p1", "p3"]
    assert not contents.complete
    assert contents.notes == ("1 of the events before the last readable one are lost.",)
