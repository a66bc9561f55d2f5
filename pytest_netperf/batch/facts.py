"""What a batch page keeps of one device of one run: some hundred bytes a row, whatever its evidence weighs. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from pytest_netperf.judge.verdict import DeviceVerdict, Verdict, device_verdict
from pytest_netperf.record.schema import SCHEMA_VERSION, DeviceInfo, Planned
from pytest_netperf.record.wording import conditions_text, port_text, quantity_text

__all__ = ["RowFacts", "RowName", "RunFacts", "SheetFile", "facts_of"]

_ACCEPTING = frozenset(verdict for verdict in DeviceVerdict if verdict.value.startswith("ACCEPTED"))


class _Device(msgspec.Struct, frozen=True):
    serial: str
    model: str | None = None
    batch: str | None = None


class _RowFile(msgspec.Struct, frozen=True):
    id: str
    test: str
    quantity: str
    unit: str
    verdict: Verdict
    link: str | None = None
    statistic: str | None = None
    value: float | None = None
    limit: str | None = None
    limit_low: float | None = None
    limit_high: float | None = None
    ceiling: float | None = None
    required: bool = True
    conditions: dict[str, Any] = {}
    waived: bool = False


class _Earlier(msgspec.Struct, frozen=True):
    run_id: str
    started_at: str
    verdict: DeviceVerdict
    complete: bool


class SheetFile(msgspec.Struct, frozen=True):
    """Of sheet.json the keys that a batch page reads; the rest, and what a newer minor version adds, is skipped."""

    schema_version: str
    run_id: str
    verdict: DeviceVerdict
    complete: bool
    simulated: bool
    device: _Device
    station: dict[str, Any]
    started_at: str
    rows: tuple[_RowFile, ...]
    sentence: str = ""
    operator: str | None = None
    earlier: tuple[_Earlier, ...] = ()


class RowName(msgspec.Struct, frozen=True):
    """What a row is called on the page; the same for every device of a model."""

    key: str
    """Id of the row without its device."""
    label: str
    """Port, conditions and quantity, for people."""
    quantity: str
    unit: str


class RowFacts(msgspec.Struct, frozen=True, gc=False):
    """One row of one device."""

    value: float | None
    verdict: Verdict
    required: bool
    limit: str | None
    low: float | None
    high: float | None
    ceiling: float | None


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one run."""

    serial: str
    model: str | None
    batch: str | None
    run_id: str
    started_at: str
    station: str
    operator: str | None
    verdict: DeviceVerdict
    sentence: str
    complete: bool
    simulated: bool
    rows: dict[str, RowFacts]
    """Key of `RowName` -> row."""
    source: str
    """File or store it was read from, for messages."""
    earlier: tuple[RunFacts, ...] = ()
    """Earlier runs of the device that the sheet names, without their rows."""


def facts_of(data: bytes, source: str, names: dict[str, RowName]) -> tuple[RunFacts, list[str]]:
    """The facts of a sheet in JSON, and what is wrong with it, one sentence each; new names of rows go into ``names``.

    A sheet that says more than its own rows is believed no further than they go. Raises msgspec.MsgspecError or
    ValueError when it is no sheet.
    """
    sheet = msgspec.json.decode(data, type=SheetFile)
    major, newest = sheet.schema_version.split(".")[0], SCHEMA_VERSION.split(".")[0]
    if not major.isdigit() or int(major) > int(newest):
        raise ValueError(
            f"schema version {sheet.schema_version!r} is newer than this pytest-netperf ({SCHEMA_VERSION})"
        )
    verdict, problem = _believed(sheet)
    problems = [f"{source} says {sheet.verdict.value}, but {problem}: counted as {verdict.value}."] if problem else []
    rows: dict[str, RowFacts] = {}
    for row in sheet.rows:
        key = _key(row.id, sheet.device.serial, row.link)
        if key not in names:
            names[key] = _name(key, row)
        rows[key] = RowFacts(
            row.value, row.verdict, row.required, row.limit, row.limit_low, row.limit_high, row.ceiling
        )
    station = str(sheet.station.get("name") or sheet.station.get("host") or "-")
    facts = RunFacts(
        serial=sheet.device.serial,
        model=sheet.device.model,
        batch=sheet.device.batch,
        run_id=sheet.run_id,
        started_at=sheet.started_at,
        station=station,
        operator=sheet.operator,
        verdict=verdict,
        sentence=sheet.sentence,
        complete=sheet.complete,
        simulated=sheet.simulated,
        rows=rows,
        source=source,
        earlier=tuple(
            RunFacts(
                serial=sheet.device.serial,
                model=sheet.device.model,
                batch=sheet.device.batch,
                run_id=run.run_id,
                started_at=run.started_at,
                station="-",
                operator=None,
                verdict=run.verdict,
                sentence=f"Known only from the sheet of run {sheet.run_id}.",
                complete=run.complete,
                simulated=sheet.simulated,
                rows={},
                source=source,
            )
            for run in sheet.earlier
        ),
    )
    return facts, problems


def _believed(sheet: SheetFile) -> tuple[DeviceVerdict, str | None]:
    """The verdict that the rows of a sheet bear out, and why it is not that of the sheet."""
    said = sheet.verdict
    rows = device_verdict(sheet.rows)
    if said not in _ACCEPTING:
        worse = rows is DeviceVerdict.REJECTED and said is DeviceVerdict.NOT_PROVEN and not any(_waived(sheet))
        return (rows, "a required row is FAIL") if worse else (said, None)
    if not sheet.complete:
        return (DeviceVerdict.NOT_PROVEN if rows is DeviceVerdict.ACCEPTED else rows), "its run is incomplete"
    if said is not DeviceVerdict.ACCEPTED:
        waived = _waived(sheet)
        rest = [row for row in sheet.rows if row not in waived]
        if waived and (device_verdict(rest) is DeviceVerdict.ACCEPTED or not any(row.required for row in rest)):
            rows = said
    return (said, None) if rows is said else (rows, f"its rows make it {rows.value}")


def _waived(sheet: SheetFile) -> list[_RowFile]:
    return [row for row in sheet.rows if row.waived and row.verdict is Verdict.FAIL]


def _key(row_id: str, serial: str, link: str | None) -> str:
    """The id of a row without the device: ``test_a.py::test_rate[SN-1/p2]::throughput`` -> ``...[*/p2]...``."""
    if link is not None and f"{serial}/{link}" in row_id:
        return row_id.replace(f"{serial}/{link}", f"*/{link}", 1)
    return re.sub(rf"(?<=[\[-]){re.escape(serial)}(?=[\]/-])", "*", row_id, count=1)


def _name(key: str, row: Any) -> RowName:
    planned = Planned(
        id=key,
        test=row.test,
        device=DeviceInfo(serial="*"),
        link=row.link,
        quantity=row.quantity,
        unit=row.unit,
        statistic=row.statistic,
        conditions=row.conditions,
    )
    where = port_text(planned) or row.test.rpartition("::")[2].partition("[")[0]
    label = ", ".join(filter(None, (where, conditions_text(planned), quantity_text(planned))))
    return RowName(key, label, row.quantity, row.unit)
