"""The store of tester references: what makes one hold, and what becomes of one that cannot be read or written."""

from __future__ import annotations

import multiprocessing
import signal
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from pytest_netperf.record import schema
from pytest_netperf.record.reference_store import ReferenceKey, ReferenceStore
from pytest_netperf.record.state_folder import state_folder

KEY = ReferenceKey(
    host="bench", kernel="6.1.0", cpus=4, software="iperf 3.12", link="veth pair, unshaped", speed_bps=None, mtu=1500
)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def reference(rate_bps: float | None = 20e9, at: str | None = None, **changes) -> schema.TesterReference:
    made = schema.TesterReference(
        link=KEY.link, mtu=1500, throughput_bps=rate_bps, measured_at=at or NOON.isoformat(), host="bench"
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def store(tmp_path):
    return ReferenceStore(tmp_path / "state" / "pytest-netperf")


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state" / "pytest-netperf").iterdir())


def test_what_is_stored_is_found_and_says_that_it_was_stored(store):
    assert store.read(KEY, NOON) is None
    store.write(KEY, reference())
    assert store.read(KEY, NOON) == reference(stored=True)
    store.write(KEY, reference(25e9))
    assert store.read(KEY, NOON) == reference(25e9, stored=True)
    assert store.problem is None


@pytest.mark.parametrize(
    "change",
    [
        {"host": "other"},
        {"kernel": "6.1.1"},
        {"cpus": 1},
        {"software": "iperf 3.13"},
        {"software": "libiperf 3.12"},
        {"link": "cable-only link loop, 1G", "speed_bps": 1e9},
        {"mtu": 9000},
    ],
)
def test_every_part_of_the_key_counts(store, change):
    store.write(KEY, reference())
    other = msgspec.structs.replace(KEY, **change)
    assert store.read(other, NOON) is None
    store.write(other, reference(1e9))
    assert store.read(KEY, NOON) == reference(stored=True)


@pytest.mark.parametrize(
    ("measured", "now", "holds"),
    [
        ("2026-11-30T00:00:00+00:00", datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), True),
        ("2026-11-30T23:59:59+00:00", datetime(2026, 12, 1, tzinfo=UTC), False),
        ("2026-11-29T23:59:59+00:00", datetime(2026, 11, 30, tzinfo=UTC), False),
        # the clock of the day is UTC, wherever the machine is
        ("2026-11-30T23:00:00+00:00", datetime(2026, 12, 1, 1, 30, tzinfo=timezone(timedelta(hours=2))), True),
        ("2026-12-01T01:00:00+02:00", datetime(2026, 11, 30, 23, 30, tzinfo=UTC), True),
        # a clock that was set back: not of today
        ("2027-11-30T12:00:00+00:00", NOON, False),
    ],
)
def test_it_holds_for_a_day_of_utc(store, measured, now, holds):
    store.write(KEY, reference(at=measured))
    assert (store.read(KEY, now) is not None) == holds
    assert store.problem is None


def test_without_a_moment_today_is_meant(store):
    store.write(KEY, reference(at=datetime.now(UTC).isoformat()))
    found = store.read(KEY)
    assert found is not None or datetime.now(UTC).hour == 0  # midnight came between the two


BROKEN = {
    "nothing": b"",
    "torn": b'{"key":{"host":"ben',
    "not JSON": b"\xff\xfe\x00",
    "another form": b'{"version": 2}',
    "a key too many": b'{"key":null,"reference":null,"more":1}',
    "a list": b"[]",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_said_once_and_replaced(store, tmp_path, data):
    store.write(KEY, reference())
    (path,) = files(tmp_path)
    path.write_bytes(data)
    assert store.read(KEY, NOON) is None
    said = store.problem
    assert said.startswith("the stored one is broken, and is measured anew (")
    assert str(path) in said
    assert store.read(KEY, NOON) is None
    assert store.problem == said
    store.write(KEY, reference())
    assert ReferenceStore(path.parent).read(KEY, NOON) == reference(stored=True)


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        ({"host": "copied from elsewhere"}, {}),
        ({}, {"rate_bps": None}),
        ({}, {"rate_bps": 0.0}),
        ({}, {"rate_bps": -1.0}),
        ({}, {"at": "yesterday"}),
        ({}, {"at": "2026-11-30T12:00:00"}),
    ],
)
def test_what_cannot_be_a_reference_is_none(store, tmp_path, key, stored):
    other = msgspec.structs.replace(KEY, **key)
    store.write(other, reference(**stored))
    (path,) = files(tmp_path)
    if key:
        store.write(KEY, reference())
        (own,) = set(files(tmp_path)) - {path}
        path.replace(own)
    assert store.read(KEY, NOON) is None
    assert "not what its name says" in store.problem


