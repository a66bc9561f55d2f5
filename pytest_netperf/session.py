"""What one pytest process (the only one, or an xdist worker) holds while it runs: links, engine, the current test."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import ConfigError, DeviceError, LinkError, NetperfError
from pytest_netperf.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from pytest_netperf.bench.model import Bench
    from pytest_netperf.bench.plan import LinkPlan
    from pytest_netperf.collection import ItemPlan
    from pytest_netperf.device_states import DeviceStates
    from pytest_netperf.judge.baselines import Baselines
    from pytest_netperf.judge.method import BetweenRuns
    from pytest_netperf.judge.profile import Profile
    from pytest_netperf.judge.run_to_run import RunToRun
    from pytest_netperf.links.link import Link
    from pytest_netperf.links.owner import Owner
    from pytest_netperf.live.progress import Progress
    from pytest_netperf.observe.measure import Measurement
    from pytest_netperf.record.history_store import HistoryKey, HistoryStore
    from pytest_netperf.record.identification import EvidenceFile
    from pytest_netperf.record.schema import TesterReference
    from pytest_netperf.record.stretch import Stretch
    from pytest_netperf.traffic.engine import Engine
    from pytest_netperf.traffic.result import Workload

__all__ = ["LinkHandle", "NetperfSession", "Recorded", "TestRun", "TrafficCall"]

_LINKS_KEPT_UP = 16


@dataclass(kw_only=True)
class Recorded:
    """A value that a test handed over by `netperf_record`."""

    quantity: str
    value: float
    unit: str
    required: bool
    note: str | None = None
    uncertainty: float | None = None
    """Expanded uncertainty (k = 2) in ``unit``, as the test states it."""


@dataclass(kw_only=True)
class TrafficCall:
    """One call of `iperf3`: its runs, of which there is one unless it was repeated."""

    repeat: int = 1
    """Runs that were asked for."""
    between_runs: BetweenRuns = "connection"
    profile: Profile | None = None
    history: HistoryKey | None = None
    """What it is comparable with; None when this station remembers nothing."""
    run_to_run: RunToRun | None = None
    """What is known about the spread from run to run before it is made."""
    not_stopped: str | None = None
    """Why a run of a profile that ends early went on to its end, whatever it had shown."""
    runs: list[Measurement] = field(default_factory=list)
    """Runs that were made, each of them; a call that failed on its way has fewer."""


@dataclass(kw_only=True)
class TestRun:
    """What one test measured so far. A failed traffic call is here too: a measurement that broke is not forgotten."""

    nodeid: str
    plan: ItemPlan | None = None
    calls: list[TrafficCall] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    failures: list[tuple[Workload, NetperfError]] = field(default_factory=list)
    attached: list[EvidenceFile] = field(default_factory=list)
    over: bool = False
    """Whether the test is judged: what is measured later would be in no row."""

    @property
    def measured(self) -> list[Measurement]:
        """Every run of every call."""
        return [measurement for call in self.calls for measurement in call.runs]


class LinkHandle:
    """A planned link, brought up when it is first needed; everything else is the attributes of `Link`."""

    def __init__(self, session: NetperfSession, plan: LinkPlan) -> None:
        self._session = session
        self.plan = plan
        self._link: Link | None = None

    @property
    def link(self) -> Link | None:
        """The link itself while it is up."""
        return self._link

    def ensure_up(self) -> Link:
        """Bring the link up when it is not, and a real device into its state. Raises LinkError or KeeperError."""
        self._session.enter_device_state(self.plan)
        if self._link is None:
            self._link = self._session.bring_up(self.plan)
        return self._link

    def take_down(self) -> None:
        """Take the link down when it is up; the next use brings up a cold one."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def restart(self, between_runs: BetweenRuns) -> None:
        """What lies between two runs of a repeated measurement. Raises LinkError or KeeperError."""
        if between_runs == "cold":
            self.take_down()
        elif between_runs == "link":
            self.ensure_up().bounce()

    def forget(self) -> None:
        """The link is gone already, with its keeper."""
        link, self._link = self._link, None
        if link is not None:
            link.lost()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.ensure_up(), name)

    def __repr__(self) -> str:
        return f"<netperf_link {self.plan.id} {'up' if self._link is not None else 'down'}>"


