"""Builds the documentation as HTML: python docs/build.py [OUTPUT]; warnings, and links that lead nowhere, are errors.

The pages are those that a repository shows. They are copied, so that three things can be added to the copy: the
navigation, which is the index in README.md; the changelog; and the suites of conftest_examples, each with its files.
Links out of docs/ lead to these copies; what leads into the source is text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUTPUT = ROOT / "build/docs"

_FENCE = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_LEXERS = {".py": "python", ".toml": "toml", ".ini": "ini", ".yml": "yaml"}


class BrokenLinkError(Exception):
    """A page links to something that is no part of the documentation."""


def stage(folder: Path) -> None:
    """Copy all pages into the folder, which must not exist, and add what only the built documentation has."""
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / "CHANGELOG.md", folder / "changelog.md")
    elsewhere = {ROOT / "CHANGELOG.md": folder / "changelog.md"}
    (folder / "examples").mkdir()
    for suite in sorted(ROOT.glob("conftest_examples/*/README.md")):
        page = folder / "examples" / f"{suite.parent.name}.md"
        page.write_text(to_sections(suite) + "".join(sources(suite.parent)), "utf-8")
        elsewhere |= {suite: page, suite.parent: page}
    index = folder / "README.md"
    elsewhere[ROOT / "conftest_examples"] = index
    index.write_text(index.read_text("utf-8") + navigation(index.read_text("utf-8"), folder), "utf-8")
    for page in sorted(folder.rglob("*.md")):
        page.write_text(relink(page.read_text("utf-8"), page, folder, elsewhere), "utf-8")


def to_sections(readme: Path) -> str:
    """The text about an example; links to its files lead to their sections below."""

    def turn(match: re.Match[str]) -> str:
        file = readme.parent / match["target"]
        if file.suffix not in _LEXERS or not file.is_file():
            return match[0]
        anchor = re.sub(r"[^\w\- ]", "", file.name.lower()).replace(" ", "-")
        return f"[{match['text']}](#{anchor})"

    return _LINK.sub(turn, readme.read_text("utf-8"))


def sources(suite: Path) -> Iterator[str]:
    """The files of an example, each under its name."""
    for file in sorted(suite.iterdir()):
        if file.suffix in _LEXERS:
            yield f"\n## {file.name}\n\n````{_LEXERS[file.suffix]}\n{file.read_text('utf-8')}````\n"


def navigation(index: str, folder: Path) -> str:
    """A table of contents for each section of the index, with the pages in the order in which it links to them."""
    contents = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        pages = [match["target"] for match in _LINK.finditer(section) if match["target"].endswith(".md")]
        contents.append((section.partition("\n")[0], pages))
    contents.append(("Examples", sorted(f"examples/{page.name}" for page in folder.glob("examples/*.md"))))
    contents.append(("Project", ["changelog.md"]))
    return "".join(
        "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in contents
    )


def relink(text: str, page: Path, folder: Path, elsewhere: dict[Path, Path]) -> str:
    """The same page, its links out of docs/ turned to the copies. Raises BrokenLinkError for one that has none."""
    kept = {folder / target.relative_to(ROOT): copy for target, copy in elsewhere.items()}

    def turn(match: re.Match[str]) -> str:
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = Path(os.path.normpath(page.parent / target))
        if path.is_relative_to(folder) and path.exists():
            return match[0]
        outside = folder / os.path.relpath(path, folder.parent)
        if outside not in kept and (ROOT / os.path.relpath(path, folder.parent)).exists():
            return match["text"]  # of the source, which is not here
        if outside not in kept:
            raise BrokenLinkError(
                f"{page.relative_to(folder)} links to {target}, which is no page of the documentation"
            )
        return f"[{match['text']}]({os.path.relpath(kept[outside], page.parent)}{match['anchor'] or ''})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(turn, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(turn, text[end:])])


def build(output: Path) -> int:
    """Write the HTML into the output folder; 0 when there was nothing to complain about."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory() as temporary:
        pages = Path(temporary) / "docs"
        stage(pages)
        shutil.rmtree(output, ignore_errors=True)
        arguments = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(DOCS), "-d", str(Path(temporary) / "doctrees")]
        code = build_main([*arguments, str(pages), str(output)])
        if code == 0:
            shutil.copy(output / "README.html", output / "index.html")
        return code


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    result = build(where)
    if result == 0:
        print(f"documentation: {where / 'index.html'}")
    sys.exit(result)
