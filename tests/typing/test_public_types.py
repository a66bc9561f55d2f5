"""What users write against the public names, as mypy and pyright see it, both in their strictest mode."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = ("annotated_suite.py", "wrong_use.py")
Found = dict[str, dict[int, list[tuple[str, str]]]]
"""File -> line -> what is said there: "error" or "is", and the text."""


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_mypy(folder: Path) -> Found:
    said = run(
        sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", *FILES, folder=folder
    )
    found: Found = {}
    for file, line, kind, text in re.findall(r"^(\S+?):(\d+): (error|note): (.*)$", said, re.MULTILINE):
        revealed = re.fullmatch(r'Revealed type is "(.*)"', text)
        if revealed:
            found.setdefault(file, {}).setdefault(int(line), []).append(("is", revealed[1]))
        elif kind == "error":
            found.setdefault(file, {}).setdefault(int(line), []).append(("error", text))
    return found


def by_pyright(folder: Path) -> Found:
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "pythonVersion": "3.11"}')
    said = run(
        sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, *FILES, folder=folder
    )
    found: Found = {}
    for each in json.loads(said)["generalDiagnostics"]:
        revealed = re.fullmatch(r'Type of ".*" is "(.*)"', each["message"], re.DOTALL)
        kind, text = ("is", revealed[1]) if revealed else (each["severity"], each["message"])
        found.setdefault(Path(each["file"]).name, {}).setdefault(each["range"]["start"]["line"] + 1, []).append(
            (kind, text)
        )
    return found


@pytest.fixture(scope="module", params=[by_mypy, by_pyright])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("typing")
    for name in FILES:
        (folder / name).write_text((HERE / name).read_text("utf-8"))
    return request.param(folder)


def test_an_annotated_suite_has_no_mistake(found: Found) -> None:
    said = found["annotated_suite.py"]
    assert {line: texts for line, texts in said.items() if any(kind == "error" for kind, _ in texts)} == {}


def test_the_types_are_what_the_docs_say(found: Found) -> None:
    lines = enumerate((HERE / "annotated_suite.py").read_text("utf-8").splitlines(), 1)
    expected = {number: line.rpartition("# is ")[2] for number, line in lines if "# is " in line}
    said = found["annotated_suite.py"]
    shown = {number: [plain(text) for kind, text in said.get(number, []) if kind == "is"] for number in expected}
    assert shown == {number: [text] for number, text in expected.items()}


def plain(text: str) -> str:
    """``builtins.float | None`` and ``Union[float, None]`` are ``float | None``."""
    return re.sub(r"\w+\.", "", text)


def test_each_wrong_use_is_found_and_nothing_else(found: Found) -> None:
    lines = enumerate((HERE / "wrong_use.py").read_text("utf-8").splitlines(), 1)
    expected = {number for number, line in lines if line.endswith("# wrong")}
    assert {number for number, said in found["wrong_use.py"].items() if said} == expected