class NetperfSession:
    """Made when the first test of ours is set up; closed at the end of the process's pytest session."""

    def __init__(self, options: Options, config: pytest.Config | None = None) -> None:
        self.options = options
        self.config = config
        """Asked for the traffic engines that plugins bring; None where there are none."""
        self.current: TestRun | None = None
        self.kept: list[str] = []
        self.device_states: DeviceStates | None = None
        """Of real devices; None outside of pytest."""
        self.references: tuple[TesterReference, ...] = ()
        self.live: Callable[[Progress], None] | None = None
        """Who wants to see how measurements go; None: nobody."""
        self.reference_file: list[str] | None = None
        """Of a worker of xdist: where its controller leaves the references (`tester_check.references_of`)."""
        self._bench: Bench | None = None
        self._baselines: Baselines | None = None
        self._owner: Owner | None = None
        self._engine: Engine | None = None
        self._history: HistoryStore | None = None
        self._handles: dict[LinkPlan, LinkHandle] = {}
        self._count = 0
        self.keep_stretch: Callable[[Stretch], None] | None = None
        """Takes what a long measurement shows, on its way into the journal; None: nobody does."""

    def handle(self, plan: LinkPlan) -> LinkHandle:
        """The handle of a planned link; the same one for every test with the same plan."""
        handle = self._handles.pop(plan, None) or LinkHandle(self, plan)
        self._handles[plan] = handle  # the most recently used is last
        for old in list(self._handles.values())[:-_LINKS_KEPT_UP]:
            old.take_down()
        return handle

    @property
    def bench(self) -> Bench:
        """The bench of this run: that of the bench file, or the built-in one. Raises BenchError."""
        if self._bench is None:
            if self.options.bench is not None:
                from pytest_netperf.bench.bench_file import load_bench

                self._bench = load_bench(self.options.bench)
            else:
                from pytest_netperf.bench.builtin import builtin_bench

                self._bench = builtin_bench()
            if folders := self._profile_folders(self._bench):
                from pytest_netperf.bench.model_profile import with_own_profiles

                self._bench = with_own_profiles(self._bench, folders)
        return self._bench

    def _profile_folders(self, bench: Bench) -> list[str | Path]:
        """Of models: that of the bench file, then that of the command line, which wins."""
        return [each for each in (bench.station.profiles, self.options.profiles) if each is not None]

    @property
    def baselines(self) -> Baselines:
        """Published values, those that the bench file names, and those of the command line. Raises BenchError."""
        if self._baselines is None:
            from pytest_netperf.bench.model_profile import load_baselines
            from pytest_netperf.judge.baselines import Baselines

            given = self.options.baseline
            self._baselines = Baselines(
                load_baselines(
                    [
                        *self._profile_folders(self.bench),
                        *self.bench.station.baselines,
                        *([] if given is None else [given]),
                    ]
                )
            )
        return self._baselines

    @property
    def engine(self) -> Engine:
        """The traffic engine of this run. Raises TrafficError when its tool is missing."""
        if self._engine is None:
            from pytest_netperf.engines import make_chosen_engine

            self._engine = make_chosen_engine(self.options.engine, self.config)
        return self._engine

    @property
    def history(self) -> HistoryStore | None:
        """What this station remembers of repeated measurements; None when that is switched off."""
        if self._history is None and self.options.history:
            from pytest_netperf.record.history_store import HistoryStore
            from pytest_netperf.record.state_folder import state_folder

            self._history = HistoryStore(state_folder(os.environ))
        return self._history

    @property
    def history_problem(self) -> str | None:
        """The first thing that this process could not read or write of it."""
        return None if self._history is None else self._history.problem

    def bring_up(self, plan: LinkPlan) -> Link:
        """Bring a planned link up and prove it."""
        from pytest_netperf.links.lent_ports import bring_up_ports
        from pytest_netperf.links.link import bring_up
        from pytest_netperf.links.owner import Owner

        reason = plan.link.unsupported_reason()
        if reason:
            raise LinkError(reason)
        if self._owner is None:
            self._owner = Owner()
        self._count += 1
        key, fault = f"link-{self._count}", plan.link.fault
        if plan.link.physical_ports:
            for handle in self._handles.values():
                if handle.plan.link.occupies & plan.link.occupies:
                    handle.take_down()
            about: dict[str, Any] = {
                "name": plan.id,
                "speed_bps": plan.link.line_rate_bps,
                "mtu": plan.settings.mtu,
                "asked": plan.settings.of_ports,
            }
            far = plan.link.b
            if far is not None and far.ssh is not None:
                from pytest_netperf.links.remote import bring_up_remote

                near = plan.link.physical_ports["a"]
                lent: Link = bring_up_remote(self._owner, key, near=near, far=far, **about)
            else:
                lent = bring_up_ports(
                    self._owner,
                    key,
                    ports=plan.link.physical_ports,
                    topology=plan.link.topology,
                    translates=plan.state is not None and plan.state.nat,
                    **about,
                )
            _refuse_unmet(lent, plan)
            _pass_on_advice(lent)
            return lent
        link = bring_up(
            self._owner,
            key,
            name=plan.id,
            speed_bps=plan.link.line_rate_bps,
            mtu=plan.settings.mtu,
            fault=None if fault is None else asdict(fault),
            asked=plan.settings.of_ports,
            keep=f"netperf-{os.getpid()}" if self.options.keep else None,
            topology=plan.link.topology,
            device={**plan.link.simulated_device, "state": _simulated_state(plan)},
        )
        self.kept += link.kept
        return link

    def enter_device_state(self, plan: LinkPlan) -> None:
        """A real device goes into the state that a plan asks for. Raises LinkError."""
        if self.device_states is not None:
            self.device_states.enter(plan)

    def device_state_lost(self, plan: LinkPlan) -> str | None:
        """What is wrong behind a measurement with the state in which a real device was."""
        return None if self.device_states is None else self.device_states.after(plan)

    def device_state_facts(self, plan: LinkPlan | None) -> dict[str, str]:
        """How the state of a real device was proved, for the evidence."""
        proof = self.device_states.proof(plan) if self.device_states is not None and plan is not None else None
        return {} if proof is None else {"device_state_proof": proof}

    def leave_device_states(self) -> list[str]:
        """Real devices go back into their plain state; returns what is wrong with those that do not."""
        return [] if self.device_states is None else self.device_states.leave()

    def begin(self, nodeid: str, plan: ItemPlan | None = None) -> None:
        """A test begins: with an empty record, and with a keeper that lives, should the last one have died."""
        self.current = TestRun(nodeid=nodeid, plan=plan)
        self._take_down(
            [handle for handle in self._handles.values() if handle.link is not None and handle.link.is_lost]
        )
        if self._owner is not None and not self._owner.is_alive:
            self._owner.close()
            self._owner = None
            for handle in self._handles.values():
                handle.forget()

    def run_of(self, nodeid: str) -> TestRun:
        """The record of the running test, made when it is not there yet."""
        if self.current is None or self.current.nodeid != nodeid:
            self.current = TestRun(nodeid=nodeid)
        return self.current

    def running(self) -> TestRun:
        """The test that runs now. Raises ConfigError outside of one."""
        if self.current is None or self.current.over:
            raise ConfigError(
                "a measurement was asked for while no test runs; call it from a test or the set-up of its fixtures"
            )
        return self.current

    def close(self) -> None:
        """End the keeper, and with it every link, namespace and process."""
        # the fixture has done it, unless pytest never got to its teardown
        self._take_down([handle for handle in self._handles.values() if handle.plan.link.physical_ports])
        self._handles.clear()
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    @staticmethod
    def _take_down(handles: list[LinkHandle]) -> None:
        """Where no test is running that could be told what is wrong with it."""
        for handle in handles:
            try:
                handle.take_down()
            except NetperfError as error:
                print(f"ERROR: pytest-netperf: {error}", file=sys.stderr)


