"""The texts of the sheet in one language: one TOML file of the folder ``words`` for each."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from pytest_netperf.errors import ConfigError
from pytest_netperf.quantities import near_misses
from pytest_netperf.report.sentences import Sentences

__all__ = ["DEFAULT_LANGUAGE", "Words", "known_languages", "load_words"]

DEFAULT_LANGUAGE = "en"
_SENTENCES, _QUANTITY = "sentences.", "quantity."


class Words:
    """The texts of one language, by key: ``words("sheet.run", run=...)``."""

    def __init__(self, language: str, texts: dict[str, str], sentences: dict[str, str] | None = None) -> None:
        self.language = language
        """Its tag (BCP 47), such as "en"."""
        self.texts = texts
        quantities = {key.removeprefix(_QUANTITY): text for key, text in texts.items() if key.startswith(_QUANTITY)}
        self.sentence = Sentences(sentences or {}, quantities)
        """Called with a sentence of the record: the same in this language, as far as it has it."""

    def __call__(self, key: str, **places: object) -> str:
        """The text of a key with its {places} filled in. Raises KeyError for what is not there."""
        text = self.texts[key]
        return text.format_map(places) if places else text

    def of(self, section: str, name: str, fallback: str) -> str:
        """The text for a name that may be a user's own, such as a verdict or a quantity."""
        return self.texts.get(f"{section}.{name}", fallback)


def known_languages(folder: Path | None = None) -> list[str]:
    """The languages that are built in, and those of a folder of templates."""
    built_in = [entry.name for entry in _built_in().iterdir()]
    own = [path.name for path in (folder / "words").glob("*.toml")] if folder is not None else []
    return sorted({name.removesuffix(".toml") for name in [*built_in, *own] if name.endswith(".toml")})


@functools.cache
def load_words(language: str, folder: Path | None = None) -> Words:
    """The texts of a language; a file of the folder of templates wins over a built-in one.

    Raises ConfigError for a language that is not there and for a file that is broken or lacks a text.
    """
    known = known_languages(folder)
    if language not in known:
        raise ConfigError(
            f"there are no texts in language {language!r}{near_misses(language, known)}; known: {', '.join(known)}"
        )
    english = _read(_built_in() / f"{DEFAULT_LANGUAGE}.toml")
    own = folder / "words" / f"{language}.toml" if folder is not None else None
    source = own if own is not None and own.is_file() else _built_in() / f"{language}.toml"
    texts = _read(source)
    sentences = {key.removeprefix(_SENTENCES): texts.pop(key) for key in list(texts) if key.startswith(_SENTENCES)}
    missing, unknown = [key for key in english if key not in texts], [key for key in texts if key not in english]
    wrong = [key for key, text in texts.items() if key in english and _places(text) != _places(english[key])]
    wrong += [sentence for sentence, own in sentences.items() if set(_places(own)) != set(_places(sentence))]
    for keys, problem in (
        (missing, "has no text for"),
        (unknown, "has texts that no sheet shows:"),
        (wrong, "has other {places} than en.toml in"),
    ):
        if keys:
            raise ConfigError(f"{source}: {problem} {', '.join(keys[:8])}{' ...' if len(keys) > 8 else ''}")
    return Words(language, texts, sentences)


def _built_in() -> Any:
    return resources.files("pytest_netperf.report") / "words"


def _read(source: Any) -> dict[str, str]:
    try:
        return _flat(tomllib.loads(source.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source}: cannot read these texts: {error}") from None


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            texts |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            texts[f"{prefix}{name}"] = value
        else:
            raise ValueError(f"{prefix}{name} must be a text, not {value!r}")
    return texts


def _places(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w*)\}", text))
