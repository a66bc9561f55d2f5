"""What is common to all rows of a run: the station, the software, and what was asked for."""

from __future__ import annotations

import hashlib
import platform
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_netperf import __version__
from pytest_netperf.bench.model import Bench, Device
from pytest_netperf.errors import StationError
from pytest_netperf.judge.decision import get_rule
from pytest_netperf.observe.station import read_station
from pytest_netperf.observe.work_tree import git_commit
from pytest_netperf.options import Options
from pytest_netperf.record.evidence_store import keep_file
from pytest_netperf.record.schema import DeviceRecord, EvidenceFile, JournalLink, Procedure, RunInfo, TesterReference
from pytest_netperf.record.waivers_file import read_waivers
from pytest_netperf.store.database import hide_password

__all__ = ["run_info"]


def run_info(
    config: pytest.Config,
    options: Options,
    bench: Bench,
    run_id: str,
    references: tuple[TesterReference, ...],
    previous: JournalLink | None = None,
) -> RunInfo:
    """Everything about this run that a stranger needs to repeat it; ``previous`` is where the journal before ended."""
    rule = get_rule(options.rule, options.role)
    serials = options.devices or tuple(device.serial for device in bench.devices)
    commit, modified = git_commit(config.rootpath)
    return RunInfo(
        run_id=run_id,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        station=read_station(bench, serials),
        software=_without_none(
            {
                "pytest_netperf": __version__,
                "pytest": pytest.__version__,
                "python": platform.python_version(),
                "engine": options.engine,
                "iperf3": _iperf3(),
            }
        ),
        procedure=Procedure(
            suite=options.suite or config.rootpath.name,
            version=options.suite_version,
            commit=commit,
            modified=modified,
            command=hide_password(shlex.join(["pytest", *map(str, config.invocation_params.args)])),
            bench_file=bench.path or "built-in simulated bench",
            bench_sha256=bench.sha256,
            limits_file=str(options.limits) if options.limits else None,
            limits_sha256=_sha256(options.limits),
            decision_rule=f"{rule.text}. {rule.risk}",
        ),
        conditions=_without_none(
            {
                "baselines": _baselines(options, bench) or None,
                "profile": options.profile,
                "duration_s": options.duration_s,
                "omit_s": options.omit_s,
                "run_to_run": options.run_to_run,
                "measurement_slots": options.slots,
            }
        ),
        operator=options.operator,
        authoriser=options.authoriser,
        customer=options.customer,
        batch=options.batch,
        partial=_partial(config),
        reference=references,
        devices=tuple(_device(device) for device in bench.devices if device.serial in serials),
        files=_files(options, bench),
        waivers=read_waivers(options.waivers) if options.waivers is not None else (),
        previous=previous,
    )


def _device(device: Device) -> DeviceRecord:
    fields = (field for field in DeviceRecord.__struct_fields__)
    return DeviceRecord(**{name: getattr(device, name) for name in fields})


def _files(options: Options, bench: Bench) -> tuple[EvidenceFile, ...]:
    """What the result rests on, kept below the output folder."""
    given: list[tuple[str, str | Path | None]] = [
        ("bench file", bench.path),
        ("limits file", options.limits),
        ("waivers file", options.waivers),
        *(("baselines file", file) for file in _baselines(options, bench)),
    ]
    kept = [keep_file(options.output, what, Path(path)) for what, path in given if path is not None]
    return tuple(file for file in kept if file is not None)


def _baselines(options: Options, bench: Bench) -> dict[str, str | None]:
    """The user's files of baselines, and those of models, which have some too, with the SHA-256 of each."""
    named = (*bench.station.baselines, bench.station.profiles, options.profiles, options.baseline)
    given = [Path(path) for path in named if path is not None]
    files = [file for path in given for file in (sorted(path.glob("*.toml")) if path.is_dir() else [path])]
    return {str(file): _sha256(file) for file in files}


def _partial(config: pytest.Config) -> str | None:
    """--lf does not even collect a file in which nothing failed before: its tests are in no plan."""
    cache = getattr(config, "cache", None)
    if config.getoption("lf", False) and cache is not None and cache.get("cache/lastfailed", {}):
        return "Run with --lf: files in which nothing failed before are left out."
    return None


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}


def _iperf3() -> str | None:
    import shutil

    from pytest_netperf.traffic.iperf3 import installed_version

    path = shutil.which("iperf3")
    if path is None:
        return None
    try:
        return installed_version(path, Path(path).stat().st_mtime)
    except StationError as error:
        return str(error)


def _sha256(path: Path | None) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None else None
