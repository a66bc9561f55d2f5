"""pytest-netperf new: the suite that it makes, run as it is; and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest

pytest_plugins = ["pytester"]


def test_the_suite_passes_as_it_is(project):
    done = project.command("new", "acceptance/MY-BOX", "--speed", "100M")
    assert done.returncode == 0, done.stdout
    folder = project.path / "acceptance" / "MY-BOX"
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "bench.toml", "limits.toml", "pytest.ini", "test_acceptance.py",
    }  # fmt: skip
    run = project.process(
        sys.executable, "-m", "pytest", "--rootdir", str(folder), "-c", str(folder / "pytest.ini"), str(folder),
        "--netperf-output=results", "--netperf-duration=1", "--netperf-omit=0", "-onetperf_reference=off",
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    (path,) = project.path.glob("results/MY-BOX-0001/*/sheet.json")
    sheet = json.loads(path.read_text())
    assert (sheet["verdict"], len(sheet["rows"])) == ("ACCEPTED", 3)
    assert sheet["device"]["model"] == "MY-BOX"
    checked = project.command("bench", "check", str(folder / "bench.toml"))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["there"], "there is not empty (file); nothing is overwritten, give a new name"),
        (["there/file"], "there/file: File exists; give a folder that can be made"),
        (["there/file/x"], "there/file/x: Not a directory"),
        (["my box"], "NAME 'my box': expected letters, digits and . _ + - only"),
        (["x", "--serial", "a/b"], "--serial 'a/b': expected letters, digits"),
        (["x", "--model", ""], "--model '': expected letters"),
        (["x", "--speed", "fast"], "with --speed fast"),
        (["x", "--speed", '1G"'], 'with --speed 1G"'),
    ],
)
def test_what_it_refuses_leaves_everything_as_it_was(project, arguments, message):
    project.write({"there/file": "mine"})
    before = sorted(project.path.rglob("*"))
    done = project.command("new", *arguments)
    assert done.returncode == 2, done.stdout
    assert message in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout
    assert sorted(project.path.rglob("*")) == before
