"""Folders in which something cannot be read or written: it is said, and costs nothing else. All provoked for real."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from record_samples import RUN

from pytest_netperf.batch.folder import read_folder
from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.errors import BenchError, ConfigError
from pytest_netperf.record.evidence_store import keep_data
from pytest_netperf.record.manifest import written_files
from pytest_netperf.record.rescue import rescued_journal
from pytest_netperf.report.logo import read_logo


def problems_of(folder: Path) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    remarks: list[str] = []
    assert list(read_folder(folder, {}, problems, remarks)) == []
    return problems, remarks


def test_a_folder_of_results_with_everything_that_can_be_wrong(tmp_path: Path) -> None:
    (tmp_path / "A" / ".r1.partial").mkdir(parents=True)
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "sheet.json").symlink_to("gone.json")
    (tmp_path / "C").mkdir()
    (tmp_path / "C" / "sheet.json").write_text("{")
    (tmp_path / "C" / "notes.json").write_text('{"shift": "night"}')
    (tmp_path / "C" / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "journals").mkdir()
    (tmp_path / "journals" / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "journals" / "text.jsonl").write_text("no journal\n")
    problems, remarks = problems_of(tmp_path)
    assert problems[0] == "A/.r1.partial is a sheet that was half written; its rows are in the journal."
    assert problems[1] == "B/sheet.json cannot be read: No such file or directory."
    assert problems[2].startswith("C/sheet.json is no sheet that can be read, and its device may be missing here: ")
    assert problems[3] == "journals/gone.jsonl cannot be read: No such file or directory."
    assert "text.jsonl: not a journal of pytest-netperf" in problems[4]
    assert len(problems) == 5
    assert remarks == ["2 other files are no sheet: C/notes.json, photo.jpg."]


def test_a_folder_of_results_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; give a folder with sheets"):
        problems_of(tmp_path / "none")


def test_evidence_that_cannot_be_kept_is_named_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file is in the way")
    kept = keep_data(tmp_path, "bench file", "bench.toml", b"x")
    assert (kept.name, kept.bytes, kept.copy) == ("bench.toml", 1, None)
    (tmp_path / "evidence").unlink()
    assert keep_data(tmp_path, "bench file", "bench.toml", b"x").copy is not None


def test_what_was_written_and_is_gone_is_not_in_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("1")
    (found,) = written_files([tmp_path / "there.csv", tmp_path / "gone.csv"], tmp_path)
    assert (found.name, found.bytes) == ("there.csv", 1)


def test_no_place_for_a_rescued_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert rescued_journal(RUN, None, []) is None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rescued = rescued_journal(RUN, [], [])
    assert rescued is not None
    journal, folder = rescued
    journal.close()
    assert folder.parent == tmp_path


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xd8\xff" + bytes(1_000_000), "the logo has 1000003 bytes; it is part of every sheet, at most 1000000"),
        (b"GIF89a", "the logo is no SVG, PNG or JPEG image"),
        (None, "cannot read the logo: No such file or directory"),
    ],
)
def test_files_that_are_no_logo(tmp_path: Path, data: bytes | None, said: str) -> None:
    path = tmp_path / "logo"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        read_logo(path)


def test_what_a_logo_is_says_its_content(tmp_path: Path) -> None:
    path = tmp_path / "logo"
    for data, kind in ((b"\xff\xd8\xff...", "jpg"), (b"\x89PNG\r\n...", "png"), (b"<?xml?><svg/>", "svg")):
        path.write_bytes(data)
        assert read_logo(path) == (data, kind)


@pytest.mark.parametrize("given", ['"golden.toml"', "[]", "[1]", '[""]'])
def test_baselines_that_are_no_list_of_files(given: str) -> None:
    text = f'[station]\nbaselines = {given}\n[[device]]\nserial = "A"\n'
    with pytest.raises(
        BenchError, match=r'station\.baselines: .* is not a list of files, such as baselines = \["golden'
    ):
        parse_bench(text)
