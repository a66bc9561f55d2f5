"""Which runs make the lot, and what became of each of its devices first and last. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import PurePath

import msgspec

from pytest_netperf.batch.facts import RunFacts
from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import DeviceVerdict
from pytest_netperf.quantities import near_misses
from pytest_netperf.record.sheet_file import folder_name

__all__ = ["Lot", "Unit", "gather"]

_BY_WAIVER = {DeviceVerdict.REJECTED, DeviceVerdict.ACCEPTED_WITH_WAIVER}
"""What the same rows may say with and without a waiver."""
_WORST_FIRST = {DeviceVerdict.REJECTED: 0, DeviceVerdict.NOT_PROVEN: 1}


class Unit(msgspec.Struct, frozen=True):
    """One device of the lot with its runs, the oldest first."""

    serial: str
    runs: tuple[RunFacts, ...]

    @property
    def first(self) -> RunFacts:
        """What the line delivered."""
        return self.runs[0]

    @property
    def last(self) -> RunFacts:
        """What counts: a later run replaces an earlier one, for better or worse."""
        return self.runs[-1]


class Lot(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of one batch and one model."""

    batch: str | None
    model: str | None
    units: tuple[Unit, ...]
    """In the order of their serials. Of simulated devices only when there are no others."""
    simulated: bool
    """True when the units are simulated: they are no devices, and none of them is accepted."""
    left_out: tuple[RunFacts, ...]
    """Runs on simulated links in a lot that has devices."""
    golden: dict[str, tuple[RunFacts, ...]]
    """Serial -> runs of every batch, the oldest first."""


def gather(
    runs: Iterable[RunFacts],
    *,
    batch: str | None,
    model: str | None,
    golden: Iterable[str],
    problems: list[str],
    remarks: list[str],
    where: str,
) -> Lot:
    """The lot that was asked for, from a stream of runs; runs of other batches are not kept.

    Raises ConfigError when there is no such batch, or when nobody said which of several batches or models is meant.
    """
    wanted_golden = dict.fromkeys(golden)
    kept: list[RunFacts] = []
    of_golden: dict[str, list[RunFacts]] = {serial: [] for serial in wanted_golden}
    batches: Counter[str | None] = Counter()
    elsewhere: dict[str, dict[str, str | None]] = {}  # serial -> run id -> batch
    for run in runs:
        if run.serial in of_golden:
            of_golden[run.serial].append(run)
            continue
        batches[run.batch] += 1
        if batch is None or run.batch == batch:
            kept.append(run)
        else:
            elsewhere.setdefault(run.serial, {})[run.run_id] = run.batch
    batch = _which_batch(batch, batches, problems, where)
    chosen = _which_model(kept, model, where)
    kept = [run for run in kept if run.model == chosen]
    for serial, runs_of in of_golden.items():
        if not runs_of:
            raise ConfigError(f"--golden {serial}: {where} has no sheet of this device")
    real = [run for run in kept if not run.simulated]
    simulated = not real
    left_out = () if simulated else tuple(run for run in kept if run.simulated)
    by_serial: dict[str, list[RunFacts]] = {}
    for run in kept if simulated else real:
        by_serial.setdefault(run.serial, []).append(run)
    absent: list[str] = []
    for serial, runs_of in by_serial.items():
        known = {run.run_id for run in runs_of} | elsewhere.get(serial, {}).keys()
        named = {run.run_id: run for each in runs_of for run in each.earlier if run.run_id not in known}
        runs_of += named.values()
        absent += [serial] if named else []
    if absent:
        problems.append(
            f"{_some(sorted(absent))}: a sheet names earlier runs whose own sheets are not here; they count by what it "
            "says of them."
        )
    units = [Unit(serial, _in_time(by_serial[serial], problems, remarks)) for serial in sorted(by_serial)]
    also = sorted(serial for serial in by_serial if serial in elsewhere)
    if also:
        others = ", ".join(
            sorted({str(name or "without a batch") for serial in also for name in elsewhere[serial].values()})
        )
        remarks.append(
            f"{_some(also)} also {'has runs' if len(also) == 1 else 'have runs'} in other batches ({others}); "
            "those do not count here."
        )
    return Lot(
        batch=batch,
        model=chosen,
        units=tuple(units),
        simulated=simulated,
        left_out=left_out,
        golden={serial: _in_time(runs_of, problems, remarks) for serial, runs_of in of_golden.items()},
    )


