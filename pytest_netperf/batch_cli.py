"""``pytest-netperf batch``: one page over a lot."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_netperf.errors import ConfigError, QuantityError
from pytest_netperf.quantities import near_misses
from pytest_netperf.store.database import hide_password
from pytest_netperf.store_cli import opened

if TYPE_CHECKING:
    from pytest_netperf.batch.facts import RowName, RunFacts
    from pytest_netperf.batch.lot import Lot
    from pytest_netperf.batch.summary import Batch, SamplingCheck

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="DIR", help="folder with sheets, such as netperf-results"
    )
    parser.add_argument("--store", metavar="URL", help="in place of DIR: the URL of a store")
    parser.add_argument("--batch", metavar="NAME", help="which lot; needed where there are several")
    parser.add_argument("--model", metavar="NAME", help="which model; needed where a lot has several")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write; default: DIR, or here")
    parser.add_argument(
        "--golden", action="append", default=[], metavar="SERIAL",
        help="a golden device: not of the lot, but its trend is shown; may be given several times",
    )  # fmt: skip
    parser.add_argument("--lot-size", type=int, metavar="N", help="devices of the whole lot, for a sampling plan")
    parser.add_argument("--aql", metavar="PERCENT", help="ISO 2859-1, acceptance quality limit in per cent, as in 0.65")
    parser.add_argument("--inspection-level", metavar="LEVEL", help="ISO 2859-1: S-1 to S-4, I, II (default) or III")
    parser.add_argument(
        "--inspection",
        choices=("normal", "tightened", "reduced"),
        help="ISO 2859-1: severity; default: what follows from --previous, else normal",
    )
    parser.add_argument(
        "--previous", action="append", default=[], type=Path, metavar="BATCH",
        help="ISO 2859-1: batch page (folder or batch.json) of a lot before this one, oldest first; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--limiting-quality",
        metavar="SHARE",
        help="c = 0 plan: the share of bad devices that must be found, as in '2 %%'",
    )


def run(asked: argparse.Namespace) -> int:
    """Make the page. Returns 0 when it holds everything that was there, 1 when something could not be read."""
    from pytest_netperf.batch.report import share_text, write_batch
    from pytest_netperf.batch.summarise import require_scipy

    if (asked.folder is None) == (asked.store is None):
        raise ConfigError(
            "batch: name the folder with the sheets, as in: pytest-netperf batch netperf-results; or --store"
        )
    require_scipy()
    batch = _make(asked)
    paths = write_batch(batch, asked.output or asked.folder or Path())
    word = "SIMULATED   " if batch.simulated else ""
    print(
        f"{batch.batch or '(unnamed batch)'}   {batch.model or '(no model)'}   {batch.accepted_units} of "
        f"{batch.devices} devices accepted   {word}{paths.html}"
    )
    for line in batch.counts:
        if line.first or line.last:
            print(f"  {line.verdict}: {line.first} at first, {line.last} at last")
    print(f"  first-pass yield {share_text(batch.first_pass)}, final yield {share_text(batch.final)}")
    for check in batch.sampling:
        print(f"  {check.decision}: {check.plan}. {check.reason} {check.next_step}")
        if check.next_inspection is not None:
            print(f"  {check.next_inspection}")
    for text in batch.problems:
        print(f"WRONG  {text}")
    for text in batch.remarks:
        print(f"note: {text}")
    return 1 if batch.problems else 0


def _make(asked: argparse.Namespace) -> Batch:
    from pytest_netperf.batch.lot import gather
    from pytest_netperf.batch.previous import previous_checks
    from pytest_netperf.batch.summarise import summarise
    from pytest_netperf.batch.switching import with_next

    names: dict[str, RowName] = {}
    problems: list[str] = []
    remarks: list[str] = []
    before = previous_checks(asked.previous)
    source = hide_password(asked.store) if asked.store is not None else str(asked.folder)
    lot = gather(
        _runs(asked, names, problems, remarks),
        batch=asked.batch,
        model=asked.model,
        golden=asked.golden,
        problems=problems,
        remarks=remarks,
        where=source,
    )
    checks = [_held_back(check, lot, problems) for check in _sampling(asked, lot, before)]
    return summarise(
        lot,
        names,
        source=source,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        sampling=[check if check.inspection is None else with_next(check, before) for check in checks],
        problems=problems,
        remarks=remarks,
    )


def _runs(
    asked: argparse.Namespace, names: dict[str, RowName], problems: list[str], remarks: list[str]
) -> Iterator[RunFacts]:
    if asked.store is None:
        from pytest_netperf.batch.folder import read_folder

        yield from read_folder(asked.folder, names, problems, remarks)
        return
    from pytest_netperf.batch.facts import facts_of
    from pytest_netperf.record.canonical import encode
    from pytest_netperf.store.read import batches, sheets

    with opened(asked.store, create=False) as database:
        known = batches(database)
        if asked.batch is not None and asked.batch not in known:
            listed = ", ".join(known[-20:]) or "none"
            near = near_misses(asked.batch, known)
            raise ConfigError(f"--batch {asked.batch}: {database.shown} has no such batch{near}; it has: {listed}")
        for sheet in sheets(database, batch=asked.batch, also=asked.golden):
            facts, wrong = facts_of(encode(sheet), f"run {sheet.run_id} of {sheet.device.serial}", names)
            problems += wrong
            yield facts


def _sampling(asked: argparse.Namespace, lot: Lot, before: Sequence[SamplingCheck]) -> list[SamplingCheck]:
    from pytest_netperf.batch.sampling import check_c0, check_iso2859
    from pytest_netperf.batch.summarise import inspected
    from pytest_netperf.batch.switching import severity_of_next
    from pytest_netperf.quantities import parse_ratio

    tested = len(lot.units)
    plans = [name for name, given in (("--aql", asked.aql), ("--limiting-quality", asked.limiting_quality)) if given]
    for name in ("inspection_level", "inspection", "previous"):
        if getattr(asked, name) and asked.aql is None:
            raise ConfigError(f"--{name.replace('_', '-')} is of ISO 2859-1: give its --aql too, or leave it out")
    if asked.lot_size is not None and not plans:
        raise ConfigError("--lot-size is for a sampling plan: give --aql or --limiting-quality too, or leave it out")
    if plans and asked.lot_size is None:
        raise ConfigError(f"{plans[0]} needs --lot-size: how many devices the whole lot has (tested here: {tested})")
    if asked.lot_size is not None and asked.lot_size < max(tested, 1):
        raise ConfigError(f"--lot-size {asked.lot_size}: the lot has at least the {tested} devices that were tested")
    checks = []
    if asked.aql is not None:
        level = asked.inspection_level or "II"
        aql = asked.aql.strip().removesuffix("%").strip()
        severity = asked.inspection or severity_of_next(before)
        checks.append(check_iso2859(inspected(lot, asked.lot_size), aql, level, severity))
    if asked.limiting_quality is not None:
        try:
            quality = float(parse_ratio(asked.limiting_quality))
        except QuantityError as error:
            raise ConfigError(f"--limiting-quality {asked.limiting_quality}: {error}") from None
        if not 0 < quality < 1:
            raise ConfigError(f"--limiting-quality {asked.limiting_quality}: must lie between 0 % and 100 %")
        checks.append(check_c0(inspected(lot, asked.lot_size), quality))
    return checks


def _held_back(check: SamplingCheck, lot: Lot, problems: Sequence[str]) -> SamplingCheck:
    """No decision by simulated devices, and no acceptance on a record that is not whole."""
    import msgspec

    if lot.simulated:
        reason, step = "SIMULATED: no device was inspected.", "Test devices."
    elif problems and check.decision == "accept":
        reason = f"{check.reason} But {len(problems)} of what was read is not as it should be, and may hide more."
        step = "See to what the page names as not read, or not as it stands; then make it again."
    else:
        return check
    return msgspec.structs.replace(check, decision="undecided", reason=reason, next_step=step)