def test_a_folder_that_cannot_be_is_said_and_costs_nothing_else(tmp_path):
    (tmp_path / "taken").touch()
    store = ReferenceStore(tmp_path / "taken" / "pytest-netperf")
    with store.lock():
        assert store.read(KEY, NOON) is None
        store.write(KEY, reference())
    assert "Not a directory" in store.problem
    assert "each run measures it anew until XDG_STATE_HOME" in store.problem


def test_a_folder_in_the_place_of_the_file(store, tmp_path):
    store.write(KEY, reference())
    (path,) = files(tmp_path)
    path.unlink()
    path.mkdir()
    assert store.read(KEY, NOON) is None
    store.write(KEY, reference())
    assert "Is a directory" in store.problem
    assert files(tmp_path) == [path], "nothing half-written is left"


def test_without_a_home_there_is_no_store_and_no_error():
    store = ReferenceStore(None)
    with store.lock():
        assert store.read(KEY, NOON) is None
        store.write(KEY, reference())
    assert "this user has no home folder" in store.problem


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/a"}, "/state/pytest-netperf"),
        ({"HOME": "/home/a"}, "/home/a/.local/state/pytest-netperf"),
        ({"XDG_STATE_HOME": "", "HOME": "/home/a"}, "/home/a/.local/state/pytest-netperf"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/a"}, "/home/a/.local/state/pytest-netperf"),
        ({"XDG_STATE_HOME": "relative", "HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_where_it_is(environment, expected):
    assert state_folder(environment) == (Path(expected) if expected else None)


def _write_often(folder: Path, rate_bps: float, ready, go) -> None:
    store = ReferenceStore(folder)
    ready.release()
    go.wait()
    for _ in range(200):
        store.write(KEY, reference(rate_bps))
    assert store.problem is None


def test_a_reader_finds_whole_files_while_others_write(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready, go = spawn.Semaphore(0), spawn.Event()
    rates = [1e9, 2e9, 3e9]
    writers = [spawn.Process(target=_write_often, args=(tmp_path, rate, ready, go)) for rate in rates]
    for writer in writers:
        writer.start()
    for _ in writers:
        assert ready.acquire(timeout=60)
    reader = ReferenceStore(tmp_path)
    reader.write(KEY, reference(1e9))
    go.set()
    seen = 0
    while any(writer.is_alive() for writer in writers):
        found = reader.read(KEY, NOON)
        assert found is not None
        assert found.throughput_bps in rates
        seen += 1
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert seen
    assert reader.problem is None
    assert len(list(tmp_path.iterdir())) == 1


def _hold(folder: Path, inside) -> None:
    with ReferenceStore(folder).lock():
        inside.set()
        signal.pause()


def test_the_lock_is_one_for_all_processes_and_goes_with_its_holder(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    entered = [spawn.Event(), spawn.Event()]
    first, second = (spawn.Process(target=_hold, args=(tmp_path, inside)) for inside in entered)
    try:
        first.start()
        assert entered[0].wait(60)
        second.start()
        assert not entered[1].wait(1.0)
        first.kill()
        assert entered[1].wait(60)
    finally:
        for process in (first, second):
            if process.pid is not None:
                process.kill()
                process.join(60)
