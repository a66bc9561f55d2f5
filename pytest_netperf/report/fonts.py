"""Fonts of the PDF: those that typst ships, the package of Japanese ones, and the user's own. Never the machine's.

So the same record becomes the same PDF on every machine with the same packages.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.errors import ConfigError
from pytest_netperf.report.language import Words

if TYPE_CHECKING:
    import typst

__all__ = ["check_fonts", "fonts_for", "without_glyph"]

_PACKAGES = ("noto_cjk_sans_jp_regular", "noto_cjk_sans_jp_bold")
_PROBE = b"""#set text(font: json(bytes(sys.inputs.fonts)))
#for character in json(bytes(sys.inputs.characters)) [#character

]"""


def fonts_for(templates: Path | None) -> typst.Fonts:
    """All fonts that a PDF may use: built in, of the extra ``cjk`` where it is installed, of ``TEMPLATES/fonts``."""
    specs = [importlib.util.find_spec(name) for name in _PACKAGES]
    folders = [str(Path(spec.origin).parent) for spec in specs if spec is not None and spec.origin is not None]
    own = templates / "fonts" if templates is not None else None
    return _fonts((*folders, *([str(own)] if own is not None and own.is_dir() else [])))


@functools.cache
def _fonts(folders: tuple[str, ...]) -> typst.Fonts:
    import typst

    return typst.Fonts(include_system_fonts=False, font_paths=list(folders))


def families(words: Words) -> list[str]:
    """The font families that a language asks for, the first one first."""
    return [name.strip() for name in words("sheet.fonts").split(",")]


def without_glyph(text: str, words: Words, templates: Path | None) -> frozenset[str]:
    """The characters of a text that no font has. A PDF/A must not contain one, so typst refuses it."""
    import typst

    characters = sorted({character for character in text if not character.isascii() and not character.isspace()})
    if not characters:
        return frozenset()
    inputs = {"fonts": json.dumps(families(words)), "characters": json.dumps(characters)}
    try:
        typst.compile(
            _PROBE, sys_inputs=inputs, font_paths=fonts_for(templates), ignore_system_fonts=True, pdf_standards=["a-3b"]
        )
    except typst.TypstError as error:
        reported = {line for line in error.diagnostic.splitlines() if line.startswith("error:")}
        named = "".join(line.partition('`"')[2].partition('"`')[0] for line in reported)
        found = frozenset(character for character in characters if character in named or _escaped(character) in named)
        if not found:
            raise
        return found
    return frozenset()


def check_fonts(words: Words, templates: Path | None) -> None:
    """Raise ConfigError when the texts of a language cannot be printed with the fonts that are here."""
    missing = without_glyph("".join(words.texts.values()), words, templates)
    if missing:
        raise ConfigError(
            f"no font here has {len(missing)} of the characters of language {words.language!r} "
            f"({' '.join(sorted(missing)[:5])} ...), so there can be no PDF: pip install 'pytest-netperf[cjk]' for "
            "Chinese and Japanese characters, or put a font into the folder 'fonts' of --netperf-templates"
        )


def _escaped(character: str) -> str:
    """As Rust's debug output writes a character that is not printable."""
    return f"\\u{{{ord(character):x}}}"


def all_texts(value: object) -> Iterable[str]:
    """Every text in plain data, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from all_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from all_texts(item)
