"""What a test is expected to deliver: its device, its link and a planned row for each quantity that a limit names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_netperf.bench.model import Device, LinkSpec
    from pytest_netperf.bench.plan import LinkPlan
    from pytest_netperf.judge.baselines import Baselines
    from pytest_netperf.judge.limits import Limit
    from pytest_netperf.judge.method import Method
    from pytest_netperf.observe.probe import Probe
    from pytest_netperf.record.schema import DeviceInfo, Planned

__all__ = [
    "CHECK",
    "DEVICE_FIXTURE",
    "LINK_FIXTURE",
    "UNSTATED",
    "ItemPlan",
    "limit_marks",
    "link_marks",
    "method_marks",
    "needs",
    "never_measured",
    "plan_of",
    "refuse_impossible",
    "refuse_late_marks",
]

LINK_FIXTURE = "netperf_link"
DEVICE_FIXTURE = "netperf_device"
RECORD_FIXTURE = "netperf_record"
ENGINE_FIXTURE = "iperf3"

UNSTATED = "measurement"
"""Quantity of the planned row of a test that records something which no limit names."""
CHECK = "check"
"""Quantity of the row of a test that measures nothing and failed by its own check."""

_FURTHEST = 8  # below `judge.limits.LEVEL_FILE`


def needs(fixture_names: Iterable[str]) -> str | None:
    """The fixture to parametrise a test by: its links, its devices, or None for a test that is not ours."""
    names = set(fixture_names)
    if names & {LINK_FIXTURE, ENGINE_FIXTURE}:
        return LINK_FIXTURE
    if names & {DEVICE_FIXTURE, RECORD_FIXTURE}:
        return DEVICE_FIXTURE
    return None


def link_marks(node: pytest.Item | pytest.Collector) -> list[pytest.Mark]:
    """The netperf_link marks of a test, closest first."""
    return [mark for mark, _ in _closest_first(node, "netperf_link")]


def limit_marks(node: pytest.Item | pytest.Collector) -> list[tuple[pytest.Mark, int]]:
    """The netperf_limit marks of a test, closest first, with their level: 0 for those closest to it."""
    return _closest_first(node, "netperf_limit")


def method_marks(node: pytest.Item | pytest.Collector) -> list[pytest.Mark]:
    """The netperf_method marks of a test, closest first."""
    return [mark for mark, _ in _closest_first(node, "netperf_method")]


def _closest_first(node: pytest.Item | pytest.Collector, name: str) -> list[tuple[pytest.Mark, int]]:
    """Parameter set and add_marker, function, class, its base classes, surrounding classes, module, packages."""
    owners: list[Any] = []
    placed: list[tuple[tuple[int, int], pytest.Mark]] = []
    for owner, mark in node.iter_markers_with_node(name):
        if owner not in owners:
            owners.append(owner)
        placed.append(((owners.index(owner), _place_in(owner, mark)), mark))
    placed.sort(key=lambda entry: entry[0])
    places = sorted({place for place, _ in placed})
    return [(mark, min(places.index(place), _FURTHEST)) for place, mark in placed]


def _place_in(owner: Any, mark: pytest.Mark) -> int:
    """Where on its own node a mark stands: pytest lists those of base classes before those of the class itself."""
    if isinstance(owner, pytest.Item):
        return 1 if _is_written_on(getattr(owner, "obj", None), mark) else 0
    if isinstance(owner, pytest.Class):
        return next((place for place, each in enumerate(owner.obj.__mro__) if _is_written_on(each, mark)), 0)
    return 0


def _is_written_on(obj: object, mark: pytest.Mark) -> bool:
    own = vars(obj).get("pytestmark", []) if isinstance(obj, type) else getattr(obj, "pytestmark", [])
    return any(getattr(each, "mark", each) is mark for each in (own if isinstance(own, list) else [own]))


def refuse_late_marks(item: pytest.Item) -> None:
    """Raise MarkError for a netperf_link that pytest shows only when the links of the test are chosen already."""
    from pytest_netperf.errors import MarkError

    obj = getattr(item, "obj", None)
    if any(mark.name == "netperf_link" and not _is_written_on(obj, mark) for mark in item.own_markers):
        raise MarkError(
            "netperf_link in pytest.param(marks=...) or by add_marker() has no effect: the links of a test are chosen "
            "before its other parameters. Write the mark on the function, its class or its module, and a test of its "
            "own for each set of links"
        )


def plan_of(
    item: pytest.Item, limits: tuple[Limit, ...], method: Method | None = None, baselines: Baselines | None = None
) -> ItemPlan | None:
    """What is known about a test of ours before it runs; None for a test that is not ours, or has no device."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    link = callspec.params.get(LINK_FIXTURE)
    device = callspec.params.get(DEVICE_FIXTURE) if link is None else getattr(link, "device", None)
    if device is None or not hasattr(device, "serial"):
        return None
    from pytest_netperf.judge.method import Method

    fixtures = getattr(item, "fixturenames", ())
    return ItemPlan(
        nodeid=item.nodeid,
        device=device,
        link=link,
        limits=limits,
        method=method or Method(),
        measures_traffic=ENGINE_FIXTURE in fixtures,
        records=RECORD_FIXTURE in fixtures,
        has_own_limit=any(mark.name == "netperf_limit" for mark in item.own_markers),
        baselines=baselines,
    )


