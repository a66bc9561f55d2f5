"""``pytest-netperf bench``: write a bench file of what this machine has, and hold one against it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_netperf.errors import ConfigError, LinkError

if TYPE_CHECKING:
    from pytest_netperf.bench.model_profile import ModelProfile
    from pytest_netperf.bench_check import BenchCheck

__all__ = ["add_arguments", "run"]

_FILE: Final = Path("bench.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    commands = parser.add_subparsers(dest="bench_command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="hold a bench file against this machine; nothing is changed")
    check.add_argument("file", nargs="?", type=Path, default=_FILE, metavar="FILE", help=f"default: {_FILE}")
    check.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    check.add_argument("--profiles", type=Path, metavar="DIR", help="profiles of models of your own (*.toml)")
    init = commands.add_parser("init", help="print a bench file of what this machine has")
    init.add_argument("--output", type=Path, metavar="FILE", help="write it there; never over a file")
    init.add_argument(
        "--probe",
        nargs="+",
        default=[],
        metavar="PORT",
        help="find out which of these ports are cabled to each other: they are taken up, and put back as they were",
    )
    init.add_argument("--allow-addressed", action="store_true", help="probe ports although they have addresses")
    init.add_argument("--allow-virtual", action="store_true", help="probe ends of veth pairs, as stand-ins for ports")
    init.add_argument("--profiles", type=Path, metavar="DIR", help="profiles of models of your own (*.toml)")


def run(asked: argparse.Namespace) -> int:
    """Run it. Returns 0, or 1 when something is wrong with the bench. Raises ConfigError and StationError."""
    from pytest_netperf.bench.model_profile import load_profiles

    given = load_profiles(asked.profiles)  # a folder that is wrong is wrong use, whatever the bench file says
    if asked.bench_command == "check":
        from pytest_netperf.bench_check import check_bench

        found = check_bench(asked.file, asked.profiles)
        if asked.json:
            print(json.dumps({"file": str(asked.file), "good": found.good, **asdict(found)}, indent=2))
        else:
            _show(asked.file, found)
        return 0 if found.good else 1
    return _init(asked, given)


def _show(file: Path, found: BenchCheck) -> None:
    for problem in found.problems:
        print(f"WRONG  {problem}")
    for link in found.links:
        print(f"{'WRONG' if link.problems else 'good '}  {link.name}: {link.text}")
        for problem in link.problems:
            print(f"       - {problem}")
        for note in link.notes:
            print(f"       ({note})")
    problems = len(found.problems) + sum(len(link.problems) for link in found.links)
    links = f"{len(found.links)} link{'s' * (len(found.links) != 1)}"
    print(f"{file}: {links}, {f'{problems} problem' + 's' * (problems != 1) if problems else 'nothing wrong'}")


def _init(asked: argparse.Namespace, profiles: Mapping[str, ModelProfile]) -> int:
    from pytest_netperf.bench.builtin import host_name
    from pytest_netperf.bench_init import draft_bench
    from pytest_netperf.links.cable_probe import find_cables
    from pytest_netperf.links.kernel import has_capabilities
    from pytest_netperf.links.machine import Machine
    from pytest_netperf.links.ports import find_port

    if asked.output is not None and (asked.output.exists() or asked.output.is_symlink()):
        raise ConfigError(
            f"--output {asked.output}: there is something already; it is not overwritten, give a new name"
        )
    if len(asked.probe) == 1:
        raise ConfigError("--probe: one port alone cannot be cabled to another; name two or more")
    cabling = None
    allowed = {"allow_addressed": asked.allow_addressed, "allow_virtual": asked.allow_virtual}
    if asked.probe:
        if not has_capabilities():
            raise LinkError("--probe takes ports up, which needs root: run it with sudo")
        for number in (signal.SIGINT, signal.SIGTERM):  # they come when the ports are home
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        cabling = find_cables(asked.probe, **allowed)
    with Machine() as machine:
        probed = [find_port(text, machine.ports) for text in asked.probe]
        text = draft_bench(host_name(), machine, cabling, profiles, probed=probed, **allowed)
    if asked.output is None:
        print(text, end="")
        return 0
    try:
        with asked.output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"--output {asked.output}: {error.strerror}") from None
    print(f"{asked.output} is written; look it through, then run pytest-netperf bench check {asked.output}")
    return 0
