"""From stored lines back to sheets, by the same ledger that made those of the run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pytest_netperf.judge.verdict import DeviceVerdict
from pytest_netperf.record.journal_event import WrittenSheet
from pytest_netperf.record.journal_line import JournalLine
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import Planned, Row, RunInfo, Sheet
from pytest_netperf.record.stretch import Stretch, rows_of_stretches
from pytest_netperf.store.write import run_of

__all__ = ["sheets_of"]

_ACCEPTING = (DeviceVerdict.ACCEPTED, DeviceVerdict.ACCEPTED_WITH_WAIVER)


class _RowBody(msgspec.Struct, frozen=True):
    row: Row


class _Running(msgspec.Struct, frozen=True):
    test: str


class _Finished(msgspec.Struct, frozen=True):
    at: str
    exit_status: int


def sheets_of(events: Sequence[JournalLine]) -> list[Sheet]:
    """The sheets of a run, from its lines in their order; the evidence in them is without series and documents.

    The store never says more than the run did: a device without a sheet of its own, or with lines that are missing, is
    not accepted. The order of lines is that of their numbers.
    """
    run: RunInfo | None = None
    planned: list[Planned] | None = None
    rows: list[Row] = []
    stretches: list[Stretch] = []
    arrived: dict[str, set[str]] = {}
    finish: _Finished | None = None
    said: dict[str, DeviceVerdict] = {}
    for event in events:
        match event.kind:
            case "run":
                run = run_of(event)
            case "plan":
                planned = (planned or []) + msgspec.json.decode(event.body, type=list[Planned])
            case "running":
                arrived[msgspec.json.decode(event.body, type=_Running).test] = set()
            case "stretch":
                stretches.append(msgspec.json.decode(event.body, type=Stretch))
            case "row":
                row = msgspec.json.decode(event.body, type=_RowBody).row
                rows.append(row)
                if row.test in arrived:
                    arrived[row.test].add(row.id)
            case "finished":
                finish = msgspec.json.decode(event.body, type=_Finished)
            case "sheet":
                sheet = msgspec.json.decode(event.body, type=WrittenSheet)
                said[sheet.serial] = sheet.verdict
    if run is None:
        return []
    due: dict[str, set[str]] = {}
    for plan in planned or ():
        due.setdefault(plan.test, set()).add(plan.id)
    running = [test for test, ids in arrived.items() if due.get(test, set()) - ids]
    rows += rows_of_stretches(stretches, planned or (), running, {row.id for row in rows if row.test in running})
    missing = events[-1].n + 1 - len(events)
    ended = finish is not None and finish.exit_status in (0, 1) and planned is not None
    sheets = build_sheets(
        run,
        planned or (),
        rows,
        running=running,
        complete=ended and not missing,
        finished_at=finish.at if finish is not None else None,
        state="killed" if finish is None else "complete" if ended else "stopped",
        remarks=[f"{missing} lines of this run are not in the store."] if missing else [],
        waivers=run.waivers,
    )
    return [_no_better_than(sheet, said.get(sheet.device.serial)) for sheet in sheets]


def _no_better_than(sheet: Sheet, said: DeviceVerdict | None) -> Sheet:
    """The sheet with the verdict of the one that the run wrote, should that be worse."""
    if sheet.verdict not in _ACCEPTING or said is sheet.verdict:
        return sheet
    if said is DeviceVerdict.ACCEPTED_WITH_WAIVER:
        return msgspec.structs.replace(sheet, verdict=said)
    verdict = said if said is not None and said not in _ACCEPTING else DeviceVerdict.NOT_PROVEN
    why = f"its sheet says {said.value}" if said is not None else "the store has no sheet of it"
    return msgspec.structs.replace(
        sheet, verdict=verdict, complete=False, sentence=f"{sheet.sentence} But {why}: see its journal."
    )