@dataclass(frozen=True, kw_only=True)
class ItemPlan:
    """What the plugin knows about one test before it runs."""

    nodeid: str
    device: Device
    link: LinkPlan | None
    limits: tuple[Limit, ...]
    method: Method
    """How its traffic is measured and judged."""
    measures_traffic: bool
    """Whether it uses `iperf3`."""
    records: bool
    """Whether it uses `netperf_record`."""
    has_own_limit: bool
    """Whether a netperf_limit stands on the function itself, or on the parameter set."""
    baselines: Baselines | None = None
    """What is known of its model and others; None: nothing."""
    probes: tuple[Probe, ...] = ()
    """What is read around its traffic."""

    @property
    def conditions(self) -> dict[str, Any]:
        """Everything that is known before the test runs and that a limit may depend on."""
        known: dict[str, Any] = {
            "device": self.device.serial,
            "model": self.device.model,
            "batch": self.device.batch,
            "test": self.nodeid.split("::", 1)[-1].split("[")[0],
        }
        if self.link is not None:
            link, settings = self.link.link, self.link.settings
            known |= {
                "link": link.name,
                "speed": link.speed_bps,
                "mtu": settings.mtu,
                "topology": link.topology,
                "media": link.media,
                "simulated": link.without_hardware,
                "mss": settings.mss_bytes,
                "ip_version": settings.ip_version,
                "device_state": settings.device_state or _forwards_only(link),
                "zerocopy": settings.zerocopy or None,
                **settings.port_conditions,
            }
        return {key: value for key, value in known.items() if value is not None}

    @property
    def is_check(self) -> bool:
        """Whether the test has a link or a device, but measures nothing that could be judged: pytest's own test.

        It is in no plan; when it fails, that is a row. A limit written on the function itself makes it a measurement.
        """
        return not (self.measures_traffic or self.records or self.has_own_limit)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys (quantity and statistic) of limits, in the order of the marks; without any, the one of its kind."""
        named = tuple(dict.fromkeys(limit.key for limit in self.limits if self._may_apply(limit)))
        return named or (("throughput",) if self.measures_traffic else (CHECK,) if self.is_check else (UNSTATED,))

    def _may_apply(self, limit: Limit) -> bool:
        """Whether what is known beforehand leaves it possible that the limit applies.

        A limits file speaks to all tests; it expects of each only what a test of its kind can measure.
        """
        from pytest_netperf.judge.limits import LEVEL_FILE, applies
        from pytest_netperf.judge.values import RTT_QUANTITIES, TRAFFIC_QUANTITIES

        if self.is_check:
            return False
        if limit.level == LEVEL_FILE:
            probed = {probe.quantity for probe in self.probes}
            by_traffic = self.measures_traffic and limit.quantity in TRAFFIC_QUANTITIES | probed | (
                RTT_QUANTITIES if self.method.rtt else frozenset()
            )
            by_hand = self.records and limit.quantity not in TRAFFIC_QUANTITIES
            if not (by_traffic or by_hand):
                return False
        return applies(limit, self.conditions, unknown_matches=True)

    def row_id(self, key: str, number: int = 0) -> str:
        """The id of a row: the same in the plan and when it arrives. ``number`` counts repeated measurements."""
        return f"{self.nodeid}::{key}" + (f"#{number + 1}" if number else "")

    def device_info(self) -> DeviceInfo:
        """The device as it is written on rows."""
        from pytest_netperf.record.schema import DeviceInfo

        return DeviceInfo(serial=self.device.serial, model=self.device.model, batch=self.device.batch)

    def planned(self, selected: bool = True) -> list[Planned]:
        """The rows that must appear on the sheet, whatever happens to the test."""
        from pytest_netperf.judge.statistic import MEAN, quantity_of, statistic_of
        from pytest_netperf.quantities import get_quantity
        from pytest_netperf.record.schema import Planned

        rows: list[Planned] = []
        for key in () if self.is_check else self.keys:
            quantity, statistic = quantity_of(key), statistic_of(key)
            texts = [limit.text for limit in self.limits if limit.key == key and self._may_apply(limit)]
            rows.append(
                Planned(
                    id=self.row_id(key),
                    test=self.nodeid,
                    device=self.device_info(),
                    link=self.link.link.name if self.link else None,
                    quantity=quantity,
                    statistic=statistic.text if statistic != MEAN else None,
                    unit="" if quantity == UNSTATED else get_quantity(quantity).unit,
                    limit=texts[0] if len(texts) == 1 else None,
                    limit_low=self._most_required(key) if quantity == "throughput" else None,
                    conditions=self.conditions,
                    simulated=bool(self.link and self.link.link.without_hardware),
                    selected=selected,
                )
            )
        return rows

    def _most_required(self, key: str) -> float | None:
        """The largest lower bound of a throughput in bit/s that may apply, as far as that is known beforehand."""
        from pytest_netperf.errors import LimitError
        from pytest_netperf.judge.baselines import baseline_of
        from pytest_netperf.judge.limits import applies, resolve
        from pytest_netperf.physics import goodput_ceiling_bps

        speed_bps = self.link.link.line_rate_bps if self.link else None
        ceiling = goodput_ceiling_bps(speed_bps, self.link.settings.mtu) if self.link and speed_bps else None
        lows = []
        # In the order in which `select_limit` looks: what comes behind one that certainly applies never does.
        for limit in sorted(self.limits, key=lambda limit: (limit.level, -len(limit.conditions))):
            if limit.key != key or not self._may_apply(limit):
                continue
            with contextlib.suppress(LimitError):  # the row will say what is wrong with it
                name, known = baseline_of(limit), None
                if name is not None and self.baselines is not None:
                    known = {name: self.baselines.find(limit, self.conditions).value}
                lows.append(resolve(limit, ceiling=ceiling, link_speed=speed_bps, baselines=known).low)
            if applies(limit, self.conditions):
                break
        return max((low for low in lows if low is not None), default=None)


def _forwards_only(link: LinkSpec) -> str | None:
    """The state of a simulated device of which nobody asks for one; of a real one nobody knows."""
    from pytest_netperf.bench.device_state import PLAIN

    return PLAIN.name if link.simulated and link.topology != "pair" else None


def never_measured(plans: Iterable[tuple[ItemPlan, bool]], limits: Iterable[Limit]) -> list[Planned]:
    """What a limits file requires of the devices of the selected tests, and no test can measure, selected or not.

    A limit whose conditions exclude the device, or every link of it, requires nothing.
    """
    from pytest_netperf.judge.limits import LEVEL_FILE, applies
    from pytest_netperf.judge.statistic import MEAN
    from pytest_netperf.quantities import get_quantity
    from pytest_netperf.record.schema import LIMITS_FILE, Planned

    required = [limit for limit in limits if limit.level == LEVEL_FILE]
    of_device: dict[str, list[ItemPlan]] = {}
    selected_serials = set()
    for plan, selected in plans if required else ():
        of_device.setdefault(plan.device.serial, []).append(plan)
        if selected:
            selected_serials.add(plan.device.serial)
    rows = []
    for serial, tests in of_device.items():
        if serial not in selected_serials:
            continue
        device = tests[0].device
        known: dict[str, Any] = {"device": serial, "model": device.model, "batch": device.batch}
        links = {*device.links, *(test.link.link for test in tests if test.link is not None)}
        places = [
            {**known, "link": link.name, "speed": link.speed_bps, "topology": link.topology, "media": link.media}
            for link in links
        ]
        measured = {key for test in tests if not test.is_check for key in test.keys}
        for key in dict.fromkeys(limit.key for limit in required if limit.key not in measured):
            these = [
                limit
                for limit in required
                if limit.key == key and any(applies(limit, place, unknown_matches=True) for place in places or [known])
            ]
            if these:
                rows.append(
                    Planned(
                        id=f"{LIMITS_FILE}::{serial}::{key}",
                        test=LIMITS_FILE,
                        device=tests[0].device_info(),
                        quantity=these[0].quantity,
                        statistic=these[0].statistic.text if these[0].statistic != MEAN else None,
                        unit=get_quantity(these[0].quantity).unit,
                        limit=these[0].text if len(these) == 1 else None,
                    )
                )
    return rows


def best_case_bps(speed_bps: float, mtu_bytes: int) -> float:
    """The most goodput in bit/s that any traffic can have on a link: TCP or UDP over IPv4 in full frames."""
    from pytest_netperf.physics import goodput_ceiling_bps

    return max(goodput_ceiling_bps(speed_bps, mtu_bytes, protocol=protocol) for protocol in ("tcp", "udp"))


def refuse_impossible(plan: LinkPlan, limits: Iterable[Limit]) -> None:
    """Raise LimitError for a throughput limit that no traffic can ever meet on this link.

    The bound is that of the best case (UDP over IPv4 in full frames), so nothing possible is refused.
    """
    from pytest_netperf.errors import LimitError
    from pytest_netperf.judge.limits import applies, check_possible, resolve
    from pytest_netperf.quantities import format_speed

    speed_bps, mtu = plan.link.line_rate_bps, plan.settings.mtu
    if speed_bps is None:
        return
    bound = best_case_bps(speed_bps, mtu)
    known = {"speed": speed_bps, "mtu": mtu, "link": plan.link.name, "device": plan.device.serial}
    for limit in limits:
        if limit.quantity != "throughput" or not applies(limit, known, unknown_matches=True):
            continue
        if limit.relative_to is not None and limit.relative_to.startswith("baseline"):
            continue
        resolved = resolve(limit, ceiling=bound, link_speed=speed_bps)
        problem = check_possible(resolved, bound, of=f"a {format_speed(speed_bps)} link at MTU {mtu}")
        if problem:
            raise LimitError(
                f"{plan.id}: {problem} Lower the limit, say when it applies (speed=, mtu=), or select other links."
            )
