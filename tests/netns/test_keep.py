"""--netperf-keep: links that stay under a name, how to get into them is said, and `clean` removes just these."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aftermath import Traces

from pytest_netperf.errors import LinkError
from pytest_netperf.links import kernel, leftovers
from pytest_netperf.links.link import bring_up
from pytest_netperf.links.owner import Owner

pytestmark = [
    pytest.mark.netns,
    pytest.mark.kept_namespaces,
    pytest.mark.skipif(not kernel.has_capabilities(), reason="--netperf-keep needs root"),
]

NETNS = Path("/run/netns")
WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one process", "two workers"])
SUITE = """
import pytest

pytestmark = pytest.mark.netperf_limit(power="<= 15 W")

@pytest.mark.netperf_link(speed="1G", scope=SCOPE)
@pytest.mark.parametrize("n", range(3))
def test_it(netperf_link, netperf_record, n):
    netperf_link.a.run(["true"], check=True)
    netperf_record("power", 5, "W")
"""


@dataclass
class Run:
    code: int
    text: str
    names: list[str]


@pytest.fixture(autouse=True)
def _only_what_was_there() -> Iterator[None]:
    """Whatever happens, no namespace of the test stays."""
    before = set(names_now())
    yield
    for name in set(names_now()) - before:
        if name.startswith(("netperf-", "notours-")):
            with contextlib.suppress(OSError):
                kernel.unmount(str(NETNS / name))
            (NETNS / name).unlink(missing_ok=True)


def names_now() -> list[str]:
    return sorted(path.name for path in NETNS.iterdir()) if NETNS.is_dir() else []


def run(path: Path, scope: str, *arguments: str) -> Run:
    (path / "test_it.py").write_text(SUITE.replace("SCOPE", repr(scope)))
    traces = Traces()
    before = set(names_now())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-onetperf_reference=off", "--netperf-keep", *arguments],
        cwd=path,
        env={**os.environ, **traces.environment, "COLUMNS": "300"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert traces.processes() == []
    ours = [name for name in names_now() if name not in before and name in done.stdout]
    return Run(done.returncode, done.stdout, ours)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_netperf.cli", *arguments], capture_output=True, text=True, check=False
    )


def remove(names: list[str]) -> None:
    for name in names:
        leftovers.remove_namespace(name)


@WORKERS
@pytest.mark.parametrize("scope", ["session", "function"])
def test_kept_links_are_named_said_and_alive(tmp_path: Path, scope: str, workers: tuple[str, ...]):
    done = run(tmp_path, scope, *workers)
    assert done.code == 0, done.text
    at_least, at_most = (6, 6) if scope == "function" else (2, 2 * max(1, len(workers) * 2))
    assert at_least <= len(done.names) <= at_most, done.text
    assert all(re.fullmatch(r"netperf-\d+-[0-9a-f]+[ab]", name) for name in done.names)
    said = re.search(r"ip netns exec (\S+) bash", done.text)
    assert said is not None, done.text
    assert said[1] in done.names
    assert re.search(r"pytest-netperf clean", done.text)
    for name in done.names:
        inside = subprocess.run(
            ["ip", "netns", "exec", name, "ip", "-brief", "address"], capture_output=True, text=True, check=True
        ).stdout
        assert re.search(r"^np[0-9a-f]+[ab]@\S+ +UP +198\.1[89]\.", inside, re.MULTILINE), inside
    remove(done.names)


def test_a_kept_link_still_carries(tmp_path: Path):
    done = run(tmp_path, "session")
    a, b = done.names
    address = re.search(r"198\.1[89]\.\d+\.\d+", in_namespace(b, "ip", "-brief", "-4", "address"))
    assert address is not None
    text = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"s.sendto(b'x' * 1400, ('{address[0]}', 9)); s.setblocking(True)"
    )
    before = received(b)
    in_namespace(a, sys.executable, "-c", text)
    assert received(b) - before >= 1400
    remove(done.names)


def in_namespace(name: str, *argv: str) -> str:
    return subprocess.run(["ip", "netns", "exec", name, *argv], capture_output=True, text=True, check=True).stdout


def received(name: str) -> int:
    table = in_namespace(name, "cat", "/proc/net/dev")
    (line,) = [line for line in table.splitlines() if line.strip().startswith("np")]
    return int(line.split(":")[1].split()[0])


def test_clean_removes_these_and_no_others(tmp_path: Path):
    """Other names stay, also some that look much like ours."""
    done = run(tmp_path, "session")
    others = ["notours-1", "netperf-", "netperf-1", "netperf-x-1a", "netperf-1-1c", "xnetperf-1-1a", "netperf-1-1a.bak"]
    for name in others:
        subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        dry = command("clean", "--dry-run")
        assert dry.returncode == 0
        for name in done.names:
            assert f"would remove namespace {name}\n" in dry.stdout
        assert set(done.names) <= set(names_now())
        clean = command("clean")
        assert (clean.returncode, clean.stderr) == (0, "")
        for name in done.names:
            assert f"removing namespace {name}\n" in clean.stdout
        assert not set(done.names) & set(names_now())
        assert set(others) <= set(names_now())
        mounts = Path("/proc/self/mounts").read_text()
        assert not any(f"/run/netns/{name} " in mounts for name in done.names)
    finally:
        for name in others:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def test_clean_with_nothing_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from pytest_netperf.cli import main

    for folder in (tmp_path, tmp_path / "none"):
        monkeypatch.setattr(leftovers, "_FOLDER", folder)
        assert main(["clean"]) == 0
        assert capsys.readouterr().out == "nothing to remove\n"


def test_a_file_that_is_no_mount_any_more_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(leftovers, "_FOLDER", tmp_path)
    (tmp_path / "netperf-1-1a").touch()
    assert leftovers.kept_namespaces() == ["netperf-1-1a"]
    leftovers.remove_namespace("netperf-1-1a")
    assert leftovers.kept_namespaces() == []


def test_removing_without_root_is_an_error_in_words():
    """In a process that gave up its rights, as an ordinary user's."""
    name = "netperf-4194305-1a"  # larger than any process id
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        done = subprocess.run(
            ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "pytest_netperf.cli", "clean"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr == (
            f"pytest-netperf: cannot remove /run/netns/{name}: umount: Operation not permitted; it needs root (sudo)\n"
        )
        assert name in names_now()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_name_that_is_taken_costs_the_link_and_leaves_nothing(owner: Owner):
    """Of the second end: the name of the first is taken back."""
    prefix = "netperf-4194305"
    NETNS.mkdir(exist_ok=True)
    taken = [NETNS / f"{prefix}-{index:x}b" for index in range(1, 200)]  # other runs have some of the indices
    try:
        for path in taken:
            path.touch()
        with pytest.raises(LinkError, match=r"cannot name a namespace at /run/netns/.*b: File exists.*a free name"):
            bring_up(owner, "kept", name="x", speed_bps=None, mtu=1500, keep=prefix)
        assert [name for name in names_now() if name.startswith(prefix) and name.endswith("a")] == []
        with pytest.raises(LinkError, match="taken down"):
            owner.call("counters", link="kept")
    finally:
        for path in taken:
            path.unlink()