def _which_batch(asked: str | None, batches: Counter[str | None], problems: list[str], where: str) -> str | None:
    names = sorted(name for name in batches if name is not None)
    listed = ", ".join(f"{name} ({_sheets(batches[name])})" for name in names[:20]) or "none that is named"
    if not batches:
        why = f" {problems[0]}" if problems else ""
        raise ConfigError(f"{where}: there is no sheet to make a batch page of.{why}")
    if asked is not None:
        if asked not in batches:
            raise ConfigError(
                f"--batch {asked}: {where} has no such batch{near_misses(asked, names)}; it has: {listed}"
            )
        return asked
    if len(batches) > 1:
        unnamed = f"; {_sheets(batches[None])} without a batch" if None in batches else ""
        raise ConfigError(f"{where} has sheets of several batches: {listed}{unnamed}; say which one with --batch")
    return next(iter(batches))


def _which_model(runs: Iterable[RunFacts], asked: str | None, where: str) -> str | None:
    models = Counter(run.model for run in runs)
    listed = ", ".join(f"{name or 'no model'} ({_sheets(count)})" for name, count in sorted(models.items(), key=str))
    if asked is not None:
        if asked not in models:
            known = [name for name in models if name is not None]
            raise ConfigError(f"--model {asked}: no device of this batch{near_misses(asked, known)}; it has: {listed}")
        return asked
    if len(models) > 1:
        raise ConfigError(
            f"{where}: this batch has devices of several models, whose rows cannot be compared: {listed}; "
            "say which one with --model"
        )
    return next(iter(models))


def _in_time(runs: list[RunFacts], problems: list[str], remarks: list[str]) -> tuple[RunFacts, ...]:
    """The runs of one device by their start; a run that is there twice counts once, the worse of two that differ."""
    by_id: dict[str, RunFacts] = {}
    for run in runs:
        other = by_id.setdefault(run.run_id, run)
        if other is run:
            continue
        if (other.rows, other.complete) == (run.rows, run.complete) and {other.verdict, run.verdict} == _BY_WAIVER:
            later = _made_later(other, run)
            if later is not None:
                by_id[run.run_id] = later
                remarks.append(
                    f"Run {run.run_id} of {run.serial} has several sheets of the same rows, made with other waivers: "
                    f"the last one ({later.source}: {later.verdict.value}) counts."
                )
                continue
        if (other.rows, other.verdict, other.complete) == (run.rows, run.verdict, run.complete):
            remarks.append(
                f"Run {run.run_id} of {run.serial} is there twice ({other.source}, {run.source}): counted once."
            )
        else:
            worse = min((other, run), key=lambda each: (_WORST_FIRST.get(each.verdict, 2), each.complete))
            by_id[run.run_id] = worse
            problems.append(
                f"Run {run.run_id} of {run.serial} is there twice, and the two differ ({other.source}: "
                f"{other.verdict.value}, {run.source}: {run.verdict.value}): the worse one counts."
            )
    return tuple(sorted(by_id.values(), key=lambda run: (moment(run.started_at), run.run_id)))


def _made_later(one: RunFacts, other: RunFacts) -> RunFacts | None:
    """Of two sheets of one run, the one made later: ``RUN-2`` beside ``RUN``; None when their folders do not say."""
    places = [PurePath(run.source).parent for run in (one, other)]
    name = re.escape(folder_name(one.run_id))
    numbers = [re.fullmatch(rf"{name}(?:-(\d+))?", place.name) for place in places]
    if places[0].parent != places[1].parent or numbers[0] is None or numbers[1] is None:
        return None
    return one if int(numbers[0][1] or 1) > int(numbers[1][1] or 1) else other


def moment(text: str) -> float:
    """An ISO 8601 time in s since 1970; one that cannot be read is the earliest, and so never the last."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _sheets(count: int) -> str:
    return f"{count} sheet{'' if count == 1 else 's'}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
