"""The plugin: pytest's hooks in the order in which pytest calls them. The work is done elsewhere.

Loaded at every start of pytest in its environment, so everything heavy is imported inside the hooks that need it.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_netperf import attempts, collection, history, interrupt, live_view, options, plans, recorder, tester_check
from pytest_netperf.attach import netperf_attach
from pytest_netperf.device_states import DeviceStates
from pytest_netperf.errors import ConfigError, MarkError
from pytest_netperf.fixtures import PLAN, PROBLEM, SESSION, iperf3, netperf_device, netperf_link, netperf_record
from pytest_netperf.session import NetperfSession

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_netperf.bench.model import Device
    from pytest_netperf.bench.plan import LinkPlan
    from pytest_netperf.judge.limits import Limit
    from pytest_netperf.judge.method import Method

__all__ = ["iperf3", "netperf_attach", "netperf_device", "netperf_link", "netperf_record"]

LIMITS = pytest.StashKey["tuple[Limit, ...]"]()

_DESELECTED = pytest.StashKey[list[pytest.Item]]()
_OWN_MARKS = ("netperf_link", "netperf_limit", "netperf_method")
_MARKS = (
    "netperf_link(speed=, name=, media=, topology=, simulated=, device=, model=, mtu=, mss=, congestion=, window=, "
    "device_state=, zerocopy=, ip_version=, fault=, shaped=, offloads=, ring=, pause=, eee=, negotiation=, irq_cpus=, "
    "governor=, scope=): the links a test runs on, and their settings; a list is a sweep",
    "netperf_limit(QUANTITY='>= 2.3 Gbps', ..., speed=, mtu=, direction=, ..., source=): what is required, and when",
    "netperf_method(profile=, repeat=, between_runs=, run_to_run=, rtt=, rule=, role=): how it is measured and decided",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini keys."""
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare pytest_netperf_* hooks."""
    from pytest_netperf import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, the bench and the limits: every mistake in them ends the run before it begins."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    chosen = options.Options.from_config(config)
    session = config.stash[SESSION] = NetperfSession(chosen, config)
    session.device_states = DeviceStates(config)
    try:
        if chosen.bench is not None or chosen.devices or chosen.profiles is not None:
            options.select_devices(chosen, session.bench)
        config.stash[LIMITS] = _limits_file(chosen.limits)
        if chosen.waivers is not None:
            from pytest_netperf.record.waivers_file import read_waivers

            read_waivers(chosen.waivers)  # a wrong file is refused here, not at the end of the run
        if chosen.baseline is not None or (chosen.bench is not None and session.bench.station.baselines):
            session.baselines  # noqa: B018 - a wrong file is refused here, not in the first test
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_DESELECTED] = []
    if hasattr(config, "workerinput"):
        session.reference_file = config.workerinput.get(tester_check.REFERENCE_FILE)
        live_view.join(config, session)
        config.pluginmanager.register(interrupt.SecondInterrupt(lambda: [] if session.current is not None else None))
    else:
        recording = recorder.Recorder(config, session)
        config.pluginmanager.register(recording, plans.RECORDER)
        config.pluginmanager.register(interrupt.SecondInterrupt(recording.what_is_left))
        config.pluginmanager.register(tester_check.TesterCheck(config, session, recording))
        config.pluginmanager.register(history.HistoryReport(session))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Look for a terminal on which running measurements can be shown, before xdist starts its workers."""
    config = session.config
    if not hasattr(config, "workerinput"):
        view = live_view.LiveView.of(config, config.stash[SESSION])
        if view is not None:
            config.pluginmanager.register(view)


