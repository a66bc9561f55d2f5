"""One flipped byte in any file of a sheet is found; what cannot be shown is said."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from record_samples import DEVICE, RUN, make_row, plan_of

from pytest_netperf import cli
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.closing import close_run
from pytest_netperf.record.evidence_store import keep_file
from pytest_netperf.record.journal_reader import read_journal
from pytest_netperf.record.run_record import RunRecord
from pytest_netperf.record.schema import DeviceRecord
from pytest_netperf.record.sheet_file import digest_of, read_sheet, sealed, sheet_bytes
from pytest_netperf.record.verify import verify_sheet
from pytest_netperf.record.waivers import parse_waivers
from pytest_netperf.report.sheet import write_sheet

WAIVERS = f"""
[[waiver]]
serial = "{DEVICE.serial}"
row = "*/p2]::throughput"
who = "head of quality"
why = "Not used."
until = 2026-12-31
"""
ROWS = [make_row("p1"), make_row("p2", Verdict.FAIL, 1.897e9), make_row("p2", attempt=2), make_row("p3")]


def run_into(output, run_id, started_at, rows=ROWS, *, finish=0):
    """A run as the recorder makes it, with the bench file and the waivers file that it rests on."""
    waivers = output.parent / "waivers.toml"
    waivers.write_text(WAIVERS)
    kept = keep_file(output, "waivers file", waivers)
    assert kept is not None

    def info(previous):
        return msgspec.structs.replace(
            RUN,
            run_id=run_id,
            started_at=started_at,
            customer="ACME",
            devices=(DeviceRecord(serial=DEVICE.serial, model="R86S-U4", macs=("00:00:5e:00:53:01",)),),
            files=(kept,),
            waivers=parse_waivers(WAIVERS, "waivers.toml"),
            previous=previous,
        )

    record = RunRecord(output, run_id)
    record.begin(info, plan_of(rows))
    for row in rows:
        record.running(row.test)
        record.row(row, "passed")
    if finish is None:
        return None
    (sheet,) = record.end(finish)
    paths = write_sheet(sheet, output)
    record.seal([(sheet, list(paths.files.values()))])
    assert (record.broken, record.problems) == (None, [])
    return paths.json


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    output = tmp_path_factory.mktemp("verify") / "out"
    run_into(output, "20261129T190000-0000", "2026-11-29T19:00:00+00:00", ROWS[:1])
    return run_into(output, "20261130T190000-0001", "2026-11-30T19:00:00+00:00")


@pytest.fixture
def sheet(made, tmp_path):
    """A copy of everything, to be spoilt."""
    shutil.copytree(made.parents[2], tmp_path / "out")
    return tmp_path / "out" / made.relative_to(made.parents[2])


def results(sheet):
    return {finding.result for finding in verify_sheet(sheet)}


def is_good(sheet):
    return not results(sheet) & {"broken", "missing"}


def texts(sheet, result):
    return [finding.text for finding in verify_sheet(sheet) if finding.result == result]


def test_a_sheet_that_nobody_touched(made):
    assert results(made) == {"proven"}
    assert len(texts(made, "proven")) == 10
    assert "the same rows and ACCEPTED WITH WAIVER follow from the journal" in texts(made, "proven")
    assert read_sheet(made).verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, number))
    else:
        yield path


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x" if value is None else []


def spoilt(document, path):
    """The document with one place changed; a key of an object is renamed, its value kept."""
    copy = json.loads(json.dumps(document))
    *above, last = path
    place = copy
    for step in above:
        place = place[step]
    if isinstance(place[last], dict | list):
        place[f"{last}x"] = place.pop(last) if isinstance(place, dict) else place[last]
    else:
        place[last] = changed(place[last])
    return copy


def test_every_field_of_the_sheet(sheet):
    """Even by somebody who puts the list of digests right."""
    document = json.loads(sheet.read_bytes())
    whole = sheet.read_bytes()
    paths = sorted(set(leaves(document)), key=str)
    assert len(paths) > 250
    sums = (sheet.parent / "SHA256SUMS").read_text()
    missed = []
    for path in paths:
        if path == ("digest",):
            continue
        data = json.dumps(spoilt(document, path), indent=2).encode() + b"\n"
        assert data != whole
        sheet.write_bytes(data)
        if is_good(sheet):
            missed.append(path)
    assert missed == []
    assert (sheet.parent / "SHA256SUMS").read_text() == sums


def test_every_field_that_counts_even_with_all_digests_beside_it_made_anew(sheet):
    """The journal has the digest of the sheet, and its rows."""
    document = json.loads(sheet.read_bytes())
    for path in [
        ("verdict",),
        ("operator",),
        ("device", "serial"),
        ("rows", 0, "value"),
        ("rows", 1, "limit"),
        ("run_id",),
    ]:
        forged = spoilt(document, path) if path != ("verdict",) else {**document, "verdict": "ACCEPTED"}
        forged["digest"] = digest_of(forged)
        write_with_sums(sheet, msgspec.json.format(msgspec.json.encode(forged), indent=2) + b"\n")
        broken = texts(sheet, "broken")
        assert any("the journal has another digest" in text for text in broken), path


def write_with_sums(sheet, data):
    import hashlib

    sheet.write_bytes(data)
    files = sorted(file for file in sheet.parent.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (sheet.parent / "SHA256SUMS").write_text("".join(lines))


def test_a_sheet_that_was_exchanged_for_one_with_better_rows(sheet):
    """In a folder of its own, where the journal names no file: then the rows of the journal speak."""
    again = sheet.parent.with_name(f"{sheet.parent.name}-2")
    again.mkdir()
    real = read_sheet(sheet)
    better = [msgspec.structs.replace(row, verdict=Verdict.PASS, waived=False, attempts=()) for row in real.rows]
    forged = sealed(msgspec.structs.replace(real, verdict=DeviceVerdict.ACCEPTED, rows=tuple(better), waivers=()))
    write_with_sums(again / "sheet.json", sheet_bytes(forged))
    assert texts(again / "sheet.json", "broken") == [
        "from the rows of the journal follows REJECTED, and the sheet says ACCEPTED"
    ]
    forged = sealed(msgspec.structs.replace(real, rows=tuple(better), waivers=()))
    write_with_sums(again / "sheet.json", sheet_bytes(forged))
    assert not is_good(again / "sheet.json")


def flipped(data, position):
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_every_line_of_the_journal(sheet):
    """At both ends and at seven places of each line; and every byte of the last one, which no other line holds."""
    journal = sheet.parents[2] / "journals" / f"{sheet.parent.name}.jsonl"
    whole = journal.read_bytes()
    position, positions = 0, []
    lines = whole.splitlines(keepends=True)
    for number, line in enumerate(lines):
        step = max(1, len(line) // 8) if number < len(lines) - 1 else 1
        positions += [position + offset for offset in {*range(0, len(line), step), len(line) - 1}]
        position += len(line)
    missed = []
    for place in positions:
        journal.write_bytes(flipped(whole, place))
        if is_good(sheet):
            missed.append(place)
    assert missed == []
    assert len(positions) > 9 * len(lines)


@pytest.mark.parametrize("what", ["cut out", "repeated", "exchanged", "cut off", "put behind", "blank"])
def test_lines_that_are_not_where_they_were(sheet, what):
    journal = sheet.parents[2] / "journals" / f"{sheet.parent.name}.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    for number in range(len(lines) - 1):
        spoilt_lines = {
            "cut out": [*lines[:number], *lines[number + 1 :]],
            "repeated": [*lines[: number + 1], *lines[number:]],
            "exchanged": [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]],
            "cut off": lines[: number + 1],
            "put behind": [*lines, lines[number]],
            "blank": [*lines[:number], b"\n", *lines[number:]],
        }[what]
        journal.write_bytes(b"".join(spoilt_lines))
        assert not is_good(sheet), number


def test_every_other_file(sheet):
    output = sheet.parents[2]
    newest = f"journals/{sheet.parent.name}.jsonl"
    files = [
        path for path in sorted(output.rglob("*")) if path.is_file() and path.relative_to(output).as_posix() != newest
    ]
    names = {path.name for path in files}
    assert {"sheet.html", "sheet.json", "SHA256SUMS", "waivers.toml", "20261129T190000-0000.jsonl"} <= names
    for path in files:
        if path.name in ("sheet.html", "SHA256SUMS") and path.parent != sheet.parent:
            continue  # of the earlier run: verified with its own sheet
        whole = path.read_bytes()
        for place in {*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1}:
            path.write_bytes(flipped(whole, place))
            assert not is_good(sheet), (path.name, place)
        path.unlink()
        needed = path.parent == sheet.parent or path.name == "waivers.toml"
        if path != sheet:
            assert is_good(sheet) is not needed, path.name
        path.write_bytes(whole)
    assert is_good(sheet)


def test_what_is_missing_is_said(sheet):
    output = sheet.parents[2]
    (output / "journals" / f"{sheet.parent.name}.jsonl").unlink()
    assert texts(sheet, "missing") == [f"the journal is not here: journals/{sheet.parent.name}.jsonl"]
    shutil.rmtree(output / "evidence")
    (sheet.parent / "SHA256SUMS").unlink()
    assert len(texts(sheet, "missing")) == 3


def test_a_file_that_nobody_knows(sheet):
    (sheet.parent / "note.txt").write_text("x")
    assert texts(sheet, "open") == ["note.txt is beside the sheet and on no list: nothing is known of it"]
    assert is_good(sheet)


def test_a_killed_run(tmp_path):
    output = tmp_path / "out"
    run_into(output, "killed", "2026-11-30T19:00:00+00:00", finish=None)
    contents = read_journal(output / "journals" / "killed.jsonl")
    assert contents.state == "killed"
    (made,) = close_run(contents, output)
    path = write_sheet(made, output).json
    assert (made.state, made.verdict) == ("killed", DeviceVerdict.NOT_PROVEN)
    assert is_good(path)
    with contents.path.open("ab") as file:
        file.write(b'{"journal":"2.0","n"')
    assert is_good(path)
    assert texts(path, "open")[0].endswith("no more lines, the last of which is half written")
    contents.path.write_bytes(contents.path.read_bytes().removesuffix(b'{"journal":"2.0","n"'))
    assert texts(path, "open") == [
        "the run was killed: nothing shows that its journal had no more lines",
        "the sheet was made from the journal after the run, so the journal does not hold its digest",
    ]


def test_a_sheet_made_again_is_held_against_the_rows(sheet):
    output = sheet.parents[2]
    contents = read_journal(output / "journals" / f"{sheet.parent.name}.jsonl")
    (again,) = close_run(contents, output)
    path = write_sheet(again, output).json
    assert path.parent.name == f"{sheet.parent.name}-2"
    assert is_good(path)
    assert is_good(sheet)


def test_version_1_proves_nothing_and_says_so(tmp_path):
    folder = tmp_path / "S" / "r"
    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "samples" / "record" / "1.0" / "sheet.json", folder)
    assert texts(folder / "sheet.json", "missing") == [
        "sheet.json is of version 1.0, which has no digest",
        "SHA256SUMS, the list of the digests of the files beside the sheet, cannot be read",
        "the sheet names no journal, so nothing shows that its rows are those that were measured",
    ]


def test_the_command(sheet, capsys):
    assert cli.main(["verify", str(sheet.parent)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{sheet}: everything agrees\n")
    assert "  not proven  nobody signed it: who can write all of its files can make all digests anew\n" in shown
    assert cli.main(["verify", "--json", str(sheet.parents[2]), str(sheet)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(entry["good"], Path(entry["sheet"]).parent.name) for entry in listed] == [
        (True, "20261129T190000-0000"),
        (True, "20261130T190000-0001"),
    ]
    page = sheet.with_name("sheet.html")
    page.write_bytes(flipped(page.read_bytes(), 100))
    assert cli.main(["verify", str(page)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(f"{sheet}: NOT VERIFIED\n")
    assert "  BROKEN      sheet.html was changed: it does not have the digest of SHA256SUMS\n" in shown


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "none: there is no such file; sheets are OUTPUT/<serial>/<run id>/sheet.json"),
        ("empty", "empty: there is no sheet.json in this folder, nor in OUTPUT/<serial>/<run id>/ below it"),
        ("alone.html", "alone.html: there is no sheet.json beside it, which is the record"),
    ],
)
def test_the_command_says_what_is_no_sheet(tmp_path, capsys, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "alone.html").write_text("x")
    assert cli.main(["verify", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_sheet_is_broken(tmp_path, capsys):
    (tmp_path / "sheet.json").write_text("{}")
    assert cli.main(["verify", str(tmp_path)]) == 1
    assert "BROKEN      " in capsys.readouterr().out
