"""What ISO/IEC 17025 (7.8.2, 7.8.6) wants of a report and the rows do not say, as labelled lines. Pure."""

from __future__ import annotations

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict, has_a_say
from pytest_netperf.record.schema import EarlierRun, Sheet, Waiver
from pytest_netperf.record.wording import differing_rules, moment_text
from pytest_netperf.report.language import Words

__all__ = ["certificate", "deviations", "report_id", "statement", "waiver_text"]

_ITEM = ("serial", "model", "part_number", "hardware_revision", "firmware", "bios", "nic_stepping", "batch")
_NOT_MEASURED = (Verdict.NOT_RUN, Verdict.SKIPPED, Verdict.ABORTED, Verdict.CRASHED)
_STATEMENTS = {
    DeviceVerdict.ACCEPTED: "certificate.accepted",
    DeviceVerdict.ACCEPTED_WITH_WAIVER: "certificate.waived",
    DeviceVerdict.REJECTED: "certificate.rejected",
    DeviceVerdict.NOT_PROVEN: "certificate.not_proven",
}


def report_id(sheet: Sheet) -> str:
    """The unique identification of a report: run and serial number."""
    return f"{sheet.run_id}/{sheet.device.serial}"


def certificate(sheet: Sheet, w: Words) -> list[tuple[str, str]]:
    """Label and text of each line, in the order of the standard. What is not known is a dash, never left out."""
    station, procedure = sheet.station, sheet.procedure
    where = [("", station.name), ("location", station.location), ("host", station.host)]
    how = [
        ("suite", procedure.suite),
        ("version", procedure.version),
        ("commit", procedure.commit and procedure.commit[:12]),
        ("limits", procedure.limits_file),
        ("bench", procedure.bench_file),
    ]
    method = [_named(w, *pair) for pair in how if pair[1]]
    method[3:3] = [w("certificate.modified")] if procedure.modified else []
    lines = [
        ("id", report_id(sheet)),
        ("customer", sheet.customer or "-"),
        ("item", _item(sheet, w)),
        ("laboratory", ", ".join(_named(w, *pair) for pair in where if pair[1]) or "-"),
        ("period", f"{moment_text(sheet.started_at)} \u2013 {moment_text(sheet.finished_at)}"),
        ("issued", moment_text(sheet.finished_at or sheet.started_at)),
        ("method", "; ".join([w("certificate.rfc"), *method])),
        ("deviations", " ".join(deviations(sheet, w)) or w("deviation.none")),
        *([("waivers", " ".join(waiver_text(each, w) for each in sheet.waivers))] if sheet.waivers else []),
        *([("earlier", _earlier(sheet, w))] if sheet.earlier else []),
        ("rule", procedure.decision_rule or "-"),
        ("uncertainty", w("certificate.uncertainty_text")),
        ("conformity", statement(sheet, w)),
        ("only", w("certificate.only_text")),
        *([("authoriser", sheet.authoriser)] if sheet.authoriser else []),
    ]
    return [(w(f"certificate.{name}"), text) for name, text in lines]


def statement(sheet: Sheet, w: Words) -> str:
    """The statement of conformity (7.8.6): which limits are met, in one sentence."""
    required = [row for row in sheet.rows if has_a_say(row)]
    passed = sum(row.verdict is Verdict.PASS for row in required)
    return w(_STATEMENTS[sheet.verdict], passed=passed, required=len(required))


def deviations(sheet: Sheet, w: Words) -> list[str]:
    """What was not done as planned (7.8.2.1 n), one sentence each."""
    counts = {
        "missing": sum(row.verdict in _NOT_MEASURED for row in sheet.rows),
        "attempts": sum(bool(row.attempts) for row in sheet.rows),
        "information": sum(not row.required for row in sheet.rows),
    }
    return [
        *([] if sheet.complete else [w("deviation.incomplete")]),
        *([w("deviation.simulated")] if sheet.simulated else []),
        *(w(f"deviation.{name}", number=number) for name, number in counts.items() if number),
        *([w("deviation.rules")] if differing_rules(sheet) else []),
        *sheet.remarks,
    ]


def waiver_text(waiver: Waiver, w: Words) -> str:
    """Who takes the device all the same, until when and why; and why that covers nothing, where it does not."""
    text = w("waiver.text", row=waiver.row, who=waiver.who, until=waiver.until, why=waiver.why.rstrip("."))
    return f"{text} {w('waiver.problem', problem=waiver.problem)}" if waiver.problem else text


def _earlier(sheet: Sheet, w: Words) -> str:
    runs = [
        w("certificate.earlier_run", run=run.run_id, started=moment_text(run.started_at), verdict=_verdict(run))
        for run in sheet.earlier
    ]
    first = w("certificate.first_pass", verdict=sheet.first_pass.value if sheet.first_pass else "-")
    return f"{'; '.join(runs)}. {first}"


def _verdict(run: EarlierRun) -> str:
    return run.verdict.value if run.complete else f"{run.verdict.value}, INCOMPLETE"


def _item(sheet: Sheet, w: Words) -> str:
    parts = [_named(w, name, getattr(sheet.device, name)) for name in _ITEM if getattr(sheet.device, name)]
    return ", ".join([*parts, *([_named(w, "macs", ", ".join(sheet.device.macs))] if sheet.device.macs else [])])


def _named(w: Words, name: str, value: object) -> str:
    return w(f"certificate.{name}", value=value) if name else str(value)
