"""What is kept of a long measurement while it runs: handed to the journal, a few seconds at a time.

Course (each second)  -->  keeper_of (every 2 s)  -->  the journal, or from a worker of xdist over a socket to its
controller (`Stretches`), which writes it there
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_netperf.live.relay import Receiver
    from pytest_netperf.observe.course import Arrival, Keep
    from pytest_netperf.observe.observation import Moment
    from pytest_netperf.record.schema import Planned, Row
    from pytest_netperf.record.stretch import Stretch
    from pytest_netperf.session import NetperfSession, TestRun
    from pytest_netperf.traffic.result import Workload

__all__ = ["Stretches", "join", "keeper_of"]

_ADDRESS: Final = "netperf_stretches"
"""Key of a worker's input: where its controller takes them."""
_PATIENCE_S: Final = 2.0


class Stretches:
    """Of the controller, or of the only process: what long measurements showed so far, on its way into the journal."""

    def __init__(self, write: Callable[[Stretch], None]) -> None:
        self._write = write
        self._receiver: Receiver[Stretch] | None = None
        self._of_test: dict[str, list[Stretch]] = {}

    def hand_out(self, workerinput: MutableMapping[str, Any]) -> None:
        """A worker of xdist is about to start: tell it where to send them."""
        if self._receiver is None:
            from pytest_netperf.live.relay import Receiver

            self._receiver = Receiver(self.add, _stretch_of)
        workerinput[_ADDRESS] = self._receiver.address

    def add(self, stretch: Stretch) -> None:
        """A measurement goes on, here or in a worker."""
        self._of_test.setdefault(stretch.test, []).append(stretch)
        self._write(stretch)

    def over(self, test: str) -> None:
        """A test is judged: its rows say more than they did."""
        self._of_test.pop(test, None)

    def crashed(self, planned: Planned) -> Row:
        """The row of a test whose process died, with what that had told of a long measurement before."""
        import msgspec

        from pytest_netperf.judge.verdict import Verdict
        from pytest_netperf.record.schema import Row
        from pytest_netperf.record.stretch import CUT_SHORT, rows_of_stretches

        row = Row(
            id=planned.id,
            test=planned.test,
            device=planned.device,
            link=planned.link,
            quantity=planned.quantity,
            unit=planned.unit,
            limit=planned.limit,
            statistic=planned.statistic,
            verdict=Verdict.CRASHED,
            reason="the process that ran this test died",
            next_step="Look for what killed it (out of memory, a signal, a crash in a library), and run again.",
            simulated=planned.simulated,
            conditions=planned.conditions,
        )
        seen = list(self._of_test.get(planned.test, ()))
        for kept in rows_of_stretches(seen, [planned], {planned.test}, ()):
            reason = f"{row.reason}. {kept.reason.removeprefix(CUT_SHORT)}"
            row = msgspec.structs.replace(row, reason=reason, value=kept.value, evidence=kept.evidence)
        return row

    def close(self) -> None:
        """No more of them: the journal is about to end."""
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None


def _stretch_of(data: bytes) -> Stretch:
    import msgspec

    from pytest_netperf.record.stretch import Stretch

    return msgspec.json.decode(data, type=Stretch)


def join(workerinput: MutableMapping[str, Any], session: NetperfSession) -> Callable[[], None]:
    """In a worker of xdist: what long measurements show goes to the controller. Returns what to do at the end."""
    from pytest_netperf.live.relay import Sender

    if _ADDRESS not in workerinput:
        return lambda: None
    sender = Sender(workerinput[_ADDRESS], _PATIENCE_S)
    session.keep_stretch = sender
    return sender.close


def keeper_of(session: NetperfSession, running: TestRun, workload: Workload) -> Keep | None:
    """What keeps the course of a traffic run; None where nobody keeps it."""
    write = session.keep_stretch
    if write is None or running.plan is None:
        return None
    from pytest_netperf.judge.soak import course_facts
    from pytest_netperf.quantities import get_quantity
    from pytest_netperf.record.schema import SeriesPoint
    from pytest_netperf.record.stretch import Stretch

    traffic = len(running.measured)

    worst: dict[str, float] = {}

    def keep(arrivals: list[Arrival], moments: list[Moment], probed: list[tuple[str, float, float]]) -> None:
        samples: dict[str, list[float]] = {}
        for quantity, at_s, value in probed:
            samples.setdefault(f"{quantity}_at_s", []).append(at_s)
            samples.setdefault(f"{quantity}_samples", []).append(value)
            pick = min if get_quantity(quantity).better == "higher" else max
            worst[quantity] = pick(worst.get(quantity, value), value)
        if moments:
            worst["errors"] = float(moments[-1].errors)
            worst["carrier_changes"] = float(moments[-1].carrier_changes)
        write(
            Stretch(
                test=running.nodeid,
                traffic=traffic,
                points=tuple(
                    SeriesPoint(
                        start_s=round(each.start_s - workload.omit_s, 3),
                        seconds=each.seconds,
                        throughput_bps=each.bps,
                        omitted=each.start_s < workload.omit_s,
                    )
                    for each in arrivals
                ),
                moments={**course_facts(moments), **samples},
                worst=dict(worst),
            )
        )

    return keep
