"""What the libiperf engine tells its child processes, what it refuses, and what it says when something is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf.errors import MarkError, TrafficError
from pytest_netperf.traffic import libiperf
from pytest_netperf.traffic.iperf3 import client_arguments
from pytest_netperf.traffic.libiperf import (
    LibiperfEngine,
    Library,
    client_settings,
    installed_library,
    server_settings,
)
from pytest_netperf.traffic.result import Workload

ADDRESS = "198.18.0.2"
EVERY_FUNCTION = frozenset(
    {
        "iperf_set_test_bidirectional",
        "iperf_set_test_congestion_control",
        "iperf_set_test_mss",
        "iperf_set_test_one_off",
        "iperf_set_test_reporter_interval",
        "iperf_set_test_socket_bufsize",
        "iperf_set_test_stats_interval",
        "iperf_set_test_tos",
    }
)


@pytest.fixture
def engine_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LibiperfEngine]:
    """An engine over a library that is described, not installed."""

    def make(*, without: str | None = None, zerocopy: bool = True) -> LibiperfEngine:
        library = Library(version="3.5", functions=EVERY_FUNCTION - {without}, zerocopy=zerocopy)
        monkeypatch.setattr(libiperf, "installed_library", lambda: library)
        return LibiperfEngine()

    return make


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    installed_library.cache_clear()
    yield
    installed_library.cache_clear()


# --- what the child is told ---------------------------------------------------------------------------------------


def test_a_plain_client() -> None:
    assert client_settings(Workload(), ADDRESS, 5201) == {
        "role": "c",
        "properties": {
            "server_hostname": ADDRESS,
            "port": 5201,
            "protocol": "tcp",
            "duration": 10,
            "omit": 1,
            "num_streams": 1,
        },
        "functions": {"iperf_set_test_reporter_interval": 1.0, "iperf_set_test_stats_interval": 1.0},
        "cpu": None,
    }


def test_a_server_serves_once_at_its_address_only() -> None:
    assert server_settings(Workload(interval_s=0.5), ADDRESS, 5201, cpu=1) == {
        "role": "s",
        "properties": {"port": 5201, "bind_address": ADDRESS},
        "functions": {
            "iperf_set_test_one_off": 1,
            "iperf_set_test_reporter_interval": 0.5,
            "iperf_set_test_stats_interval": 0.5,
        },
        "cpu": 1,
    }


@pytest.mark.parametrize(
    ("asked", "kind", "name", "value"),
    [
        ({"direction": "reverse"}, "properties", "reverse", True),
        ({"direction": "bidirectional"}, "functions", "iperf_set_test_bidirectional", 1),
        ({"streams": 7}, "properties", "num_streams", 7),
        ({"mss_bytes": 1400}, "functions", "iperf_set_test_mss", 1400),
        ({"window_bytes": 4_194_304}, "functions", "iperf_set_test_socket_bufsize", 4_194_304),
        ({"congestion": "cubic"}, "functions", "iperf_set_test_congestion_control", "cubic"),
        ({"dscp": 46}, "functions", "iperf_set_test_tos", 184),
        ({"dscp": 0}, "functions", "iperf_set_test_tos", 0),
        ({"zerocopy": True}, "properties", "zerocopy", True),
        ({"length_bytes": 8192}, "properties", "blksize", 8192),
        ({"bitrate_bps": 900e6, "streams": 4}, "properties", "bandwidth", 225_000_000),
        ({"bitrate_bps": 1e11}, "properties", "bandwidth", 100_000_000_000),
        ({"interval_s": 0.1}, "functions", "iperf_set_test_stats_interval", 0.1),
        ({"interval_s": 2}, "functions", "iperf_set_test_reporter_interval", 2.0),
        ({"duration_s": 3.0}, "properties", "duration", 3),
        ({"omit_s": 0.0}, "properties", "omit", 0),
    ],
)
def test_each_option_becomes_one_setting(asked: dict[str, object], kind: str, name: str, value: object) -> None:
    told = client_settings(Workload(**asked), ADDRESS, 5201)
    assert told[kind][name] == value
    assert type(told[kind][name]) is type(value)  # the C type follows from it
    plain = client_settings(Workload(), ADDRESS, 5201)
    changed = {
        key for part in ("properties", "functions") for key in told[part] if told[part][key] != plain[part].get(key)
    }
    allowed = {name, "num_streams", "iperf_set_test_stats_interval", "iperf_set_test_reporter_interval"}
    assert name in changed
    assert changed <= allowed


def test_udp_never_gets_the_packages_datagrams_of_65507_bytes() -> None:
    load = Workload(protocol="udp", bitrate_bps=1e6)
    assert client_settings(load, ADDRESS, 1)["properties"]["blksize"] == 0  # the library derives it from the path
    told = list(client_settings(load, ADDRESS, 1)["properties"])
    assert told.index("protocol") < told.index("blksize")  # the package's setters depend on the order


@given(
    st.builds(
        Workload,
        protocol=st.sampled_from(["tcp", "udp"]),
        direction=st.sampled_from(["forward", "reverse", "bidirectional"]),
        duration_s=st.integers(1, 86_400).map(float),
        omit_s=st.integers(0, 60).map(float),
        streams=st.integers(1, 128),
        mss_bytes=st.none() | st.integers(36, 8960),
        zerocopy=st.booleans(),
        bitrate_bps=st.none() | st.floats(1e3, 4e11),
        length_bytes=st.none() | st.integers(16, 65_507),
        ip_version=st.sampled_from([4, 6]),
    )
)
def test_both_engines_ask_for_the_same(load: Workload) -> None:
    program = client_arguments(load, ADDRESS, 5201)
    told = client_settings(load, ADDRESS, 5201)
    properties, functions = told["properties"], told["functions"]
    assert json.loads(json.dumps(told)) == told

    def flag(name: str) -> str | None:
        return program[program.index(name) + 1] if name in program else None

    assert flag("-t") == str(properties["duration"])
    assert (flag("-O") or "0") == str(properties["omit"])
    assert (flag("-P") or "1") == str(properties["num_streams"])
    assert ("-u" in program) is (properties["protocol"] == "udp")
    assert ("-R" in program) is properties.get("reverse", False)
    assert ("--bidir" in program) is ("iperf_set_test_bidirectional" in functions)
    assert ("-Z" in program) is properties.get("zerocopy", False)
    assert flag("-M") == (str(functions["iperf_set_test_mss"]) if "iperf_set_test_mss" in functions else None)
    assert flag("-b") == (str(properties["bandwidth"]) if "bandwidth" in properties else None)
    assert (flag("-l") or "0") == str(properties.get("blksize", 0))


# --- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("without", "asked", "named"),
    [
        ("iperf_set_test_bidirectional", {"direction": "bidirectional"}, "direction='bidirectional'"),
        ("iperf_set_test_mss", {"mss_bytes": 1400}, "mss=1400"),
        ("iperf_set_test_socket_bufsize", {"window_bytes": 65_536}, "window=65536"),
        ("iperf_set_test_congestion_control", {"congestion": "cubic"}, "congestion='cubic'"),
        ("iperf_set_test_tos", {"dscp": 46}, "dscp=46"),
        ("iperf_set_test_stats_interval", {"interval_s": 0.5}, "interval=0.5"),
    ],
)
def test_what_the_library_lacks_is_refused_by_name(
    engine_with: Callable[..., LibiperfEngine], without: str, asked: dict[str, object], named: str
) -> None:
    with pytest.raises(MarkError) as refused:
        engine_with(without=without).check(Workload(**asked))
    assert str(refused.value) == (
        f"{named}: libiperf 3.5 cannot do it (it has no {without}); choose the iperf3 program (--netperf-engine iperf3)"
    )
    engine_with().check(Workload(**asked))


@pytest.mark.parametrize(
    "without",
    sorted(EVERY_FUNCTION - {"iperf_set_test_reporter_interval", "iperf_set_test_stats_interval"}),
)
def test_what_is_not_asked_for_may_be_missing(engine_with: Callable[..., LibiperfEngine], without: str) -> None:
    engine_with(without=without).check(Workload(direction="reverse", streams=4, length_bytes=1000))


def test_zerocopy_is_not_silently_dropped(engine_with: Callable[..., LibiperfEngine]) -> None:
    with pytest.raises(MarkError, match=r"zerocopy=True: libiperf 3\.5 was built without it"):
        engine_with(zerocopy=False).check(Workload(zerocopy=True))
    engine_with(zerocopy=False).check(Workload())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"window_bytes": 2**31}, r"window=2147483648: libiperf takes at most 2147483647 bytes"),
        ({"duration_s": 1.5}, r"duration=1\.5: libiperf takes whole seconds"),
        ({"omit_s": 0.5}, r"omit=0\.5: libiperf takes whole seconds"),
        ({"protocol": "udp"}, r"bitrate=None: libiperf would send UDP as fast as it can; say how much"),
        ({"congestion": "nosuch"}, r"congestion='nosuch': this kernel offers"),
    ],
)
def test_what_would_silently_become_something_else_is_refused(
    engine_with: Callable[..., LibiperfEngine], asked: dict[str, object], message: str
) -> None:
    with pytest.raises(MarkError, match=message):
        engine_with().check(Workload(**asked))


def test_a_window_of_the_largest_int_is_let_through(engine_with: Callable[..., LibiperfEngine]) -> None:
    engine_with().check(Workload(window_bytes=2**31 - 1))


# --- what is missing ------------------------------------------------------------------------------------------------

BOTH_WAYS = r"`pip install iperf3`.*`sudo apt-get install libiperf0`.*--netperf-engine iperf3"


@pytest.mark.usefixtures("fresh_probe")
def test_the_installed_library_is_asked_once() -> None:
    library = installed_library()
    assert library.version.startswith("3.")
    assert library.functions == EVERY_FUNCTION
    assert installed_library() is library
    assert LibiperfEngine().version == f"libiperf {library.version}"


@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("raise ModuleNotFoundError(\"No module named 'iperf3'\")", "No module named 'iperf3'"),
        ("MY_OWN = 'a module of the user, of the same name'", "iperf3.py is another module of that name"),
    ],
)
def test_the_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str) -> None:
    (tmp_path / "iperf3.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TrafficError, match=f"cannot load the Python package iperf3 .*{message}.*{BOTH_WAYS}"):
        LibiperfEngine()


@pytest.mark.usefixtures("fresh_probe")
def test_the_library_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libiperf.so.0").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(TrafficError, match=f"cannot load the library libiperf .*libiperf.so.0.*{BOTH_WAYS}"):
        LibiperfEngine()


@pytest.mark.usefixtures("fresh_probe")
def test_a_package_that_kills_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "iperf3.py").write_text("import os; os.kill(os.getpid(), 11)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TrafficError, match=rf"could not be tried: it said nothing \(exit code -11\).*{BOTH_WAYS}"):
        LibiperfEngine()


@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.parametrize("version", ["3.0.11", "iperf", ""])
def test_a_library_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    (tmp_path / "iperf3.py").write_text(
        "class Client:\n"
        "    def __init__(self, **_): self.lib = self\n"
        f"    iperf_version = 'iperf {version}'\n"
        "    def iperf_has_zerocopy(self): return 1\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TrafficError, match=r"libiperf says it is version '.*': 3\.1 or newer is needed"):
        LibiperfEngine()


def test_nothing_of_it_is_loaded_into_the_pytest_process() -> None:
    program = (
        "import sys\n"
        "from pytest_netperf.traffic.engine import make_engine\n"
        "from pytest_netperf.traffic.result import Workload\n"
        "make_engine('libiperf').check(Workload())\n"
        "assert 'iperf3' not in sys.modules, 'package'\n"
        "assert 'libiperf.so' not in open('/proc/self/maps').read(), 'library'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=libiperf._environment(), timeout=60)


def test_a_users_file_named_like_the_package_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_probe: None
) -> None:
    (tmp_path / "iperf3.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    assert LibiperfEngine().version.startswith("libiperf 3.")