def _simulated_state(plan: LinkPlan) -> dict[str, Any] | None:
    """What the simulated device of a link does in the state that is asked for; None where there is nothing to do."""
    return asdict(plan.state) if plan.state is not None and plan.state.is_simulated else None


def _refuse_unmet(link: Link, plan: LinkPlan) -> None:
    """Let go of a physical link that is not what its device is sold for. Raises DeviceError."""
    from pytest_netperf.judge.precondition import unmet_preconditions

    wish = plan.settings.negotiation
    try:
        ports = dict(zip("ab", link.port_facts(), strict=True))
    except NetperfError:
        link.close()
        raise
    unmet = [
        each
        for end, port in ports.items()
        for each in unmet_preconditions(
            {end: port}, plan.link.port_speed_bps(end), duplex="full" if wish is None else wish.duplex
        )
    ]
    if unmet:
        said = "; ".join(unmet)
        try:
            link.close()
        except LinkError as error:
            raise DeviceError(f"{said}. And {error}") from None
        raise DeviceError(f"{said}. No traffic was sent.")


def _pass_on_advice(link: Link) -> None:
    """A port that was named by what may be another's name tomorrow is said, once for each of them."""
    try:
        for end in "ab":
            if (advice := link.facts.get(f"port_{end}_advice")) is not None:
                warnings.warn(f"bench file, end {end} of {link.name}: {advice}", UserWarning, stacklevel=1)
    except Warning:  # python -W error
        link.close()
        raise
