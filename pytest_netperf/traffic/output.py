"""Read what iperf3 printed, whatever it is, and say whether its received rate can be trusted.

`read_output` is the one entry: JSON, a stream of JSON events, human-readable text, or nothing at all. It is pure and
never raises. The trust is strict, because a number that should not be trusted is worse than none: exit code 0, exactly
one complete document, no error anywhere, bytes at the receiver, the asked duration reached, numbers that agree.
"""

from __future__ import annotations

import re

import msgspec

from pytest_netperf.traffic.document import read_document, read_fragment
from pytest_netperf.traffic.draft import Draft, as_dict, error_sentence
from pytest_netperf.traffic.result import Flow, Reading, Workload
from pytest_netperf.traffic.row import read_row
from pytest_netperf.traffic.scan import Scan, looks_like_json, scan
from pytest_netperf.traffic.text import ERROR_LINE, read_text
from pytest_netperf.traffic.trust import conclude

__all__ = ["read_output"]

_BROKEN = "The JSON is cut off or damaged, so that it is only a fragment: capture the whole output and read that."
_ERROR_VALUE = re.compile(r'"error"\s*:\s*"([^"\n]{1,300})"')


def read_output(
    text: str | bytes,
    *,
    asked: Workload | None = None,
    exit_code: int | None = None,
    stderr: str = "",
    stopped: bool = False,
) -> Reading:
    """Read one iperf3 output.

    What is known about the run beside its output takes part in the decision whether it can be trusted: the workload
    that was ``asked`` for, the ``exit_code`` of iperf3 and its ``stderr``. None means not known (a file, for example).
    ``stopped`` says that we ended the run ourselves: then its early end speaks against nothing, and only its intervals
    count (`traffic.stopped`).
    """
    content = _decode(text)
    draft = Draft()
    if not content.strip():
        draft.kind = "empty"
        draft.doubts.append(
            "The output is empty: iperf3 wrote nothing, so look at its stderr and exit code and repeat it."
        )
    elif looks_like_json(content):
        _read_json(content, draft)
    else:
        read_text(content, draft)
    return conclude(draft, asked=asked, exit_code=exit_code, stderr=stderr, stopped=stopped)


def _decode(text: str | bytes) -> str:
    """Bytes to text. PowerShell redirects as UTF-16; a byte that is no UTF-8 becomes a replacement character."""
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8")):
        if text.startswith(mark):
            return text[len(mark) :].decode(encoding, errors="replace")
    return text.decode("utf-8", errors="replace")


def _read_json(content: str, draft: Draft) -> None:
    found = scan(content)
    draft.kind = "json-stream" if found.events else "json"
    _read_around(found, draft)
    documents = list(found.documents)
    if found.events:
        _add_stream(found, documents, draft)
    if found.broken:
        draft.doubts.append(_BROKEN)
    if found.repaired:
        draft.doubts.append(
            "A number lost the plus sign of its exponent on the way: capture the output again, unchanged."
        )

    whole = [document for document in documents if isinstance(document.get("end"), dict)]
    if not whole:
        if not draft.doubts or not found.broken:
            draft.doubts.append(_BROKEN)
        fragment = found.fragment or (documents[0] if documents else None)
        if fragment is not None:
            read_fragment(fragment, draft)
        return
    if len(documents) > 1:
        draft.doubts.append(
            f"The output holds {len(documents)} documents instead of one: keep each run in a file of its own."
        )
    read_document(whole[0], draft)
    _drop_ambiguous(whole, draft)
    if found.repeated:
        draft.doubts.append(
            f"The key {min(found.repeated)!r} stands twice in one object: the document was edited, repeat the run."
        )
    if found.twins and not (draft.release and (3, 7) <= draft.release < (3, 11)):
        draft.doubts.append(
            "The sums stand twice, as only --bidir of iperf3 3.7 to 3.10 writes them: it was edited, repeat the run."
        )


def _read_around(found: Scan, draft: Draft) -> None:
    """The text before and behind the JSON: an error spoils it, a warning or a shell prompt does not."""
    errors = [match["message"] for match in ERROR_LINE.finditer(found.around)]
    if found.broken:
        errors += _ERROR_VALUE.findall(found.around)
    draft.doubts.extend(error_sentence(message) for message in errors[:1])
    if "^C" in found.around:
        draft.doubts.append(
            "Somebody pressed Ctrl-C (^C stands beside the JSON): let the run end by itself and repeat it."
        )
    if any(read_row(line) for line in found.around.splitlines()):
        draft.doubts.append(
            "The output mixes JSON and the text report of another run: keep each run in a file of its own."
        )
    if not found.broken and re.search(r"[{}]", found.around):
        draft.doubts.append(_BROKEN)
    if found.around.strip() and not found.broken:
        plain = " ".join("".join(c if c.isprintable() else " " for c in found.around[:400]).split())
        draft.notes.append(f"Text around the JSON was skipped: {plain[:120]!r}.")


def _add_stream(found: Scan, documents: list[dict[str, object]], draft: Draft) -> None:
    """Turn the events of --json-stream into one document, unless --json-stream-full-output printed it as well."""
    by_name: dict[str, list[object]] = {}
    for event in found.events:
        by_name.setdefault(event["event"], []).append(event.get("data"))
    for message in by_name.get("error", [])[:1]:
        draft.doubts.append(error_sentence(message))
    starts, ends = by_name.get("start", []), by_name.get("end", [])
    if not ends:
        draft.doubts.append(
            "The stream of events has no end: the run was cut off, so repeat it and let it end by itself."
        )
    elif len(starts) > 1 or len(ends) > 1:
        draft.doubts.append("The stream holds more than one run: keep each run in a file of its own.")
    elif not starts and as_dict(ends[0]):
        draft.doubts.append("The stream of events has no start: capture the whole output and read that.")
    elif documents and as_dict(documents[0].get("end")) != as_dict(ends[0]):
        draft.doubts.append("The document behind the events says something else than they do: repeat the run.")
    if documents:
        return
    document: dict[str, object] = {"start": starts[0] if starts else {}, "intervals": by_name.get("interval", [])}
    # More than one run in the stream: no single end can be chosen.
    document["end"] = ends[0] if len(ends) == 1 and len(starts) <= 1 else {}
    documents.append(document)


def _drop_ambiguous(whole: list[dict[str, object]], draft: Draft) -> None:
    """Of several documents that disagree, no number is offered: nobody can say which run was meant."""
    for other in whole[1:]:
        second = Draft(kind=draft.kind)
        read_document(other, second)
        if [_sums(flow) for flow in second.flows] != [_sums(flow) for flow in draft.flows]:
            draft.flows.clear()
            return


def _sums(flow: Flow) -> Flow:
    return msgspec.structs.replace(flow, intervals=())
