"""Sphinx' settings of the documentation; `docs/build.py` calls it with the pages it staged."""

from __future__ import annotations

from pytest_netperf import __version__

project = "pytest-netperf"
author = ""
copyright = ""
version = release = __version__
language = "en"

extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
nitpicky = True

# The headings get the anchors that they have on the pages of a repository, and links to them are checked.
myst_heading_anchors = 6

html_theme = "furo"
html_title = f"pytest-netperf {release}"
html_static_path: list[str] = []
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"font-stack": "system-ui, sans-serif"},
    "dark_css_variables": {"font-stack": "system-ui, sans-serif"},
}
