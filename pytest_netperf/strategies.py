"""Hypothesis strategies for property tests: of links and traffic, of bench files, and of whatever reads our records.

Everything that they make is valid: a mark takes the conditions, ``iperf3.tcp`` and ``iperf3.udp`` the workloads, the
parser the bench file; records have the types of `pytest_netperf.record.schema`.

    @on_a_link(examples=3)
    @given(workload=tcp_workloads(mtu=1500))
    def test_any_load(iperf3, workload):
        iperf3.tcp(**workload)

Needs hypothesis: ``pip install 'pytest-netperf[strategies]'``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeVar

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
except ImportError as _missing:
    raise ImportError(
        f"pytest_netperf.strategies needs hypothesis ({_missing}): pip install 'pytest-netperf[strategies]'"
    ) from None

from pytest_netperf.bench.model import FAULT_DIRECTIONS
from pytest_netperf.errors import ConfigError
from pytest_netperf.quantities import format_speed
from pytest_netperf.record_strategies import records, rows, runs, sheets

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

__all__ = [
    "bench_files",
    "faults",
    "link_conditions",
    "mtus",
    "on_a_link",
    "records",
    "rows",
    "runs",
    "segment_sizes",
    "sheets",
    "speeds",
    "sweep",
    "tcp_workloads",
    "udp_workloads",
]

T = TypeVar("T")

_SPEEDS = (10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9)
_SMALLEST_MTU = {4: 576, 6: 1280}
_LARGEST_MSS = 9216
_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+ äßéжł漢"


def on_a_link(examples: int = 5, *, shrink: bool = False) -> settings:
    """Settings for a property test on a real link, as its decorator: few examples, no deadline, the same each time.

    The examples are the same in every run and in each worker of pytest-xdist, so that every device is measured alike;
    nothing is kept between runs. A failing example is not made smaller, because each try is a measurement; ``shrink``
    does it all the same. Fixtures of the test are made once, for all its examples.
    """
    phases = [Phase.explicit, Phase.generate]
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[*phases, Phase.shrink] if shrink else phases,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def sweep(strategy: SearchStrategy[T], count: int = 3) -> list[T]:
    """The first ``count`` different values of a strategy, the simplest first: a sweep for an argument of a mark.

    They are the same each time, as the parameters of tests must be. Raises ConfigError when there are not as many.
    """
    found: list[T] = []

    @settings(
        max_examples=50 * count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: T) -> None:
        if len(found) < count and value not in found:
            found.append(value)

    draw()
    if len(found) < count:
        raise ConfigError(f"sweep({strategy!r}, {count}): there are only {len(found)} different values; ask for less")
    return found


def speeds() -> SearchStrategy[str]:
    """Speeds of links as marks and bench files take them: "1G", "2.5G"."""
    return st.sampled_from(_SPEEDS).map(format_speed)


def mtus(low: int = 576, high: int = 9000) -> SearchStrategy[int]:
    """MTUs in bytes; 576 is what every host must take (RFC 791), 9000 the usual jumbo frame."""
    return st.integers(low, high)


def segment_sizes(mtu: int, *, low: int = 536, ip_version: Literal[4, 6] = 4) -> SearchStrategy[int]:
    """TCP maximum segment sizes in bytes that fit an MTU (``mss``); 536 is the default of RFC 9293."""
    high = min(_LARGEST_MSS, mtu - (60 if ip_version == 6 else 40))
    return st.integers(min(low, high), high)


@st.composite
def faults(draw: Callable[..., Any], speed_bps: float = 1e9, mtu: int = 1500) -> dict[str, Any]:
    """Faults of a simulated link of this speed and MTU, as a mark's ``fault`` and a bench file take them.

    They are slow, lossy, with an MTU hole, or stalled; each measurement has them from its beginning to its end.
    """
    kinds: list[SearchStrategy[dict[str, Any]]] = [
        st.integers(1, int(speed_bps / 1e6) - 1).map(lambda mbps: {"rate": f"{mbps} Mbps"}),
        st.integers(1, 5000).map(lambda ppm: {"loss": f"{ppm} ppm"}),
        st.integers(68, mtu - 1).map(lambda size: {"mtu_hole": size}),
        st.just({"stall": True}),
    ]
    fault = draw(st.one_of(kinds))
    direction = draw(st.sampled_from(FAULT_DIRECTIONS))
    return fault if direction == "both" else {**fault, "direction": direction}


@st.composite
def link_conditions(draw: Callable[..., Any], mtu: SearchStrategy[int] | None = None) -> dict[str, Any]:
    """Arguments of the mark ``netperf_link`` that fit one another: speed, mtu, mss, ip_version, zerocopy."""
    size = draw(mtus() if mtu is None else mtu)
    ip_version = draw(st.sampled_from([4, 6] if size >= _SMALLEST_MTU[6] else [4]))
    conditions: dict[str, Any] = {"speed": draw(speeds()), "mtu": size, "ip_version": ip_version}
    if draw(st.booleans()):
        conditions["mss"] = draw(segment_sizes(size, ip_version=ip_version))
    if draw(st.booleans()):
        conditions["zerocopy"] = draw(st.booleans())
    return conditions


def _workload(duration: int, more: dict[str, SearchStrategy[Any]]) -> SearchStrategy[dict[str, Any]]:
    """Arguments of a traffic call: those that are always there, and some of those that may be left out."""
    directions = st.sampled_from(["forward", "reverse", "bidirectional"])
    return st.fixed_dictionaries(
        {"duration": st.just(duration)},
        optional={"direction": directions, "streams": st.integers(1, 8), "dscp": st.integers(0, 63), **more},
    )


def tcp_workloads(mtu: int = 1500, *, duration: int = 1) -> SearchStrategy[dict[str, Any]]:
    """Arguments of ``iperf3.tcp`` for a link of this MTU; each runs as fast as it can, for ``duration`` seconds."""
    return _workload(
        duration,
        {"mss": segment_sizes(mtu), "zerocopy": st.booleans(), "length": st.integers(1460, 65507)},
    )


def udp_workloads(
    mtu: int = 1500, *, lowest_mbps: int = 1, highest_mbps: int = 100, duration: int = 1
) -> SearchStrategy[dict[str, Any]]:
    """Arguments of ``iperf3.udp`` for a link of this MTU, with an offered rate between these two (Mbit/s)."""
    rates = st.integers(lowest_mbps, highest_mbps).map("{} Mbps".format)
    return st.tuples(rates, _workload(duration, {"length": st.integers(64, mtu - 28)})).map(
        lambda made: {"bitrate": made[0], **made[1]}
    )


# ---- bench files -----------------------------------------------------------------------------------------------------

_names = st.text(_NAME, min_size=1, max_size=20).filter(lambda name: name == name.strip() and not name.startswith("."))
_texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=30).filter(str.strip)
_hex = st.integers(0, 255).map("{:02x}".format)
_macs = st.lists(_hex, min_size=5, max_size=5).map(lambda octets: ":".join(["02", *octets]))


@st.composite
def _links(draw: Callable[..., Any], name: str) -> dict[str, Any]:
    speed, mtu = draw(st.sampled_from(_SPEEDS)), draw(mtus())
    link: dict[str, Any] = {"name": name, "speed": format_speed(speed)}
    if draw(st.booleans()):
        link["mtu"] = mtu
    for key in ("media", "cable"):
        if draw(st.booleans()):
            link[key] = draw(_texts)
    if draw(st.booleans()):
        link["simulated"] = True
        link["topology"] = draw(st.sampled_from(["pair", "routed", "switched"]))
        if draw(st.booleans()):
            link["fault"] = draw(faults(speed, link.get("mtu", 1500)))
    else:
        macs = draw(st.lists(_macs, min_size=2, max_size=2, unique=True))
        link |= {end: {"port": f"mac-{mac}"} for end, mac in zip("ab", macs, strict=True)}
    return link


@st.composite
def bench_files(draw: Callable[..., Any]) -> str:
    """Bench files, as TOML: one to three devices with their links, simulated or between two ports."""
    station = draw(st.fixed_dictionaries({}, optional={"name": _texts, "location": _texts}))
    lines = ["[station]", *(f"{key} = {_toml(value)}" for key, value in station.items())]
    for serial in draw(st.lists(_names, min_size=1, max_size=3, unique=True)):
        more = draw(
            st.fixed_dictionaries({}, optional=dict.fromkeys(("model", "batch", "part_number", "firmware"), _texts))
        )
        lines += ["", "[[device]]", *(f"{key} = {_toml(value)}" for key, value in {"serial": serial, **more}.items())]
        for name in draw(st.lists(_names, max_size=3, unique=True)):
            lines += ["", "  [[device.link]]"]
            lines += [f"  {key} = {_toml(value)}" for key, value in draw(_links(name)).items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    # The strings of JSON are those of TOML, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
