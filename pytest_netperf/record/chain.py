"""The chain of a journal's lines, held to the byte: what was changed, cut out or put in shows."""

from __future__ import annotations

import msgspec

from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.journal_line import major_of, parse_line

__all__ = ["Chain", "check_chain"]


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """What the lines of a journal are worth."""

    digests: tuple[str, ...] = ()
    """SHA-256 of each line."""
    kinds: tuple[str, ...] = ()
    """Kind of each line."""
    problems: tuple[str, ...] = ()
    """What does not fit, one sentence each."""
    half_written: bool = False
    """The last line has no end: who wrote it was killed, or it was changed."""

    @property
    def closed(self) -> bool:
        """Whether the last line is the closing one."""
        return self.kinds[-1:] == ("closed",)


def check_chain(data: bytes) -> Chain:
    """Look at every line of a journal: is it as it was written, and does it follow the one before?"""
    *texts, rest = data.split(b"\n")
    problems = [] if texts else ["there is no whole line"]
    digests, kinds = [], []
    previous = ""
    for number, text in enumerate(texts):
        digest = sha256(text)
        line, why = parse_line(text)
        if line is None:
            problems.append(f"line {number + 1}: {why}")
        else:
            if line.n != number:
                problems.append(
                    f"line {number + 1}: it is event {line.n}, expected {number}: lines are missing or moved"
                )
            if line.prev != previous and major_of(line.journal) > 1:  # lines of version 1 do not hold each other
                problems.append(f"line {number + 1}: it does not follow the line before it")
            if line.kind != "closed" and "closed" in kinds:
                problems.append(f"line {number + 1}: it stands behind the closing line")
        digests.append(digest)
        kinds.append(line.kind if line is not None else "")
        previous = digest
    return Chain(
        digests=tuple(digests),
        kinds=tuple(kinds),
        problems=tuple(problems),
        half_written=bool(rest),
    )
