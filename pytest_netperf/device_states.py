"""States of real devices: entered by a hook of the user's, remembered, and left at the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_netperf.errors import LinkError, NetperfError

if TYPE_CHECKING:
    import pytest

    from pytest_netperf.bench.model import Device
    from pytest_netperf.bench.plan import LinkPlan

__all__ = ["DeviceStates"]

_PLAIN = "plain"
_UNKNOWN = ""
_HOOK = "pytest_netperf_device_state"


class DeviceStates:
    """Which state each real device of this process is in, as far as we know."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._state: dict[str, str] = {}
        self._proof: dict[str, str] = {}
        self._devices: dict[str, Device] = {}

    def enter(self, plan: LinkPlan) -> None:
        """Put the device of a plan into the state that it asks for, unless it is there. Raises LinkError.

        A test that asks for none gets the plain one, of a device that was in another in this run.
        """
        name = self._wanted(plan)
        if name is not None and self._state.get(plan.device.serial) != name:
            self._enter(plan.device, name)

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
        what = f"device state {name!r} of {device.serial}"
        try:
            proof = self._config.hook.pytest_netperf_device_state(config=self._config, device=device, state=name)
        except NetperfError:
            raise
        except Exception as error:
            raise LinkError(f"{what} could not be entered: {type(error).__name__}: {error}") from error
        if proof is None:
            raise LinkError(
                f"{what}: nobody puts this device into it. Implement the hook {_HOOK} in a conftest.py, or say in the "
                "[[device.state]] table of the bench file what a simulated device does"
            )
        if not isinstance(proof, str) or not proof.strip():
            raise LinkError(
                f"{what}: the hook {_HOOK} returned {proof!r}; it must return a sentence that says how the state "
                "was proved"
            )
        self._state[device.serial], self._proof[device.serial] = name, proof.strip()

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
        return problems
