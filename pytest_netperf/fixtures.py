"""What tests ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest

from pytest_netperf import history, live_view
from pytest_netperf.collection import ItemPlan
from pytest_netperf.errors import ConfigError, LateRequestError, MarkError, NetperfError
from pytest_netperf.session import LinkHandle, NetperfSession, Recorded, TrafficCall

if TYPE_CHECKING:
    from pytest_netperf.bench.model import Device
    from pytest_netperf.judge.method import BetweenRuns
    from pytest_netperf.observe.measure import Measurement
    from pytest_netperf.traffic.result import Workload

__all__ = [
    "PLAN", "PROBLEM", "SESSION", "Iperf3", "Record", "iperf3", "netperf_device", "netperf_link", "netperf_record",
]  # fmt: skip

SESSION = pytest.StashKey[NetperfSession]()
PLAN = pytest.StashKey[ItemPlan]()
PROBLEM = pytest.StashKey[str]()
"""What is wrong with marks that a test got after its collection."""


@pytest.fixture(scope="session")
def netperf_link(request: pytest.FixtureRequest) -> Iterator[LinkHandle]:
    """The link under test: endpoints ``a`` and ``b``, ``speed``, ``mtu``, ``ceiling(...)``, ``simulated``.

    Parametrised over the devices and links of the bench and the settings of ``netperf_link`` marks. The link is shared
    by all tests with the same settings; ``netperf_link(scope="function")`` gives each test a cold one. Physical ports
    go home behind the last of these tests, which is ERROR when one is not as it was.
    """
    session: NetperfSession = request.config.stash[SESSION]
    plan = getattr(request, "param", None)
    if plan is None:
        raise LateRequestError(
            "netperf_link has no link here: it was asked for by request.getfixturevalue() or by a fixture that pytest "
            "does not see at collection (a step of pytest-bdd); name netperf_link or iperf3 among the arguments of the "
            "test, or in its mark usefixtures"
        )
    handle = session.handle(plan)
    handle.ensure_up()
    yield handle
    if plan.link.physical_ports:
        handle.take_down()


class Iperf3:
    """Traffic over the link of the test. Each call is one measurement: judged, recorded, and returned."""

    def __init__(self, session: NetperfSession, handle: LinkHandle) -> None:
        self._session = session
        self.link = handle

    def tcp(
        self,
        *,
        duration: float | str | None = None,
        omit: float | str | None = None,
        interval: float = 1.0,
        streams: int = 1,
        direction: Literal["forward", "reverse", "bidirectional"] = "forward",
        mss: int | None = None,
        zerocopy: bool | None = None,
        window: int | str | None = None,
        congestion: str | None = None,
        bitrate: str | None = None,
        length: int | None = None,
        dscp: int | None = None,
        ip_version: Literal[4, 6] | None = None,
        repeat: int | None = None,
        between_runs: BetweenRuns | None = None,
        **unknown: Any,
    ) -> Measurement:
        """Measure TCP throughput: as much as the link carries, unless ``bitrate`` says less.

        ``duration`` and ``omit`` are seconds (whole ones) that do and do not count; ``forward`` sends from a to b.
        ``mss`` is the advertised segment size in bytes, ``window`` a socket buffer ("4 MiB"), ``bitrate`` the payload
        rate of all streams of a direction together ("500 Mbps", "50 % of ceiling").

        ``repeat`` makes that many runs, each of which is kept, and judges them together; between them lies a new
        "connection", the "link" down and up again, or a "cold" link. The last run is returned.

        Raises MarkError for an argument that cannot be, and StationError when the bench fails.
        """
        return self._measure(
            "tcp",
            {
                "duration": duration,
                "omit": omit,
                "interval": interval,
                "streams": streams,
                "direction": direction,
                "mss": mss,
                "zerocopy": zerocopy,
                "window": window,
                "congestion": congestion,
                "bitrate": bitrate,
                "length": length,
                "dscp": dscp,
                "ip_version": ip_version,
                "repeat": repeat,
                "between_runs": between_runs,
                **unknown,
            },
        )

    def udp(
        self,
        *,
        bitrate: str | None = None,
        duration: float | str | None = None,
        omit: float | str | None = None,
        interval: float = 1.0,
        streams: int = 1,
        direction: Literal["forward", "reverse", "bidirectional"] = "forward",
        length: int | None = None,
        dscp: int | None = None,
        ip_version: Literal[4, 6] | None = None,
        repeat: int | None = None,
        between_runs: BetweenRuns | None = None,
        **unknown: Any,
    ) -> Measurement:
        """Measure UDP throughput, frame loss ratio and jitter at an offered payload rate.

        ``bitrate`` is the offered rate of each direction ("900 Mbps", "50 % of ceiling"); 95 % of the ceiling when left
        out. ``length`` is the datagram's payload in bytes; left out, datagrams fill the MTU. ``repeat`` and
        ``between_runs`` are those of `tcp`.
        """
        return self._measure(
            "udp",
            {
                "bitrate": bitrate,
                "duration": duration,
                "omit": omit,
                "interval": interval,
                "streams": streams,
                "direction": direction,
                "length": length,
                "dscp": dscp,
                "ip_version": ip_version,
                "repeat": repeat,
                "between_runs": between_runs,
                **unknown,
            },
        )

    def _measure(self, protocol: Literal["tcp", "udp"], arguments: dict[str, Any]) -> Measurement:
        from pytest_netperf.judge.decision import get_rule
        from pytest_netperf.long_runs import keeper_of
        from pytest_netperf.observe.measure import measure

        running, options, engine = self._session.running(), self._session.options, self._session.engine
        call = self._call(running.plan, protocol, arguments)
        workload = self._workload(protocol, arguments, running.plan)
        if running.plan is not None:
            call.profile = running.plan.method.profile_of(workload.duration_s, workload.omit_s, workload.interval_s)
            history.ask(self._session, running.plan, call, workload)
        running.calls.append(call)
        try:
            for number in range(call.repeat):
                if number:
                    self.link.restart(call.between_runs)
                enough = None
                if call.profile is not None and call.profile.sequential and running.plan is not None:
                    from pytest_netperf.screening import screening_of

                    rule = get_rule(options.rule, options.role)
                    found = screening_of(running.plan, call, workload, engine, rule)
                    enough, call.not_stopped = (None, found) if isinstance(found, str) else (found, None)
                probes = running.plan.probes if running.plan is not None else ()
                measurement = measure(
                    engine,
                    self.link.ensure_up(),
                    workload,
                    slots=options.slots,
                    enough=enough,
                    tell=live_view.teller(self._session, running, call, workload, number + 1, enough),
                    probes=probes,
                    rtt=running.plan is not None and running.plan.method.rtt,
                    soak=call.profile is not None and call.profile.name == "soak",
                    keep=keeper_of(self._session, running, workload),
                )
                lost = self._session.device_state_lost(self.link.plan)
                call.runs.append(measurement if lost is None else measurement.with_state_lost(lost))
        except NetperfError as error:
            running.failures.append((workload, error))
            raise
        return measurement

    def _call(self, plan: ItemPlan | None, protocol: str, arguments: dict[str, Any]) -> TrafficCall:
        """What this call asks for beside its traffic, taken out of its arguments."""
        from pytest_netperf.judge.method import Method
        from pytest_netperf.method_mark import read_between_runs, read_repeat

        method = plan.method if plan is not None else Method()
        call = TrafficCall(repeat=method.repeat, between_runs=method.between_runs)
        repeat, between_runs = arguments.pop("repeat"), arguments.pop("between_runs")
        try:
            if repeat is not None:
                call.repeat = read_repeat(repeat)
        except MarkError as error:
            raise MarkError(f"iperf3.{protocol}(repeat={repeat!r}): {error}") from None
        try:
            if between_runs is not None:
                call.between_runs = read_between_runs(between_runs)
        except MarkError as error:
            raise MarkError(f"iperf3.{protocol}(between_runs={between_runs!r}): {error}") from None
        return call

    def _workload(
        self, protocol: Literal["tcp", "udp"], arguments: dict[str, Any], planned: ItemPlan | None
    ) -> Workload:
        from pytest_netperf.judge.method import Method
        from pytest_netperf.observe.host import udp_buffer_bytes
        from pytest_netperf.traffic.request import make_workload

        plan = self.link.plan
        settings = plan.settings
        defaults: dict[str, Any] = {"ip_version": settings.ip_version}
        if protocol == "tcp":
            defaults |= {
                "mss": settings.mss_bytes,
                "congestion": settings.congestion,
                "window": settings.window_bytes,
                "zerocopy": settings.zerocopy,
            }
        for name, value in defaults.items():
            if arguments.get(name) is None:
                arguments[name] = value
        method = planned.method if planned is not None else Method()
        return make_workload(
            protocol,
            arguments,
            mtu=settings.mtu,
            speed_bps=plan.link.line_rate_bps,
            default_duration_s=method.duration_s,
            default_omit_s=method.omit_s,
            udp_buffer_bytes=udp_buffer_bytes(),
        )


@pytest.fixture(scope="session")
def iperf3(request: pytest.FixtureRequest, netperf_link: LinkHandle) -> Iperf3:
    """iperf3 over the link of the test: ``iperf3.tcp(...)`` and ``iperf3.udp(...)``."""
    return Iperf3(request.config.stash[SESSION], netperf_link)


@pytest.fixture
def netperf_device(request: pytest.FixtureRequest) -> Device:
    """The device under test: ``serial``, ``model``, ``batch``, ``links``."""
    plan = request.node.stash.get(PLAN, None)
    if plan is None:
        raise LateRequestError("netperf_device has no device here; name it among the arguments of the test itself")
    device: Device = plan.device
    return device


class Record(Protocol):
    """What `netperf_record` gives."""

    def __call__(
        self,
        quantity: str,
        value: float,
        unit: str,
        *,
        required: bool = True,
        note: str | None = None,
        uncertainty: float | None = None,
    ) -> None:
        """Record one value; raises ConfigError for one that cannot be."""


@pytest.fixture
def netperf_record(request: pytest.FixtureRequest, netperf_device: Device) -> Record:  # noqa: ARG001 - asked for so that the test has a device
    """Record any other measurement: ``netperf_record("power", 13.2, "W")``.

    ``netperf_record(quantity, value, unit, *, required=True, note=None, uncertainty=None)``: the value is judged
    against every limit that names the quantity; ``required=False`` makes it information that does not count.
    ``uncertainty`` is its expanded uncertainty (k = 2) in the same unit, for the sheet and the guarded decision rule.
    A quantity of your own is made known by `pytest_netperf.quantities.register_quantity`.
    """
    run = request.config.stash[SESSION].run_of(request.node.nodeid)

    def record(
        quantity: str,
        value: float,
        unit: str,
        *,
        required: bool = True,
        note: str | None = None,
        uncertainty: float | None = None,
    ) -> None:
        from pytest_netperf.quantities import convert, get_quantity

        known = get_quantity(quantity)
        call = f"netperf_record({quantity!r}, {value!r}, {unit!r}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{call}): the value must be a number, not a {type(value).__name__}")
        if uncertainty is not None and (
            isinstance(uncertainty, bool)
            or not isinstance(uncertainty, int | float)
            or not 0 <= uncertainty < float("inf")
        ):
            raise ConfigError(
                f"{call}, uncertainty={uncertainty!r}): the uncertainty must be a finite number of at least 0 in "
                f"{unit!r}, the expanded one (k = 2); leave it out if it is not known"
            )
        if run.over:
            raise ConfigError(
                f"netperf_record({quantity!r}, ...) after the test was judged: record it in the test itself, not when "
                "its fixtures are torn down"
            )
        run.recorded.append(
            Recorded(
                quantity=known.name,
                value=convert(float(value), unit, known),
                unit=known.unit,
                required=required,
                note=note,
                uncertainty=None if uncertainty is None else convert(float(uncertainty), unit, known),
            )
        )

    return record