def _limits_file(path: Path | None) -> tuple[Limit, ...]:
    if path is None:
        return ()
    from pytest_netperf.judge.limits_file import parse_limits_file

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"limits file {path} cannot be read: {error}") from None
    return parse_limits_file(text, str(path))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise each test of ours over devices x links x sweep; the place where wrong marks are refused."""
    fixture = collection.needs(metafunc.fixturenames)
    definition = metafunc.definition
    if fixture is None:
        _refuse_marks_without_fixture(definition)
        return
    from pytest_netperf.marks import link_settings, plan_links

    session = metafunc.config.stash[SESSION]
    try:
        limits = _limits_of(definition, metafunc.config, warn=True)
        _method_of(definition, metafunc.config)
        if fixture == collection.LINK_FIXTURE:
            request = link_settings(collection.link_marks(definition))
            plans = plan_links(session.bench, request, session.options.devices)
            for plan in plans:
                collection.refuse_impossible(plan, limits)
                _refuse_baselines(session, plan.device, limits, plan)
            metafunc.parametrize(fixture, plans, ids=[plan.id for plan in plans], indirect=True, scope="session")
        else:
            devices = _devices_of(definition, session)
            for device in devices:
                _refuse_baselines(session, device, limits)
            metafunc.parametrize(fixture, devices, ids=[device.serial for device in devices], indirect=True)
    except ConfigError as error:
        raise pytest.Collector.CollectError(f"{definition.nodeid}: {error}") from None


def _relate_to_baseline(limits: tuple[Limit, ...]) -> bool:
    return any(limit.relative_to is not None and limit.relative_to.startswith("baseline:") for limit in limits)


def _refuse_baselines(
    session: NetperfSession, device: Device, limits: tuple[Limit, ...], link: LinkPlan | None = None
) -> None:
    """Raise LimitError for a limit that relates to a baseline that does not exist."""
    if not _relate_to_baseline(limits):
        return
    known: dict[str, object] = {"device": device.serial, "model": device.model, "batch": device.batch}
    if link is not None:
        known |= {
            "link": link.link.name,
            "speed": link.link.speed_bps,
            "mtu": link.settings.mtu,
            "topology": link.link.topology,
            "simulated": link.link.without_hardware,
        }
    session.baselines.refuse_unknown(limits, {key: value for key, value in known.items() if value is not None})


def _devices_of(definition: pytest.Function, session: NetperfSession) -> list[Device]:
    """The devices of a test that has no link: all, or those with a link that its class or module asks for."""
    marks = collection.link_marks(definition)
    if not marks:
        wanted = session.options.devices
        return [device for device in session.bench.devices if not wanted or device.serial in wanted]
    from pytest_netperf.marks import link_settings, plan_links

    if any(mark.name == "netperf_link" for mark in definition.own_markers):
        raise MarkError(
            "netperf_link on a test that has no link: it uses netperf_record or netperf_device only; name netperf_link "
            "or iperf3 among its arguments too, or remove the mark"
        )
    plans = plan_links(session.bench, link_settings(marks), session.options.devices)
    return list(dict.fromkeys(plan.device for plan in plans))


def _refuse_marks_without_fixture(definition: pytest.Function) -> None:
    own = [mark.name for mark in definition.own_markers if mark.name in _OWN_MARKS]
    if own:
        raise pytest.Collector.CollectError(
            f"{definition.nodeid}: {own[0]} on a test that measures nothing: it uses none of the fixtures iperf3, "
            "netperf_link, netperf_record or netperf_device; name the one it needs among its arguments"
        )


def _limits_of(node: pytest.Item, config: pytest.Config, *, warn: bool = False) -> tuple[Limit, ...]:
    from pytest_netperf.marks import limits_from_marks

    limits, remarks = limits_from_marks(collection.limit_marks(node))
    for remark in remarks if warn else ():
        warnings.warn(pytest.PytestWarning(f"{node.nodeid}: {remark}"), stacklevel=1)
    return (*limits, *config.stash[LIMITS])


def _method_of(node: pytest.Item, config: pytest.Config) -> Method:
    from pytest_netperf.method_mark import method_of

    return method_of(collection.method_marks(node), config.stash[SESSION].options)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, object, object]:
    """Parameter sets have their marks only now: limits among them count, and are refused like all others."""
    made = yield
    for item in made if isinstance(made, list) else ():
        marks = getattr(getattr(item, "callspec", None), "marks", ())
        if any(mark.name in _OWN_MARKS for mark in marks):
            try:
                collection.refuse_late_marks(item)
                _method_of(item, item.config)
                plan = collection.plan_of(item, _limits_of(item, item.config, warn=True))
                if plan is not None:
                    _refuse_baselines(item.config.stash[SESSION], plan.device, plan.limits, plan.link)
                if plan is not None and plan.link is not None:
                    collection.refuse_impossible(plan.link, plan.limits)
            except ConfigError as error:
                raise pytest.Collector.CollectError(f"{item.nodeid}: {error}") from None
    return made


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember what the command line left out: a sheet must say that it is partial."""
    if items:
        items[0].config.stash[_DESELECTED].extend(items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down every row that is expected, before the first test runs, and before xdist tells the controller.

    Only now: until here conftest files may add marks to a test.
    """
    config = session.config
    expected = []
    for selected, items in ((True, session.items), (False, config.stash[_DESELECTED])):
        for item in items:
            plan = _plan_of(item)
            if plan is not None:
                item.stash[PLAN] = plan
                reason = attempts.not_applicable(item)
                if reason is not None:
                    item.add_marker(pytest.mark.skip(reason=f"NOT APPLICABLE: {reason}"), append=False)
                expected.append((plan, selected))
    limits: tuple[Limit, ...] = config.stash[LIMITS]
    if expected and not config.getoption("collectonly"):
        plans.announce(config, expected, collection.never_measured(expected, limits))


def _plan_of(item: pytest.Item) -> collection.ItemPlan | None:
    bare = collection.plan_of(item, ())
    if bare is None:
        return None
    try:
        collection.refuse_late_marks(item)
        limits = _limits_of(item, item.config)
        concerned = bare.device.model is not None or _relate_to_baseline(limits)  # else there is nothing to load
        baselines = item.config.stash[SESSION].baselines if concerned else None
        plan = collection.plan_of(item, limits, _method_of(item, item.config), baselines)
        if plan is None or not item.ihook.pytest_netperf_probes.get_hookimpls():
            return plan
        from pytest_netperf.probes import probes_of

        return replace(plan, probes=probes_of(item, plan))
    except ConfigError as error:  # a mark of add_marker(): the test says it when it runs, because here nobody hears it
        item.stash[PROBLEM] = str(error)
        return collection.plan_of(item, item.config.stash[LIMITS])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Around the set-up of each attempt at a test of ours: a fresh record, and its link up."""
    if PLAN in item.stash:
        attempts.begin(item)
    yield
    if PLAN in item.stash:
        attempts.links_up(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Around the body of a test of ours: to tell its own report from those of its subtests."""
    with attempts.running(item):
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Judge what the test measured, and let the report say so."""
    report = yield
    attempts.hide_ours(item, call, report)
    if PLAN in item.stash:
        attempts.judge(item, call, report)
    else:
        attempts.not_planned(item, call, report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """After pytest tore the test down, well or not: a link of a test that asked for a cold one goes."""
    try:
        yield
    finally:
        if PLAN in item.stash:
            attempts.end(item)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Real devices go back into their plain state; xdist: a worker tells the controller which namespaces it keeps, and
    what it could not remember.
    """
    for problem in session.config.stash[SESSION].leave_device_states():
        recorder.problem(session.config, problem)
    workeroutput = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput[recorder.KEPT] = session.config.stash[SESSION].kept
        workeroutput[history.PROBLEM] = session.config.stash[SESSION].history_problem


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the keeper: links, namespaces and processes go with it."""
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.close()
