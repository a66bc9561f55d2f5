"""Sentences of the record in another language: reasons and next steps are written in English, by fixed patterns.

A language's file of texts may have a table ``sentences``: English sentence -> its own, both with the same {places}.
What stands in a place is looked up too. A sentence that is in no table stays as it is in the record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["Sentences"]

_PLACE = re.compile(r"\{(\w+)\}")
_DEEPEST = 4
_BETWEEN = re.compile(r"(?<=[.!?]) (?=[A-Z0-9])")


class Sentences:
    """The table of one language."""

    def __init__(self, table: Mapping[str, str], names: Mapping[str, str] | None = None) -> None:
        self._names = names or {}
        """What stands in places and is no sentence, such as quantities."""
        self._exact = {english: own for english, own in table.items() if not _PLACE.search(english)}
        self._patterns = [
            (re.compile(_PLACE.sub(r"(?P<\1>.+?)", _escaped(english)), re.DOTALL), own)
            for english, own in table.items()
            if _PLACE.search(english)
        ]

    def __call__(self, text: str) -> str:
        """The text in this language, sentence by sentence, as far as the table has it."""
        if not (self._exact or self._patterns):
            return text
        whole = self._found(text)
        if whole is not None:
            return whole
        return " ".join(self._found(part) or part for part in _BETWEEN.split(text))

    def knows(self, text: str) -> bool:
        """Whether nothing of it stays in English."""
        return not text or self._found(text) is not None or all(map(self._found, _BETWEEN.split(text)))

    def _found(self, text: str, depth: int = 0) -> str | None:
        if text in self._exact:
            return self._exact[text]
        if depth and text in self._names:
            return self._names[text]
        for pattern, own in self._patterns if depth < _DEEPEST else ():
            found = pattern.fullmatch(text)
            if found is not None:
                places = {name: self._found(value, depth + 1) or value for name, value in found.groupdict().items()}
                return own.format_map(places)
        return None


def _escaped(english: str) -> str:
    return "".join(part if _PLACE.fullmatch(part) else re.escape(part) for part in re.split(r"(\{\w+\})", english))
