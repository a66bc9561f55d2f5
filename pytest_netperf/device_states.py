"""States of real devices: entered by a hook of the user's or by commands over ssh, and left at the end of the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_netperf.errors import LinkError, NetperfError

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.bench.model import Device
    from pytest_netperf.bench.plan import LinkPlan
    from pytest_netperf.bench.state_commands import StateCommands
    from pytest_netperf.remote.device_driver import DeviceDriver

__all__ = ["DeviceStates", "devices_folder", "rescue_devices"]

_PLAIN = "plain"
_UNKNOWN = ""
_HOOK = "pytest_netperf_device_state"
_STATE: Final = "/var/lib/pytest-netperf"


def devices_folder() -> Path:
    """Where it is written what has to be undone on devices: below NETPERF_STATE, of the machine, or of the user.

    Raises LinkError where there is no such place.
    """
    from pytest_netperf.record.state_folder import state_folder

    given = os.environ.get("NETPERF_STATE")
    folder = Path(given) if given else Path(_STATE) if os.geteuid() == 0 else state_folder(os.environ)
    if folder is None or not folder.is_absolute():
        raise LinkError(
            f"the states of devices must be remembered in a folder that the next run finds, and NETPERF_STATE={given} "
            "is no absolute path; name one"
        )
    return folder / "devices"


def rescue_devices(*, dry_run: bool = False) -> list[tuple[str, bool]]:
    """Put every device back that a killed run left in another state. What was done, and whether something is wrong."""
    try:
        folder = devices_folder()
    except LinkError:  # then no run could remember anything either
        return []
    if not folder.is_dir():
        return []
    from pytest_netperf.remote.device_driver import rescue

    return [
        (f"device {serial}: {problem}", True)
        if problem is not None
        else (
            f"{'would put ' if dry_run else ''}device {serial}{' ' if dry_run else ': put '}back into its plain state",
            False,
        )
        for serial, problem in rescue(folder, dry_run=dry_run)
    ]


class DeviceStates:
    """Which state each real device of this process is in, as far as we know."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._state: dict[str, str] = {}
        self._proof: dict[str, str] = {}
        self._devices: dict[str, Device] = {}
        self._drivers: dict[str, DeviceDriver] = {}
        self._by_driver: dict[str, str] = {}
        """The state that the driver of a device put it into, where it was not a hook."""

    def enter(self, plan: LinkPlan) -> None:
        """Put the device of a plan into the state that it asks for, unless it is there. Raises LinkError.

        A test that asks for none gets the plain one, of a device that was in another in this run.
        """
        name, device = self._wanted(plan), plan.device
        if name is None:
            self._put_back(device)
        elif self._state.get(device.serial) != name:
            self._enter(device, name)
        else:
            problem = self.lost(plan)
            if problem is not None:
                self._state[device.serial] = _UNKNOWN
                raise LinkError(f"device state {name!r} of {device.serial} is not in force any more: {problem}")

    def lost(self, plan: LinkPlan) -> str | None:
        """What is wrong with the state in which the device of a plan was; None where all is well, or nobody can ask."""
        serial = plan.device.serial
        name, driver = self._wanted(plan), self._drivers.get(serial)
        if name is None or driver is None or self._by_driver.get(serial) != name:
            return None
        try:
            driver.proof(None if name == _PLAIN else name)
        except NetperfError as error:
            return str(error)
        return None

    def after(self, plan: LinkPlan) -> str | None:
        """As `lost`, behind a measurement: the next one gets the state entered anew."""
        problem = self.lost(plan)
        if problem is not None:
            self._state[plan.device.serial] = _UNKNOWN
        return problem

    def _put_back(self, device: Device) -> None:
        """A test that asks for no state gets the plain one, of a device that a killed run left in another."""
        if device.ssh is not None and device.serial not in self._drivers:
            from pytest_netperf.remote.device_journal import DeviceJournal

            if device.serial in DeviceJournal.left_in(devices_folder()):
                self._driver(device)

    def _wanted(self, plan: LinkPlan) -> str | None:
        state = plan.state
        if state is None:
            return _PLAIN if plan.device.serial in self._state else None
        from pytest_netperf.bench.plan import states_of

        # `links.device_states` does what the bench file describes; a simulated device without it is always plain.
        described = (
            all(each.is_simulated for each in states_of(plan.device) if each.name != _PLAIN)
            if state.name == _PLAIN
            else state.is_simulated
        )
        return None if plan.link.simulated and described else state.name

    def _enter(self, device: Device, name: str) -> None:
        if hasattr(self._config, "workerinput"):
            raise LinkError(
                f"device state {name!r} of {device.serial}: with pytest-xdist, two workers would change one device "
                "under each other's measurements; run without -n"
            )
        self._devices[device.serial], self._state[device.serial] = device, _UNKNOWN
        self._proof.pop(device.serial, None)
        self._by_driver.pop(device.serial, None)
        what = f"device state {name!r} of {device.serial}"
        try:
            proof = self._config.hook.pytest_netperf_device_state(config=self._config, device=device, state=name)
        except NetperfError:
            raise
        except Exception as error:
            raise LinkError(f"{what} could not be entered: {type(error).__name__}: {error}") from error
        if proof is None:
            proof = self._enter_by_driver(device, name, what)
        elif device.serial in self._drivers:
            self._drivers[device.serial].enter(None)
        if not isinstance(proof, str) or not proof.strip():
            raise LinkError(
                f"{what}: the hook {_HOOK} returned {proof!r}; it must return a sentence that says how the state "
                "was proved"
            )
        self._state[device.serial], self._proof[device.serial] = name, proof.strip()

    def _enter_by_driver(self, device: Device, name: str, what: str) -> str:
        """By the commands of the bench file, or of the operating system of the device. Raises LinkError."""
        commands = self._commands(device)
        if isinstance(found := commands.get(name), LinkError):
            raise found
        if found is None and (name != _PLAIN or all(isinstance(each, LinkError) for each in commands.values())):
            raise LinkError(
                f"{what}: nobody puts this device into it. Implement the hook {_HOOK} in a conftest.py; or say in the "
                "bench file how the device is told (ssh, and enter, check, expect and undo in its [[device.state]] "
                "table, or os), or what a simulated device does"
            )
        try:
            proof = self._driver(device).enter(None if name == _PLAIN else name)
        except NetperfError as error:
            raise LinkError(f"{what} could not be entered: {error}") from error
        self._by_driver[device.serial] = name
        return proof

    @staticmethod
    def _commands(device: Device) -> dict[str, dict[str, StateCommands] | LinkError]:
        """State -> its commands, or why there are none for it; those without any are left out."""
        from pytest_netperf.bench.device_os import commands_for
        from pytest_netperf.bench.plan import states_of

        found: dict[str, dict[str, StateCommands] | LinkError] = {}
        for state in states_of(device):
            try:
                commands = commands_for(device, state)
            except LinkError as error:
                found[state.name] = error
            else:
                if commands:
                    found[state.name] = commands
        return found

    def _driver(self, device: Device) -> DeviceDriver:
        if device.serial not in self._drivers:
            from pytest_netperf.remote.device_driver import DeviceDriver

            assert device.ssh is not None
            known = {name: each for name, each in self._commands(device).items() if not isinstance(each, LinkError)}
            self._drivers[device.serial] = DeviceDriver(device.serial, device.ssh, known, devices_folder())
        return self._drivers[device.serial]

    def proof(self, plan: LinkPlan) -> str | None:
        """How the state of the device of a plan was proved; None where no hook put it there."""
        return None if self._wanted(plan) is None else self._proof.get(plan.device.serial)

    def leave(self) -> list[str]:
        """Put every device that was in another state back into the plain one; returns what is wrong, a line each."""
        problems = []
        for serial, state in list(self._state.items()):
            if state != _PLAIN:
                try:
                    self._enter(self._devices[serial], _PLAIN)
                except NetperfError as error:
                    problems.append(f"{error}; the device is left in the state {state or 'that its last hook left'}")
        for serial, driver in self._drivers.items():
            try:
                driver.close()
            except NetperfError as error:
                if self._by_driver.get(serial) == _PLAIN:  # otherwise it was said above
                    problems.append(str(error))
        self._drivers.clear()
        return problems
