"""The documentation becomes HTML without a warning, and what would be wrong in it is one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("netperf_docs_build", ROOT / "docs/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_built_and_in_the_navigation(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    done = subprocess.run(
        [sys.executable, ROOT / "docs/build.py", tmp_path / "html"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    html = tmp_path / "html"
    pages = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in ROOT.glob("docs/*/*.md")}
    pages |= {f"examples/{suite.parent.name}.html" for suite in ROOT.glob("conftest_examples/*/README.md")}
    assert len(pages) > 50
    index = (html / "index.html").read_text("utf-8")
    assert {page for page in pages if not (html / page).is_file() or f'href="{page}"' not in index} == set()
    suite = (html / "examples/known_bad.html").read_text("utf-8")
    assert "LOSSY-0003" in suite
    assert "test_loss_at_low_load" in suite  # the files of an example are on its page


def test_a_broken_anchor_and_a_page_outside_the_navigation_are_errors(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")

    def stage(folder: Path) -> None:
        folder.mkdir()
        (folder / "README.md").write_text("# Index\n\n[a](other.md#not-there)\n", "utf-8")
        (folder / "other.md").write_text("# Other\n", "utf-8")

    monkeypatch.setattr(build, "stage", stage)
    assert build.build(tmp_path / "html") != 0
    said = capfd.readouterr().err
    assert "not-there" in said
    assert "isn't included in any toctree" in said or "not included in any toctree" in said
    assert not (tmp_path / "html/index.html").exists()


def test_links_out_of_the_documentation_lead_to_the_copies(build: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    build.stage(folder)
    page = (folder / "how-to/known-bad-links.md").read_text("utf-8")
    assert "(../examples/known_bad.md)" in page
    assert "(#realtoml)" in (folder / "examples/apu1c.md").read_text("utf-8")  # a file of the example, on its page
    assert "conftest_examples/known_bad](" in page  # the words stay
    assert (folder / "changelog.md").is_file()


def test_a_link_to_what_is_no_page_is_named(build: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "how-to/page.md"
    text = "# A\n\n```text\n[in a block](../../nowhere.toml)\n```\n\n[here](https://example.org) [b](../../nowhere#x)\n"
    with pytest.raises(build.BrokenLinkError, match=r"how-to/page\.md links to \.\./\.\./nowhere, which is no page"):
        build.relink(text, page, tmp_path, {})


def test_a_link_into_the_source_is_text(build: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "how-to/page.md"
    assert build.relink("see [the runner](../../run), and go", page, tmp_path, {}) == "see the runner, and go"


def test_addresses_of_other_sites_are_well_formed() -> None:
    """Whether they answer is not looked at: the tests need no internet."""
    from test_docs import _FENCE, _LINK, PAGES

    found = 0
    for page in PAGES:
        for target in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
            if ":" not in target.split("/")[0]:
                continue
            parts = urlsplit(target)
            assert parts.scheme == "https", f"{page.name}: {target}"
            assert parts.hostname, f"{page.name}: {target}"
            assert "." in parts.hostname, f"{page.name}: {target}"
            assert not parts.username, f"{page.name}: {target}"
            found += 1
    assert found > 5


def test_images_are_small_used_and_taken_by_the_script() -> None:
    from test_docs import PAGES

    script = (ROOT / "docs/screenshots.py").read_text("utf-8")
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    images = sorted((ROOT / "docs/images").iterdir())
    assert len(images) >= 7
    for image in images:
        assert image.stat().st_size <= 300_000, image.name
        assert f'"{image.name}"' in script, f"{image.name} is no screenshot that can be taken again"
        assert f"images/{image.name})" in pages, f"{image.name} is on no page"
