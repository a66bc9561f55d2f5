"""What can be shown about a sheet from its files: is it the one that its run wrote, from the rows that were measured?

Digests prove that files belong together and were not changed one by one. Who can write all of them can make all digests
anew; only a signature, or a digest that is kept elsewhere, shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from pytest_netperf.errors import RecordError
from pytest_netperf.record.canonical import sha256
from pytest_netperf.record.chain import Chain, check_chain
from pytest_netperf.record.evidence_store import attached_files
from pytest_netperf.record.journal_event import WrittenSheet
from pytest_netperf.record.journal_reader import JournalContents, read_journal
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.manifest import SUMS
from pytest_netperf.record.schema import Planned, Row, Sheet
from pytest_netperf.record.sheet_file import digest_of, parse_sheet, sealed

__all__ = ["Finding", "Verifier", "verify_sheet"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    result: Literal["proven", "broken", "missing", "open"]
    """It holds; it does not; what it takes is not here; it cannot be shown, and need not be."""
    text: str


def verify_sheet(path: Path) -> list[Finding]:
    """Everything about a sheet.json and the files beside it. Raises RecordError when that is no sheet at all."""
    return Verifier().verify(path)


class Verifier:
    """Verifies sheets one after the other; a journal that several of them were made from is read once."""

    def __init__(self) -> None:
        self._last: tuple[Path, _Opened] | None = None

    def verify(self, path: Path) -> list[Finding]:
        """Everything about a sheet.json and the files beside it. Raises RecordError when that is no sheet at all."""
        return _verify(Path(path), self._open)

    def _open(self, place: Path) -> _Opened:
        if self._last is None or self._last[0] != place:
            self._last = place, _open(place)
        return self._last[1]


class _Opened:
    """A journal, looked at once."""

    def __init__(self, chain: Chain, contents: JournalContents | None, problem: str | None) -> None:
        self.chain = chain
        self.contents = contents
        self.problem = problem
        self.previous: list[Finding] | None = None
        self.planned: dict[str, list[Planned]] = {}
        self.rows: dict[str, list[Row]] = {}
        for plan in contents.planned if contents is not None else ():
            self.planned.setdefault(plan.device.serial, []).append(plan)
        for row in contents.rows if contents is not None else ():
            self.rows.setdefault(row.device.serial, []).append(row)


def _open(place: Path) -> _Opened:
    chain = check_chain(place.read_bytes())
    try:
        return _Opened(chain, read_journal(place), None)
    except RecordError as error:
        return _Opened(chain, None, str(error))


def _verify(path: Path, opened: Callable[[Path], _Opened]) -> list[Finding]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot read this sheet: {error.strerror or error}") from None
    output = path.resolve().parent.parent.parent
    try:
        sheet = parse_sheet(data, path)
    except RecordError as error:
        return [Finding("broken", str(error)), *_sums(path)]
    return [
        *_digest(data, sheet),
        *_sums(path),
        *_evidence(sheet, output),
        *_journal(sheet, path, output, opened),
        *_earlier(sheet, output),
    ]


def _digest(data: bytes, sheet: Sheet) -> Iterator[Finding]:
    document: dict[str, Any] = msgspec.json.decode(data)
    if document.get("digest") is None:
        yield Finding("missing", f"sheet.json is of version {document['schema_version']}, which has no digest")
    elif document["digest"] != digest_of(document):
        yield Finding("broken", "sheet.json was changed: its content does not have the digest that it names")
    elif msgspec.json.format(data, indent=2) + b"\n" != data:
        yield Finding("broken", "sheet.json was changed: its content is that of its digest, its layout is not")
    else:
        yield Finding("proven", f"sheet.json has the digest that it names (RFC 8785, SHA-256 {sheet.digest})")


def _sums(path: Path) -> Iterator[Finding]:
    """The files beside the sheet against the list of their digests."""
    folder = path.parent
    try:
        lines = (folder / SUMS).read_text("utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        result: Literal["missing", "broken"] = "missing" if isinstance(error, FileNotFoundError) else "broken"
        yield Finding(result, f"{SUMS}, the list of the digests of the files beside the sheet, cannot be read")
        return
    listed: dict[str, str] = {}
    for line in lines:
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name.endswith("\n"):
            yield Finding("broken", f"{SUMS} was changed: {line!r} is not a digest and a name")
        listed[name.removesuffix("\n")] = digest
    if path.name not in listed:
        yield Finding("broken", f"{SUMS} was changed: it does not list {path.name}")
    for name, digest in listed.items():
        found = _sha256(folder / name) if "/" not in name else None
        if found is None:
            yield Finding("broken", f"{name} is on the list {SUMS} and not here")
        elif found != digest:
            yield Finding("broken", f"{name} was changed: it does not have the digest of {SUMS}")
        else:
            yield Finding("proven", f"{name} has the digest of {SUMS}")
    for file in sorted(folder.iterdir()):
        if file.name not in listed and file.name != SUMS and not file.name.endswith(".signed.pdf"):
            yield Finding("open", f"{file.name} is beside the sheet and on no list: nothing is known of it")


def _evidence(sheet: Sheet, output: Path) -> Iterator[Finding]:
    for file in (*sheet.files, *attached_files(sheet.rows).values()):
        if file.copy is None:
            yield Finding("open", f"no copy of the {file.what} was kept ({file.name}); its digest is {file.sha256}")
            continue
        found = _sha256(output / file.copy)
        if found is None:
            yield Finding("missing", f"the kept copy of the {file.what} is not here: {file.copy}")
        elif found != file.sha256:
            yield Finding("broken", f"the kept copy of the {file.what} was changed: {file.copy}")
        else:
            yield Finding("proven", f"the kept copy of the {file.what} has the digest on the sheet")


def _journal(sheet: Sheet, path: Path, output: Path, opened: Callable[[Path], _Opened]) -> Iterator[Finding]:
    """The sheet against the journal of its run."""
    if sheet.journal is None:
        yield Finding(
            "missing", "the sheet names no journal, so nothing shows that its rows are those that were measured"
        )
        return
    place, number = output / sheet.journal.path, sheet.journal.line
    try:
        journal = opened(place)
    except OSError:
        yield Finding("missing", f"the journal is not here: {sheet.journal.path}")
        return
    chain = journal.chain
    for problem in chain.problems:
        yield Finding("broken", f"journal {sheet.journal.path}: {problem}")
    if chain.digests[number : number + 1] != (sheet.journal.sha256,):
        yield Finding(
            "broken", f"journal {sheet.journal.path}: event {number} is not the one that the sheet was made from"
        )
        return
    if not chain.problems and not chain.half_written:
        yield Finding(
            "proven", f"the journal is whole: {len(chain.digests)} lines, each with the digest of the one before"
        )
    if journal.contents is None:
        yield Finding("broken", journal.problem or "the journal cannot be read")
        return
    yield from _sealed(sheet, path, output, journal.contents, chain)
    yield _same_rows(sheet, journal, journal.contents)
    if journal.previous is None:
        journal.previous = list(_previous(journal.contents, output))
    yield from journal.previous


def _sealed(sheet: Sheet, path: Path, output: Path, contents: JournalContents, chain: Chain) -> Iterator[Finding]:
    """What the run itself wrote down about its sheets."""
    if contents.finished_at is None:
        half = ", the last of which is half written" if chain.half_written else ""
        yield Finding("open", f"the run was killed: nothing shows that its journal had no more lines{half}")
    elif chain.half_written:
        yield Finding("broken", "the last line of the journal has no end")
    elif not chain.closed:
        yield Finding(
            "missing",
            "the closing line of the journal: the run was killed while it wrote its sheets, or the end was cut off",
        )
    else:
        yield Finding("proven", "the journal is closed: nothing can be put behind it")
    written = [each for each in contents.sheets if each.serial == sheet.device.serial]
    mine = next((each for each in written if each.digest == sheet.digest and each.verdict is sheet.verdict), None)
    if mine is not None:
        yield from _files(mine, output)
        return
    here = path.resolve().relative_to(output).as_posix()
    if any(file.name == here for each in contents.sheets for file in each.files):
        yield Finding("broken", "the journal has another digest for this sheet: it was exchanged after the run")
    else:
        yield Finding(
            "open", "the sheet was made from the journal after the run, so the journal does not hold its digest"
        )


def _files(written: WrittenSheet, output: Path) -> Iterator[Finding]:
    yield Finding("proven", "the journal holds the digest and the verdict of this sheet")
    for file in written.files:
        found = _sha256(output / file.name)
        if found is None:
            yield Finding("missing", f"{file.name} was written by the run and is not here")
        elif found != file.sha256:
            yield Finding("broken", f"{file.name} was changed after the run: the journal has another digest")


def _same_rows(sheet: Sheet, journal: _Opened, contents: JournalContents) -> Finding:
    """Make the sheet again from the journal, with the waivers that it names, and compare what counts."""
    covering = [waiver.until for waiver in sheet.waivers if waiver.covers]
    sheets = build_sheets(
        contents.run,
        journal.planned.get(sheet.device.serial, ()),
        journal.rows.get(sheet.device.serial, ()),
        running=contents.running,
        complete=contents.complete,
        finished_at=contents.finished_at,
        state=contents.state,
        remarks=contents.notes,
        waivers=[msgspec.structs.replace(each, covers=(), problem=None) for each in sheet.waivers if each.covers],
        day=min(covering, default=""),
    )
    again = next((sealed(each) for each in sheets if each.device.serial == sheet.device.serial), None)
    if again is None or again.verdict is not sheet.verdict:
        found = again.verdict.value if again is not None else "nothing about this device"
        return Finding(
            "broken", f"from the rows of the journal follows {found}, and the sheet says {sheet.verdict.value}"
        )
    if again.rows != sheet.rows or again.device != sheet.device or again.state != sheet.state:
        return Finding("broken", "the rows or the device on the sheet are not those of the journal")
    return Finding("proven", f"the same rows and {sheet.verdict.value} follow from the journal")


def _previous(contents: JournalContents, output: Path) -> Iterator[Finding]:
    """The journal of the run before, which this one names."""
    link = contents.run.previous
    if link is None:
        return
    place = output / "journals" / f"{link.run_id}.jsonl"
    try:
        lines = place.read_bytes().splitlines(keepends=True)
    except OSError:
        yield Finding("open", f"the journal of the run before, {link.run_id}, is not here")
        return
    length = next((n for n, line in enumerate(lines, 1) if sha256(line.removesuffix(b"\n")) == link.sha256), None)
    if length is not None and not check_chain(b"".join(lines[:length])).problems:  # it may have gone on since
        yield Finding("proven", f"the journal of the run before, {link.run_id}, is here as it was then")
    else:
        yield Finding("broken", f"the journal of the run before, {link.run_id}, is not the one that was there then")


def _earlier(sheet: Sheet, output: Path) -> Iterator[Finding]:
    """The sheets of earlier runs of the same device."""
    for run in sheet.earlier:
        place = output / run.sheet
        if place.suffix == ".jsonl":
            found = _sha256(place)
            what = f"the journal of the earlier run {run.run_id}, which was killed,"
            if found is None:
                yield Finding("open", f"{what} is not here: {run.sheet}")
            else:
                same = found == run.digest
                yield Finding(
                    "proven" if same else "broken", f"{what} {'is here as it was' if same else 'was changed'}"
                )
            continue
        try:
            document = msgspec.json.decode(place.read_bytes(), type=dict)
        except FileNotFoundError:
            yield Finding("open", f"the sheet of the earlier run {run.run_id} is not here: {run.sheet}")
            continue
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            yield Finding("broken", f"the sheet of the earlier run {run.run_id} cannot be read: {run.sheet}")
            continue
        if run.digest is None:
            yield Finding("open", f"the sheet of the earlier run {run.run_id} has no digest, because of its version")
        elif digest_of(document) != run.digest:
            yield Finding("broken", f"the sheet of the earlier run {run.run_id} was changed since then: {run.sheet}")
        else:
            yield Finding("proven", f"the sheet of the earlier run {run.run_id} is here as it was then")


def _sha256(path: Path) -> str | None:
    try:
        return sha256(path.read_bytes())
    except OSError:
        return None
