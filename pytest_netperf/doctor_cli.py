"""``pytest-netperf doctor``: hold this machine against what runs need, and say what to do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_netperf.doctor.finding import Finding

__all__ = ["add_arguments", "quick_look", "run"]

_OUTPUT: Final = Path("netperf-results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")
    parser.add_argument("--no-traffic", action="store_true", help="leave out the speeds, which take some seconds")
    parser.add_argument(
        "--output", type=Path, default=_OUTPUT, metavar="DIR", help=f"where results will go; default: {_OUTPUT}"
    )


def run(asked: argparse.Namespace) -> int:
    """Run it. Returns 0 when there is no problem, else 1."""
    from pytest_netperf.doctor.finding import text_lines

    found = list(_examine(asked.output, traffic=not asked.no_traffic))
    if asked.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        print("\n".join(text_lines(found)))
        count = {state: sum(each.state == state for each in found) for state in ("problem", "note")}
        print(", ".join(f"{number} {state}{'s' * (number != 1)}" for state, number in count.items()))
    return 1 if any(each.state == "problem" for each in found) else 0


def quick_look() -> tuple[str, ...]:
    """What is wrong or worth knowing, without links or traffic: lines for the record of a row that is ERROR."""
    from pytest_netperf.doctor.finding import text_lines
    from pytest_netperf.doctor.machine import cpus_and_load, system
    from pytest_netperf.doctor.tools import iperf3

    found = (*system(_OUTPUT), *iperf3(), *cpus_and_load())
    return tuple(line.strip() for line in text_lines(each for each in found if each.state != "ok"))


def _examine(output: Path, *, traffic: bool) -> Iterator[Finding]:
    from pytest_netperf.doctor import devices, links, machine, ports, privileges, speeds, tools

    found = list(machine.system(output))
    yield from found
    if any(each.name == "operating system" and each.state == "problem" for each in found):
        return
    yield from privileges.privileges()
    yield from links.simulated_links()
    yield from devices.programs_of_states()
    yield from links.leftovers()
    yield from links.unfinished_runs(output)
    yield from tools.iperf3()
    yield from ports.ports()
    yield from machine.cpus_and_load()
    if traffic:
        yield from speeds.speeds()
