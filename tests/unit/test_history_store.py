"""The store of the station's history: what is comparable, and what becomes of a file that cannot be read or written."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from pathlib import Path

import msgspec
import pytest

from pytest_netperf.judge.run_to_run import NEWEST, Spread
from pytest_netperf.record import history_store
from pytest_netperf.record.history_store import HistoryKey, HistoryStore
from pytest_netperf.traffic.result import Workload

KEY = HistoryKey(
    host="bench",
    kernel="6.1.0",
    cpus=4,
    software="iperf 3.12",
    slots=1,
    device="R86S-U4",
    link="p1",
    topology="pair",
    speed_bps=1e9,
    media="copper",
    simulated=False,
    fault=None,
    mtu=1500,
    workload=Workload(),
    between_runs="connection",
)


def spread(number=0, **changes):
    made = Spread(relative_sd=number / 1000, runs=5, measured_at="2026-12-01T10:00:00+00:00")
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def store(tmp_path):
    return HistoryStore(tmp_path / "state" / "pytest-netperf")


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state" / "pytest-netperf").glob("*.json"))


def test_what_is_added_is_found_in_its_order(store, tmp_path):
    assert store.read(KEY) == ()
    assert not (tmp_path / "state").exists(), "who only asks leaves nothing"
    store.add(KEY, spread(1))
    store.add(KEY, spread(2))
    assert store.read(KEY) == (spread(1), spread(2))
    assert HistoryStore(tmp_path / "state" / "pytest-netperf").read(KEY) == (spread(1), spread(2))
    assert store.problem is None


def test_the_newest_are_kept(store):
    for number in range(NEWEST + 3):
        store.add(KEY, spread(number))
    assert store.read(KEY) == tuple(spread(number) for number in range(3, NEWEST + 3))


CHANGES = [
    {"host": "other"},
    {"kernel": "6.1.1"},
    {"cpus": 1},
    {"software": "libiperf 3.12"},
    {"slots": 2},
    {"device": "R86S-U1"},
    {"link": "p2"},
    {"port_settings": {"ring": "rx 512"}},
    {"device_state": "ips"},
    {"topology": "switched"},
    {"speed_bps": None},
    {"media": "fibre"},
    {"simulated": True},
    {"fault": "fault-stall"},
    {"mtu": 9000},
    {"between_runs": "cold"},
    *(
        {"workload": Workload(**asked)}
        for asked in (
            {"protocol": "udp"},
            {"direction": "reverse"},
            {"streams": 4},
            {"ip_version": 6},
            {"mss_bytes": 1240},
            {"bitrate_bps": 1e8},
            {"window_bytes": 65536},
            {"duration_s": 60.0},
            {"omit_s": 3.0},
        )
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_part_of_the_key_counts(store, change):
    other = msgspec.structs.replace(KEY, **change)
    assert other.name != KEY.name
    store.add(KEY, spread(1))
    assert store.read(other) == ()
    store.add(other, spread(2))
    assert (store.read(KEY), store.read(other)) == ((spread(1),), (spread(2),))


def test_each_part_of_the_key_was_changed_once():
    changed = {name for change in CHANGES for name in change}
    assert changed == set(HistoryKey.__struct_fields__)


BROKEN = {
    "nothing": b"",
    "torn": b'{"key":{"host":"ben',
    "not JSON": b"\xff\xfe\x00",
    "another form": b'{"version": 2}',
    "a list": b"[]",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_said_once_and_begins_anew(store, tmp_path, data):
    store.add(KEY, spread(1))
    (path,) = files(tmp_path)
    path.write_bytes(data)
    assert store.read(KEY) == ()
    said = store.problem
    assert said.startswith("a file is broken, and begins anew with the next repeated measurement (")
    assert str(path) in said
    store.add(KEY, spread(2))
    assert store.problem == said
    assert HistoryStore(path.parent).read(KEY) == (spread(2),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"relative_sd": -0.1},
        {"runs": 2},
        {"measured_at": "yesterday"},
    ],
)
def test_what_cannot_be_is_not_believed(store, wrong):
    store.add(KEY, spread(**wrong))
    assert store.read(KEY) == ()
    assert "not what its name says" in store.problem


def test_a_file_of_another_kind_is_not_believed(store, tmp_path):
    other = msgspec.structs.replace(KEY, device="copied from elsewhere")
    store.add(other, spread(1))
    (path,) = files(tmp_path)
    path.rename(path.with_name(f"history-{KEY.name}.json"))
    assert store.read(KEY) == ()
    assert "not what its name says" in store.problem


def test_a_folder_that_cannot_be_is_said_when_something_is_to_be_written(tmp_path):
    (tmp_path / "taken").touch()
    store = HistoryStore(tmp_path / "taken" / "pytest-netperf")
    assert store.read(KEY) == ()
    assert store.problem is None, "nothing is lost yet"
    store.add(KEY, spread())
    assert "it cannot be written (" in store.problem
    assert "Not a directory" in store.problem
    assert "XDG_STATE_HOME" in store.problem
    assert "--netperf-history off" in store.problem


def test_a_folder_in_the_place_of_the_file(store, tmp_path):
    store.add(KEY, spread())
    (path,) = files(tmp_path)
    path.unlink()
    path.mkdir()
    assert store.read(KEY) == ()
    assert "it cannot be read (" in store.problem
    store.add(KEY, spread())
    assert files(tmp_path) == [path], "nothing half-written is left"


def test_without_a_home_nothing_is_remembered_and_no_error():
    store = HistoryStore(None)
    assert store.read(KEY) == ()
    assert store.problem is None
    store.add(KEY, spread())
    assert "this user has no home folder" in store.problem


def test_the_folder_does_not_grow_for_ever(store, tmp_path, monkeypatch):
    monkeypatch.setattr(history_store, "MOST_KINDS", 3)
    kinds = [msgspec.structs.replace(KEY, link=f"p{number}") for number in range(4)]
    (tmp_path / "state" / "pytest-netperf").mkdir(parents=True)
    (reference := tmp_path / "state" / "pytest-netperf" / "reference-0.json").touch()
    for age, kind in enumerate(kinds[:3]):
        store.add(kind, spread())
        written = tmp_path / "state" / "pytest-netperf" / f"history-{kind.name}.json"
        os.utime(written, (1000 + age, 1000 + age))
    store.add(kinds[0], spread())  # which is the newest now
    store.add(kinds[3], spread())
    assert [len(store.read(kind)) for kind in kinds] == [2, 0, 1, 1]
    assert reference.exists()


_EACH = NEWEST // 4


def _add_often(folder: Path, writer: int, ready, go) -> None:
    store = HistoryStore(folder)
    ready.release()
    go.wait()
    for number in range(_EACH):
        store.add(KEY, spread(10 * writer + number))
    assert store.problem is None


def test_nothing_is_lost_among_many_writers(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready, go = spawn.Semaphore(0), spawn.Event()
    writers = [spawn.Process(target=_add_often, args=(tmp_path, number, ready, go)) for number in range(4)]
    for writer in writers:
        writer.start()
    for _ in writers:
        assert ready.acquire(timeout=60)
    reader, seen = HistoryStore(tmp_path), [()]
    go.set()
    while any(writer.is_alive() for writer in writers):
        seen.append(reader.read(KEY))
    assert [writer.exitcode for writer in writers] == [0] * 4
    found = reader.read(KEY)
    assert sorted(found, key=lambda each: each.relative_sd) == [
        spread(10 * writer + number) for writer in range(4) for number in range(_EACH)
    ]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(seen))
    assert reader.problem is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"history-{KEY.name}.json", "history.lock"]
