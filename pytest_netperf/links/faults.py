"""What is wrong with a simulated link on purpose, and when: for its whole life, or for a while in each measurement.

A fault is made of parts (`_Part`), each with a way in and a way out. What can be prepared (frames that arrive one by
one, the detour of frames that come late or twice) is there from the beginning, so that a fault in the middle of a run
changes nothing else. Everything is in the two namespaces of the link, and goes with them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from pytest_netperf.errors import LinkError
from pytest_netperf.links.bursts import lose_bursts, stop_bursts
from pytest_netperf.links.classifier import CLASSIFIER, cut_into_frames, divert, run_for_fault, stop, undo
from pytest_netperf.links.detour import Detour
from pytest_netperf.links.loss import RandomLoss, loss_threshold
from pytest_netperf.links.namespace import Namespace

__all__ = ["FaultyPair", "LinkFault"]

_WAYS: Final = {"both": (("a", "b"), ("b", "a")), "a-to-b": (("a", "b"),), "b-to-a": (("b", "a"),)}


class FaultyPair(Protocol):
    """What a fault needs of its link."""

    ends: dict[str, Namespace]
    ports: dict[str, dict[str, Any]]
    mtu: int
    speed_bps: float | None

    def reshape(self) -> None:
        """Set the shapers again, for the packets of the last time."""

    def set_carrier(self, *, up: bool) -> None:
        """Pull the cable, or plug it in again."""


class _Part(NamedTuple):
    begin: Callable[[], None]
    end: Callable[[], None]


class LinkFault:
    """The fault of one link, inside the keeper. ``spec`` has the fields of `bench.model.Fault`."""

    def __init__(self, pair: FaultyPair, spec: Mapping[str, Any]) -> None:
        self._pair = pair
        self._spec = spec
        self._ways = _WAYS[spec.get("direction", "both")]
        self._after_s: float = spec.get("after_s") or 0.0
        self._for_s: float | None = spec.get("for_s")
        self.scheduled = bool(self._after_s or self._for_s is not None)
        self._detours: dict[str, Detour] = {}
        self._losses: dict[str, RandomLoss] = {}
        self._in_force: list[_Part] = []
        self._rate_in_force = False
        self._cancelled = threading.Event()
        self._schedule: threading.Thread | None = None
        self._refused: Exception | None = None

    def prepare(self) -> None:
        """Make the link ready for its fault; one that is always there begins now. Raises LinkError, ConfigError."""
        one_by_one = [name for name in ("loss", "duplicate", "reorder") if self._spec.get(f"{name}_ratio")]
        one_by_one += ["mtu_hole"] if self._spec.get("mtu_hole_bytes") else []
        for sender, receiver in self._ways if one_by_one else ():
            cut_into_frames(one_by_one[0], *self._end(sender), *self._end(receiver))
            if self._spec.get("loss_ratio") and not self._spec.get("burst_frames"):
                self._losses[receiver] = RandomLoss(*self._end(receiver), self._spec.get("loss_by"))
            if self._spec.get("duplicate_ratio") or self._spec.get("reorder_ratio"):
                self._detours[receiver] = self._detour(receiver)
        if not self.scheduled:
            self._begin()

    @property
    def loss_by(self) -> str | None:
        """What loses frames on this link: "netem", "classifier" or, in bursts, "nftables"; None without that fault."""
        if self._spec.get("loss_ratio") and self._spec.get("burst_frames"):
            return "nftables"
        return next((loss.by for loss in self._losses.values()), None)

    def rate_bps(self, end: str) -> float | None:
        """The rate at which bits leave this end while the fault is there; None where that is not its matter."""
        rate: float | None = self._spec.get("rate_bps")
        return rate if self._rate_in_force and any(end == sender for sender, _ in self._ways) else None

    def traffic_begins(self) -> None:
        """Start the clock of a fault that comes and goes."""
        if not self.scheduled:
            return
        self.traffic_ends()  # the last measurement was interrupted
        self._cancelled.clear()
        self._schedule = threading.Thread(target=self._run_schedule, name="fault", daemon=True)
        self._schedule.start()

    def traffic_ends(self) -> None:
        """Cancel what is still to come and put the link back. Raises LinkError when the fault could not be made."""
        if self._schedule is None:
            return
        self._cancelled.set()
        self._schedule.join()
        self._schedule = None
        refused, self._refused = self._refused, None
        if refused is not None:
            raise LinkError(f"the fault of this link could not be made or undone: {refused}") from refused

    def _run_schedule(self) -> None:
        begin = time.monotonic() + self._after_s
        try:
            if self._cancelled.wait(self._after_s):
                return
            self._begin()
            left = None if self._for_s is None else begin + self._for_s - time.monotonic()
            self._cancelled.wait(left)
        except Exception as error:  # noqa: BLE001 - handed over by traffic_ends
            self._refused = error
        finally:
            try:
                self._end_all()
            except Exception as error:  # noqa: BLE001 - the same
                self._refused = self._refused or error

    def _begin(self) -> None:
        for part in self._parts():
            self._in_force.append(part)
            part.begin()

    def _end_all(self) -> None:
        """End every part, also when one of them cannot be ended."""
        refused: Exception | None = None
        while self._in_force:
            try:
                self._in_force.pop().end()
            except Exception as error:  # noqa: BLE001 - raised below
                refused = refused or error
        if refused is not None:
            raise refused

    def _parts(self) -> Iterator[_Part]:
        spec = self._spec
        if spec.get("rate_bps"):
            yield _Part(lambda: self._set_rate(in_force=True), lambda: self._set_rate(in_force=False))
        if spec.get("flap"):
            yield _Part(lambda: self._pair.set_carrier(up=False), lambda: self._pair.set_carrier(up=True))
        for _, receiver in self._ways:
            yield from self._parts_of_a_way(receiver)

    def _parts_of_a_way(self, receiver: str) -> Iterator[_Part]:
        spec, namespace, index = self._spec, *self._end(receiver)

        def call(fault: str, function: Callable[..., None], *arguments: Any, **options: Any) -> Callable[[], None]:
            what = "nf_tables" if function in (lose_bursts, stop_bursts) else CLASSIFIER
            return lambda: run_for_fault(fault, namespace, index, what, function, *arguments, **options)

        if spec.get("stall"):
            yield _Part(call("stall", stop), call("stall", undo, "stop"))
        elif spec.get("mtu_hole_bytes"):
            yield _Part(call("mtu_hole", stop, spec["mtu_hole_bytes"]), call("mtu_hole", undo, "stop"))
        ratio = spec.get("loss_ratio")
        if ratio and spec.get("burst_frames"):
            loss_threshold(ratio)  # refuses what is no share
            yield _Part(call("loss", lose_bursts, spec["burst_frames"], ratio), call("loss", stop_bursts))
        elif ratio:
            loss = self._losses[receiver]
            yield _Part(lambda: loss.begin(ratio), loss.end)
        for fault, stage in (("reorder", "take"), ("duplicate", "copy")):
            if share := spec.get(f"{fault}_ratio"):
                entrance = self._detours[receiver].entrance
                begin = call(fault, divert, loss_threshold(share), entrance, stage=stage)
                yield _Part(begin, call(fault, undo, stage))

    def _set_rate(self, *, in_force: bool) -> None:
        self._rate_in_force = in_force
        self._pair.reshape()

    def _end(self, end: str) -> tuple[Namespace, int]:
        return self._pair.ends[end], self._pair.ports[end]["index"]

    def _detour(self, receiver: str) -> Detour:
        pair, port = self._pair, self._pair.ports[receiver]
        if pair.speed_bps is None:
            raise LinkError("frames can be held up or copied on a link with a speed only, not on an unshaped one")
        namespace, index = self._end(receiver)
        try:
            return Detour(namespace, port["interface"], port["mac"], index, pair.mtu, pair.speed_bps)
        except Exception as error:
            raise LinkError(f"frames cannot be held up or copied on this machine: {error}") from error

    def close(self) -> None:
        """End what runs for the fault; what the kernel holds goes with the link."""
        with contextlib.suppress(LinkError):
            self.traffic_ends()
        for detour in self._detours.values():
            detour.close()
