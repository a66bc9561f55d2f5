"""The test file of the selftest: one test for each case, on a device of its own. Run by `selftest.runs` in a copy."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import pytest

from pytest_netperf.selftest.cases import Case, case_of
from pytest_netperf.selftest.disturb import DISTURBANCES

__all__: list[str] = []

_INTERVAL_S = 0.25  # a run of four seconds shows its shape


def _test_of(case: Case, times: list[int]) -> Callable[..., None]:
    @pytest.mark.netperf_link(device=case.name)
    @pytest.mark.netperf_limit(**case.limit)
    @pytest.mark.parametrize("time", times)
    def test(iperf3: Any, netperf_link: Any, time: int) -> None:  # noqa: ARG001 - each time is a row of its own
        disturb = DISTURBANCES[case.disturbance] if case.disturbance else contextlib.nullcontext
        call = {"duration": case.seconds, "omit": case.omit, "interval": _INTERVAL_S, **case.call}
        run = getattr(iperf3, case.protocol)
        if case.first is not None:
            run(**{**call, **case.first})
        with disturb(netperf_link.ensure_up()):
            run(**call)

    return test  # type: ignore[no-any-return] # the marks of pytest hide it


_times: dict[str, list[int]] = {}
for _asked in os.environ["NETPERF_SELFTEST"].split():  # NAME*TIME, one for each measurement
    _name, _, _time = _asked.partition("*")
    _times.setdefault(_name, []).append(int(_time))
for _name in _times:
    globals()[f"test_{_name.replace('-', '_')}"] = _test_of(case_of(_name), _times[_name])
