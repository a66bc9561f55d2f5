"""Find the JSON in what iperf3 printed: after warnings, doubled, damaged, cut off, or as a stream of events."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Scan", "looks_like_json", "scan"]

_KEY = re.compile(r'"[^"\n]{1,64}"\s*:')
_OPENING = re.compile(r'\{\s*["}]')
_NAN = re.compile(r"(:\s*)-?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)
_LOST_PLUS = re.compile(r"(\d[eE]) (\d)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
_BIDIR_KEYS = {"sum", "sum_sent", "sum_received"}
_HARMLESS = {
    "rcvbuf_actual",
    "receiver_tcp_congestion",
    "sender_tcp_congestion",
    "sndbuf_actual",
    "sock_bufsize",
    "target_bitrate",
}
"""Servers, and --bidir of old versions, write these more than once; no figure depends on them."""


@dataclass(slots=True)
class Scan:
    """The JSON values found, and everything around them."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    fragment: dict[str, Any] | None = None
    """What could be saved of a piece that is not complete JSON."""
    broken: bool = False
    """Something that should be JSON is cut off or damaged beyond repair."""
    around: str = ""
    """The text before, between and behind the values."""
    repaired: bool = False
    """A number had lost the plus sign of its exponent."""
    twins: bool = False
    """Sums stood twice in one object, as --bidir of 3.7 to 3.10.1 writes them."""
    repeated: set[str] = field(default_factory=set)
    """Keys that stood twice in one object with different values, other than those that iperf3 itself repeats."""


def looks_like_json(text: str) -> bool:
    """Whether the text holds JSON or a piece of it."""
    return _OPENING.search(text) is not None or _KEY.search(text) is not None


def scan(text: str) -> Scan:
    """Read every JSON object that stands in the text at top level. Never raises."""
    found = Scan()
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _object(pairs, found))
    around: list[str] = []
    position = 0
    while True:
        start = text.find("{", position)
        gap = text[position:] if start < 0 else text[position:start]
        around.append(gap)
        if _KEY.search(gap):
            # The beginning is missing: what follows is inside some object, so that none of it is a document.
            found.broken = True
            if not found.documents and not found.events:
                found.fragment = _mend(text[position + gap.index('"') :], decoder, wrap=True)
                around.append(text[position:])
            break
        if start < 0:
            break
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            mended = _LOST_PLUS.sub(r"\1+\2", _NAN.sub(r"\1null", text[start:]))
            try:
                value, end = decoder.raw_decode(mended)
            except (ValueError, RecursionError):
                found.broken = True
                if not found.documents and not found.events:
                    found.fragment = _mend(mended, decoder, wrap=False)
                around.append(text[max(start, len(text) - 2000) :])
                break
            found.repaired = found.repaired or _LOST_PLUS.search(text, start) is not None
            # From here on the mended text is the text: its length differs.
            text, position = mended, end
        if not isinstance(value, dict):
            found.broken = True
        elif isinstance(value.get("event"), str) and "end" not in value:
            found.events.append(value)
        else:
            found.documents.append(value)
    found.around = "\n".join(around)
    return found


def _object(pairs: list[tuple[str, Any]], found: Scan) -> dict[str, Any]:
    """One JSON object. Of the twins that --bidir prints in 3.7 to 3.10.1 the first is forward, the second reverse."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    made = {}
    for key, value in pairs:
        name = key
        if key in made and key in _BIDIR_KEYS:
            name, found.twins = f"{key}_bidir_reverse", True
        if name in made and name not in _HARMLESS and made[name] != value:
            found.repeated.add(name)
        else:
            made.setdefault(name, value)
    return made


def _mend(text: str, decoder: json.JSONDecoder, *, wrap: bool) -> dict[str, Any] | None:
    """Cut a fragment behind its last complete value and close what is open; None when nothing can be saved."""
    if wrap:
        text = "{" + text
    open_brackets: list[str] = []
    cut, closing = 0, ""
    for token in _TOKEN.finditer(text):
        symbol = token[0]
        if symbol in "{[":
            open_brackets.append("}" if symbol == "{" else "]")
        elif symbol in "}]":
            if not open_brackets or open_brackets[-1] != symbol:
                break
            open_brackets.pop()
            cut, closing = token.end(), "".join(reversed(open_brackets))
            if not open_brackets:
                break
        elif symbol == ",":
            cut, closing = token.start(), "".join(reversed(open_brackets))
    try:
        value = decoder.decode(_LOST_PLUS.sub(r"\1+\2", text[:cut]) + closing)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
